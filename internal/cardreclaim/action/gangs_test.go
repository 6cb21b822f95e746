package action

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/vcjob"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// scene is a cluster and what becomes of it: who goes, and who is promised a
// node.
type scene struct {
	world          *world
	goes, promised string
}

func play(t *testing.T, scenes map[string]scene) {
	t.Helper()
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			s.world.run(t).expect(t, s.goes, s.promised)
		})
	}
}

// waiter is one pod of inference that waits for a card.
func waiter() job { return job{name: "i", queue: "inf", least: 1, waits: 1} }

// waiters are a gang of inference.
func waiters(n int) job { return job{name: "i", queue: "inf", least: int32(n), waits: n} }

func TestWholeGangsAndSparePods(t *testing.T) {
	eight := func() *world { return tides(node("n", "A", 8)) }
	gang := func(name string, on []string, ran time.Duration) job {
		return job{name: name, queue: "tra", least: int32(len(on)), on: on, ran: ran}
	}
	inelastic := func(w *world, name string) *world {
		w.habits["ns/"+name] = vcjob.Habit{Inelastic: true}
		return w
	}
	play(t, map[string]scene{
		"a whole gang goes for one card": {
			eight().add(gang("t", repeat("n", 8), 0), waiter()), "t*8", "i-0@n"},
		"a gang over two nodes goes from both": {
			tides(node("n", "A", 4), node("m", "A", 4)).add(gang("t", append(repeat("n", 4), repeat("m", 4)...), 0), waiters(4)), "t*8", "i@n*4"},
		"the gang that has run for less": {
			eight().add(gang("old", repeat("n", 4), 2*day), gang("new", repeat("n", 4), day), waiter()), "new*4", "i-0@n"},
		"the smaller gang when they have run as long": {
			eight().add(gang("large", repeat("n", 6), day), gang("small", repeat("n", 2), day), waiter()), "small*2", "i-0@n"},
		"the larger gang when the smaller one would not be enough": {
			eight().add(gang("large", repeat("n", 6), day), gang("small", repeat("n", 2), day), waiters(3)), "large*6", "i@n*3"},
		"one gang rather than two smaller ones that lose more together": {
			eight().add(gang("a", repeat("n", 2), 3*day), gang("b", repeat("n", 2), 3*day), gang("c", repeat("n", 4), 2*day), waiters(4)), "c*4", "i@n*4"},
		"spare pods before a gang, however long they have run": {
			eight().add(job{name: "wide", queue: "tra", least: 1, on: repeat("n", 4), ran: 9 * day}, gang("gang", repeat("n", 4), hour), waiter()), "wide-0", "i-0@n"},
		"spare pods before a gang that has only just been placed": {
			eight().add(job{name: "wide", queue: "tra", least: 1, on: repeat("n", 4), ran: 9 * day}, gang("gang", repeat("n", 4), 0), waiter()), "wide-0", "i-0@n"},
		"as many as are above the minimum, and no more": {
			eight().add(job{name: "t", queue: "tra", least: 6, on: repeat("n", 8)}, waiters(2)), "t-0 t-1", "i@n*2"},
		"the whole job when its spare pods are too few": {
			eight().add(job{name: "t", queue: "tra", least: 6, on: repeat("n", 8)}, waiters(3)), "t*8", "i@n*3"},
		"a job that is below its minimum goes whole": {
			eight().add(job{name: "t", queue: "tra", least: 4, on: repeat("n", 2)}, gang("u", repeat("n", 6), day), waiter()), "t*2", "i-0@n"},
		"an elastic vcjob gives single pods": {
			eight().add(job{name: "t", queue: "tra", least: 1, on: repeat("n", 8), vcjob: true}, waiter()), "t-0", "i-0@n"},
		"a vcjob with a policy on evicted pods goes whole": {
			inelastic(eight().add(job{name: "t", queue: "tra", least: 1, on: repeat("n", 8), vcjob: true}, waiter()), "t"), "t*8", "i-0@n"},
		"pods without cards go with their gang": {
			eight().add(job{name: "t", queue: "tra", least: 9, on: repeat("n", 9), pod: firstWithout}, waiter()), "t*9", "i-0@n"},
		"pods without cards are not taken for cards": {
			eight().add(job{name: "t", queue: "tra", least: 1, on: repeat("n", 9), pod: firstWithout}, waiter()), "t-1", "i-0@n"},
		"spare pods are counted for each role": {
			eight().add(job{name: "t", queue: "tra", least: 3, on: repeat("n", 8), roles: map[string]int32{"ps": 2, "worker": 1}, role: halves}, waiters(3)), "t-0 t-1 t-4", "i@n*3"},
		"and for the job as a whole": {
			eight().add(job{name: "t", queue: "tra", least: 7, on: repeat("n", 8), roles: map[string]int32{"ps": 2, "worker": 1}, role: halves}, waiters(2)), "t*8", "i@n*2"},
		"roles do not matter when their minimum is above the job's": {
			eight().add(job{name: "t", queue: "tra", least: 2, on: repeat("n", 8), roles: map[string]int32{"ps": 4, "worker": 4}, role: halves}, waiters(6)), "t*6", "i@n*6"},
		"pods that ended count for the minimum": {
			eight().add(job{name: "t", queue: "tra", least: 5, on: repeat("n", 8), pod: firstEnded}, gang("u", repeat("n", 1), day), waiters(2)), "t-1 t-2", "i@n*2"},
		"gangs on another card stay": {
			tides(node("n", "A", 4), node("m", "B", 4)).add(gang("a", repeat("n", 4), 9*day), job{name: "b", queue: "tra", least: 4, on: repeat("m", 4), card: "B"}, waiter()), "a*4", "i-0@n"},
		"a job without PodGroup stays": {
			groupless(eight().add(job{name: "t", queue: "tra", least: 1, on: repeat("n", 8)}, waiter())), "", ""},
		"zero nodes": {tides().add(waiter()), "", ""},
	})
}

// firstWithout takes the cards from the first pod of a job.
func firstWithout(p *corev1.Pod) {
	if p.Name[len(p.Name)-2:] == "-0" {
		delete(p.Spec.Containers[0].Resources.Requests, gpu)
		delete(p.Annotations, "volcano.sh/card.name")
	}
}

func firstEnded(p *corev1.Pod) {
	if p.Name[len(p.Name)-2:] == "-0" {
		p.Status.Phase = corev1.PodSucceeded
	}
}

// halves names the first four of eight pods ps; two of them must stay.
func halves(i int) string {
	if i < 4 {
		return "ps"
	}
	return "worker"
}

func groupless(w *world) *world {
	w.groups = w.groups[1:]
	return w
}

func TestCheckpoints(t *testing.T) {
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	// first runs longer, and saved its work.
	scenario := func(group, pod string) *world {
		first := job{name: "first", queue: "tra", least: 4, on: repeat("n", 4), ran: 2 * day}
		first.group = func(g *v1beta1.PodGroup) { g.Annotations["volcano.sh/checkpoint-time"] = group }
		first.pod = func(p *corev1.Pod) {
			if p.Name == "first-2" {
				p.Annotations["volcano.sh/checkpoint-time"] = pod
			}
		}
		return tides(node("n", "A", 8)).add(first, job{name: "second", queue: "tra", least: 4, on: repeat("n", 4), ran: day}, waiter())
	}
	play(t, map[string]scene{
		"none":                                 {scenario("", ""), "second*4", "i-0@n"},
		"of the PodGroup":                      {scenario(at(hour), ""), "first*4", "i-0@n"},
		"of a pod, for all pods of the job":    {scenario("", at(hour)), "first*4", "i-0@n"},
		"the latest counts":                    {scenario(at(30*hour), at(hour)), "first*4", "i-0@n"},
		"the latest counts, the other way":     {scenario(at(hour), at(30*hour)), "first*4", "i-0@n"},
		"too long ago to help":                 {scenario(at(30*hour), ""), "second*4", "i-0@n"},
		"before the start counts as the start": {scenario(at(90*day), ""), "second*4", "i-0@n"},
		"in the future counts as now":          {scenario(at(-90*day), ""), "first*4", "i-0@n"},
		"what is no time is none":              {scenario("yesterday", "12:00"), "second*4", "i-0@n"},
	})
}

func TestOfEqualLosses(t *testing.T) {
	four := func(name, queue string, ran time.Duration, class string) job {
		return job{name: name, queue: queue, least: 4, on: repeat("n", 4), ran: ran, group: func(g *v1beta1.PodGroup) {
			g.Spec.PriorityClassName = class
			g.Annotations["volcano.sh/checkpoint-time"] = time.Now().Add(hour).UTC().Format(time.RFC3339) // nothing is lost
		}}
	}
	lower := func() *world {
		w := tides(node("n", "A", 8))
		w.queue("low", "training", 10000, plenty)
		return w
	}
	play(t, map[string]scene{
		"the queue of lower priority": {lower().add(four("x", "low", 2*day, "high"), four("a", "tra", day, "low"), waiter()), "x*4", "i-0@n"},
		"then the job of lower priority": {
			lower().add(four("x", "tra", 2*day, "low"), four("a", "tra", day, "high"), waiter()), "x*4", "i-0@n"},
		"then the younger job": {lower().add(four("a", "tra", 2*day, "low"), four("x", "tra", day, "low"), waiter()), "x*4", "i-0@n"},
	})
}
