package cli

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listAll calls take for each object of a kind. The objects come in pages and without what no command
// reads, so that a list of any length takes neither the API server nor this program much memory. The
// API server keeps the state of the first page for some minutes. If that is too short for all pages,
// the pager lists everything again without pages. newList returns an empty list.
func listAll[T runtime.Object](ctx context.Context, c client.Client, newList func() client.ObjectList, take func(T), options ...client.ListOption) error {
	var kept keptPods
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := newList()
		paged := client.ListOptions{Limit: page.Limit, Continue: page.Continue}
		if err := c.List(ctx, list, append(options, &paged)...); err != nil {
			return nil, err
		}
		return list, meta.EachListItem(list, kept.dropUnread)
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
