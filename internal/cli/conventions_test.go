package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestVersionWithoutAClusterShowsItsOwn: the program cannot connect to a cluster. As kubectl version does, it prints
// its own version and then the error.
func TestVersionWithoutAClusterShowsItsOwn(t *testing.T) {
	plugin.Run(t.Context(), t, func(p *program.Program) {
		p.Connect = func() (client.WithWatch, error) { return nil, errors.New("no cluster") }
	}, "version").Exits(program.ExitError).Prints("kubectl cardquota").Reports("error: no cluster")
}

// TestErrorsAreOneLineForScripts: a script searches errors line by line, so an error is wrapped only on a terminal.
// The error here has 259 characters.
func TestErrorsAreOneLineForScripts(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("a long error ", 20))
	for t, isTerminal := range check.Cases(t, map[string]bool{"terminal": true, "script": false}) {
		r := plugin.Run(t.Context(), t, func(p *program.Program) {
			p.IsTerminal = func(io.Writer) bool { return isTerminal }
			p.Connect = func() (client.WithWatch, error) { return nil, errors.New(long) }
		}, "top")
		check.Equal(t, "is one line", !isTerminal, strings.Contains(r.ErrOut, long+"\n"))
		if isTerminal {
			kubectl.CheckColumns(t, strings.TrimPrefix(r.ErrOut, "error: "))
		}
	}
}

// TestUsageErrorsNameTheHelp: as with kubectl, an error in the words that the user typed ends with how to get help.
// An error of the cluster does not.
func TestUsageErrorsNameTheHelp(t *testing.T) {
	for command, want := range map[string]string{
		"top --nothing":  "See 'kubectl cardquota top --help' for usage.\n",
		"nothing":        "See 'kubectl cardquota --help' for usage.\n",
		"version extra":  "See 'kubectl cardquota version --help' for usage.\n",
		"top -o nothing": "See 'kubectl cardquota top --help' for usage.\n",
	} {
		execute(t, nil, kubectl.MayReadAll, command).Exits(program.ExitError).Reports("error: ", want)
	}

	execute(t, nil, kubectl.MayReadAll, "top missing").Lacks("--help")
}

// TestTopSelectsByLabels: flag -l selects CardQuotas by their labels, as in kubectl get. A selector that cannot be
// parsed is refused.
func TestTopSelectsByLabels(t *testing.T) {
	objects := []client.Object{
		builder.CardQuota("labelled").Label("team", "chat").Card("A", 1).Obj(),
		builder.CardQuota("other").Card("A", 1).Obj(),
	}
	execute(t, objects, kubectl.MayReadAll, "top -l team=chat -o json").Exits(program.ExitOK).Prints(`"labelled"`).Lacks(`"other"`)
	execute(t, objects, kubectl.MayReadAll, "top", "-l", "team in").Exits(program.ExitError).Reports("--selector team in: ")
}

// TestAForbiddenWatchEndsWithAnError: a user may list CardQuotas and not watch them. Without an error from top
// --watch, the user would wait for changes for ever.
func TestAForbiddenWatchEndsWithAnError(t *testing.T) {
	refuse := interceptor.Funcs{Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
		return nil, kubectl.Forbidden("watch", v1alpha1.GroupVersion.WithResource("cardquotas").GroupResource())
	}}
	execute(t, []client.Object{builder.CardQuota("a").Obj()}, refuse, "top --watch").Exits(program.ExitError).Reports("may not watch cardquotas.cardquota.dev")
}

// TestListsArePrintedAsKubectlGetDoes: users have scripts for kubectl get, so all its formats work, with the fields of
// -o json. The CardQuotas are llm-training and llm-chat of tenant llm, ads of ads, and new of vision. The quotas
// of their first cards are 8, 8, 4 and 2. In kubectl.FleetWithFaults, h200-0 and h200-1 have 8 H200 each, and mig-0
// has 14 slices. No label names the cards of new-0, and cpu-0 has none.
func TestListsArePrintedAsKubectlGetDoes(t *testing.T) {
	template := filepath.Join(t.TempDir(), "template")
	check.NoError(t, os.WriteFile(template, []byte("{{range .items}}{{.tenant}} {{end}}"), 0o600))
	million := []client.Object{kubectl.CountedQuota("a", "a", "", v1alpha1.CardStatus{Name: "A", Quota: 1000000}).Obj()}

	for t, tc := range check.Cases(t, map[string]struct {
		objects []client.Object
		command string
		args    []string
		want    string
	}{
		"names of CardQuotas": {
			kubectl.FlatQuotas(), "top llm-chat ads -o name", nil, "cardquota.cardquota.dev/ads\ncardquota.cardquota.dev/llm-chat\n",
		},
		"names of nodes with cards": {
			kubectl.FleetWithFaults(), "inventory --nodes -o name", nil, "node/h200-0\nnode/h200-1\nnode/mig-0\nnode/new-0\n",
		},
		"a path": {
			kubectl.FlatQuotas(), "top -o", []string{"jsonpath={range .items[*]}{.name}={.cards[0].quota} {end}"}, "ads=4 llm-chat=8 llm-training=8 new=2 ",
		},
		"a path, as JSON": {kubectl.FlatQuotas(), "top ads -o jsonpath-as-json={.items[*].name}", nil, "[\n    \"ads\"\n]\n"},
		"a path to a large number, which is not 1e+06": {million, "top -o jsonpath={.items[0].cards[0].quota}", nil, "1000000"},
		"a template":           {kubectl.FlatQuotas(), "top -o", []string{"go-template={{len .items}}"}, "4"},
		"a template in a flag": {kubectl.FlatQuotas(), "top --template {{.kind}}", nil, "CardUsageList"},
		"a template in a file": {kubectl.FlatQuotas(), "top -o go-template-file=" + template, nil, "ads llm llm vision "},
		"columns: llm-training uses 6 H200 and 3 slices": {
			kubectl.FlatQuotas(), "top llm-training -o custom-columns=NAME:.name,USED:.cards[*].used", nil, "NAME           USED\nllm-training   6,3\n",
		},
		"columns without headers, of a field that does not exist": {
			kubectl.FlatQuotas(), "top llm-training --no-headers -o custom-columns=NAME:.name,X:.nothing", nil, "llm-training   <none>\n",
		},
		"columns with paths in braces": {
			kubectl.FlatQuotas(), "top ads --no-headers -o custom-columns=N:{.name},T:tenant", nil, "ads   ads\n",
		},
		"columns of cards": {
			kubectl.FleetWithFaults(), "inventory --no-headers -o custom-columns=CARD:.name,TOTAL:.total", nil,
			"NVIDIA-H200                     16\nNVIDIA-H200/mig-1g.18gb-mixed   14\n",
		},
	}) {
		check.Equal(t, "output", tc.want, execute(t, tc.objects, kubectl.MayReadAll, tc.command, tc.args...).ReportsNothing().Out)
	}

	table := execute(t, kubectl.FlatQuotas(), kubectl.MayReadAll, "top ads --no-headers").Out
	check.That(t, strings.HasPrefix(table, "ads\n"), "a table with --no-headers has a header:\n%s", table)
}

// TestWrongFormatsAreRefusedWithAHint: the error says what is wrong with the format, and how to get help. Format name
// is for lists of objects, not for why and the sums of inventory.
func TestWrongFormatsAreRefusedWithAHint(t *testing.T) {
	for command, want := range map[string]string{
		"top -o jsonpath":                "template format specified but no template given",
		"top -o jsonpath={":              "unclosed action",
		"top -o custom-columns=NAME":     `custom-columns has the column "NAME": write HEADER:.path`,
		"top -o custom-columns=NAME:.x[": "unterminated array",
		"top -o custom-columns":          "write custom-columns=NAME:.name",
		"top -o json=x":                  "write table, wide, json, yaml, name, custom-columns, jsonpath,",
		"why pod/a -o name":              "write table, wide, json or yaml",
	} {
		execute(t, nil, kubectl.MayReadAll, command).Exits(program.ExitError).Reports(want, " --help' for usage.\n")
	}

	execute(t, kubectl.FleetWithFaults(), kubectl.MayReadAll, "inventory -o name").Reports("--output name is for lists of objects, such as top and inventory --nodes")
}

// TestTopOfAllNamespacesShowsEachLocalCardQuota: a user of several namespaces may not list CardQuotas, and sees
// LocalCardQuotas instead. Namespaces lab and other have one each, both with name llm. With -n top shows that of one
// namespace, and with -A both.
func TestTopOfAllNamespacesShowsEachLocalCardQuota(t *testing.T) {
	inOther := kubectl.LocalQuota()
	inOther.Namespace = "other"
	objects := []client.Object{kubectl.LocalQuota(), inOther}
	noCardQuotas := kubectl.Forbid(kubectl.CardQuotas, &v1alpha1.CardQuotaList{})

	const name = "localcardquota.cardquota.dev/llm\n"
	check.Equal(t, "names in namespace lab", name, execute(t, objects, noCardQuotas, "top -n lab -o name").Out)
	check.Equal(t, "names in all namespaces", name+name, execute(t, objects, noCardQuotas, "top -A -o name").Out)

	execute(t, objects, noCardQuotas, "top --all-namespaces").
		Prints("namespace lab\n", "namespace other\n", "These are the LocalCardQuotas of all namespaces.")
	execute(t, nil, noCardQuotas, "top -A").Reports("no namespace has a LocalCardQuota")
}
