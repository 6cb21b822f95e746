package harness

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/check"
)

// eventFeed feeds a tracker with the events of a watch, second by second.
type eventFeed struct {
	*PodTracker
	now time.Time
}

func newEventFeed() *eventFeed {
	return &eventFeed{PodTracker: &PodTracker{workloads: map[string]*workload{}}, now: time.Unix(1_000_000, 0)}
}

func (feed *eventFeed) advance(seconds int) {
	feed.now = feed.now.Add(time.Duration(seconds) * time.Second)
}

// podOf returns a member of a workload, of a given try.
func podOf(role, group string, try, member int, phase corev1.PodPhase) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", group, member)
	p := CardPod(role, group, name, "").UID(types.UID(fmt.Sprintf("%s/%d", name, try))).Phase(phase)
	if phase != corev1.PodPending {
		p.Node("node")
	}
	return p.Obj()
}

// runPods sets members of a workload running.
func (feed *eventFeed) runPods(role, group string, try int, members ...int) {
	for _, m := range members {
		feed.observe(podOf(role, group, try, m, corev1.PodPending), feed.now)
		feed.observe(podOf(role, group, try, m, corev1.PodRunning), feed.now)
	}
}

// deletePods marks members as deleted and removes them.
func (feed *eventFeed) deletePods(role, group string, try int, members ...int) {
	for _, m := range members {
		p := podOf(role, group, try, m, corev1.PodRunning)
		p.DeletionTimestamp = &metav1.Time{Time: feed.now}
		feed.observe(p, feed.now)
		p.Status.Phase = corev1.PodFailed
		feed.observe(p, feed.now)
		feed.podDeleted(p, feed.now)
	}
}

// all are the members of a gang.
var all = []int{0, 1, 2, 3, 4, 5, 6, 7}

// TestABrokenGangLosesTheWorkOfAllItsPodsOnce: the benchmark counts the work that evictions destroy. A gang that
// loses one pod loses what all its 8 pods have done since all of them ran. It loses that once until it is whole
// again. Gang "a" has run for 10 s when a row begins, so 8 cards * 10 s = 80 card-seconds. Apart is the time
// between the first and the last evicted pod of one loss. Single pods lose their own work, inference pods none. The
// number behind the name of a workload says how often its pods were created; the next ones are its members.
func TestABrokenGangLosesTheWorkOfAllItsPodsOnce(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		play      func(*eventFeed)
		wantLoss  Loss
		wantUsage Usage
	}{
		"nothing happens": {func(*eventFeed) {}, Loss{}, Usage{Gangs: 1, Cards: 8}},
		"one pod is evicted, the other 7 run on": {
			func(feed *eventFeed) { feed.deletePods(Trainer, "a", 1, 3) },
			Loss{Gangs: 1, CardSeconds: 80}, Usage{Partial: 1, Cards: 7},
		},
		"one pod is evicted, the other 7 two seconds later: not twice the work": {
			func(feed *eventFeed) {
				feed.deletePods(Trainer, "a", 1, 3)
				feed.advance(2)
				feed.deletePods(Trainer, "a", 1, 0, 1, 2, 4, 5, 6, 7)
			},
			Loss{Gangs: 1, CardSeconds: 80, Apart: 2 * time.Second}, Usage{},
		},
		"the gang is evicted, runs again and is evicted after three seconds: 8 * 3 more": {
			func(feed *eventFeed) {
				feed.deletePods(Trainer, "a", 1, all...)
				feed.runPods(Trainer, "a", 2, all...)
				feed.advance(3)
				feed.deletePods(Trainer, "a", 2, all...)
			},
			Loss{Gangs: 2, CardSeconds: 80 + 8*3}, Usage{},
		},
		"the gang is evicted, and 3 of its pods again before all 8 ran: nothing more": {
			func(feed *eventFeed) {
				feed.deletePods(Trainer, "a", 1, all...)
				feed.runPods(Trainer, "a", 2, 0, 1, 2)
				feed.advance(3)
				feed.deletePods(Trainer, "a", 2, 0, 1, 2)
			},
			Loss{Gangs: 1, CardSeconds: 80, Apart: 3 * time.Second}, Usage{},
		},
		"a pod that waits is deleted: it did no work": {
			func(feed *eventFeed) {
				feed.observe(podOf(Trainer, "b", 1, 0, corev1.PodPending), feed.now)
				feed.podDeleted(podOf(Trainer, "b", 1, 0, corev1.PodPending), feed.now)
			},
			Loss{}, Usage{Gangs: 1, Cards: 8},
		},
		"one of two single pods is evicted after four seconds": {
			func(feed *eventFeed) {
				feed.runPods(Single, "experiments", 1, 0, 1)
				feed.advance(4)
				feed.deletePods(Single, "experiments", 1, 0)
			},
			Loss{Singles: 1, CardSeconds: 4}, Usage{Gangs: 1, Singles: 1, Cards: 8 + 1},
		},
		"one of two inference pods is evicted: it keeps no work": {
			func(feed *eventFeed) {
				feed.runPods(Inference, "chat", 1, 0, 1)
				feed.deletePods(Inference, "chat", 1, 0)
			},
			Loss{}, Usage{Gangs: 1, Inference: 1, Cards: 8 + 1},
		},
	}) {
		feed := newEventFeed()
		feed.runPods(Trainer, "a", 1, all...)
		feed.advance(10)
		feed.ResetLoss()

		tc.play(feed)
		lost, _ := feed.LossSinceReset()
		check.Equal(t, "lost", tc.wantLoss, lost)
		check.Equal(t, "used", tc.wantUsage, feed.Usage())
	}
}

// TestGangsThatAreNotWholeAreNamed: the benchmark names the gangs of which a pod is missing, in order, to say where
// it waits. Gang "c" lost one pod, "b" all, and "a" is whole. A single pod is no gang.
func TestGangsThatAreNotWholeAreNamed(t *testing.T) {
	feed := newEventFeed()
	for _, gang := range []string{"c", "a", "b"} {
		feed.runPods(Trainer, gang, 1, all...)
	}
	feed.runPods(Single, "experiments", 1, 0)
	feed.deletePods(Trainer, "c", 1, 0)
	feed.deletePods(Trainer, "b", 1, all...)
	check.Equal(t, "not whole", []string{"b", "c"}, feed.IncompleteGangs())
}

// TestQuantilesAreOfTheNearestRank: a quantile is one of the measured values, the one of rank part * 50, rounded
// up: 0.95 * 50 = 47.5 is rank 48. The values are 1 s to 50 s.
func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var values []time.Duration
	for i := 50; i > 0; i-- {
		values = append(values, time.Duration(i)*time.Second)
	}
	for part, want := range map[float64]time.Duration{0.5: 25 * time.Second, 0.95: 48 * time.Second, 1: 50 * time.Second, 0: time.Second} {
		check.Equal(t, fmt.Sprint(part, " of 50"), want, Quantile(values, part))
	}
	check.Equal(t, "of nothing", 0, Quantile(nil, 0.5))
}
