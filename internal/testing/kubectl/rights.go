package kubectl

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// MayReadAll refuses no request.
var MayReadAll = interceptor.Funcs{}

// Grant answers reviews of what the user may. It refuses to create anything else.
func Grant(may func(authorizationv1.ResourceAttributes) bool) func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
	return func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		review, ok := object.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return StatusText("a command writes")
		}
		review.Status.Allowed = may(*review.Spec.ResourceAttributes)
		return nil
	}
}

// Forbid refuses all reads of a resource, as the API server does.
func Forbid(resource schema.GroupResource, ofList client.ObjectList) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if SameKind(c, list, ofList) {
			return Forbidden("list", resource)
		}
		return c.List(ctx, list, options...)
	}}
}

// ForbidGet refuses to read objects of a resource by their name, or only those of some names.
func ForbidGet[Object client.Object](resource schema.GroupResource, names ...string) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, ok := object.(Object); ok && (len(names) == 0 || slices.Contains(names, key.Name)) {
			return Forbidden("get", resource)
		}
		return c.Get(ctx, key, object, options...)
	}}
}

// ForbidCluster refuses all reads of objects without a namespace, and of those of other namespaces: the
// rights of a RoleBinding.
func ForbidCluster(namespace string) interceptor.Funcs {
	refuse := func(verb string, kind schema.GroupVersionKind, asked string, err error) error {
		if err == nil && asked != namespace {
			err = Forbidden(verb, schema.GroupResource{Group: kind.Group, Resource: strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(kind.Kind, "List"))+"s", "ys", "ies")})
		}
		return err
	}

	return interceptor.Funcs{
		Create: Grant(func(authorizationv1.ResourceAttributes) bool { return false }),
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

// Forbidden is the refusal of a verb on a resource.
func Forbidden(verb string, resource schema.GroupResource) error {
	text := `User "tina" cannot ` + verb + ` resource "` + resource.Resource + `" in API group "` + resource.Group + `" at the cluster scope`
	return apierrors.NewForbidden(resource, "", StatusText(text))
}

// StatusText is an error of the API server's authorizer.
type StatusText string

// Error returns the text.
func (s StatusText) Error() string { return string(s) }

// WithoutKinds answers all reads of the kinds of some API groups as a cluster does that does not have them, and other
// reads as before does.
func WithoutKinds(before interceptor.Funcs, groups ...string) interceptor.Funcs {
	refuse := func(kind schema.GroupVersionKind, err error) error {
		if err == nil && slices.Contains(groups, kind.Group) {
			kind.Kind = strings.TrimSuffix(kind.Kind, "List")
			err = &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
		}
		return err
	}

	after := before
	after.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if err := refuse(c.GroupVersionKindFor(list)); err != nil {
			return err
		}
		if before.List != nil {
			return before.List(ctx, c, list, options...)
		}
		return c.List(ctx, list, options...)
	}

	after.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if err := refuse(c.GroupVersionKindFor(object)); err != nil {
			return err
		}
		if before.Get != nil {
			return before.Get(ctx, c, key, object, options...)
		}
		return c.Get(ctx, key, object, options...)
	}
	return after
}

// Nothing is a cluster with the kinds of Kubernetes alone, for a user who may read all that is there.
var Nothing = WithoutKinds(MayReadAll, OurGroup, VolcanoGroup)

// The API groups of Cardquota, and the one of Volcano's Queues and PodGroups.
const (
	OurGroup     = "cardquota.dev"
	VolcanoGroup = "scheduling.volcano.sh"
)

// NotInstalled answers all lists of a kind as a cluster does that does not have it.
func NotInstalled(ofList client.ObjectList) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if !SameKind(c, list, ofList) {
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

// SameKind reports whether two lists are of one kind.
func SameKind(c client.Client, a, b client.ObjectList) bool {
	left, err := c.GroupVersionKindFor(a)
	right, otherErr := c.GroupVersionKindFor(b)
	return err == nil && otherErr == nil && left == right
}

// Resources that tests forbid to read.
var (
	CardQuotas = schema.GroupResource{Group: "cardquota.dev", Resource: "cardquotas"}
	Leases     = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)
