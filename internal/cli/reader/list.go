package reader

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/strip"
)

// List calls take for each object of a kind. The objects come in pages and without what no command
// reads, so that a list of any length takes neither the API server nor this program much memory. The
// API server keeps the state of the first page for some minutes. If that is too short for all pages,
// the pager lists everything again without pages. kind is an empty list of the kind, and stays empty.
func List[T runtime.Object](ctx context.Context, c client.Client, kind client.ObjectList, take func(T), options ...client.ListOption) error {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := newList(kind)
		paged := client.ListOptions{Limit: page.Limit, Continue: page.Continue}
		if err := c.List(ctx, list, append(options, &paged)...); err != nil {
			return nil, err
		}
		return list, meta.EachListItem(list, dropUnread)
	})

	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	return meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(T); ok {
			take(object)
		}
		return nil
	})
}

// newList returns another empty list of a kind.
func newList(kind client.ObjectList) client.ObjectList {
	return kind.DeepCopyObject().(client.ObjectList)
}

// ListInto appends all objects of a kind, and reports whether the user may read them. After an error it is
// false, and nothing is appended. kind is an empty list of the kind.
func ListInto[T client.Object](ctx context.Context, r *Reader, kind client.ObjectList, into *[]T, options ...client.ListOption) (mayRead bool) {
	mayRead, _ = ListVisible(ctx, r, kind, into, "", options...)
	return mayRead
}

// ListVisible does what ListInto does. A user who may not list all objects gets those of a namespace, unless that is "".
// isPart reports it, and a gap says so.
func ListVisible[T client.Object](ctx context.Context, r *Reader, kind client.ObjectList, into *[]T, namespace string, options ...client.ListOption) (mayRead, isPart bool) {
	if r.err != nil {
		return false, false
	}

	// After an error nothing was appended.
	take := func(object T) { *into = append(*into, object) }
	refusal := List(ctx, r.Client, kind, take, options...)
	if !IsForbidden(refusal) || namespace == "" {
		return r.Record(refusal), false
	}
	if err := List(ctx, r.Client, kind, take, append(options, client.InNamespace(namespace))...); err != nil {
		return r.Record(refusal), false
	}

	r.HasRead = true
	r.Gaps = append(r.Gaps, fmt.Sprintf("%s, so only those of namespace %s count", Explain(refusal), namespace))
	return true, true
}

// ListServed appends all objects of a kind, in the version that the API server prefers. It reports whether the cluster
// has the kind, and whether the user may read all.
func ListServed(ctx context.Context, r *Reader, kind schema.GroupKind, into *[]*unstructured.Unstructured) (isServed, mayRead bool) {
	if r.err != nil {
		return false, false
	}
	mapping, err := r.Client.RESTMapper().RESTMapping(kind)
	if err != nil {
		r.Record(err)
		return !r.IgnoreMissingKind(), false
	}

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
	return true, ListInto(ctx, r, list, into)
}

// dropUnread drops what is not read of an object, and bounds what is kept of objects that tenants write.
func dropUnread(object runtime.Object) error {
	switch kept := object.(type) {
	case *corev1.Pod:
		strip.ListedPod(kept)
	case *v1beta1.PodGroup:
		strip.ListedPodGroup(kept)
	default:
		accessor, err := meta.Accessor(object)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		accessor.SetManagedFields(nil)
	}

	return nil
}
