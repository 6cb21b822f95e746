package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/doctor"
	"cardquota.dev/operator/internal/cli/inventory"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/report"
	"cardquota.dev/operator/internal/cli/top"
	"cardquota.dev/operator/internal/cli/version"
	"cardquota.dev/operator/internal/cli/whatif"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

var page = filepath.Join("..", "..", "docs", "kubectl.md")

// shownCluster is the cluster of a command in docs/kubectl.md.
type shownCluster struct {
	objects   []client.Object
	intercept interceptor.Funcs
}

// shownClusters are the clusters of all commands whose output docs/kubectl.md shows.
func shownClusters(t *testing.T) map[string]shownCluster {
	return map[string]shownCluster{
		"top":                         {objects: kubectl.FlatQuotas()},
		"top institute":               {objects: kubectl.TreeQuotas()},
		"top llm-training llm-chat":   {objects: kubectl.ObservedQuotas()},
		"top --by namespace":          {kubectl.ForeignCluster(), kubectl.Nothing},
		"why train-0 -n lab":          {objects: kubectl.WaitingCluster()},
		"whatif -n lab -f serve.yaml": {objects: kubectl.TwoNodesWithTraining()},
		"whatif -n lab -f serve.yaml --quota chat:NVIDIA-H200=4": {objects: kubectl.TwoNodesWithTraining()},
		"inventory":                {objects: kubectl.FleetWithFaults()},
		"inventory --nodes":        {objects: kubectl.FleetWithFaults()},
		"doctor":                   {kubectl.ClusterWithoutCardQuotas(), kubectl.NotInstalled(&v1alpha1.CardQuotaList{})},
		"import":                   {objects: kubectl.ClusterWithoutCardQuotas()},
		"import --from namespaces": {kubectl.ForeignCluster(), kubectl.Nothing},
		"report --month 2026-10 --prices prices.yaml": {objects: kubectl.StoredSums(t)},
		"version": {objects: []client.Object{kubectl.Deployment("cardquota-manager", "cardquota-manager:v0.2.0"), kubectl.PolicyWithScheduler("v0.2.0")}},
	}
}

const consolePrompt = "```console\n$ kubectl cardquota "

// TestThePageShowsWhatTheCommandsPrint: docs/kubectl.md has examples of commands with their output, in blocks that
// begin with a prompt. Each is exactly what the command prints on the cluster that shownClusters has for it, and none
// of these commands is missing on the page. With -update the test writes the page.
func TestThePageShowsWhatTheCommandsPrint(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	build.Version = "v0.2.0"
	files := strings.NewReplacer("serve.yaml", filepath.Join("whatif", "testdata", "serve.yaml"), "prices.yaml", filepath.Join("report", "testdata", "prices.yaml"))
	text := check.Value(os.ReadFile(page))(t)

	blocks := strings.Split(string(text), consolePrompt)
	want := blocks[0]
	shown := shownClusters(t)

	seen := map[string]bool{}
	for _, block := range blocks[1:] {
		command, rest, _ := strings.Cut(block, "\n")
		_, after, ok := strings.Cut("\n"+rest, "\n```\n")
		loaded, isShown := shown[command]
		check.Must(t, ok && isShown, "%s: no cluster of the test shows kubectl cardquota %s", page, command)
		seen[command] = true
		r := execute(t, loaded.objects, loaded.intercept, files.Replace(command))
		want += consolePrompt + command + "\n" + r.Out + "```\n" + after
	}

	if kubectl.Updates() {
		check.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	}

	check.Equal(t, page, strings.Split(want, "\n"), strings.Split(string(text), "\n"))
	for command := range shown {
		check.That(t, seen[command], "%s does not show kubectl cardquota %s", page, command)
	}
}

// TestThePageHasEveryRuleAndField: docs/kubectl.md describes each command, each rule of doctor, and each field of the
// JSON that the commands print.
func TestThePageHasEveryRuleAndField(t *testing.T) {
	text := check.Value(os.ReadFile(page))(t)

	words := doctor.RuleNames()
	for _, document := range []any{
		top.List{}, top.UseList{}, inventory.List{}, nodecards.List{}, doctor.Report{},
		whatif.Result{}, version.Document{}, explanation.Document{}, report.Document{},
	} {
		words = append(words, jsonFields(reflect.TypeOf(document))...)
	}

	for _, command := range newRootCommand().Commands() {
		if command.Name() != "help" {
			check.Contains(t, page, string(text), command.Name())
		}
	}

	for _, word := range words {
		check.That(t, strings.Contains(string(text), "`"+word+"`"), "%s does not describe %s", page, word)
	}
}

// jsonFields returns the names of all fields of our own types.
func jsonFields(of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}

	if of.Kind() != reflect.Struct || !strings.Contains(of.PkgPath(), "/internal/cli/") {
		return nil
	}

	var names []string
	for i := range of.NumField() {
		field := of.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "apiVersion" {
			names = append(names, name)
		}
		if !field.Anonymous {
			names = append(names, jsonFields(field.Type)...)
		}
	}

	return names
}

// TestEveryTypedCommandExists: each "kubectl cardquota …" in docs/kubectl.md and in the examples of help texts is a
// command with flags that exist.
func TestEveryTypedCommandExists(t *testing.T) {
	text := check.Value(os.ReadFile(page))(t)

	root := newRootCommand()
	lines := strings.Split(string(text), "\n")
	for _, command := range root.Commands() {
		lines = append(lines, strings.Split(command.Example, "\n")...)
	}

	typed := 0
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		for part := range strings.SplitSeq(line, "&&") {
			args, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(part), "$ ")), "kubectl cardquota ")
			if !ok || strings.Contains(args, "`") || strings.HasPrefix(args, " ") { // prose, or a table
				continue
			}

			args, _, _ = strings.Cut(args, ">")
			found, rest, err := root.Find(strings.Fields(args))
			check.NoError(t, err)
			check.That(t, found != root, "no command %q", args)
			check.NoError(t, found.ParseFlags(rest))
			typed++
		}
	}

	check.That(t, typed > 10, "only %d commands found", typed)
}
