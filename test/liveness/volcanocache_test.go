package liveness

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/session"
)

// schedulerCache is Volcano's cache with its clients. A cache cannot be stopped, so all
// sequences share one.
type schedulerCache struct {
	cache *cache.SchedulerCache
	// cards is the cache of the plugin.
	cards   *capacitycard.Cache
	current *sequenceRun
	// runs counts the sequences: no two have the same UIDs.
	runs int64
}

// newSchedulerCache returns a cache whose clients call the API server of the current sequence.
func newSchedulerCache() *schedulerCache {
	m := &schedulerCache{cards: capacitycard.NewCache(), cache: cache.NewCustomMockSchedulerCache("volcano", nil, nil, nil, nil, &record.FakeRecorder{})}
	kube := m.cache.Client().(*fake.Clientset)
	volcano := m.cache.VCClient().(*vcfake.Clientset)
	kube.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) { return m.current.server.answerPods(a) })
	kube.PrependReactor("*", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Event{}, nil })

	volcano.PrependReactor("update", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return m.current.server.answerGroups(a)
	})
	volcano.PrependReactor("*", "queues", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, a.(clienttesting.UpdateAction).GetObject(), nil
	})

	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, capacitycard.Builder(m.cards))
	return m
}

// bindAll carries out the bindings of the session, some of them later.
func (w *sequenceRun) bindAll() {
	bindings := w.late
	w.late = nil
	for len(w.cache.BindFlowChannel) > 0 {
		b := <-w.cache.BindFlowChannel
		if w.server.pods.percent > 0 && w.server.pods.drawFault("delay", b.TaskInfo.Name) != done {
			w.late = append(w.late, b)
			continue
		}
		bindings = append(bindings, b)
	}

	slices.SortFunc(bindings, func(a, b *cache.BindContext) int { return strings.Compare(a.TaskInfo.Name, b.TaskInfo.Name) })
	for _, b := range bindings {
		w.cache.Bind(context.Background(), []*cache.BindContext{b}, nil)
	}
}

// syncCache delivers changes to Volcano's cache.
func (w *sequenceRun) syncCache() {
	w.delayPods--
	if w.delayPods < 0 {
		for _, c := range w.server.pods.unseen {
			w.syncPod(c)
		}
		w.server.pods.unseen = nil
	}

	w.delayGroups--
	if w.delayGroups < 0 {
		for _, c := range w.server.groups.unseen {
			if c.gone {
				w.cache.DeletePodGroupV1beta1((&session.Cluster{ID: w.id}).Add("job " + c.name + " queue=q min=1").Groups[0])
			} else {
				w.cache.AddPodGroupV1beta1(c.now)
			}
		}
		w.server.groups.unseen = nil
	}

	for _, name := range slices.Sorted(maps.Keys(w.server.resync)) {
		if !w.server.resync[name] {
			continue
		}
		w.resyncPod(name)
	}
}

func (w *sequenceRun) syncPod(c change[*corev1.Pod]) {
	old, known := w.seen[c.name]

	switch {
	case c.gone && known:
		delete(w.seen, c.name)
		w.cache.DeletePod(old)
		utilruntime.Must(w.podIndexer().Delete(old))
	case c.gone:
	case known:
		w.seen[c.name] = c.now
		utilruntime.Must(w.podIndexer().Update(c.now))
		w.cache.UpdatePod(old, c.now)
	default:
		w.seen[c.name] = c.now
		utilruntime.Must(w.podIndexer().Add(c.now))
		w.cache.AddPod(c.now)
	}
}

// resyncPod does what Volcano does after a failed binding or eviction.
func (w *sequenceRun) resyncPod(name string) {
	pod, err := w.cache.Client().CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return
	}
	delete(w.server.resync, name)
	if old, known := w.seen[name]; known {
		w.cache.DeletePod(old)
	}
	if err == nil {
		w.cache.AddPod(pod)
	}
}

// podIndexer returns the store of the pod informers.
func (w *sequenceRun) podIndexer() clientcache.Indexer {
	return w.cache.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
}
