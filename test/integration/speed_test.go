package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestAChangeOfAQuotaReachesItsQueueWithinASecond: 200 CardQuotas are changed 300 times. In 99 of 100 cases a change
// must be on the Queue within a second. On a machine that is too busy, the limit is twelve times as long as a plain
// client waits for the same change of the CardQuota. The last change of each CardQuota must arrive. Measured on two
// cores: p99 107 to 130 ms; 385 ms at a load of 11.
func TestAChangeOfAQuotaReachesItsQueueWithinASecond(t *testing.T) {
	g := requireControlPlane(t)
	const (
		quotas  = 200
		changes = 300
		least   = time.Second // the limit is not shorter, however fast a plain client is
	)
	const model = "NVIDIA-SPEED" // without nodes, so that no test changes the status of these 200 later

	prefix := uniqueName(t, "-")
	list := make([]*v1alpha1.CardQuota, quotas)
	for i := range list {
		list[i] = newQuota(fmt.Sprint(prefix, i), func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = model })
	}

	plain := watchArrivals(t, &v1alpha1.CardQuotaList{}, func(object client.Object) string {
		quota, ok := object.(*v1alpha1.CardQuota)
		if !ok || len(quota.Spec.Cards) == 0 || quota.Spec.Cards[0].Quota == nil {
			return ""
		}
		return fmt.Sprintf(`{"%s":%d}`, quota.Spec.Cards[0].Name, *quota.Spec.Cards[0].Quota)
	})
	onQueue := watchArrivals(t, &v1beta1.QueueList{}, func(object client.Object) string {
		return object.GetAnnotations()[v1alpha1.AnnotationCardQuota]
	})

	text := func(value int64) string { return fmt.Sprintf(`{"%s":%d}`, model, value) }
	began := time.Now()

	var group errgroup.Group
	group.SetLimit(8)
	for _, quota := range list {
		group.Go(func() error { return admin.Create(t.Context(), quota) })
	}

	g.Expect(group.Wait()).To(gomega.Succeed())
	for _, quota := range list {
		g.Eventually(onQueue.timeOf(quota.Name, text(8))).ShouldNot(gomega.BeZero())
	}

	t.Logf("%d CardQuotas made and on their Queues after %s", quotas, time.Since(began).Round(time.Millisecond))

	type change struct {
		name, text string
		sent       time.Time
	}

	var sent []change
	last := map[string]change{}
	random := seed.Rand(t)
	for i := range changes {
		quota := list[random.IntN(quotas)]
		base := quota.DeepCopy()
		quota.Spec.Cards[0].Quota = ptr.To(int64(100 + i))
		c := change{quota.Name, text(int64(100 + i)), time.Now()}
		g.Expect(admin.Patch(t.Context(), quota, client.MergeFrom(base))).To(gomega.Succeed())
		sent = append(sent, c)
		last[c.name] = c
	}

	// A value that the next one of the same CardQuota replaces need not be seen; the last one
	// of each must be.
	for _, c := range last {
		g.Eventually(onQueue.timeOf(c.name, c.text)).ShouldNot(gomega.BeZero(), "%s must become %s", c.name, c.text)
		g.Eventually(plain.timeOf(c.name, c.text)).ShouldNot(gomega.BeZero())
	}

	times := func(a *firstSeen) (took []time.Duration) {
		for _, c := range sent {
			if at := a.timeOf(c.name, c.text)(); !at.IsZero() {
				took = append(took, at.Sub(c.sent))
			}
		}
		slices.Sort(took)
		return took
	}
	p99 := func(took []time.Duration) time.Duration { return took[len(took)*99/100] }

	took := times(onQueue)
	waited := p99(times(plain))
	t.Logf("%d of %d changes seen on the Queue: p50 %s, p99 %s, max %s; a plain client waits %s (p99)", len(took), changes,
		took[len(took)/2].Round(time.Millisecond), p99(took).Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), waited.Round(time.Millisecond))
	g.Expect(p99(took)).To(gomega.BeNumerically("<", max(least, 12*waited)))
}

// firstSeen records when a text was first seen on an object.
type firstSeen struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (a *firstSeen) timeOf(name, text string) func() time.Time {
	return func() time.Time {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.seen[name+" "+text]
	}
}

// watchArrivals records texts until the test ends. An API server that is busy ends a watch that reads
// too slowly; a new one begins with what exists.
func watchArrivals(t *testing.T, list client.ObjectList, text func(client.Object) string) *firstSeen {
	ctx := t.Context()
	a := &firstSeen{seen: map[string]time.Time{}}
	watcher, err := admin.Watch(ctx, list)
	gomega.NewWithT(check.Trail(t)).Expect(err).NotTo(gomega.HaveOccurred())

	go func() {
		for ctx.Err() == nil {
			if err == nil {
				a.record(watcher, text)
				watcher.Stop()
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			watcher, err = admin.Watch(ctx, list.DeepCopyObject().(client.ObjectList))
		}
	}()

	return a
}

// record records the texts of a watch until it ends.
func (a *firstSeen) record(watcher watch.Interface, text func(client.Object) string) {
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok {
			continue
		}

		key := object.GetName() + " " + text(object)
		a.mu.Lock()
		if a.seen[key].IsZero() {
			a.seen[key] = time.Now()
		}
		a.mu.Unlock()
	}
}
