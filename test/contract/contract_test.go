// Package contract freezes the names that users, dashboards and scripts rely on.
package contract

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
)

var update = flag.Bool("update", false, "write testdata/contract.txt again")

const golden = "testdata/contract.txt"

var (
	metricName   = regexp.MustCompile(`^cardquota_[a-z_]+$`)
	objectKey    = regexp.MustCompile(`^([a-z]+\.)*(cardquota\.dev|volcano\.sh|k8s\.io)/[a-z][a-z0-9.-]*$`)
	argumentName = regexp.MustCompile(`^(?:Argument[A-Z]|HashArgument$)`)
	reasonName   = regexp.MustCompile(`^(?:[Rr]eason|[Ee]vent|Condition|Anomaly)[A-Z]`)
)

// volcanosKeys are Volcano's annotations for which the sources use Volcano's constants.
var volcanosKeys = map[string]string{
	"KubeGroupNameAnnotationKey": v1beta1.KubeGroupNameAnnotationKey, "QueueNameAnnotationKey": v1beta1.QueueNameAnnotationKey,
	"PodPreemptable": v1beta1.PodPreemptable, "QueueNameKey": batchv1alpha1.QueueNameKey,
}

// TestContractIsUnchanged: users, dashboards and scripts rely on names that the programs use, and a change of one
// fails here. These are condition types, reasons, metrics, annotations, labels, finalizers, Leases, ConfigMaps and
// arguments. They are read from the sources and compared with testdata/contract.txt. To change one, run the test
// with -update, say why in the commit, and in CHANGELOG.md.
func TestContractIsUnchanged(t *testing.T) {
	found := contractNames{}
	for _, root := range []string{"api", "cmd", "internal"} {
		check.NoError(t, filepath.WalkDir(filepath.Join("..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "testing"):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}

			file := check.Value(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
			found.collect(file, filepath.Base(filepath.Dir(path)))
			return nil
		}))
	}

	text := found.format()
	if *update {
		check.NoError(t, os.WriteFile(golden, []byte(text), 0o600))
	}

	check.Equal(t, "contract", strings.Split(string(check.Value(os.ReadFile(golden))(t)), "\n"), strings.Split(text, "\n"))
}

// contractNames are the names of each kind.
type contractNames map[string]map[string]bool

func (w contractNames) add(kind, word string) {
	if w[kind] == nil {
		w[kind] = map[string]bool{}
	}
	w[kind][word] = true
}

func (w contractNames) format() string {
	var text strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(w)) {
		text.WriteString(kind + ":\n")
		for _, word := range slices.Sorted(maps.Keys(w[kind])) {
			text.WriteString("  " + word + "\n")
		}
	}
	return text.String()
}

// collect collects the words of a file of a package.
func (w contractNames) collect(file *ast.File, folder string) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			w.readLiteral(stringLiteral(n))
		case *ast.SelectorExpr:
			if word := volcanosKeys[n.Sel.Name]; word != "" {
				w.add("annotations, labels and finalizers", word)
			}
		case *ast.ValueSpec:
			w.readConstants(n)
		case *ast.CallExpr:
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok && file.Name.Name == "main" && strings.HasSuffix(selector.Sel.Name, "Var") && len(n.Args) > 1 {
				if name := stringLiteral(n.Args[1]); name != "" {
					w.add("arguments of cmd/"+folder, "--"+name)
				}
			}
		}

		return true
	})
}

// readLiteral collects a word that is a metric, a key or the name of an object.
func (w contractNames) readLiteral(word string) {
	switch {
	case metricName.MatchString(word):
		w.add("metrics", word)
	case objectKey.MatchString(word):
		w.add("annotations, labels and finalizers", word)
	case word == "cardquota-scheduler" || strings.HasPrefix(word, "cardquota-scheduler-") || strings.HasPrefix(word, "volcano-scheduler"):
		w.add("names of objects", word)
	}
}

// readConstants collects reasons and types of conditions, and the arguments of the plugin.
func (w contractNames) readConstants(spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		name := spec.Names[i].Name
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "BlockedReason" {
			w.add("reasons of blocked workloads", stringLiteral(value))
		}

		if word := stringLiteral(value); word != "" && reasonName.MatchString(name) {
			kind := "reasons of conditions and events"
			switch {
			case strings.HasPrefix(name, "Condition"):
				kind = "condition types"
			case strings.HasPrefix(name, "Anomaly"):
				kind = "reasons of anomalies"
			}
			w.add(kind, word)
		}

		if word := stringLiteral(value); word != "" && argumentName.MatchString(name) {
			w.add("arguments of capacity-card", word)
		}
	}
}

// stringLiteral is the text of a string literal, "" for any other expression.
func stringLiteral(node ast.Expr) string {
	lit, ok := node.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}
