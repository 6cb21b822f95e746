// Package volcanokinds lets the operator run on a cluster without Volcano. It asks the API server at the start which of
// Volcano's kinds it serves. For the others the cache and the reader of this package answer as if there were no object,
// so that the controllers and webhooks need no case of their own. When other kinds are served, the operator starts again.
package volcanokinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/build"
)

// lookTimeout bounds one question to the API server, which the client repeats meanwhile.
const lookTimeout = 30 * time.Second

// resources are the resources of the kinds of Volcano that the operator reads, by kind.
var resources = map[string]string{"PodGroup": "podgroups", "Queue": "queues"}

// Kinds knows which of Volcano's kinds the API server served at the start.
type Kinds struct {
	// server reads what the API server serves. Watch does so once in an interval.
	server   rest.Interface
	interval time.Duration
	// missing are the kinds that it did not serve, sorted.
	missing []string
}

// LookUp asks the API server which of Volcano's kinds it serves. The error says that it did not answer.
func LookUp(ctx context.Context, config *rest.Config) (*Kinds, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	k := &Kinds{server: client.RESTClient(), interval: build.Wait(10 * time.Second)}
	k.missing, err = k.findMissing(ctx)
	return k, err
}

// Missing returns the kinds that the API server did not serve at the start, sorted.
func (k *Kinds) Missing() []string { return k.missing }

// findMissing returns the kinds that the API server does not serve now, sorted.
func (k *Kinds) findMissing(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	// The question is about this group only: one about all groups fails when any other API cannot be reached.
	served := &metav1.APIResourceList{}
	err := k.server.Get().AbsPath("apis", v1beta1.SchemeGroupVersion.Group, v1beta1.SchemeGroupVersion.Version).Do(ctx).Into(served)
	if err != nil && !apierrors.IsNotFound(err) { // an API server that does not answer may serve everything
		return nil, fmt.Errorf("look up Volcano's kinds: %w", err)
	}

	var missing []string
	for kind, resource := range resources {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			missing = append(missing, kind)
		}
	}

	slices.Sort(missing)
	return missing, nil
}

// Watch waits until the API server serves other kinds than at the start, and then calls changed. It returns earlier, without
// a call, when ctx ends. An API server that does not answer has changed nothing.
func (k *Kinds) Watch(ctx context.Context, changed func()) {
	log := ctrl.Log.WithName("volcanokinds")

	err := wait.PollUntilContextCancel(ctx, k.interval, false, func(ctx context.Context) (bool, error) {
		now, err := k.findMissing(ctx)
		switch {
		case err != nil:
			log.Error(err, "the API server does not say whether it has Volcano's kinds")
		case !slices.Equal(now, k.missing):
			log.Info("the API server serves other kinds of Volcano than before: the operator starts again", "missing before", k.missing, "missing", now)
			return true, nil
		}
		return false, nil
	})

	if err == nil {
		changed()
	}
}

// findMissingKind returns the kind of an object or list, and whether the API server does not serve it.
func (k *Kinds) findMissingKind(object runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, bool) {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return kind, false // the cache and the client report that
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, k.isMissing(kind)
}

func (k *Kinds) isMissing(kind schema.GroupVersionKind) bool {
	return kind.GroupVersion() == v1beta1.SchemeGroupVersion && slices.Contains(k.missing, kind.Kind)
}

// newNotFound returns the error of an object that does not exist, since its kind does not.
func newNotFound(kind schema.GroupVersionKind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: resources[kind.Kind]}, name)
}
