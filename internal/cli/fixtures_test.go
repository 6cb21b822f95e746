package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/testing/check"
)

var update = flag.Bool("update", false, "write the golden files from what the commands print")

// at is the time of every test, a Monday at noon.
var at = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// result is what a command printed, and its exit code. Its methods check it, one after the other.
type result struct {
	t           *testing.T
	args        []string
	out, errOut string
	code        int
}

// exits checks the exit code.
func (r result) exits(code int) result {
	check.That(r.t, r.code == code, "%q: exit code %d, want %d: %s", r.args, r.code, code, r.errOut)
	return r
}

// prints checks that the output has each text. Lines may be broken.
func (r result) prints(wants ...string) result {
	check.Contains(r.t, fmt.Sprintf("output of %q", r.args), withJoinedLines(r.out), wants...)
	return r
}

// reports checks that the errors and notes have each text. Lines may be broken.
func (r result) reports(wants ...string) result {
	check.Contains(r.t, fmt.Sprintf("errors of %q", r.args), withJoinedLines(r.errOut), wants...)
	return r
}

// lacks checks that output, errors and notes have none of some texts. Lines may be broken.
func (r result) lacks(unwanted ...string) result {
	check.Text(r.t, fmt.Sprintf("output and errors of %q", r.args), withJoinedLines(r.out)+withJoinedLines(r.errOut)).Lacks(unwanted...)
	return r
}

// says checks that output, errors and notes together have each text. Lines may be broken.
func (r result) says(wants ...string) result {
	check.Contains(r.t, fmt.Sprintf("output and errors of %q", r.args), withJoinedLines(r.out+r.errOut), wants...)
	return r
}

// oneLine returns the output with its words in one line.
func (r result) oneLine() string { return strings.Join(strings.Fields(r.out), " ") }

// printsNothing checks that there is no output.
func (r result) printsNothing() result {
	check.Equal(r.t, fmt.Sprintf("output of %q", r.args), "", r.out)
	return r
}

// reportsNothing checks that there are no errors and notes.
func (r result) reportsNothing() result {
	check.Equal(r.t, fmt.Sprintf("errors of %q", r.args), "", r.errOut)
	return r
}

// fitsTerminal checks that no line is longer than a terminal.
func (r result) fitsTerminal() result {
	checkColumns(r.t, r.out+r.errOut)
	return r
}

// matchesGolden checks that the output is that of a golden file.
func (r result) matchesGolden(name string) result {
	compareGolden(r.t, name, r.out)
	return r
}

// withJoinedLines returns a text, and once more with its words in one line.
func withJoinedLines(text string) string {
	return text + "\n" + strings.Join(strings.Fields(text), " ")
}

// mayReadAll refuses no request.
var mayReadAll = interceptor.Funcs{}

// execute runs "kubectl cardquota COMMAND ARGS" against a cluster with some objects. intercept may refuse requests.
// Words of the command are separated by spaces, an argument may have some.
func execute(t *testing.T, objects []client.Object, intercept interceptor.Funcs, command string, args ...string) result {
	cluster := newCluster(t, objects, intercept)
	return runProgram(t.Context(), t, func(p *program) {
		p.simulate = simulator.Run
		p.connect = func() (client.WithWatch, error) { return cluster, nil }
		p.now = func() time.Time { return at }
		p.isTerminal = func(io.Writer) bool { return false }
	}, append(strings.Fields(command), args...)...)
}

// newCluster is an API server with some objects. Its user may change everything, unless intercept says otherwise.
func newCluster(t *testing.T, objects []client.Object, intercept interceptor.Funcs) client.WithWatch {
	scheme := check.Value(newScheme())(t)
	if intercept.Create == nil {
		intercept.Create = grant(func(authorizationv1.ResourceAttributes) bool { return true })
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(intercept).WithReturnManagedFields().Build()
}

// runProgram runs a command of a program that was set up.
func runProgram(ctx context.Context, t *testing.T, setUp func(*program), args ...string) result {
	var out, errOut bytes.Buffer
	p := newProgram(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	setUp(p)
	code := p.execute(ctx, args)
	return result{t, args, out.String(), errOut.String(), code}
}

// streams are those of a command whose output does not matter.
func streams() genericiooptions.IOStreams { return genericiooptions.NewTestIOStreamsDiscard() }

// compareGolden compares an output with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	path := filepath.Join("testdata", name+".golden")
	if *update {
		check.NoError(t, os.MkdirAll("testdata", 0o750))
		check.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	check.Equal(t, name, string(check.Value(os.ReadFile(path))(t)), got)
}

// grant answers reviews of what the user may. It refuses to create anything else.
func grant(may func(authorizationv1.ResourceAttributes) bool) func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
	return func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		review, ok := object.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return statusText("a command writes")
		}
		review.Status.Allowed = may(*review.Spec.ResourceAttributes)
		return nil
	}
}

// forbid refuses all reads of a resource, as the API server does.
func forbid(resource schema.GroupResource, ofList client.ObjectList) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if sameKind(c, list, ofList) {
			return forbidden("list", resource)
		}
		return c.List(ctx, list, options...)
	}}
}

// forbidGet refuses to read objects of a resource by their name, or only those of some names.
func forbidGet[Object client.Object](resource schema.GroupResource, names ...string) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, ok := object.(Object); ok && (len(names) == 0 || slices.Contains(names, key.Name)) {
			return forbidden("get", resource)
		}
		return c.Get(ctx, key, object, options...)
	}}
}

// forbidCluster refuses all reads of objects without a namespace, and of those of other namespaces: the
// rights of a RoleBinding.
func forbidCluster(namespace string) interceptor.Funcs {
	refuse := func(verb string, kind schema.GroupVersionKind, asked string, err error) error {
		if err == nil && asked != namespace {
			err = forbidden(verb, schema.GroupResource{Group: kind.Group, Resource: strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(kind.Kind, "List"))+"s", "ys", "ies")})
		}
		return err
	}

	return interceptor.Funcs{
		Create: grant(func(authorizationv1.ResourceAttributes) bool { return false }),
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options).Namespace
			kind, err := c.GroupVersionKindFor(list)
			if err := refuse("list", kind, asked, err); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			kind, err := c.GroupVersionKindFor(object)
			if err := refuse("get", kind, key.Namespace, err); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
	}
}

func forbidden(verb string, resource schema.GroupResource) error {
	text := `User "tina" cannot ` + verb + ` resource "` + resource.Resource + `" in API group "` + resource.Group + `" at the cluster scope`
	return apierrors.NewForbidden(resource, "", statusText(text))
}

// statusText is an error of the API server's authorizer.
type statusText string

func (s statusText) Error() string { return string(s) }

// notInstalled answers all lists of a kind as a cluster does that does not have it.
func notInstalled(ofList client.ObjectList) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if !sameKind(c, list, ofList) {
			return c.List(ctx, list, options...)
		}
		kind, err := c.GroupVersionKindFor(ofList)
		if err != nil {
			return err
		}
		kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
		return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}}
}

func sameKind(c client.Client, a, b client.ObjectList) bool {
	left, err := c.GroupVersionKindFor(a)
	right, otherErr := c.GroupVersionKindFor(b)
	return err == nil && otherErr == nil && left == right
}

var (
	cardQuotas = schema.GroupResource{Group: "cardquota.dev", Resource: "cardquotas"}
	leases     = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)

// cardQuotaIn returns the CardQuota of a name, one of the objects, to be changed.
func cardQuotaIn(objects []client.Object, name string) *v1alpha1.CardQuota {
	at := slices.IndexFunc(objects, func(object client.Object) bool {
		_, isQuota := object.(*v1alpha1.CardQuota)
		return isQuota && object.GetName() == name
	})
	return objects[at].(*v1alpha1.CardQuota)
}

func timeAgo(d time.Duration) metav1.Time { return metav1.NewTime(at.Add(-d)) }
