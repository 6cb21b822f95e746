package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestVersionWithoutACluster: it shows its own version, as kubectl does, and then the error.
func TestVersionWithoutACluster(t *testing.T) {
	var out, errOut bytes.Buffer
	p := newProgram(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	p.connect = func() (client.WithWatch, error) { return nil, errors.New("no cluster") }
	code := p.execute(t.Context(), []string{"version"})
	check.Equal(t, "exit code", exitError, code)
	check.Contains(t, "output", out.String(), "kubectl cardquota")
	check.Contains(t, "error", errOut.String(), "error: no cluster")
}

// TestErrorsAreOneLineForScripts: they are wrapped on a terminal only.
func TestErrorsAreOneLineForScripts(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("a long error ", 20))
	for t, isTerminal := range check.Cases(t, map[string]bool{"terminal": true, "script": false}) {
		var errOut bytes.Buffer
		p := newProgram(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &errOut})
		p.isTerminal = func(io.Writer) bool { return isTerminal }
		p.connect = func() (client.WithWatch, error) { return nil, errors.New(long) }
		p.execute(t.Context(), []string{"top"})
		check.Equal(t, "is one line", !isTerminal, strings.Contains(errOut.String(), long+"\n"))
		if isTerminal {
			checkColumns(t, strings.TrimPrefix(errOut.String(), "error: "))
		}
	}
}

// TestUsageErrorsNameTheHelp: kubectl does so, too, and only there.
func TestUsageErrorsNameTheHelp(t *testing.T) {
	for args, want := range map[string]string{
		"top --nothing":  "See 'kubectl cardquota top --help' for usage.\n",
		"nothing":        "See 'kubectl cardquota --help' for usage.\n",
		"version extra":  "See 'kubectl cardquota version --help' for usage.\n",
		"top -o nothing": "See 'kubectl cardquota top --help' for usage.\n",
	} {
		r := execute(t, nil, interceptor.Funcs{}, strings.Fields(args)...)
		check.Equal(t, "exit code of "+args, exitError, r.code)
		check.Contains(t, args, r.errOut, "error: ", want)
	}
	r := execute(t, nil, interceptor.Funcs{}, "top", "missing")
	check.That(t, !strings.Contains(r.errOut, "--help"), "an error of the cluster names the help: %s", r.errOut)
}

// TestTopSelectsByLabels, as kubectl get does.
func TestTopSelectsByLabels(t *testing.T) {
	labelled := builder.CardQuota("labelled").Card("A", 1).Obj()
	labelled.Labels = map[string]string{"team": "chat"}
	objects := []client.Object{labelled, builder.CardQuota("other").Card("A", 1).Obj()}
	r := execute(t, objects, interceptor.Funcs{}, "top", "-l", "team=chat", "-o", "json")
	check.Equal(t, "exit code", exitOK, r.code)
	check.That(t, strings.Contains(r.out, `"labelled"`) && !strings.Contains(r.out, `"other"`), "output %s", r.out)
	r = execute(t, objects, interceptor.Funcs{}, "top", "-l", "team in")
	check.Equal(t, "exit code of an invalid selector", exitError, r.code)
	check.Contains(t, "error", r.errOut, "--selector team in: ")
}

// TestAForbiddenWatchEnds: a user who may list and not watch would wait for ever.
func TestAForbiddenWatchEnds(t *testing.T) {
	refuse := interceptor.Funcs{Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
		return nil, forbidden("watch", v1alpha1.GroupVersion.WithResource("cardquotas").GroupResource())
	}}
	r := execute(t, []client.Object{builder.CardQuota("a").Obj()}, refuse, "top", "--watch")
	check.Equal(t, "exit code", exitError, r.code)
	check.Contains(t, "error", r.errOut, "may not watch cardquotas.cardquota.dev")
}
