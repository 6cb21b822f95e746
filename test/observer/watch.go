package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// kind is a watched kind.
type kind struct {
	gvk  schema.GroupVersionKind
	list func() client.ObjectList
}

// kinds are the watched kinds. Pods are listed first, and the others at the revision of that
// list.
var kinds = []kind{
	{corev1.SchemeGroupVersion.WithKind("Pod"), func() client.ObjectList { return &corev1.PodList{} }},
	{corev1.SchemeGroupVersion.WithKind("Namespace"), func() client.ObjectList { return &corev1.NamespaceList{} }},
	{corev1.SchemeGroupVersion.WithKind("Node"), func() client.ObjectList { return &corev1.NodeList{} }},
	{v1beta1.SchemeGroupVersion.WithKind("PodGroup"), func() client.ObjectList { return &v1beta1.PodGroupList{} }},
	{v1beta1.SchemeGroupVersion.WithKind("Queue"), func() client.ObjectList { return &v1beta1.QueueList{} }},
	{v1alpha1.GroupVersion.WithKind("CardQuota"), func() client.ObjectList { return &v1alpha1.CardQuotaList{} }},
	{v1alpha1.GroupVersion.WithKind(viewKind), func() client.ObjectList { return &v1alpha1.LocalCardQuotaList{} }},
	{v1alpha1.GroupVersion.WithKind(inventoryKind), func() client.ObjectList { return &v1alpha1.CardInventoryList{} }},
	{schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), func() client.ObjectList { return &schedulingv1.PriorityClassList{} }},
}

// servedKinds returns the watched kinds that the cluster serves. An earlier version has no
// LocalCardQuotas and no CardInventory.
func servedKinds(mapper meta.RESTMapper) ([]kind, error) {
	var served []kind
	for _, k := range kinds {
		_, err := mapper.RESTMapping(k.gvk.GroupKind(), k.gvk.Version)
		switch {
		case err == nil:
			served = append(served, k)
		case !meta.IsNoMatchError(err) || (k.gvk.Kind != viewKind && k.gvk.Kind != inventoryKind):
			return nil, fmt.Errorf("observer: %w", err)
		}
	}
	return served, nil
}

// Kinds that an earlier version does not serve: the views of CardQuotas in namespaces, and the cards
// of all nodes.
const (
	viewKind      = "LocalCardQuota"
	inventoryKind = "CardInventory"
)

// isServed reports whether the cluster serves a kind.
func isServed(served []kind, name string) bool {
	return slices.ContainsFunc(served, func(k kind) bool { return k.gvk.Kind == name })
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, schedulingv1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("observer: %w", err)
		}
	}
	return scheme, nil
}

// listAll lists all kinds at one revision, so that the objects are consistent.
func (o *Observer) listAll(ctx context.Context) (objects []client.Object, pictures []listing, err error) {
	options := &metav1.ListOptions{}
	for _, k := range o.kinds {
		list := k.list()
		if err := o.client.List(ctx, list, &client.ListOptions{Raw: options}); err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", k.gvk.Kind, err)
		}

		p, err := listingOf(list)
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", k.gvk.Kind, err)
		}

		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", k.gvk.Kind, err)
		}

		for _, item := range items {
			objects = append(objects, item.(client.Object))
		}

		pictures = append(pictures, p)
		options = &metav1.ListOptions{
			ResourceVersion:      strconv.FormatInt(pictures[0].revision, 10),
			ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		}
	}

	return objects, pictures, nil
}

// listMetadata lists the metadata of a kind, and never from a stale cache.
func (o *Observer) listMetadata(ctx context.Context, k kind) (listing, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List"))
	if err := o.client.List(ctx, list); err != nil {
		return listing{}, fmt.Errorf("list %s: %w", k.gvk.Kind, err)
	}
	return listingOf(list)
}

func listingOf(list client.ObjectList) (listing, error) {
	revision, err := strconv.ParseInt(list.GetResourceVersion(), 10, 64)
	if err != nil {
		return listing{}, fmt.Errorf("resourceVersion of the list: %w", err)
	}

	p := listing{revision: revision, objects: map[types.UID]int64{}}
	return p, meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(metav1.Object)
		revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
		if err != nil {
			return fmt.Errorf("resourceVersion of %s: %w", object.GetName(), err)
		}
		p.objects[object.GetUID()] = revision
		return nil
	})
}

// watchKind watches one kind and resumes where a watch ended. When changes were lost, it
// reports that and stops.
func (o *Observer) watchKind(ctx context.Context, i int) {
	for ctx.Err() == nil {
		err := o.watchOnce(ctx, i)
		if ctx.Err() != nil {
			return
		}

		if errors.Is(err, errLost) && !o.resumeWatch(ctx, i) {
			o.reportBlindness(fmt.Sprintf("watch of %s: %v", o.kinds[i].gvk.Kind, err))
			return
		}
		if err != nil { // the API server is away: for too long is noticed by the looks
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// errLost reports that the API server no longer has the changes after the last one.
var errLost = errors.New("changes were lost")

// resumeWatch continues from a fresh list when that shows nothing new. An API server that
// serves a kind for the first time has no older revisions to watch from, even if nothing
// changed. Of a kind whose history no rule reads it also continues when objects are new or changed.
func (o *Observer) resumeWatch(ctx context.Context, i int) bool {
	list := o.kinds[i].list()
	if err := o.client.List(ctx, list); err != nil {
		return false
	}

	now, err := listingOf(list)
	if err != nil {
		return false
	}

	items, err := meta.ExtractList(list)
	if err != nil {
		return false
	}

	revisionOf := func(item runtime.Object) int64 { return now.objects[item.(client.Object).GetUID()] }
	slices.SortFunc(items, func(a, b runtime.Object) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	o.mu.Lock()
	defer o.mu.Unlock()

	s := o.streams[i]
	for uid := range s.latest {
		if _, exists := now.objects[uid]; !exists {
			return false
		}
	}

	if !maps.Equal(s.latest, now.objects) && !isReport(o.kinds[i].gvk.Kind) {
		return false
	}

	for _, item := range items {
		object := item.(client.Object)
		if revision := revisionOf(item); revision > s.latest[object.GetUID()] {
			s.addChange(change{revision: revision, seen: time.Now(), object: object})
		}
	}

	s.reached = max(s.reached, now.revision)
	o.arrived.Broadcast()
	return true
}

// isReport reports whether rules read only the present state of a kind: the operator writes its
// objects for users, and no program acts on them.
func isReport(kind string) bool { return kind == viewKind || kind == inventoryKind }

func (o *Observer) watchOnce(ctx context.Context, i int) error {
	o.mu.Lock()
	reached := o.streams[i].reached
	o.mu.Unlock()
	w, err := o.client.Watch(ctx, o.kinds[i].list(), &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: strconv.FormatInt(reached, 10), AllowWatchBookmarks: true,
	}})
	if err != nil {
		return err
	}
	defer w.Stop()

	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("%w: %v", errLost, event.Object)
		}
		object, ok := event.Object.(client.Object)
		if !ok {
			return fmt.Errorf("%w: %T is no object", errLost, event.Object)
		}

		revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: resourceVersion: %w", errLost, err)
		}

		o.mu.Lock()
		if event.Type == watch.Bookmark {
			o.streams[i].reached = max(o.streams[i].reached, revision)
		} else {
			object.SetManagedFields(nil)
			c := change{revision: revision, deleted: event.Type == watch.Deleted, seen: time.Now(), object: object}
			if o.streams[i].addChange(c) && c.needsOrder() {
				o.state.addViolation(Sight, c.seen, "observer", "a change of %s %s (revision %d) came more than %s after it was judged what had happened until then",
					o.kinds[i].gvk.Kind, client.ObjectKeyFromObject(object), revision, lateChangeDelay)
			}
		}

		o.arrived.Broadcast()
		o.mu.Unlock()
	}

	return nil
}
