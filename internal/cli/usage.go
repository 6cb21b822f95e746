package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cardquota.dev/operator/internal/cli/output"
)

// maxMistakes is how many letters of a word may be wrong for another one to be suggested.
const maxMistakes = 2

// suggestWord returns ": did you mean X?" for the words that are most like one that does not exist, "" for
// none.
func suggestWord(typed string, words []string) string {
	// cobra suggests commands, and any word can be the name of one.
	known := &cobra.Command{SuggestionsMinimumDistance: maxMistakes}
	for _, word := range words {
		known.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	found := known.SuggestionsFor(typed)
	if len(found) == 0 {
		return ""
	}
	return ": did you mean " + output.JoinWords(found, "or") + "?"
}

// refuseArguments is the check of a command that takes no arguments.
func refuseArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no argument, and %q is one", cmd.Name(), args[0])
}

// refuseUnknownCommand is the check of the root command, which has arguments only if the first one is no
// command.
func refuseUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}

	text := fmt.Sprintf("%q is no command of kubectl cardquota", args[0])
	if suggestion := suggestWord(args[0], names); suggestion != "" {
		return fmt.Errorf("%s%s", text, suggestion)
	}
	return fmt.Errorf("%s: it has %s", text, output.JoinWords(names, "and"))
}

// needWorkload is the check of why.
func needWorkload(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("which workload? Write a pod, KIND/NAME or KIND NAME, such as deployment/chat")
	case len(args) > 2:
		return fmt.Errorf("why explains one workload, and these are %d words: write a pod, KIND/NAME or KIND NAME", len(args))
	default:
		return nil
	}
}

// unknownFlag is pflag's error for a flag that does not exist.
var unknownFlag = regexp.MustCompile(`^unknown flag: --([^=\s]+)`)

// explainFlagError says which flag a user may have meant.
func explainFlagError(cmd *cobra.Command, err error) error {
	found := unknownFlag.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}

	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	suggestion := suggestWord(found[1], names)
	if suggestion == "" {
		return fmt.Errorf("%s has no flag --%s", cmd.Name(), found[1])
	}
	return fmt.Errorf("%s has no flag --%s%s", cmd.Name(), found[1], strings.ReplaceAll(strings.Replace(suggestion, "mean ", "mean --", 1), ", ", ", --"))
}

// noWorkloads are kinds that people ask about and that do not wait, with the command that shows them.
var noWorkloads = []struct {
	kinds []string
	about string
}{
	{[]string{"node", "nodes", "no"}, "a node does not wait: kubectl cardquota inventory --nodes shows its cards"},
	{[]string{"cardquota", "cardquotas", "cardq", "localcardquota", "localcardquotas", "lcq", "queue", "queues", "q"},
		"a quota does not wait: kubectl cardquota top shows what it uses, and kubectl get cardq NAME -o yaml what waits for it"},
	{[]string{"namespace", "namespaces", "ns"}, "a namespace does not wait: name a workload, and the namespace with -n"},
	{[]string{"cardinventory", "cardinventories", "cardinv"}, "the inventory does not wait: kubectl cardquota inventory shows it"},
}

// refuseNoWorkload returns an error for a kind that is none of workloads.
func refuseNoWorkload(kind, name string) error {
	for _, other := range noWorkloads {
		for _, known := range other.kinds {
			if strings.EqualFold(kind, known) {
				return fmt.Errorf("%s/%s: %s", kind, name, other.about)
			}
		}
	}
	return nil
}

// suggestKind returns which kind of workload a user may have meant with an unknown one.
func suggestKind(kind string) string {
	var kinds []string
	for known, target := range targetKinds {
		if strings.EqualFold(target.kind, kind) {
			return ""
		}
		if strings.EqualFold(target.kind, known) || known == "vcjob" { // neither short names nor plurals
			kinds = append(kinds, known)
		}
	}
	return suggestWord(strings.ToLower(kind), kinds)
}
