package program

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cardquota.dev/operator/internal/cli/output"
)

// maxMistakes is how many letters of a long word may be wrong for another one to be suggested.
const maxMistakes = 2

// nearWords returns the words that are most like one that does not exist, in alphabetical order. Of a short
// word fewer letters may be wrong, else any other short one would be like it.
func nearWords(typed string, words []string) []string {
	// cobra suggests commands, so each word becomes the name of one. The distance counts wrong letters, and cobra
	// suggests up to it.
	known := &cobra.Command{SuggestionsMinimumDistance: min((len(typed)-1)/2, maxMistakes)}
	var near []string
	for _, word := range words {
		known.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
		if hasSameLetters(typed, word) {
			near = append(near, word)
		}
	}

	near = append(near, known.SuggestionsFor(typed)...)
	slices.Sort(near)
	return slices.Compact(near)
}

// hasSameLetters reports whether two words differ only in the order of their letters.
func hasSameLetters(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values([]byte(a))), slices.Sorted(slices.Values([]byte(b))))
}

// Suggest returns ": did you mean X?" for the words that are most like one that does not exist, "" for none.
func Suggest(typed string, words []string) string { return suggestWords(nearWords(typed, words)) }

// suggestWords returns ": did you mean X?", "" for no words.
func suggestWords(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + output.JoinWords(near, "or") + "?"
}

// RefuseArguments is the check of a command that takes no arguments.
func RefuseArguments(cmd *cobra.Command, args []string) error {
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
	if suggestion := Suggest(args[0], names); suggestion != "" {
		return fmt.Errorf("%s%s", text, suggestion)
	}

	return fmt.Errorf("%s: it has %s", text, output.JoinWords(names, "and"))
}

// unknownFlag has the name in pflag's error for a flag that does not exist.
var unknownFlag = regexp.MustCompile(`^unknown flag: --([^=\s]+)`)

// explainFlagError says which flag a user may have meant by one that does not exist. It returns any other error as it
// is.
func explainFlagError(cmd *cobra.Command, err error) error {
	found := unknownFlag.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}

	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })

	near := nearWords(found[1], names)
	for i, name := range near {
		near[i] = "--" + name
	}

	return fmt.Errorf("%s has no flag --%s%s", cmd.Name(), found[1], suggestWords(near))
}
