package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/card"
)

// runs places pods of training in a PodGroup before the observer starts.
func runs(s *script, gang string, minMember int32, names ...string) []*corev1.Pod {
	g := group(gang, "training")
	g.Spec.MinMember = minMember
	s.load(g)
	var pods []*corev1.Pod
	for _, name := range names {
		p := inGroup(member(name, "training", "1", 0), gang)
		p.Spec.NodeName = "h200-0"
		s.load(p)
		pods = append(pods, p)
	}
	return pods
}

// comes has a pod of inference wait for cards.
func comes(s *script, name, cards string) *corev1.Pod {
	p := member(name, "inference", cards, 0)
	s.write(p)
	return p
}

func TestEveryVictimMakesRoomForSomebody(t *testing.T) {
	settle := func(s *script, p *corev1.Pod, node string) {
		p.Spec.NodeName = node
		s.write(p)
	}
	for _, test := range []struct {
		name     string
		play     func(*script)
		want     []Invariant
		wantOpen int
	}{
		{"the reclaimer is placed", func(s *script) {
			p := comes(s, "p", "1")
			s.evict(runs(s, "g", 1, "a")[0], "reclaim")
			s.wait(10 * time.Second)
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, nil, 0},
		{"it may take twenty seconds", func(s *script) {
			comes(s, "p", "1")
			s.evict(runs(s, "g", 1, "a")[0], "reclaim")
			s.wait(19 * time.Second)
		}, nil, 1},
		{"and no longer", func(s *script) {
			comes(s, "p", "1")
			s.evict(runs(s, "g", 1, "a")[0], "reclaim")
			s.wait(21 * time.Second)
		}, []Invariant{Eviction}, 0},
		{"the time begins when the victim has gone", func(s *script) {
			comes(s, "p", "1")
			victim := runs(s, "g", 1, "a")[0]
			victim.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
			s.mark(victim, "reclaim")
			s.wait(49 * time.Second)
			s.machine.judgeReclaimers(s.clock)
			s.remove(victim)
			s.wait(19 * time.Second)
		}, nil, 1},
		{"a victim that stays beyond its grace period excuses nobody", func(s *script) {
			comes(s, "p", "1")
			victim := runs(s, "g", 1, "a")[0]
			victim.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
			s.mark(victim, "reclaim")
			s.wait(51 * time.Second)
		}, []Invariant{Eviction}, 0},
		{"another node will do", func(s *script) {
			s.load(node("h200-1", "NVIDIA-H200"))
			p := comes(s, "p", "1")
			s.evict(runs(s, "g", 1, "a")[0], "reclaim")
			settle(s, p, "h200-1")
			s.wait(time.Minute)
		}, nil, 0},
		{"a reclaimer that was deleted need not be placed", func(s *script) {
			p := comes(s, "p", "1")
			s.evict(runs(s, "g", 1, "a")[0], "reclaim")
			s.remove(p)
			s.wait(time.Minute)
		}, nil, 0},
		{"nor one that found a place while the eviction was on its way", func(s *script) {
			victim := runs(s, "g", 1, "a")[0]
			settle(s, comes(s, "p", "1"), "h200-0")
			s.wait(2 * time.Second)
			s.evict(victim, "reclaim")
			s.wait(time.Minute)
		}, nil, 0},
		{"one that found a place long before is no reason", func(s *script) {
			victim := runs(s, "g", 1, "a")[0]
			settle(s, comes(s, "p", "1"), "h200-0")
			s.wait(4 * time.Second)
			s.evict(victim, "reclaim")
		}, []Invariant{Eviction}, 0},
		{"two victims for two cards", func(s *script) {
			p := comes(s, "p", "2")
			for _, victim := range runs(s, "g", 1, "a", "b") {
				s.evict(victim, "reclaim")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, nil, 0},
		{"two victims for one card are one too many", func(s *script) {
			p := comes(s, "p", "1")
			for _, victim := range runs(s, "g", 1, "a", "b") {
				s.evict(victim, "reclaim")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, []Invariant{Eviction}, 0},
		{"of two reclaimers one is not placed", func(s *script) {
			p := comes(s, "p", "1")
			comes(s, "q", "1")
			for _, victim := range runs(s, "g", 1, "a", "b") {
				s.evict(victim, "reclaim")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, []Invariant{Eviction}, 0},
		{"two victims for the CPU of one", func(s *script) {
			p := member("p", "inference", "1", 0)
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("8")
			s.write(p)
			for _, victim := range runs(s, "g", 1, "a", "b") {
				s.evict(victim, "reclaim")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, nil, 0},
		{"preempt takes no more than it needs either", func(s *script) {
			p := member("p", "training", "1", 7)
			s.write(p)
			for _, victim := range runs(s, "g", 1, "a", "b") {
				s.evict(victim, "preempt")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, []Invariant{Eviction}, 0},
		{"cardreclaim takes gangs as a whole", func(s *script) {
			p := comes(s, "p", "1")
			for _, victim := range runs(s, "g", 3, "a", "b", "c") {
				s.evict(victim, "cardreclaim")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, nil, 0},
		{"but no second gang for the same card", func(s *script) {
			p := comes(s, "p", "1")
			for _, victim := range append(runs(s, "g", 2, "a", "b"), runs(s, "h", 1, "c")...) {
				s.evict(victim, "cardreclaim")
			}
			settle(s, p, "h200-0")
			s.wait(time.Minute)
		}, []Invariant{Eviction}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tide()
			test.play(s)
			open := s.machine.judgeReclaimers(s.clock)
			s.machine.judgeReclaimers(s.clock) // nothing is reported twice
			wantInvariants(t, s.machine.found, test.want...)
			if len(open) != test.wantOpen {
				t.Errorf("open %v, want %d", open, test.wantOpen)
			}
		})
	}
}

func TestNoGangIsLeftInPieces(t *testing.T) {
	for _, test := range []struct {
		name string
		by   string
		gang int32
		take int
		want []Invariant
	}{
		{"cardreclaim leaves a gang in pieces", "cardreclaim", 3, 1, []Invariant{Eviction}},
		{"cardreclaim takes it as a whole", "cardreclaim", 3, 3, nil},
		{"cardreclaim takes what is above minAvailable", "cardreclaim", 2, 1, nil},
		{"reclaim leaves it to the policies of the job", "reclaim", 3, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tide()
			p := comes(s, "p", "1")
			for _, victim := range runs(s, "g", test.gang, "a", "b", "c")[:test.take] {
				s.evict(victim, test.by)
			}
			p.Spec.NodeName = "h200-0"
			s.write(p)
			s.judge()
			s.wait(9 * time.Second)
			s.judge()
			wantInvariants(t, s.machine.found)
			s.wait(2 * time.Second)
			s.judge()
			s.judge()
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}

func TestAnExcusedEvictionHasItsWholeTimeAfterwards(t *testing.T) {
	s := tide()
	comes(s, "p", "1")
	s.machine.excuse(Eviction, true, s.clock)
	s.evict(runs(s, "g", 1, "a")[0], "reclaim")
	s.wait(time.Minute)
	s.machine.judgeReclaimers(s.clock)
	s.machine.excuse(Eviction, false, s.clock)
	s.wait(19 * time.Second)
	s.machine.judgeReclaimers(s.clock)
	wantInvariants(t, s.machine.found)
	s.wait(2 * time.Second)
	s.machine.judgeReclaimers(s.clock)
	wantInvariants(t, s.machine.found, Eviction)
}

// Whoever is placed first, a reclaimer is left for every victim that has one.
func TestMatchFindsAReclaimerForEveryVictim(t *testing.T) {
	relieved := func(name string, cards card.Count) *relief {
		return &relief{state: &podState{pod: pod(name, "1", h200)}, place: place{cards: cards}, seen: began}
	}
	evicted := func(cards card.Count, reclaimers ...string) *eviction {
		e := &eviction{place: place{cards: cards}, seen: began, reclaimers: map[types.UID]bool{}}
		for _, name := range reclaimers {
			e.reclaimers[types.UID("pod-"+name)] = true
		}
		return e
	}
	for _, test := range []struct {
		name      string
		evictions []*eviction
		reliefs   []*relief
		want      int
	}{
		{"the picky one comes last", []*eviction{evicted(1, "p", "q"), evicted(1, "p")}, []*relief{relieved("p", 1), relieved("q", 1)}, 2},
		{"a chain of them", []*eviction{evicted(1, "p", "q"), evicted(1, "q", "r"), evicted(1, "p"), evicted(1, "q")},
			[]*relief{relieved("p", 1), relieved("q", 1), relieved("r", 1)}, 3},
		{"the last victim may be larger than what is missing", []*eviction{evicted(3, "p"), evicted(3, "p")}, []*relief{relieved("p", 4)}, 2},
		{"not when nothing is missing", []*eviction{evicted(4, "p"), evicted(3, "p")}, []*relief{relieved("p", 4)}, 1},
		{"nobody came", []*eviction{evicted(1, "p")}, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := match(test.evictions, test.reliefs); len(got) != test.want {
				t.Errorf("%d are served, want %d", len(got), test.want)
			}
		})
	}
}
