package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheTabKeyCompletesWordsAndNames: a shell runs "__complete" with the words so far, the last one incomplete. The
// cluster has CardQuotas llm-training, llm-chat, ads and new, and namespace chat. A name that is written already is not
// offered again.
func TestTheTabKeyCompletesWordsAndNames(t *testing.T) {
	objects := append(flatQuotas(), client.Object(builder.Namespace("chat")))
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
		r := execute(t, objects, mayReadAll, "__complete", tc.args...).exits(exitOK)
		var got []string
		for line := range strings.Lines(r.out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		check.Equal(t, "completions", tc.want, strings.Join(got, " "))
	}
}

// TestCompletionWithoutRightsIsEmpty: an error would disturb the line that the user types. The output ends with a line ":N"
// for the shell.
func TestCompletionWithoutRightsIsEmpty(t *testing.T) {
	r := execute(t, flatQuotas(), forbid(cardQuotas, &v1alpha1.CardQuotaList{}), "__complete", "top", "").exits(exitOK)
	check.That(t, strings.HasPrefix(r.out, ":"), "printed %q", r.out)
}

// TestCompletionOfATenantHasItsLocalCardQuotas: a user of namespace lab alone may not list CardQuotas, and top shows the
// LocalCardQuotas of the namespace. So the tab key completes their names.
func TestCompletionOfATenantHasItsLocalCardQuotas(t *testing.T) {
	local := localQuota()
	r := execute(t, append(flatQuotas(), local), forbidCluster("lab"), "__complete", "-n", "lab", "top", "").exits(exitOK)
	check.That(t, strings.HasPrefix(r.out, local.Name+"\n:"), "printed %q", r.out)
}

// TestCompletionBoundsDiscovery: before the first list, a client asks the API server for its kinds. The tab key must not
// hang, so the timeout of completion holds for these requests too.
func TestCompletionBoundsDiscovery(t *testing.T) {
	for _, args := range [][]string{{"top", ""}, {"why", ""}, {"version", "--system-namespace", ""}} {
		p := newProgram(streams())
		timeout := time.Duration(0)
		p.connect = func() (client.WithWatch, error) {
			timeout = p.requestTimeout
			return nil, errors.New("no cluster")
		}

		check.Equal(t, "exit code", exitOK, p.execute(t.Context(), append([]string{"__complete"}, args...)))
		check.Equal(t, "timeout of the requests for "+args[0], completionTimeout, timeout)
	}
}

// TestKubectlStartsTheProgramToComplete: for "kubectl cardquota top <tab>" kubectl runs kubectl_complete-cardquota, a link to
// the program. By this name the program knows that it has to complete.
func TestKubectlStartsTheProgramToComplete(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ args, want []string }{
		"a command":             {[]string{"/bin/kubectl-cardquota", "top", "-w"}, []string{"top", "-w"}},
		"a command to complete": {[]string{"/bin/kubectl_complete-cardquota", "top", ""}, []string{"__complete", "top", ""}},
		"no name of a program":  {nil, nil},
	}) {
		check.Equal(t, "arguments", tc.want, completionArguments(tc.args))
	}
}

// TestHelpNamesCommandsAndFlags: the help names commands and flags as that of kubectl does, in lines that fit a terminal. Only
// the script that completes words in a shell has longer lines.
func TestHelpNamesCommandsAndFlags(t *testing.T) {
	for command, wants := range map[string][]string{
		"":                {"kubectl cardquota [command]"},
		"top --help":      {"kubectl cardquota top [NAME...] [flags]"},
		"report --help":   {"kubectl cardquota report [flags]"},
		"why --help":      {"-n, --namespace", "kubectl cardquota options lists the flags of kubectl that every command takes."},
		"options":         {"--as string Username to impersonate", "-s, --server string"},
		"completion bash": {"kubectl-cardquota"},
	} {
		r := execute(t, nil, mayReadAll, command).exits(exitOK).says(wants...)

		if command != "completion bash" {
			r.fitsTerminal()
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
		execute(t, nil, mayReadAll, command).exits(exitError).printsNothing().reports(want)
	}
}
