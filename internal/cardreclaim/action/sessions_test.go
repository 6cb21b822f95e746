package action

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestTheNextSession: until those who go are gone, those who come keep what they
// were promised, and nobody is taken twice.
func TestTheNextSession(t *testing.T) {
	for name, isVCJob := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			w := tides(node("n", "A", 8)).add(
				job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, vcjob: isVCJob},
				job{name: "u", queue: "tra", least: 4, on: repeat("n", 4), ran: day, vcjob: isVCJob}, waiters(3))
			w.run(t).expect(t, "t*4", "i@n*3")
			for range 3 {
				w.close()
				w.open()
				w.expect(t, "t*4", "") // before anybody decides
				w.execute()
				w.expect(t, "t*4", "i@n*3")
			}
			late := job{name: "late", queue: "inf", least: 2, waits: 2}
			w.add(late)
			w.cache.AddPodGroupV1beta1(w.groups[len(w.groups)-1])
			for _, pod := range w.pods[len(w.pods)-2:] {
				w.cache.AddPod(pod.DeepCopy())
			}
			// One card of t is left over, and one is lacking.
			w.run(t).expect(t, "t*4 u*4", "i@n*3 late@n*2")
			w.run(t).expect(t, "t*4 u*4", "i@n*3 late@n*2")
		})
	}
}

// TestWhoIsOnItsWayOutIsWaitedFor: a pod that cannot be on a node only because
// of pods that are leaving it takes nothing elsewhere meanwhile.
func TestWhoIsOnItsWayOutIsWaitedFor(t *testing.T) {
	few := func(n *corev1.Node) { n.Status.Allocatable["pods"] = resource.MustParse("4") }
	plain := func(*corev1.Node) {}
	for name, tc := range map[string]struct {
		node            func(*corev1.Node)
		training, taker func(*corev1.Pod)
	}{
		"its port":                     {plain, hostPort(80), hostPort(80)},
		"it avoids them":               {plain, labelled("t", ""), func(p *corev1.Pod) { labelled("i", "t")(p); hostPort(80)(p) }},
		"they avoid it":                {plain, labelled("t", "i"), func(p *corev1.Pod) { labelled("i", "")(p); hostPort(80)(p) }},
		"as many pods as there may be": {few, func(*corev1.Pod) {}, func(*corev1.Pod) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := tides(node("n", "A", 4, tc.node), node("m", "A", 4, tc.node)).add(
				job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, pod: tc.training},
				job{name: "u", queue: "tra", least: 4, on: repeat("m", 4), ran: day, pod: tc.training}, started(waiter(), tc.taker))
			w.run(t).expect(t, "t*4", "i-0@n")
			for range 2 {
				w.run(t)
				if got := len(w.in(api.Releasing)); got != 4 {
					t.Fatalf("%d pods go, want the 4 of the first session: %v", got, w.in(api.Releasing))
				}
			}
		})
	}
	t.Run("the next pod takes from others", func(t *testing.T) {
		w := tides(node("n", "A", 4), node("m", "A", 4), node("o", "A", 1)).add(
			job{name: "t", queue: "tra", least: 4, on: repeat("n", 4), ran: hour, pod: hostPort(80)},
			job{name: "u", queue: "tra", least: 4, on: repeat("m", 4), ran: day, pod: hostPort(80)},
			job{name: "i", queue: "inf", least: 1, on: []string{"o"}, waits: 2, ran: day, pod: hostPort(80)})
		second := w.pods[len(w.pods)-1]
		w.pods = w.pods[:len(w.pods)-1]
		w.run(t).expect(t, "t*4", "i-1@n")
		w.cache.AddPod(second)
		w.run(t).expect(t, "t*4 u*4", "i-2@m")
	})
}

// TestTheSameSessionHasTheSameOutcome: Go walks over maps in another order each
// time.
func TestTheSameSessionHasTheSameOutcome(t *testing.T) {
	outcome := func() string {
		w := tides(node("n", "A", 8), node("m", "A", 8), node("o", "B", 8))
		w.queue("inf2", "inference", 80000, `{"A":3,"B":2}`)
		w.queue("tra2", "training", 20000, plenty)
		for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
			at, card := []string{"n", "n", "m", "m", "o", "o"}[i], []string{"A", "B"}[i/4]
			w.add(job{name: name, queue: []string{"tra", "tra2"}[i%2], least: []int32{4, 4, 2}[i%3], on: repeat(at, 4), card: card, ran: day, vcjob: i%2 == 0,
				roles: []map[string]int32{nil, {"ps": 1, "w": 3}}[i%2], role: firstIsPS})
		}
		w.add(job{name: "i", queue: "inf", least: 2, waits: 5, card: "A|B"}, job{name: "j", queue: "inf2", least: 3, waits: 3, card: "B|A"},
			job{name: "k", queue: "inf2", least: 1, waits: 3}, job{name: "l", queue: "inf", least: 1, waits: 1, cards: 4})
		w.open()
		defer w.close()
		w.action.Execute(w.ssn)
		return "go: " + join(w.in(api.Releasing)) + "\ncome: " + join(w.in(api.Pipelined))
	}
	first := outcome()
	t.Log(first)
	for range 20 {
		if again := outcome(); again != first {
			t.Fatalf("first\n%s\nthen\n%s", first, again)
		}
	}
}

// TestHopelessNeeds: what nobody can make room for is looked at once a session,
// for each kind of taker.
func TestHopelessNeeds(t *testing.T) {
	w := tides(node("n", "A", 4), node("m", "A", 4)).add(
		job{name: "p", queue: "tra", least: 4, on: repeat("n", 4), ran: day, pod: protected}, job{name: "t", queue: "other", least: 4, on: repeat("m", 4), ran: day})
	w.queue("other", "batch", 20000, plenty)
	w.queue("mixed", "", 80000, plenty)
	w.args = map[string]any{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "urgent": map[string]any{"reclaimFrom": []any{"batch"}},
		"training": map[string]any{"reclaimable": true}, "batch": map[string]any{"reclaimable": true},
	}}
	w.add(job{name: "a", queue: "mixed", least: 1, waits: 1, pod: serves("inference")}, job{name: "b", queue: "mixed", least: 1, waits: 1, pod: serves("inference")},
		job{name: "c", queue: "mixed", least: 1, waits: 1, pod: serves("urgent")})
	w.run(t).expect(t, "t*4", "c-0@m")

	t.Run("a gang of two types takes nothing", func(t *testing.T) {
		w := tides(node("n", "A", 4)).add(busy("n", "A", 4)...)
		w.queue("mixed", "", 80000, plenty)
		w.add(job{name: "i", queue: "mixed", least: 2, waits: 2, pod: func(p *corev1.Pod) {
			if serves("inference")(p); p.Name == "i-1" {
				serves("training")(p)
			}
		}})
		w.run(t).expect(t, "", "")
	})
	t.Run("a job of two types takes for those that may", func(t *testing.T) {
		w := tides(node("n", "A", 4)).add(busy("n", "A", 4)...)
		w.queue("mixed", "", 80000, plenty)
		w.add(job{name: "i", queue: "mixed", least: 1, waits: 3, pod: func(p *corev1.Pod) {
			if serves("inference")(p); p.Name == "i-1" {
				serves("training")(p)
			}
		}})
		w.run(t).expect(t, "na*4", "i-0@n i-2@n")
	})
}
