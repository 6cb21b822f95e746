package security

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"cardquota.dev/operator/internal/testing/check"
)

// permission is a verb on a resource: group/resource[/subresource], in a namespace, of a name.
type permission struct {
	verb, group, resource, subresource, namespace, name string
}

// hasNoRequest reports whether no request has this verb. Some requests need it in addition to their own verb.
func (r permission) hasNoRequest() bool { return r.verb == "escalate" || r.verb == "bind" }

func (r permission) String() string {
	what := r.resource
	if r.subresource != "" {
		what += "/" + r.subresource
	}
	return fmt.Sprintf("%s %s.%s %s/%s", r.verb, what, r.group, r.namespace, r.name)
}

// parsePermissions parses permissions, one or more per line: verbs, resources as
// resource.group/subresource, and namespace/name, of which either may be empty.
func parsePermissions(text string) []permission {
	var read []permission
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		namespace, name, _ := strings.Cut(words[2], "/")
		for _, verb := range strings.Split(words[0], ",") {
			for _, resource := range strings.Split(words[1], ",") {
				resource, subresource, _ := strings.Cut(resource, "/")
				resource, group, _ := strings.Cut(resource, ".")
				read = append(read, permission{verb, group, resource, subresource, namespace, name})
			}
		}
	}

	return read
}

// versions are the API versions of groups whose version is not v1.
var versions = map[string]string{"batch.volcano.sh": "v1alpha1", "scheduling.volcano.sh": "v1beta1", "cardquota.dev": "v1alpha1"}

// dryRun sends the request of a permission as a dry run. Its body is no valid object: an
// authorised caller gets that answer, and nothing happens.
func (r permission) dryRun(ctx context.Context, client dynamic.Interface) (err error) {
	kind := schema.GroupVersionResource{Group: r.group, Version: cmp.Or(versions[r.group], "v1"), Resource: r.resource}
	objects := client.Resource(kind).Namespace(r.namespace)
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Nothing"}}
	object.SetName(r.name)

	var subresources []string
	if r.subresource != "" {
		subresources = []string{r.subresource}
	}

	dry := []string{metav1.DryRunAll}
	switch {
	case r.verb == "get":
		_, err = objects.Get(ctx, r.name, metav1.GetOptions{}, subresources...)
	case r.verb == "list":
		_, err = objects.List(ctx, metav1.ListOptions{})
	case r.verb == "create" && r.name != "" && r.subresource == "": // of a name only by apply
		_, err = objects.Patch(ctx, r.name, types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{DryRun: dry, FieldManager: "probe"})
	case r.verb == "create":
		_, err = objects.Create(ctx, object, metav1.CreateOptions{DryRun: dry}, subresources...)
	case r.verb == "update":
		_, err = objects.Update(ctx, object, metav1.UpdateOptions{DryRun: dry}, subresources...)
	case r.verb == "patch":
		_, err = objects.Patch(ctx, r.name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: dry}, subresources...)
	case r.verb == "delete":
		err = objects.Delete(ctx, r.name, metav1.DeleteOptions{DryRun: dry}, subresources...)
	default:
		err = fmt.Errorf("no call tries %s", r)
	}

	return err
}

// caller calls the API server as an account, by its token, or as a user.
type caller struct {
	user   string
	groups []string
	config *rest.Config
}

func newCaller(t *testing.T, namespace, account string) *caller {
	kubeconfig := check.Value(suite.cluster.KubeconfigFor(t.Context(), namespace, account))(t)
	config := check.Value(clientcmd.BuildConfigFromFlags("", kubeconfig))(t)
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	return &caller{"system:serviceaccount:" + namespace + ":" + account, groups, config}
}

func newUser(user string, groups ...string) *caller {
	config := suite.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return &caller{user, config.Impersonate.Groups, config}
}

// expectAllowed expects that the caller has all permissions.
func (c *caller) expectAllowed(t *testing.T, rights []permission) {
	for _, r := range rights {
		newGomega(t).Eventually(func() bool { return c.isAllowed(t, r) }).Should(BeTrue(), "%s may not %s", c.user, r)
	}
}

// expectDenied expects that the caller has none of the permissions. The API server forgets the
// grants of an earlier test within moments.
func (c *caller) expectDenied(t *testing.T, rights []permission) {
	for _, r := range rights {
		newGomega(t).Eventually(func() bool { return c.isAllowed(t, r) }).Should(BeFalse(), "%s may %s", c.user, r)
	}
}

// isAllowed reports whether the API server allows a permission. It tries the request, except
// for two verbs without a request, for which it asks for a review.
func (c *caller) isAllowed(t *testing.T, r permission) bool {
	config := rest.CopyConfig(c.config)
	verb := r.verb

	config.QPS = -1
	switch {
	case r.hasNoRequest():
		return c.accessReview(t, r)
	case r.verb == "impersonate" && r.resource == "serviceaccounts":
		config.Impersonate.UserName = "system:serviceaccount:" + r.namespace + ":" + r.name
		r = permission{verb: "get", resource: "namespaces", name: "default"}
	case r.verb == "impersonate":
		config.Impersonate.UserName = r.name
		r = permission{verb: "get", resource: "namespaces", name: "default"}
	case r.verb == "create" && r.name != "" && r.subresource == "":
		verb = "patch" // as RBAC calls an apply
	}

	err := r.dryRun(t.Context(), check.Value(dynamic.NewForConfig(config))(t))
	if err == nil {
		return true
	}

	var answer apierrors.APIStatus
	check.Must(t, errors.As(err, &answer) && !apierrors.IsUnauthorized(err) && !strings.Contains(err.Error(), "could not find the requested resource"), "%s: %s: nothing was tried: %v", c.user, r, err)

	return !isRefusal(err, verb)
}

// isRefusal reports whether an error says that RBAC refuses a verb. Every other error comes after that check.
func isRefusal(err error, verb string) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot "+verb+" ")
}

// accessReview asks the API server for RBAC's decision.
func (c *caller) accessReview(t *testing.T, r permission) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: c.user, Groups: c.groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
		},
	}}
	check.NoError(t, suite.admin.Create(t.Context(), review))
	return review.Status.Allowed
}
