package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cardquota.dev/operator/internal/cli/program"
)

// needWorkload refuses arguments that are not one or two words, before the command runs.
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

// refuseNoWorkload returns an error for a kind that never waits, with the command that shows it.
func refuseNoWorkload(kind, name string) error {
	for _, other := range noWorkloads {
		if slices.Contains(other.kinds, strings.ToLower(kind)) {
			return fmt.Errorf("%s/%s: %s", kind, name, other.about)
		}
	}
	return nil
}

// suggestKind returns ": did you mean X?" for an unknown kind that is like a known one, else "".
func suggestKind(kind string) string {
	var kinds []string
	for known, target := range targetKinds {
		if strings.EqualFold(target.kind, kind) { // it is known
			return ""
		}
		if strings.EqualFold(target.kind, known) || known == "vcjob" { // no other short names, and no plurals
			kinds = append(kinds, known)
		}
	}
	return program.Suggest(strings.ToLower(kind), kinds)
}
