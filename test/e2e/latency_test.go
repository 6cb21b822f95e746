package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// arrivals notes when a Queue was first seen with a quota.
type arrivals struct {
	mu   sync.Mutex
	seen map[string]time.Time // by queue and quota
}

func (a *arrivals) follow(events <-chan watch.Event) {
	for event := range events {
		if queue, ok := event.Object.(*v1beta1.Queue); ok {
			a.mu.Lock()
			key := queue.Name + queue.Annotations[api.AnnotationCardQuota]
			if _, ok := a.seen[key]; !ok {
				a.seen[key] = time.Now()
			}
			a.mu.Unlock()
		}
	}
}

func (a *arrivals) at(queue, quota string) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.seen[queue+quota]
	return at, ok
}

// The goal is a 99th percentile below one second from the change of a CardQuota
// to its Queue's annotation, with 200 CardQuotas. The figure is logged; what is
// asserted is that the last change of each arrives, and ten times the goal.
func TestLatencyFromCardQuotaToQueue(t *testing.T) {
	s := newScene(t, "latency")
	const quotas, changes, writers = 200, 400, 4
	watcher, err := client.NewWithWatch(s.cluster.Config(), client.Options{Scheme: s.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	events, err := watcher.Watch(s.ctx, &v1beta1.QueueList{})
	s.Expect(err).NotTo(HaveOccurred())
	defer events.Stop()
	arrived := &arrivals{seen: map[string]time.Time{}}
	go arrived.follow(events.ResultChan())

	name := func(i int) string { return fmt.Sprintf("latency-%03d", i) }
	began := time.Now()
	for i := range quotas {
		s.create(&api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name(i)},
			Spec: api.CardQuotaSpec{Tenant: "t", ServiceType: "training", Cards: cards(h200, 0)}})
	}
	s.Eventually(func() error {
		for i := range quotas {
			if _, ok := arrived.at(name(i), `{"NVIDIA-H200":0}`); !ok {
				return fmt.Errorf("%s has no quota yet", name(i))
			}
		}
		return nil
	}, "60s").Should(Succeed())
	t.Logf("%d CardQuotas and their Queues made in %s", quotas, time.Since(began).Round(time.Millisecond))

	sent := make([]time.Time, changes)
	var group errgroup.Group
	for w := range writers {
		group.Go(func() error {
			pace := time.NewTicker(100 * time.Millisecond)
			defer pace.Stop()
			for i := w; i < changes; i += writers {
				patch := fmt.Appendf(nil, `{"spec":{"cards":[{"name":%q,"quota":%d}]}}`, h200, i+1)
				object := &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name(i % quotas)}}
				sent[i] = time.Now()
				if err := s.Patch(s.ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
					return err
				}
				<-pace.C
			}
			return nil
		})
	}
	s.Expect(group.Wait()).To(Succeed())
	arrival := func(i int) (time.Time, bool) {
		return arrived.at(name(i%quotas), fmt.Sprintf(`{"NVIDIA-H200":%d}`, i+1))
	}
	// A value that is overtaken by the next one of the same CardQuota need not be
	// seen; the last one of each must.
	s.Eventually(func() error {
		for i := changes - quotas; i < changes; i++ {
			if _, ok := arrival(i); !ok {
				return fmt.Errorf("change %d has not arrived at %s", i, name(i%quotas))
			}
		}
		return nil
	}).Should(Succeed())
	var latencies []time.Duration
	for i := range changes {
		if at, ok := arrival(i); ok {
			latencies = append(latencies, at.Sub(sent[i]))
		}
	}
	slices.Sort(latencies)
	at := func(q float64) time.Duration {
		return latencies[int(q*float64(len(latencies)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("%d changes of %d CardQuotas, %d seen: p50 %s, p99 %s, longest %s (from the patch being sent to the watch event)",
		changes, quotas, len(latencies), at(0.5), at(0.99), at(1))
	s.Expect(at(0.99)).To(BeNumerically("<", 10*time.Second))
}
