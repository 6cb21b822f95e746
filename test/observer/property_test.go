package observer

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// oracle knows the true state of a simulated cluster: it records every step in plain numbers
// instead of objects.
type oracle struct {
	quotas      map[string][]dated  // by queue, oldest first
	placed      map[string]podUsage // by pod
	terminating map[string]podUsage // by pod
	beyondQuota []string            // pods whose placement broke the quota, in order
}

type dated struct {
	cards int
	from  time.Time
}

type podUsage struct {
	queue string
	cards int
}

func (o *oracle) recordPlacement(pod, queue string, cards int, now time.Time) {
	o.placed[pod] = podUsage{queue, cards}
	sum := 0
	for _, usage := range o.placed {
		if usage.queue == queue {
			sum += usage.cards
		}
	}

	allowed := 0
	for i, q := range o.quotas[queue] {
		replaced := now
		if i+1 < len(o.quotas[queue]) {
			replaced = o.quotas[queue][i+1].from
		}
		if !replaced.Before(now.Add(-10 * time.Second)) {
			allowed = max(allowed, q.cards)
		}
	}

	all := sum
	for _, usage := range o.terminating {
		if usage.queue == queue {
			all += usage.cards
		}
	}

	if sum > allowed || all > 2*allowed {
		o.beyondQuota = append(o.beyondQuota, "pod/test/"+pod)
	}
}

// randomStep applies one random step on both sides.
func randomStep(t *rapid.T, s *scene, o *oracle, pods map[string]*corev1.Pod) {
	queues := []string{"q", "r"}
	name := strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "pod"))
	p, exists := pods[name]

	switch rapid.IntRange(0, 6).Draw(t, "act") {
	case 0:
		s.playScript(fmt.Sprintf("wait %dms", rapid.IntRange(1, 12000).Draw(t, "wait")))
	case 1:
		q := rapid.SampledFrom(queues).Draw(t, "queue")
		cards := rapid.IntRange(0, 6).Draw(t, "quota")
		s.playScript(fmt.Sprintf("write queue %s quota=H200:%d", q, cards))
		o.quotas[q] = append(o.quotas[q], dated{cards, s.clock})
	case 2, 3:
		if !exists {
			q := rapid.SampledFrom(queues).Draw(t, "queue")
			pods[name] = placePod(s, o, name, q, rapid.IntRange(1, 3).Draw(t, "cards"))
		}
	case 4:
		if exists && p.DeletionTimestamp == nil {
			terminatePod(s, o, p)
		}
	case 5:
		if exists {
			p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
			s.writeObject(p.DeepCopy())
			delete(o.placed, name)
			delete(o.terminating, name)
		}
	case 6:
		if exists {
			s.removeObject(p.DeepCopy())
			delete(pods, name)
			delete(o.placed, name)
			delete(o.terminating, name)
		}
	}
}

// placePod creates a pod and binds it, on both sides.
func placePod(s *scene, o *oracle, name, queue string, cards int) *corev1.Pod {
	p := builder.Pod("test", name).Queue(queue).Card(h200).GPUs(cards).UID(types.UID(fmt.Sprintf("%s-%d", name, s.revision))).Obj()
	s.writeObject(p.DeepCopy())
	p.Spec.NodeName = "h200-0"
	s.writeObject(p.DeepCopy())
	o.recordPlacement(name, queue, cards, s.clock)
	return p
}

// terminatePod marks a pod as deleted, on both sides; it still runs.
func terminatePod(s *scene, o *oracle, p *corev1.Pod) {
	p.DeletionTimestamp = ptr.To(metav1.NewTime(s.clock))
	s.writeObject(p.DeepCopy())
	if usage, ok := o.placed[p.Name]; ok {
		o.terminating[p.Name] = usage
	}
	delete(o.placed, p.Name)
}

// violationKeys returns the objects of violations.
func violationKeys(found []Violation) []string {
	var out []string
	for _, v := range found {
		out = append(out, v.Object)
	}
	return out
}

// TestTheObserverFindsThePlacementsBeyondTheQuotaThatAnOracleFinds: random steps create, bind, delete, finish
// and remove pods, and change the quotas of queues q and r. The oracle keeps plain numbers of that. It knows
// each pod whose placement took its queue above its largest quota of the last 10 s, or with terminating pods
// above twice that. The observer must report exactly these pods. It must report the same if its watches deliver
// the changes out of order, unless it notices that a change came too late.
func TestTheObserverFindsThePlacementsBeyondTheQuotaThatAnOracleFinds(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		s := newSceneWithQuotaOfTwo()
		s.playScript(`load queue r quota=H200:3`)
		o := &oracle{
			quotas:      map[string][]dated{"q": {{2, began}}, "r": {{3, began}}},
			placed:      map[string]podUsage{},
			terminating: map[string]podUsage{},
		}
		pods := map[string]*corev1.Pod{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			randomStep(t, s, o, pods)
		}

		want := fmt.Sprint(o.beyondQuota)
		check.Equal(t, "pods that the observer reports", want, fmt.Sprint(violationKeys(s.observed.violations)))

		// Two watches deliver the same changes in a random order, and the observer checks at random times.
		found, late := replayDelayed(t, s.log)
		check.That(t, late || fmt.Sprint(violationKeys(found)) == want, "out of order the observer reports %v, the oracle %s", violationKeys(found), want)
	})
}

// replayDelayed delivers a log by two streams that lag behind each other at random. It is late
// when a change arrived after later ones were applied.
func replayDelayed(t *rapid.T, log []change) (found []Violation, late bool) {
	s := newSceneWithQuotaOfTwo()
	s.playScript(`load queue r quota=H200:3`)
	streams := []*stream{newStream(listing{objects: map[types.UID]int64{}}), newStream(listing{objects: map[types.UID]int64{}})}

	var todo [2][]change
	for _, c := range log {
		i := 0
		if _, ok := c.object.(*v1beta1.Queue); ok {
			i = 1
		}
		todo[i] = append(todo[i], c)
	}

	for len(todo[0])+len(todo[1]) > 0 {
		i := rapid.IntRange(0, 1).Draw(t, "stream")
		if len(todo[i]) > 0 {
			late = streams[i].addChange(todo[i][0]) || late
			todo[i] = todo[i][1:]
		}

		until := int64(rapid.IntRange(0, len(log)).Draw(t, "until"))
		if streams[0].hasReached(listAt(log, until, false)) && streams[1].hasReached(listAt(log, until, true)) {
			for _, c := range takeInOrder(streams, until) {
				s.observed.applyChange(c)
			}
		}
	}

	for _, c := range takeInOrder(streams, int64(len(log))) {
		s.observed.applyChange(c)
	}

	return s.observed.violations, late
}

// listAt returns what a list at a revision would show: of Queues, or of all other objects.
func listAt(log []change, until int64, ofQueues bool) listing {
	p := listing{revision: until, objects: map[types.UID]int64{}}
	for _, c := range log {
		_, isQueue := c.object.(*v1beta1.Queue)
		if c.revision > until || isQueue != ofQueues {
			continue
		}

		if c.deleted {
			delete(p.objects, c.object.GetUID())
		} else {
			p.objects[c.object.GetUID()] = c.revision
		}
	}

	return p
}
