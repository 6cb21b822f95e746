// Package kubectl runs commands of kubectl cardquota against a cluster of objects, and checks what they print.
package kubectl

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/check"
)

var update = flag.Bool("update", false, "write the golden files from what the commands print")

// Updates reports whether golden files are written instead of compared.
func Updates() bool { return *update }

// At is the time of every test, a Monday at noon.
var At = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// TimeAgo is a time before At.
func TimeAgo(d time.Duration) metav1.Time { return metav1.NewTime(At.Add(-d)) }

// Result is what a command printed, and its exit code. Its methods check it, one after the other.
type Result struct {
	// Out and ErrOut are what was written to both streams.
	Out, ErrOut string
	// Code is the exit code.
	Code int
	t    *testing.T
	args []string
}

// Exits checks the exit code.
func (r Result) Exits(code int) Result {
	check.That(r.t, r.Code == code, "%q: exit code %d, want %d: %s", r.args, r.Code, code, r.ErrOut)
	return r
}

// Prints checks that the output has each text. Lines may be broken.
func (r Result) Prints(wants ...string) Result {
	check.Contains(r.t, fmt.Sprintf("output of %q", r.args), withJoinedLines(r.Out), wants...)
	return r
}

// Reports checks that the errors and notes have each text. Lines may be broken.
func (r Result) Reports(wants ...string) Result {
	check.Contains(r.t, fmt.Sprintf("errors of %q", r.args), withJoinedLines(r.ErrOut), wants...)
	return r
}

// Lacks checks that output, errors and notes have none of some texts. Lines may be broken.
func (r Result) Lacks(unwanted ...string) Result {
	check.Text(r.t, fmt.Sprintf("output and errors of %q", r.args), withJoinedLines(r.Out)+withJoinedLines(r.ErrOut)).Lacks(unwanted...)
	return r
}

// Says checks that output, errors and notes together have each text. Lines may be broken.
func (r Result) Says(wants ...string) Result {
	check.Contains(r.t, fmt.Sprintf("output and errors of %q", r.args), withJoinedLines(r.Out+r.ErrOut), wants...)
	return r
}

// OneLine returns the output with its words in one line.
func (r Result) OneLine() string { return strings.Join(strings.Fields(r.Out), " ") }

// PrintsNothing checks that there is no output.
func (r Result) PrintsNothing() Result {
	check.Equal(r.t, fmt.Sprintf("output of %q", r.args), "", r.Out)
	return r
}

// ReportsNothing checks that there are no errors and notes.
func (r Result) ReportsNothing() Result {
	check.Equal(r.t, fmt.Sprintf("errors of %q", r.args), "", r.ErrOut)
	return r
}

// FitsTerminal checks that no line is longer than a terminal.
func (r Result) FitsTerminal() Result {
	CheckColumns(r.t, r.Out+r.ErrOut)
	return r
}

// MatchesGolden checks that the output is that of a golden file.
func (r Result) MatchesGolden(name string) Result {
	CompareGolden(r.t, name, r.Out)
	return r
}

// withJoinedLines returns a text, and once more with its words in one line.
func withJoinedLines(text string) string {
	return text + "\n" + strings.Join(strings.Fields(text), " ")
}

// Plugin is kubectl cardquota with some commands. Scheduler answers those that ask it.
type Plugin struct {
	Commands  []program.Command
	Scheduler simulation.Scheduler
}

// Execute runs "kubectl cardquota COMMAND ARGS" against a cluster with some objects. intercept may refuse requests.
// Words of the command are separated by spaces, an argument may have some.
func (g Plugin) Execute(t *testing.T, objects []client.Object, intercept interceptor.Funcs, command string, args ...string) Result {
	cluster := NewCluster(t, objects, intercept)
	return g.Run(t.Context(), t, func(p *program.Program) {
		p.Connect = func() (client.WithWatch, error) { return cluster, nil }
		p.Now = func() time.Time { return At }
		p.IsTerminal = func(io.Writer) bool { return false }
	}, append(strings.Fields(command), args...)...)
}

// Run runs a command line of a program that setUp has changed.
func (g Plugin) Run(ctx context.Context, t *testing.T, setUp func(*program.Program), args ...string) Result {
	var out, errOut bytes.Buffer
	p := program.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	p.Scheduler = g.Scheduler
	setUp(p)
	code := p.Execute(ctx, args, g.Commands...)
	return Result{out.String(), errOut.String(), code, t, args}
}

// NewCluster is an API server with some objects. Its user may change everything, unless intercept says otherwise.
func NewCluster(t *testing.T, objects []client.Object, intercept interceptor.Funcs) client.WithWatch {
	scheme := check.Value(program.NewScheme())(t)
	if intercept.Create == nil {
		intercept.Create = Grant(func(authorizationv1.ResourceAttributes) bool { return true })
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapperOf(objects)).WithObjects(objects...).WithInterceptorFuncs(intercept).WithReturnManagedFields().Build()
}

// mapperOf returns what an API server says of the kinds that the program knows by their name alone: it serves those of
// some objects.
func mapperOf(objects []client.Object) meta.RESTMapper {
	var kinds []schema.GroupVersionKind
	var versions []schema.GroupVersion
	for _, object := range objects {
		if other, isOther := object.(*unstructured.Unstructured); isOther {
			kinds = append(kinds, other.GroupVersionKind())
			versions = append(versions, other.GroupVersionKind().GroupVersion())
		}
	}

	mapper := meta.NewDefaultRESTMapper(versions)
	for _, kind := range kinds {
		mapper.Add(kind, meta.RESTScopeRoot)
	}

	return mapper
}

// CompareGolden compares an output with a file of testdata.
func CompareGolden(t *testing.T, name, got string) {
	path := filepath.Join("testdata", name+".golden")
	if *update {
		check.NoError(t, os.MkdirAll("testdata", 0o750))
		check.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	check.Equal(t, name, string(check.Value(os.ReadFile(path))(t)), got)
}

// CheckColumns reports each line that is longer than a terminal. An error that no terminal shows is one
// line.
func CheckColumns(t *testing.T, text string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "See '") {
			continue
		}
		columns := output.Width(strings.TrimRight(line, "\n"))
		check.That(t, columns <= output.Columns, "%d columns: %s", columns, line)
	}
}

// WriteFile writes a file into a folder of its own, and returns its path.
func WriteFile(t *testing.T, name, text string) (path string) {
	path = filepath.Join(t.TempDir(), name)
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
