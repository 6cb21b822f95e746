package answers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/doctor"
	"cardquota.dev/operator/internal/testing/check"
)

// explainedElsewhere are the reasons whose golden file is that of package explanation, and why no cluster can be
// brought into such a state for long enough.
var explainedElsewhere = map[api.BlockedReason]string{
	api.BlockedSchedulerNotReady: "a scheduler that has started knows all nodes and pods before its second session, and the configuration gate refuses invalid arguments",
}

// TestEveryReasonHasAGolden: a user who looks for the reason why a pod waits finds an example of the answer. Each
// reason of the API has a state in states, whose golden file has the reason in brackets. The one reason that no
// cluster keeps for long has its file in package explanation.
func TestEveryReasonHasAGolden(t *testing.T) {
	files := map[api.BlockedReason][]string{}
	for _, s := range states() {
		files[s.reason] = append(files[s.reason], filepath.Join("testdata", "why", s.name+".golden"))
	}
	for reason := range explainedElsewhere {
		files[reason] = append(files[reason], filepath.Join("..", "..", "internal", "cli", "why", "explanation", "testdata", string(reason)+".golden"))
	}

	for _, reason := range blockedReasons(t) {
		check.That(t, len(files[reason]) > 0, "no state has reason %s", reason)
		for _, file := range files[reason] {
			check.Contains(t, file, strings.Join(strings.Fields(string(check.Value(os.ReadFile(file))(t))), " "), "("+string(reason)+")")
		}
	}
}

// TestEveryFindingHasAGolden: each rule of kubectl cardquota doctor has a golden file, testdata/doctor/RULE.golden,
// whose finding ends its first line with the rule. So a new rule needs a cluster in which it finds something.
func TestEveryFindingHasAGolden(t *testing.T) {
	for _, rule := range doctor.RuleNames() {
		check.Contains(t, rule, string(check.Value(os.ReadFile(filepath.Join("testdata", "doctor", rule+".golden")))(t)), "  "+rule+"\n")
	}
}

// TestEveryGoldenIsCompared: each golden file is of an existing state, of a rule of doctor, of the anomaly
// NoModelLabel, or of a command on a foreign cluster. The file of a deleted state or rule would stay, and nothing would compare it.
func TestEveryGoldenIsCompared(t *testing.T) {
	known := append(doctor.RuleNames(), string(api.AnomalyNoModelLabel)) // an Anomaly with a command of its own
	for _, s := range states() {
		known = append(known, s.name)
	}
	for step, commands := range foreignCommands {
		for command := range commands {
			known = append(known, step+"-"+command)
		}
	}

	files := check.Value(filepath.Glob(filepath.Join("testdata", "*", "*.golden")))(t)
	check.That(t, len(files) > 60, "%d files", len(files))
	for _, file := range files {
		check.That(t, slices.Contains(known, strings.TrimSuffix(filepath.Base(file), ".golden")), "nothing compares %s", file)
	}
}

// blockedReasons returns all reasons of the API.
func blockedReasons(t *testing.T) []api.BlockedReason {
	file := check.Value(parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "api", "v1alpha1", "blocked_types.go"), nil, parser.SkipObjectResolution))(t)

	var reasons []api.BlockedReason
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Blocked") {
			return true
		}
		text := check.Value(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		reasons = append(reasons, api.BlockedReason(text))
		return true
	})
	check.That(t, len(reasons) > 20, "the reasons are %v", reasons)

	return reasons
}
