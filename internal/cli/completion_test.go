package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestTheTabKeyCompletesWordsAndNames: a shell runs "__complete" with the words so far, the last one incomplete. The
// cluster has CardQuotas llm-training, llm-chat, ads and new, and namespace chat. A name that is written already is not
// offered again.
func TestTheTabKeyCompletesWordsAndNames(t *testing.T) {
	objects := append(kubectl.FlatQuotas(), client.Object(builder.Namespace("chat")))
	formats := "table wide json yaml name custom-columns jsonpath jsonpath-as-json jsonpath-file go-template go-template-file"

	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want string
	}{
		"a command":                      {[]string{"to"}, "top"},
		"a CardQuota behind another":     {[]string{"top", "ads", ""}, "llm-chat llm-training new"},
		"a format of top":                {[]string{"top", "-o", ""}, formats},
		"a format of import, for a file": {[]string{"import", "-o", ""}, "yaml json"},
		"the namespace of Cardquota":     {[]string{"version", "--system-namespace", ""}, "chat"},
		"a namespace":                    {[]string{"top", "--namespace", ""}, "chat"},
	}) {
		r := execute(t, objects, kubectl.MayReadAll, "__complete", tc.args...).Exits(program.ExitOK)
		var got []string
		for line := range strings.Lines(r.Out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		check.Equal(t, "completions", tc.want, strings.Join(got, " "))
	}
}

// TestCompletionWithoutRightsIsEmpty: an error would disturb the line that the user types. The output ends with a
// line ":N" for the shell.
func TestCompletionWithoutRightsIsEmpty(t *testing.T) {
	r := execute(t, kubectl.FlatQuotas(), kubectl.Forbid(kubectl.CardQuotas, &v1alpha1.CardQuotaList{}), "__complete", "top", "").Exits(program.ExitOK)
	check.That(t, strings.HasPrefix(r.Out, ":"), "printed %q", r.Out)
}

// TestCompletionOfATenantHasItsLocalCardQuotas: a user of namespace lab alone may not list CardQuotas, and top shows the
// LocalCardQuotas of the namespace. So the tab key completes their names. A line ":N" for the shell follows them.
func TestCompletionOfATenantHasItsLocalCardQuotas(t *testing.T) {
	local := kubectl.LocalQuota()
	r := execute(t, append(kubectl.FlatQuotas(), local), kubectl.ForbidCluster("lab"), "__complete", "-n", "lab", "top", "").Exits(program.ExitOK)
	check.That(t, strings.HasPrefix(r.Out, local.Name+"\n:"), "printed %q", r.Out)
}

// TestCompletionBoundsDiscovery: before the first list, a client asks the API server for its kinds. The tab key must not
// hang, so the timeout of completion applies to these requests too.
func TestCompletionBoundsDiscovery(t *testing.T) {
	for _, args := range [][]string{{"top", ""}, {"why", ""}, {"version", "--system-namespace", ""}} {
		p := program.New(genericiooptions.NewTestIOStreamsDiscard())
		timeout := time.Duration(0)
		p.Connect = func() (client.WithWatch, error) {
			timeout = p.RequestTimeout
			return nil, errors.New("no cluster")
		}

		check.Equal(t, "exit code", program.ExitOK, p.Execute(t.Context(), append([]string{"__complete"}, args...), commands...))
		check.Equal(t, "timeout of the requests for "+args[0], program.CompletionTimeout, timeout)
	}
}

// TestHelpNamesCommandsAndFlags: the help names commands and flags as that of kubectl does, in lines that fit a
// terminal. Only the script that completes words in a shell has longer lines.
func TestHelpNamesCommandsAndFlags(t *testing.T) {
	for command, wants := range map[string][]string{
		"":                {"kubectl cardquota [command]"},
		"top --help":      {"kubectl cardquota top [NAME...] [flags]"},
		"report --help":   {"kubectl cardquota report [flags]"},
		"why --help":      {"-n, --namespace", "kubectl cardquota options lists the flags of kubectl that every command takes."},
		"options":         {"--as string Username to impersonate", "-s, --server string"},
		"completion bash": {"kubectl-cardquota"},
	} {
		r := execute(t, nil, kubectl.MayReadAll, command).Exits(program.ExitOK).Says(wants...)

		if command != "completion bash" {
			r.FitsTerminal()
		}
	}
}

// TestAMistypedWordIsRefusedWithAHint: the error names the word, and what the user may have meant if a word is near.
func TestAMistypedWordIsRefusedWithAHint(t *testing.T) {
	for command, want := range map[string]string{
		"tpo":                `"tpo" is no command of kubectl cardquota: did you mean top?`,
		"frobnicate":         `"frobnicate" is no command of kubectl cardquota: it has completion, doctor, import,`,
		"top --wacth":        "top has no flag --wacth: did you mean --watch?",
		"top --frobnicate=1": "top has no flag --frobnicate",
		"doctor llm":         `doctor takes no argument, and "llm" is one`,
		"top -o xml":         "write table, wide, json, yaml, name, custom-columns, jsonpath, jsonpath-as-json, jsonpath-file, go-template or go-template-file",
	} {
		execute(t, nil, kubectl.MayReadAll, command).Exits(program.ExitError).PrintsNothing().Reports(want)
	}
}

// TestSuggestionsAreWrittenAsTheUserTypesThem: a flag is suggested with its dashes, and several words always in the
// same order. They come from a map, which has another order each time, so each command runs twenty times.
func TestSuggestionsAreWrittenAsTheUserTypesThem(t *testing.T) {
	for command, want := range map[string]string{
		"top --n":    "top has no flag --n: did you mean --namespace or --no-headers?",
		"top --x":    "top has no flag --x\n",
		"why s/chat": "did you mean statefulset?",
		"why d/chat": "did you mean daemonset or deployment?",
	} {
		for range 20 {
			execute(t, kubectl.ClusterWithOneFreeCard(), kubectl.MayReadAll, command+" -n lab").Reports(want)
		}
	}
}
