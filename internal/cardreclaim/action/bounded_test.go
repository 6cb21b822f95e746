package action

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/capacitycard"
)

// hall is a cluster of nodes with eight cards, each held by a training gang.
func hall(nodes int) *world {
	w := tides()
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		w.nodes = append(w.nodes, node(name, "A", 8))
		w.add(job{name: "t" + name, queue: "tra", least: 8, on: repeat(name, 8), ran: hour * time.Duration(1+i%7)})
	}
	return w
}

// ownPorts gives each pod another port of its node, so that no two are of a kind.
func ownPorts() func(*corev1.Pod) {
	next := int32(10000)
	return func(p *corev1.Pod) {
		hostPort(next)(p)
		next++
	}
}

// TestPodsOfManyKinds are placed portion by portion, and nothing is taken twice.
func TestPodsOfManyKinds(t *testing.T) {
	w := hall(10).add(started(job{name: "i", queue: "inf", least: 1, waits: mostKinds + 10}, ownPorts()))
	w.run(t)
	if goes, comes := len(w.in(api.Releasing)), len(w.in(api.Pipelined)); goes != 80 || comes != mostKinds+10 {
		t.Errorf("%d pods go, %d come, want all 80 and %d", goes, comes, mostKinds+10)
	}
	t.Run("a gang of too many gets nothing", func(t *testing.T) {
		hall(10).add(started(waiters(mostKinds+1), ownPorts())).run(t).expect(t, "", "")
	})
	t.Run("a gang of just as many gets all", func(t *testing.T) {
		w := hall(10).add(started(waiters(mostKinds), ownPorts()))
		if w.run(t); len(w.in(api.Pipelined)) != mostKinds {
			t.Errorf("%d come, want %d", len(w.in(api.Pipelined)), mostKinds)
		}
	})
}

// used is what went into the tenants of a session that did not suffice.
func (w *world) used() int {
	total := 0
	for _, effort := range w.action.turns.used {
		total += effort
	}
	return total
}

// TestASessionIsBounded: whatever pods wait, no more goes into a session than it
// may take, beside the look that ends it; those who come later in the order have
// their turn in the next one.
func TestASessionIsBounded(t *testing.T) {
	const most = 5_000_000
	kinds := map[string]func() func(*corev1.Pod){
		"ports": ownPorts,
		"tolerations": func() func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name, Operator: corev1.TolerationOpExists}}
			}
		},
		"terms": func() func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				labelled("i", "none")(p)
				terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				for len(*terms) < 100 {
					*terms = append(*terms, (*terms)[0])
				}
				hostPort(80)(p)
			}
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			w := hall(20)
			w.queue("high", "inference", 90000, plenty)
			w.add(started(job{name: "evil", queue: "high", least: 1, waits: 150}, kind()), waiters(3))
			w.begin()
			w.alone = true
			w.action.limit = limit{forJob: most, forSession: most}
			w.run(t)
			if got := w.used(); got < most || got > 2*most {
				t.Errorf("%d went into the session, want %d and a look more", got, most)
			}
			if got := w.tasksOf("i", api.Pipelined); got != 0 {
				t.Errorf("%d pods of the next queue have a node already: the session sufficed", got)
			}
			w.run(t)
			if got := w.tasksOf("i", api.Pipelined); got != 3 {
				t.Errorf("%d pods of the next queue are promised nodes in its turn, want 3", got)
			}
		})
	}
}

// tasksOf is how many pods of a job have a status.
func (w *world) tasksOf(name string, status api.TaskStatus) int {
	return len(w.ssn.Jobs[api.JobID("ns/"+name)].TaskStatusIndex[status])
}

// TestHopelessSets: several kinds of pods that cannot be placed together are
// looked at once a session, not once for each job of the same kinds.
func TestHopelessSets(t *testing.T) {
	w := tides(node("n", "A", 8)).add(busy("n", "A", 4)...).add(job{name: "p", queue: "tra", least: 4, on: repeat("n", 4), ran: day, pod: protected})
	two := func(p *corev1.Pod) { hostPort(80 + int32(p.Name[2]-'0')/4)(p) } // one node takes one of each
	w.add(started(job{name: "i", queue: "inf", least: 8, waits: 8}, two), started(job{name: "j", queue: "inf", least: 8, waits: 8}, two))
	w.alone = true
	w.open()
	t.Cleanup(w.close)
	tide, _ := capacitycard.TideOf(w.ssn)
	wave := newWave(w.ssn, tide, w.action)
	effort := func(name string) int {
		before := wave.effort
		wave.begin()
		wave.serve(w.ssn.Jobs[api.JobID("ns/"+name)])
		return wave.effort - before
	}
	first, second := effort("i"), effort("j")
	if asking := 8 * effortOfTask; second >= first || second != asking {
		t.Errorf("%d went into the first job and %d into the second, want %d", first, second, asking)
	}
	if w.expect(t, "", ""); len(wave.together) != 1 {
		t.Errorf("remembered are %d sets, want 1", len(wave.together))
	}
}

// TestAnUnfinishedSearchIsNotHopeless: what there was no effort left for is asked
// again by the next job.
func TestAnUnfinishedSearchIsNotHopeless(t *testing.T) {
	w := hall(1).add(started(waiters(2), ownPorts()))
	w.open()
	t.Cleanup(w.close)
	tide, _ := capacitycard.TideOf(w.ssn)
	wave := newWave(w.ssn, tide, w.action)
	wave.begin()
	job := w.ssn.Jobs["ns/i"]
	claims, ok := wave.claimsOf(job, wave.lacking(job), true)
	if !ok || len(claims) != 2 {
		t.Fatalf("%d claims, want 2", len(claims))
	}
	full := wave.end
	wave.end = wave.effort
	for _, all := range []bool{true, false} {
		if wave.giveUp(claims, all); len(wave.hopeless)+len(wave.together) > 0 {
			t.Errorf("all %v: %v and %v are taken for hopeless", all, wave.hopeless, wave.together)
		}
		if left := wave.hopeful(slices.Clone(claims), all); len(left) > 0 {
			t.Errorf("all %v: %d claims are tried without any effort left", all, len(left))
		}
	}
	wave.end = full
	if wave.serve(job); len(w.in(api.Pipelined)) != 2 {
		t.Errorf("promised %v, want both", w.in(api.Pipelined))
	}
}
