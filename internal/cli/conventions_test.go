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
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestVersionWithoutACluster: it shows its own version, as kubectl does, and then the error.
func TestVersionWithoutACluster(t *testing.T) {
	runProgram(t.Context(), t, func(p *program) {
		p.connect = func() (client.WithWatch, error) { return nil, errors.New("no cluster") }
	}, "version").exits(exitError).prints("kubectl cardquota").reports("error: no cluster")
}

// TestErrorsAreOneLineForScripts: they are wrapped on a terminal only.
func TestErrorsAreOneLineForScripts(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("a long error ", 20))
	for t, isTerminal := range check.Cases(t, map[string]bool{"terminal": true, "script": false}) {
		r := runProgram(t.Context(), t, func(p *program) {
			p.isTerminal = func(io.Writer) bool { return isTerminal }
			p.connect = func() (client.WithWatch, error) { return nil, errors.New(long) }
		}, "top")
		check.Equal(t, "is one line", !isTerminal, strings.Contains(r.errOut, long+"\n"))

		if isTerminal {
			checkColumns(t, strings.TrimPrefix(r.errOut, "error: "))
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
		execute(t, nil, interceptor.Funcs{}, strings.Fields(args)...).exits(exitError).reports("error: ", want)
	}

	execute(t, nil, interceptor.Funcs{}, "top", "missing").lacks("--help")
}

// TestTopSelectsByLabels, as kubectl get does.
func TestTopSelectsByLabels(t *testing.T) {
	labelled := builder.CardQuota("labelled").Card("A", 1).Obj()
	labelled.Labels = map[string]string{"team": "chat"}
	objects := []client.Object{labelled, builder.CardQuota("other").Card("A", 1).Obj()}
	execute(t, objects, interceptor.Funcs{}, "top", "-l", "team=chat", "-o", "json").exits(exitOK).prints(`"labelled"`).lacks(`"other"`)
	execute(t, objects, interceptor.Funcs{}, "top", "-l", "team in").exits(exitError).reports("--selector team in: ")
}

// TestAForbiddenWatchEnds: a user who may list and not watch would wait for ever.
func TestAForbiddenWatchEnds(t *testing.T) {
	refuse := interceptor.Funcs{Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
		return nil, forbidden("watch", v1alpha1.GroupVersion.WithResource("cardquotas").GroupResource())
	}}
	execute(t, []client.Object{builder.CardQuota("a").Obj()}, refuse, "top", "--watch").exits(exitError).reports("may not watch cardquotas.cardquota.dev")
}

// TestListsArePrintedAsKubectlGetDoes: by the printers of kubectl, from the fields of -o json.
func TestListsArePrintedAsKubectlGetDoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "template")
	check.NoError(t, os.WriteFile(file, []byte("{{range .items}}{{.tenant}} {{end}}"), 0o600))
	for t, tc := range check.Cases(t, map[string]struct {
		objects []client.Object
		args    []string
		want    string
	}{
		"names":                {flatQuotas(), []string{"top", "llm-chat", "ads", "-o", "name"}, "cardquota.cardquota.dev/ads\ncardquota.cardquota.dev/llm-chat\n"},
		"names of nodes":       {fleet(), []string{"inventory", "--nodes", "-o", "name"}, "node/h200-0\nnode/h200-1\nnode/mig-0\nnode/new-0\n"},
		"a path":               {flatQuotas(), []string{"top", "-o", "jsonpath={range .items[*]}{.name}={.cards[0].quota} {end}"}, "ads=4 llm-chat=8 llm-training=8 new=2 "},
		"a path as JSON":       {flatQuotas(), []string{"top", "ads", "-o", "jsonpath-as-json={.items[*].name}"}, "[\n    \"ads\"\n]\n"},
		"a template":           {flatQuotas(), []string{"top", "-o", "go-template={{len .items}}"}, "4"},
		"--template":           {flatQuotas(), []string{"top", "--template", "{{.kind}}"}, "CardUsageList"},
		"columns":              {flatQuotas(), []string{"top", "llm-training", "-o", "custom-columns=NAME:.name,USED:.cards[*].used"}, "NAME           USED\nllm-training   6,3\n"},
		"no headers":           {flatQuotas(), []string{"top", "llm-training", "--no-headers", "-o", "custom-columns=NAME:.name,X:.nothing"}, "llm-training   <none>\n"},
		"a template of a file": {flatQuotas(), []string{"top", "-o", "go-template-file=" + file}, "ads llm llm vision "},
		"columns of cards":     {fleet(), []string{"inventory", "--no-headers", "-o", "custom-columns=CARD:.name,TOTAL:.total"}, "NVIDIA-H200                     16\nNVIDIA-H200/mig-1g.18gb-mixed   14\n"},
		"a large number":       {[]client.Object{counted("a", "a", "", v1alpha1.CardStatus{Name: "A", Quota: 1000000}).Obj()}, []string{"top", "-o", "jsonpath={.items[0].cards[0].quota}"}, "1000000"},
		"a path in braces":     {flatQuotas(), []string{"top", "ads", "--no-headers", "-o", "custom-columns=N:{.name},T:tenant"}, "ads   ads\n"},
	}) {
		r := execute(t, tc.objects, interceptor.Funcs{}, tc.args...).silently()
		check.Equal(t, "output", tc.want, r.out)
	}

	r := execute(t, flatQuotas(), interceptor.Funcs{}, "top", "ads", "--no-headers")
	check.That(t, strings.HasPrefix(r.out, "ads\n"), "the table has a header:\n%s", r.out)
}

// TestWrongFormatsAreRefusedBeforeTheClusterIsRead, with a hint at the help.
func TestWrongFormatsAreRefusedBeforeTheClusterIsRead(t *testing.T) {
	for args, want := range map[string]string{
		"top -o jsonpath":                "template format specified but no template given",
		"top -o jsonpath={":              "unclosed action",
		"top -o custom-columns=NAME":     `custom-columns has the column "NAME": write HEADER:.path`,
		"top -o custom-columns=NAME:.x[": "unterminated array",
		"top -o custom-columns":          "write custom-columns=NAME:.name",
		"top -o json=x":                  "write table, wide, json, yaml, name, custom-columns, jsonpath,",
		"why pod/a -o name":              "write table, wide, json or yaml",
	} {
		execute(t, nil, interceptor.Funcs{}, strings.Fields(args)...).exits(exitError).reports(want, " --help' for usage.\n")
	}

	execute(t, fleet(), interceptor.Funcs{}, "inventory", "-o", "name").reports("--output name is for lists of objects, such as top and inventory --nodes")
}

// TestTopOfAllNamespaces: a user of several namespaces who may not list CardQuotas sees each LocalCardQuota,
// also two of one name.
func TestTopOfAllNamespaces(t *testing.T) {
	first := localQuota()
	second := localQuota()
	second.Namespace = "other"
	objects := []client.Object{first, second}
	may := forbid(cardQuotas, &v1alpha1.CardQuotaList{})

	name := "localcardquota.cardquota.dev/" + first.Name + "\n"
	check.Equal(t, "names in one namespace", name, execute(t, objects, may, "top", "-n", first.Namespace, "-o", "name").out)
	check.Equal(t, "names in all namespaces", name+name, execute(t, objects, may, "top", "-A", "-o", "name").out)

	execute(t, objects, may, "top", "--all-namespaces").prints("namespace "+first.Namespace+"\n", "namespace other\n", "These are the LocalCardQuotas of all namespaces.")
	execute(t, nil, may, "top", "-A").reports("no namespace has a LocalCardQuota")
}
