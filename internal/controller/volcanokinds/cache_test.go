package volcanokinds

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func newScheme(t *testing.T) *runtime.Scheme {
	return builder.Scheme(t, corev1.AddToScheme, v1beta1.AddToScheme)
}

// newMapper returns a mapper of the kinds of a cluster: namespaces, and some of Volcano's.
func newMapper(volcanos ...string) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	for _, kind := range volcanos {
		mapper.Add(v1beta1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return mapper
}

// servedKinds is a cache of the kinds that are served. It runs until its context ends.
type servedKinds struct{ *informertest.FakeInformers }

// Start implements cache.Cache.
func (servedKinds) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// startCache starts a cache whose kind Queue is missing, over one that has all other kinds. It ends with the test.
func startCache(t *testing.T) cache.Cache {
	c := check.Value((&Kinds{missing: []string{"Queue"}}).wrapCache(servedKinds{&informertest.FakeInformers{Scheme: newScheme(t)}}, newScheme(t)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()

	t.Cleanup(func() {
		cancel()
		check.NoError(t, <-ended)
	})
	return c
}

// TestAMissingKindHasNoObjects: Queue is missing. A read of a Queue says that it does not exist, and a list of Queues is empty,
// also a list of their metadata, or by an index. All this is the same for the controllers as on a cluster with Volcano
// and without Queues.
func TestAMissingKindHasNoObjects(t *testing.T) {
	c := startCache(t)
	err := c.Get(t.Context(), client.ObjectKey{Name: "lab"}, &v1beta1.Queue{})
	check.That(t, apierrors.IsNotFound(err), "the read of a Queue says: %v", err)
	check.Says(t, err, `queues.scheduling.volcano.sh "lab" not found`)

	check.NoError(t, c.IndexField(t.Context(), &v1beta1.Queue{}, "parent", func(client.Object) []string { return nil }))
	queues := &v1beta1.QueueList{Items: []v1beta1.Queue{{}}}
	check.NoError(t, c.List(t.Context(), queues, client.MatchingFields{"parent": "root"}))
	check.Equal(t, "Queues", 0, len(queues.Items))

	metadata := &metav1.PartialObjectMetadataList{}
	metadata.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("QueueList"))
	check.NoError(t, c.List(t.Context(), metadata))
	check.NoError(t, c.RemoveInformer(t.Context(), &v1beta1.Queue{}))
}

// TestTheInformerOfAMissingKindIsComplete: the counts of the operator wait until the informer of Queues has all of them, and
// then read its store. It is complete at once, with lists as well as with streams, which the operator uses, and has no
// object. It is the same informer for a kind as for an object.
func TestTheInformerOfAMissingKindIsComplete(t *testing.T) {
	for name, isStream := range map[string]bool{"lists": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			featuretesting.SetFeatureDuringTest(t, features.WatchListClient, isStream)
			c := startCache(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()

			informer := check.Value(c.GetInformer(ctx, &v1beta1.Queue{}))(t)
			handler := check.Value(informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { t.Error("a Queue was added") }}))(t)
			check.That(t, toolscache.WaitForCacheSync(ctx.Done(), handler.HasSynced), "the handler never gets all Queues")
			check.That(t, c.WaitForCacheSync(ctx), "the cache is never complete")

			shared, isShared := informer.(toolscache.SharedIndexInformer)
			check.Must(t, isShared, "the informer is %T", informer)
			check.Equal(t, "Queues in the store", 0, len(shared.GetStore().List()))
			byKind := check.Value(c.GetInformerForKind(ctx, v1beta1.SchemeGroupVersion.WithKind("Queue")))(t)
			check.That(t, byKind == informer, "a kind has another informer than its objects")
		})
	}
}

// TestOtherKindsComeFromTheCacheBelow: Queue is missing and PodGroup is not, so the informers of PodGroups and of other kinds are
// those of the cache of the kinds that are served.
func TestOtherKindsComeFromTheCacheBelow(t *testing.T) {
	below := &informertest.FakeInformers{Scheme: newScheme(t)}
	c := check.Value((&Kinds{missing: []string{"Queue"}}).wrapCache(below, newScheme(t)))(t)
	for _, object := range []client.Object{&v1beta1.PodGroup{}, &corev1.Namespace{}} {
		want := check.Value(below.GetInformer(t.Context(), object))(t)
		check.That(t, check.Value(c.GetInformer(t.Context(), object))(t) == want, "another informer of %T", object)
		check.NoError(t, c.RemoveInformer(t.Context(), object))
	}
}

// TestOptionsOfAMissingKindAreLeftOut: the operator strips PodGroups in its cache. controller-runtime makes no cache with
// an option for a kind that the API server does not serve. The options of the caller stay as they are.
func TestOptionsOfAMissingKindAreLeftOut(t *testing.T) {
	config := &rest.Config{Host: "127.0.0.1:1"}
	options := cache.Options{Scheme: newScheme(t), Mapper: newMapper(), ByObject: map[client.Object]cache.ByObject{&v1beta1.PodGroup{}: {}, &corev1.Namespace{}: {}}}
	_, err := (&Kinds{}).NewCache(config, options)
	check.That(t, meta.IsNoMatchError(err), "with a kind that is not known to be missing: %v", err)

	check.Value((&Kinds{missing: []string{"PodGroup"}}).NewCache(config, options))(t)
	check.Equal(t, "options of the caller", 2, len(options.ByObject))

	options.Mapper = newMapper("PodGroup")
	_, isWrapped := check.Value((&Kinds{}).NewCache(config, options))(t).(*cacheWithoutMissing)
	check.That(t, !isWrapped, "the cache is another one although no kind is missing")
}
