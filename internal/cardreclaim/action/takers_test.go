package action

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// busy is training that holds all cards of a node, in gangs of four.
func busy(nodeName, card string, cards int) []job {
	var jobs []job
	for i := range cards / 4 {
		jobs = append(jobs, job{name: nodeName + string(rune('a'+i)), queue: "tra", least: 4, on: repeat(nodeName, 4), card: card, ran: day})
	}
	return jobs
}

func TestGangsTakeAllOrNothing(t *testing.T) {
	eight := func() *world { return tides(node("n", "A", 8)).add(busy("n", "A", 8)...) }
	limited := func(w *world, quota string, changes ...func(*v1beta1.Queue)) *world {
		w.queue("inf", "inference", 80000, quota, changes...)
		return w
	}
	cpu := func(cores string) func(*v1beta1.Queue) {
		return func(q *v1beta1.Queue) { q.Spec.Capability["cpu"] = resource.MustParse(cores) }
	}
	roles := func(change func(*job)) job {
		j := job{name: "i", queue: "inf", least: 2, waits: 4, roles: map[string]int32{"lead": 1, "work": 1}, role: func(i int) string {
			if i == 3 {
				return "lead"
			}
			return "work"
		}}
		change(&j)
		return j
	}
	play(t, map[string]scene{
		"all of it":                           {eight().add(waiters(8)), "na*4 nb*4", "i@n*8"},
		"one more than there are cards":       {eight().add(waiters(9)), "", ""},
		"one more than the quota":             {limited(eight().add(waiters(5)), `{"A":4}`), "", ""},
		"as many as the quota":                {limited(eight().add(waiters(4)), `{"A":4}`), "na*4", "i@n*4"},
		"the CPU of the queue is too small":   {limited(eight().add(waiters(5)), plenty, cpu("4")), "", ""},
		"the CPU of the queue is just enough": {limited(eight().add(waiters(4)), plenty, cpu("4")), "na*4", "i@n*4"},
		"two cards each":                      {eight().add(job{name: "i", queue: "inf", least: 4, waits: 4, cards: 2}), "na*4 nb*4", "i@n*4"},
		"those that run already count": {
			tides(node("n", "A", 8)).add(job{name: "i", queue: "inf", least: 4, on: repeat("n", 2), waits: 3, ran: day}, job{name: "t", queue: "tra", least: 6, on: repeat("n", 6)}), "t*6", "i-2@n i-3@n i-4@n"},
		"a gang that lacks one it cannot have": {
			tides(node("n", "A", 8)).add(job{name: "i", queue: "inf", least: 8, on: repeat("n", 2), waits: 6, ran: day}, job{name: "t", queue: "tra", least: 4, on: repeat("n", 4)},
				job{name: "p", queue: "tra", least: 1, on: repeat("n", 2), pod: protected}), "", ""},
		"too few pods were made yet":     {eight().add(job{name: "i", queue: "inf", least: 3, waits: 2}), "", ""},
		"the minimum of each role first": {eight().add(roles(func(j *job) { j.cards = 4 })), "na*4 nb*4", "i-0@n i-3@n"},
		"then as many of the others":     {eight().add(roles(func(j *job) { j.cards = 2 })), "na*4 nb*4", "i@n*4"},
		"a gang of which one is not to displace anybody": {
			eight().add(started(waiters(4), on("i-2", func(p *corev1.Pod) { never := corev1.PreemptNever; p.Spec.PreemptionPolicy = &never }))), "", ""},
		"a gang of which one is held back": {
			eight().add(started(waiters(4), on("i-2", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }))), "", ""},
		"a gang with pods that need no card": {
			eight().add(started(waiters(3), firstWithout)), "na*4", "i@n*3"},
		"pods that ask differently": {
			tides(node("n", "A", 4), node("m", "B", 4)).add(busy("n", "A", 4)...).add(busy("m", "B", 4)...).
				add(started(waiters(4), func(p *corev1.Pod) {
					p.Annotations["volcano.sh/card.name"] = map[byte]string{'0': "A", '1': "B", '2': "A", '3': "B"}[p.Name[2]]
				})),
			"ma*4 na*4", "i-0@n i-1@m i-2@n i-3@m"},
		"pods that ask differently, and one kind finds nothing": {
			tides(node("n", "A", 4), node("m", "B", 4)).add(busy("n", "A", 4)...).
				add(job{name: "p", queue: "tra", least: 1, on: repeat("m", 4), card: "B", pod: protected}).
				add(started(waiters(2), on("i-1", func(p *corev1.Pod) { p.Annotations["volcano.sh/card.name"] = "B" }))), "", ""},
	})
}

func TestJobsThatGrowTakeAsMuchAsTheyCan(t *testing.T) {
	grows := func(n int) job { return job{name: "i", queue: "inf", least: 1, waits: n} }
	eight := func() *world { return tides(node("n", "A", 8)).add(busy("n", "A", 8)...) }
	limited := func(w *world, quota string, changes ...func(*v1beta1.Queue)) *world {
		w.queue("inf", "inference", 80000, quota, changes...)
		return w
	}
	play(t, map[string]scene{
		"all":                    {eight().add(grows(3)), "na*4", "i@n*3"},
		"as many as the cards":   {eight().add(grows(9)), "na*4 nb*4", "i@n*8"},
		"as many as the quota":   {limited(eight().add(grows(9)), `{"A":5}`), "na*4 nb*4", "i@n*5"},
		"as many as the CPU":     {limited(eight().add(grows(9)), plenty, func(q *v1beta1.Queue) { q.Spec.Capability["cpu"] = resource.MustParse("3") }), "na*4", "i@n*3"},
		"only what may be taken": {tides(node("n", "A", 8)).add(busy("n", "A", 4)...).add(job{name: "p", queue: "tra", least: 4, on: repeat("n", 4), pod: protected}, grows(6)), "na*4", "i@n*4"},
		"beside those that run already": {
			tides(node("n", "A", 8)).add(job{name: "i", queue: "inf", least: 1, on: repeat("n", 4), waits: 2, ran: day}).add(busy("n", "A", 4)...), "na*4", "i-4@n i-5@n"},
		"of two kinds": {
			tides(node("n", "A", 4), node("m", "B", 4)).add(busy("n", "A", 4)...).add(busy("m", "B", 4)...).add(started(grows(10), func(p *corev1.Pod) {
				if p.Name > "i-4" {
					p.Annotations["volcano.sh/card.name"] = "B"
				}
			})), "ma*4 na*4", "i@n*4 i-5@m i-6@m i-7@m i-8@m"},
		"a pod that fits nowhere does not keep the others": {claimed(eight().add(started(grows(4), on("i-1", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unbound"}}}}
		})))), "na*4", "i-0@n i-2@n i-3@n"},
		"but a gang": {claimed(eight().add(started(waiters(4), on("i-1", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unbound"}}}}
		})))), "", ""},
		"a pod that is held back does not keep the others": {
			eight().add(started(grows(3), on("i-1", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }))), "na*4", "i-0@n i-2@n"},
		"nobody is taken for a job of which no pod may take": {
			eight().add(started(grows(2), func(p *corev1.Pod) { never := corev1.PreemptNever; p.Spec.PreemptionPolicy = &never })), "", ""},
	})
}

func TestAlternatives(t *testing.T) {
	both := func() *world {
		return tides(node("n", "A", 4), node("m", "B", 4)).add(busy("n", "A", 4)...).add(busy("m", "B", 4)...)
	}
	either := func(n int) job { return job{name: "i", queue: "inf", least: int32(n), waits: n, card: "A|B"} }
	limited := func(w *world, quota string) *world {
		w.queue("inf", "inference", 80000, quota)
		return w
	}
	play(t, map[string]scene{
		"the first, if that loses no more":                  {tides(node("n", "A", 4), node("m", "B", 4)).add(job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour}).add(busy("m", "B", 4)...).add(either(2)), "t*4", "i@n*2"},
		"in the order of the pod":                           {both().add(job{name: "i", queue: "inf", least: 1, waits: 1, card: "B|A"}), "ma*4", "i-0@m"},
		"quota for the second only":                         {limited(both().add(either(2)), `{"B":4}`), "ma*4", "i@m*2"},
		"both quotas together":                              {limited(both().add(either(4)), `{"A":1,"B":3}`), "ma*4 na*4", "i-0@n i-1@m i-2@m i-3@m"},
		"not enough of both":                                {limited(both().add(either(5)), `{"A":1,"B":3}`), "", ""},
		"a free card without quota does not help":           {limited(tides(node("n", "A", 8), node("m", "B", 4)).add(busy("n", "A", 4)...).add(busy("m", "B", 4)...).add(either(1)), `{"B":4}`), "ma*4", "i-0@m"},
		"any card when the pod names none":                  {limited(both().add(started(waiters(1), nameless)), `{"B":4}`), "ma*4", "i-0@m"},
		"another card than both":                            {both().add(job{name: "i", queue: "inf", least: 1, waits: 1, card: "C"}), "", ""},
		"the loss decides when both are as good to the pod": {tides(node("n", "A", 4), node("m", "A", 4)).add(busy("n", "A", 4)...).add(job{name: "young", queue: "tra", least: 4, on: repeat("m", 4), ran: hour}, waiter()), "young*4", "i-0@m"},
	})
}

func nameless(p *corev1.Pod) { delete(p.Annotations, "volcano.sh/card.name") }

// TestFreeRoomIsUsedFirst: the action alone, without allocate before it, takes
// nothing while free cards suffice.
func TestFreeRoomIsUsedFirst(t *testing.T) {
	free := func(jobs ...job) *world {
		w := tides(node("n", "A", 8), node("m", "A", 8)).add(busy("n", "A", 8)...).add(busy("m", "A", 4)...).add(jobs...)
		w.alone = true
		return w
	}
	play(t, map[string]scene{
		"for a gang":             {free(waiters(4)), "", "i@m*4"},
		"for pods of a job":      {free(job{name: "i", queue: "inf", least: 1, waits: 4}), "", "i@m*4"},
		"for the jobs that wait": {free(waiters(2), job{name: "j", queue: "inf", least: 2, waits: 2}), "", "i@m*2 j@m*2"},
		"and beside what is free only as much as is needed": {free(waiters(6)), "ma*4", "i@m*6"},
	})
}

func TestWhatIsTakenServesOthersFirst(t *testing.T) {
	eight := func() *world {
		return tides(node("n", "A", 8), node("m", "A", 8)).add(
			job{name: "t", queue: "tra", least: 8, on: repeat("n", 8), ran: hour}, job{name: "u", queue: "tra", least: 8, on: repeat("m", 8), ran: day})
	}
	other := func(name, queue string, n int) job { return job{name: name, queue: queue, least: int32(n), waits: n} }
	w := eight().add(other("i", "inf", 3), other("j", "inf", 4), other("k", "inf", 1))
	w.run(t).expect(t, "t*8", "i@n*3 j@n*4 k-0@n")

	t.Run("the queue of higher priority is served first", func(t *testing.T) {
		w := tides(node("n", "A", 4)).add(busy("n", "A", 4)...)
		w.queue("first", "inference", 90000, plenty)
		w.add(other("a", "inf", 3), other("z", "first", 3))
		w.run(t).expect(t, "na*4", "z@n*3")
	})
	t.Run("what is left goes to the next queue", func(t *testing.T) {
		w := tides(node("n", "A", 4)).add(busy("n", "A", 4)...)
		w.queue("first", "inference", 90000, plenty)
		w.add(other("a", "inf", 1), other("z", "first", 3))
		w.run(t).expect(t, "na*4", "a-0@n z@n*3")
	})
	t.Run("the job of higher priority is served first", func(t *testing.T) {
		class := func(name string) func(*v1beta1.PodGroup) {
			return func(g *v1beta1.PodGroup) { g.Spec.PriorityClassName = name }
		}
		w := tides(node("n", "A", 4)).add(busy("n", "A", 4)...).add(
			job{name: "a", queue: "inf", least: 3, waits: 3, group: class("low")}, job{name: "z", queue: "inf", least: 3, waits: 3, group: class("high")})
		w.run(t).expect(t, "na*4", "z@n*3")
	})
}

func TestJobsThatAreLeftAlone(t *testing.T) {
	world := func(j job) *world { return tides(node("n", "A", 4)).add(busy("n", "A", 4)...).add(j) }
	group := func(change func(*v1beta1.PodGroup)) job {
		j := waiters(2)
		j.group = change
		return j
	}
	one := 1
	play(t, map[string]scene{
		"not admitted": {world(group(func(g *v1beta1.PodGroup) { g.Status.Phase = v1beta1.PodGroupPending })), "", ""},
		"a hard network topology": {world(group(func(g *v1beta1.PodGroup) {
			g.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &one}
		})), "", ""},
		"a queue that does not exist": {world(job{name: "i", queue: "none", least: 1, waits: 1}), "", ""},
		"pods that ask for no card":   {world(job{name: "i", queue: "inf", least: 1, waits: 1, cards: -1, pod: needsCPU("64")}), "", ""},
		"a bad card name":             {world(job{name: "i", queue: "inf", least: 1, waits: 1, card: "not a name"}), "", ""},
	})
	t.Run("a session without the rules", func(t *testing.T) {
		w := world(waiters(2))
		w.args = map[string]any{"overCommitFactor": 0.5} // refused
		w.run(t).expect(t, "", "")
		if got := len(w.in(api.Running)); got != 4 {
			t.Errorf("%d pods run, want 4", got)
		}
	})
}

func needsCPU(cores string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cores) }
}

// claimed adds a claim of a volume that is not bound, and is not bound later.
func claimed(w *world) *world {
	w.volumes = []*corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "unbound"}}}
	return w
}
