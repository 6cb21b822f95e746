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
	"cardquota.dev/operator/internal/cli/diagnosis"
	"cardquota.dev/operator/internal/testing/check"
)

// ofFakes are the reasons whose golden file is that of package explanation, and why no cluster can be
// brought into such a state for long enough.
var ofFakes = map[api.BlockedReason]string{
	api.BlockedSchedulerNotReady: "a scheduler that has started knows all nodes and pods before its second session, and the configuration gate refuses invalid arguments",
}

// TestEveryReasonHasAGolden: a new reason needs a state.
func TestEveryReasonHasAGolden(t *testing.T) {
	stated := map[api.BlockedReason][]string{}
	for _, s := range states() {
		stated[s.reason] = append(stated[s.reason], filepath.Join("testdata", "why", s.name+".golden"))
	}

	for _, reason := range blockedReasons(t) {
		files := stated[reason]
		if ofFakes[reason] != "" {
			files = append(files, filepath.Join("..", "..", "internal", "cli", "explanation", "testdata", string(reason)+".golden"))
		}

		check.That(t, len(files) > 0, "no state has reason %s", reason)
		for _, file := range files {
			text := check.Value(os.ReadFile(file))(t)
			check.Contains(t, file, strings.Join(strings.Fields(string(text)), " "), "("+string(reason)+")")
		}
	}
}

// TestEveryFindingHasAGolden: a new rule of doctor needs a state.
func TestEveryFindingHasAGolden(t *testing.T) {
	for _, rule := range diagnosis.RuleNames() {
		text := check.Value(os.ReadFile(filepath.Join("testdata", "doctor", rule+".golden")))(t)
		check.Contains(t, rule, string(text), "  "+rule+"\n")
	}
}

// TestEveryGoldenIsCompared: a file of a state that no longer exists would be left.
func TestEveryGoldenIsCompared(t *testing.T) {
	known := append(diagnosis.RuleNames(), string(api.AnomalyNoModelLabel)) // an Anomaly with a command of its own
	for _, s := range states() {
		known = append(known, s.name)
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
