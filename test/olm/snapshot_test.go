package olm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"cardquota.dev/operator/test/cluster"
)

// clusterSnapshot has every object of a cluster as users and programs wrote it, by resource,
// namespace and name. Two snapshots are equal when nothing installed in between is left, and
// nothing else is lost or changed.
type clusterSnapshot map[string]map[string]any

// transientResources are resources whose objects are created and deleted without an administrator: events, leases, and the
// current objects of Deployments and Services.
var transientResources = map[string]bool{
	"events": true, "leases": true, "pods": true, "replicasets": true, "endpoints": true, "endpointslices": true,
	"componentstatuses": true, "podgroups": true,
}

// takeSnapshot lists everything that the API server serves.
func takeSnapshot(ctx context.Context, c *cluster.Cluster) (clusterSnapshot, error) {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}

	lists, err := discovery.ServerPreferredResources(c.Client().Discovery())
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}

	all := clusterSnapshot{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}

		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || transientResources[resource.Name] {
				continue
			}

			kind := group.WithResource(resource.Name)
			objects, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // its definition was just deleted
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind, err)
			}

			for _, object := range objects.Items {
				name := strings.Trim(object.GetNamespace()+"/"+object.GetName(), "/")
				all[kind.GroupResource().String()+" "+name] = withoutServerFields(object)
			}
		}
	}

	return all, nil
}

// withoutServerFields returns an object without the fields that the API server and controllers write.
func withoutServerFields(object unstructured.Unstructured) map[string]any {
	content := object.DeepCopy().Object
	delete(content, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(content, "metadata", field)
	}
	return content
}

// withoutPrefixes omits the objects whose key starts with one of the prefixes.
func (p clusterSnapshot) withoutPrefixes(prefixes ...string) clusterSnapshot {
	left := maps.Clone(p)
	maps.DeleteFunc(left, func(key string, _ map[string]any) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return left
}

// diff returns what a later snapshot has added, removed and changed.
func (p clusterSnapshot) diff(later clusterSnapshot) error {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(later)) {
		if before, ok := p[key]; !ok {
			list = append(list, "left behind: "+key)
		} else if diff := cmp.Diff(before, later[key]); diff != "" {
			list = append(list, "changed: "+key+"\n"+diff)
		}
	}

	for _, key := range slices.Sorted(maps.Keys(p)) {
		if _, ok := later[key]; !ok {
			list = append(list, "lost: "+key)
		}
	}

	if len(list) == 0 {
		return nil
	}

	return fmt.Errorf("%d differences:\n%s", len(list), strings.Join(list, "\n"))
}
