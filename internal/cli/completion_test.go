package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func TestCompletion(t *testing.T) {
	objects := append(flatQuotas(), client.Object(builder.Namespace("chat")))

	for t, tc := range check.Cases(t, map[string]struct {
		args []string
		want []string
	}{
		"commands":         {[]string{"to"}, []string{"top"}},
		"CardQuotas":       {[]string{"top", "ads", ""}, []string{"llm-chat", "llm-training", "new"}},
		"formats":          {[]string{"top", "-o", ""}, []string{"table", "wide", "json", "yaml", "name", "custom-columns", "jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file"}},
		"formats of files": {[]string{"import", "-o", ""}, []string{"yaml", "json"}},
		"system namespace": {[]string{"version", "--system-namespace", ""}, []string{"chat"}},
		"namespace":        {[]string{"top", "--namespace", ""}, []string{"chat"}},
	}) {
		r := execute(t, objects, interceptor.Funcs{}, append([]string{"__complete"}, tc.args...)...).exits(exitOK)
		var got []string
		for line := range strings.Lines(r.out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		check.Equal(t, "completions", tc.want, got)
	}
}

func TestCompletionWithoutRightsIsEmpty(t *testing.T) {
	r := execute(t, flatQuotas(), forbid(cardQuotas, &v1alpha1.CardQuotaList{}), "__complete", "top", "")
	check.That(t, r.code == exitOK && strings.HasPrefix(r.out, ":"), "exit code %d, printed %q", r.code, r.out)
}

// TestCompletionOfATenant: top shows the LocalCardQuotas of the namespace, so it completes them.
func TestCompletionOfATenant(t *testing.T) {
	local := localQuota()
	r := execute(t, append(flatQuotas(), local), forbidCluster("lab"), "__complete", "-n", "lab", "top", "")
	check.That(t, r.code == exitOK && strings.HasPrefix(r.out, local.Name+"\n:"), "exit code %d, printed %q", r.code, r.out)
}

// TestCompletionBoundsDiscovery: a user who presses the tab key waits for no other request either.
func TestCompletionBoundsDiscovery(t *testing.T) {
	for _, args := range [][]string{{"top", ""}, {"why", ""}, {"version", "--system-namespace", ""}} {
		p := newProgram(streams())
		connected := time.Duration(0)
		p.connect = func() (client.WithWatch, error) {
			connected = p.requestTimeout
			return nil, errors.New("no cluster")
		}
		check.Equal(t, "exit code", exitOK, p.execute(t.Context(), append([]string{"__complete"}, args...)))
		check.Equal(t, args[0], completionTimeout, connected)
	}
}

func TestKubectlStartsTheProgramToComplete(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ args, want []string }{
		"command":    {[]string{"/bin/kubectl-cardquota", "top", "-w"}, []string{"top", "-w"}},
		"completion": {[]string{"/bin/kubectl_complete-cardquota", "top", ""}, []string{"__complete", "top", ""}},
		"nothing":    {nil, nil},
	}) {
		check.Equal(t, "arguments", tc.want, completionArguments(tc.args))
	}
}

func TestHelpAndMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":            {nil, exitOK, "kubectl cardquota [command]"},
		"help of a part":  {[]string{"top", "--help"}, exitOK, "kubectl cardquota top [NAME...] [flags]"},
		"help of report":  {[]string{"report", "--help"}, exitOK, "kubectl cardquota report [flags]"},
		"namespace":       {[]string{"why", "--help"}, exitOK, "-n, --namespace"},
		"other flags":     {[]string{"why", "--help"}, exitOK, "kubectl cardquota options lists the flags of kubectl that every command takes."},
		"options":         {[]string{"options"}, exitOK, "--as string Username to impersonate"},
		"server":          {[]string{"options"}, exitOK, "-s, --server string"},
		"unknown command": {[]string{"tpo"}, exitError, `"tpo" is no command of kubectl cardquota: did you mean top?`},
		"no such command": {[]string{"frobnicate"}, exitError, `"frobnicate" is no command of kubectl cardquota: it has completion, doctor, import,`},
		"unknown flag":    {[]string{"top", "--wacth"}, exitError, "top has no flag --wacth: did you mean --watch?"},
		"no such flag":    {[]string{"top", "--frobnicate=1"}, exitError, "top has no flag --frobnicate"},
		"no argument":     {[]string{"doctor", "llm"}, exitError, `doctor takes no argument, and "llm" is one`},
		"unknown format":  {[]string{"top", "-o", "xml"}, exitError, "write table, wide, json, yaml, name, custom-columns, jsonpath, jsonpath-as-json, jsonpath-file, go-template or go-template-file"},
		"completion":      {[]string{"completion", "bash"}, exitOK, "kubectl-cardquota"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, nil, interceptor.Funcs{}, tc.args...).exits(tc.code)
			check.Contains(t, "output", strings.Join(strings.Fields(r.out+r.errOut), " "), tc.want)

			if name != "completion" {
				checkColumns(t, r.out)
			}
		})
	}
}
