package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

func readDocument(t *testing.T, name string) string {
	return string(check.Value(os.ReadFile(filepath.Join("..", "..", name)))(t))
}

// TestEveryReasonIsInTroubleshooting: a user who reads a reason on an object finds it in docs/troubleshooting.md.
// These are the reasons of conditions, waiting pods and blocked workloads, and the anomalies of the inventory.
// Reasons after which the user has nothing to do (inOrder) need no entry. The document also has the words of three
// messages of the scheduler as its sources have them.
func TestEveryReasonIsInTroubleshooting(t *testing.T) {
	document := readDocument(t, "docs/troubleshooting.md")
	inOrder := []string{
		"ReasonSynced", "ReasonForeignChangeReplaced", "ReasonWithinQuota", "ReasonNotCounted", "ReasonInventorySatisfied", "ReasonCardsKnown",
		"ReasonOverAllocationAllowed", "ReasonReady", "ReasonConfigCorrected", "ReasonEnforced", "ReasonBypassDenied",
	}

	for file, prefix := range map[string]string{"api/v1alpha1/conditions.go": "Reason", "internal/workload/refusal.go": "Reason", "api/v1alpha1/blocked_types.go": "Blocked"} {
		reasons := constantsOf(t, file, prefix)
		for name, reason := range reasons {
			check.That(t, slices.Contains(inOrder, name) || strings.Contains(document, "`"+reason+"`"), "docs/troubleshooting.md does not have %s (%s of %s)", reason, name, file)
		}

		check.That(t, len(reasons) >= 4, "%s has the reasons %v only", file, reasons)
	}

	anomalies := constantsOf(t, "api/v1alpha1/cardinventory_types.go", "Anomaly")
	for name, reason := range anomalies {
		check.That(t, strings.Contains(document, "| `"+reason+"` |"), "docs/troubleshooting.md does not have the anomaly %s (%s)", reason, name)
	}

	check.That(t, len(anomalies) >= 7, "the anomalies are %v only", anomalies)

	for words, file := range map[string]string{
		"node(s) have another card than <":    "internal/waiting/nodereason.go",
		"node(s) have no named card for ":     "internal/waiting/nodereason.go",
		"has not seen every node and pod yet": "internal/workload/refusalwording.go",
	} {
		check.Contains(t, "docs/troubleshooting.md", document, words)
		check.Contains(t, file, readDocument(t, file), words)
	}
}

// constantsOf returns the values of a file's constants with a name prefix.
func constantsOf(t *testing.T, file, prefix string) map[string]string {
	parsed := check.Value(parser.ParseFile(token.NewFileSet(), file, readDocument(t, file), 0))(t)

	found := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found[spec.Names[0].Name] = text
			}
		}
		return true
	})

	return found
}

// TestBreakGlassUsesCommandsOfAdopting: in an emergency an administrator types commands that were tried. Each block
// of three sections of docs/break-glass.md is one of docs/adopt.md, which
// TestAdoptingBesideStockVolcano types.
func TestBreakGlassUsesCommandsOfAdopting(t *testing.T) {
	breakGlass := readDocument(t, "docs/break-glass.md")
	adopt := readDocument(t, "docs/adopt.md")
	for heading, step := range map[string]string{
		"## Stop evictions":                   "### Cards are taken back",
		"## Let pods bypass the scheduler":    "### No bypass of the scheduler",
		"## A queue must run without a quota": "### A quota for each queue",
	} {
		check.Contains(t, step, strings.Join(check.Value(Commands(adopt, step))(t), ""), check.Value(Commands(breakGlass, heading))(t)...)
	}
}

// TestAdoptingEndsWithThePolicy: an administrator who follows docs/adopt.md to its end has the policy of the README.
// The first policy of docs/adopt.md, config/samples/adopt.yaml, differs from config/samples/policy.yaml only in the
// four fields that the steps change.
func TestAdoptingEndsWithThePolicy(t *testing.T) {
	var adopt, policy map[string]any
	for name, into := range map[string]*map[string]any{"adopt": &adopt, "policy": &policy} {
		check.NoError(t, yaml.UnmarshalStrict([]byte(readDocument(t, "config/samples/"+name+".yaml")), into))
	}
	maps.Copy(policy["spec"].(map[string]any), map[string]any{
		"mode": "Observe", "unmanagedQueues": "Ignore", "reclaim": "Off", "admission": map[string]any{"schedulerBypassPolicy": "Warn"},
	})
	check.Equal(t, "adopt.yaml", policy, adopt)
}
