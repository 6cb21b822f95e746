package capacitycard

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/uthelper"

	"cardquota.dev/operator/internal/card"
)

// announces makes a PodGroup without pods or minResources, about which Volcano asks
// no gate before it is Inqueue.
func announces(name string, phase v1beta1.PodGroupPhase, request string) *v1beta1.PodGroup {
	g := group(name, "q", 1, phase, "")
	g.UID, g.Spec.MinResources = types.UID(name), nil
	g.Annotations["volcano.sh/card.request"] = request
	return g
}

// asks makes the PodGroup of a vcjob: its minResources are asked about.
func asks(name string, phase v1beta1.PodGroupPhase, cards int) *v1beta1.PodGroup {
	g := group(name, "q", 1, phase, fmt.Sprint(cards))
	g.UID = types.UID(name)
	g.Annotations["volcano.sh/card.request"] = fmt.Sprintf(`{"NVIDIA-H200":%d}`, cards)
	return g
}

// reserved is what waits in the queue q of the session that is open.
func reserved(p *plugin) (sum card.Count) {
	for _, d := range p.waiting["q"].Demands {
		sum += d.Count
	}
	return sum
}

func fourH200(groups ...*v1beta1.PodGroup) *uthelper.TestCommonStruct {
	return &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":4}`)}, PodGroups: groups,
	}
}

// TestOnlyWhatIsAdmittedIsReserved: a PodGroup that Volcano lets in without asking
// keeps cards from nobody unless a gate would let it in.
func TestOnlyWhatIsAdmittedIsReserved(t *testing.T) {
	closed := func(world *uthelper.TestCommonStruct) *uthelper.TestCommonStruct {
		chooses(world.Queues[0], forChat)
		return world
	}
	tests := map[string]struct {
		world *uthelper.TestCommonStruct
		// within is what is reserved when the session ends, next when the next one
		// opens, afresh when the first one of another process does.
		within, next, afresh card.Count
	}{
		"what fits":                          {fourH200(announces("j", "Pending", `{"NVIDIA-H200":3}`)), 3, 3, 3},
		"more than the quota":                {fourH200(announces("j", "Pending", `{"NVIDIA-H200":1000000}`)), 0, 0, 0},
		"more than the quota, after a start": {fourH200(announces("j", "Inqueue", `{"NVIDIA-H200":5}`)), 0, 0, 0},
		"what fits, after a start":           {fourH200(announces("j", "Inqueue", `{"NVIDIA-H200":4}`)), 4, 4, 4},
		"another card":                       {fourH200(announces("j", "Pending", `{"NVIDIA-H800":1}`)), 0, 0, 0},
		"either card":                        {fourH200(announces("j", "Pending", `{"NVIDIA-H200|NVIDIA-H800":4}`)), 4, 4, 4},
		"no cards":                           {fourH200(announces("j", "Pending", `{"NVIDIA-H200":0,"A":0}`)), 0, 0, 0},
		"a namespace that is left out":       {closed(fourH200(announces("j", "Pending", `{"NVIDIA-H200":3}`))), 0, 0, 0},
		"two of which one fits":              {fourH200(announces("i", "Pending", `{"NVIDIA-H200":3}`), announces("j", "Pending", `{"NVIDIA-H200":3}`)), 3, 3, 3},
		"what was asked about":               {fourH200(asks("j", "Pending", 2)), 2, 2, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := run(t, tc.world, nil, ofTeam("ns", "lab"))
			within := reserved(opened)
			next := reserved(reopen(ssn))
			process = newMemory()
			if afresh := reserved(reopen(ssn)); within != tc.within || next != tc.next || afresh != tc.afresh {
				t.Errorf("%d reserved in the session, %d in the next one, %d by another process; want %d, %d and %d", within, next, afresh, tc.within, tc.next, tc.afresh)
			}
		})
	}
}

// TestWhatIsNotAdmittedHoldsUpNobody: beside it others are admitted, in its session
// and afterwards.
func TestWhatIsNotAdmittedHoldsUpNobody(t *testing.T) {
	ssn := run(t, fourH200(announces("huge", "Pending", `{"NVIDIA-H200":1000000}`), asks("j", "Pending", 4)), nil)
	if phase := ssn.Jobs["ns/j"].PodGroup.Status.Phase; phase != scheduling.PodGroupInqueue {
		t.Errorf("the job that fits is %s: %s", phase, ssn.Jobs["ns/j"].JobFitErrors)
	}
	ssn.Jobs["ns/j"].PodGroup.Status.Phase = scheduling.PodGroupPending
	p := reopen(ssn)
	if _, refusal := p.apply(ssn.Jobs["ns/j"]); refusal != nil {
		t.Errorf("in the next session: %v", refusal)
	}
}

// TestAnAdmissionIsForWhatWasAskedFor: what is written into a PodGroup afterwards
// counts only as far as it would be admitted now.
func TestAnAdmissionIsForWhatWasAskedFor(t *testing.T) {
	for phase, pods := range map[scheduling.PodGroupPhase][]*corev1.Pod{
		scheduling.PodGroupInqueue: nil,
		scheduling.PodGroupRunning: pods(1, "j", "1000", "NVIDIA-H200", ""),
	} {
		t.Run(string(phase), func(t *testing.T) {
			world := fourH200(asks("j", "Pending", 2), asks("other", "Pending", 2))
			world.Pods = pods
			ssn := run(t, world, nil)
			job := ssn.Jobs["ns/j"]
			job.PodGroup.Status.Phase = phase
			job.PodGroup.Annotations["volcano.sh/card.request"], job.PodGroup.Spec.MinResources = `{"NVIDIA-H200":1000000}`, nil
			if got := reserved(reopen(ssn)); got != 2 {
				t.Errorf("%d cards reserved, want the 2 of the other job", got)
			}
		})
	}
}

// TestAnAdmissionOutlastsALoweredQuota: what was admitted keeps its place before
// those who come later, for as long as it waits.
func TestAnAdmissionOutlastsALoweredQuota(t *testing.T) {
	ssn := run(t, fourH200(asks("j", "Pending", 4)), nil)
	lowered := *ssn.Queues["q"].Queue
	lowered.Annotations = map[string]string{"volcano.sh/card.quota": `{"NVIDIA-H200":1}`}
	ssn.Queues["q"].Queue = &lowered
	for range 3 {
		p := reopen(ssn)
		if got := reserved(p); got != 4 {
			t.Fatalf("%d cards reserved, want 4", got)
		}
		p.memory.patience.sweep()
	}
	job := ssn.Jobs["ns/j"]
	delete(ssn.Jobs, "ns/j")
	reopen(ssn).memory.patience.sweep()
	ssn.Jobs["ns/j"] = job
	if p := reopen(ssn); reserved(p) != 0 {
		t.Errorf("%d cards reserved for a PodGroup that was gone meanwhile", reserved(p))
	}
}

// crowd is PodGroups that each ask for as many choices among as many cards as a
// card.request may hold. They are tried without minResources, so all are Inqueue.
func crowd(n int, name func(group, entry, alternative int) string) (groups []*v1beta1.PodGroup) {
	for g := range n {
		var entries []string
		for e := range card.MaxQuotaEntries {
			var names []string
			for a := range card.MaxAlternatives {
				names = append(names, name(g, e, a))
			}
			entries = append(entries, fmt.Sprintf("%q:1", strings.Join(names, "|")))
		}
		groups = append(groups, announces(fmt.Sprint("crowd-", g), "Pending", "{"+strings.Join(entries, ",")+"}"))
	}
	return groups
}

// TestACrowdOfInventedCardsIsReadOnceAndReservedNever: the work of a session is
// bounded by what queues have, and not by what users write.
func TestACrowdOfInventedCardsIsReadOnceAndReservedNever(t *testing.T) {
	invented := func(g, e, a int) string { return fmt.Sprintf("X%d%d%d", g, e+256, a) }
	ssn := run(t, fourH200(append(crowd(20, invented), asks("j", "Pending", 4))...), nil)
	if got := opened.waiting["q"].Demands; len(got) != 1 {
		t.Errorf("%d demands wait, want that of the job with quota alone", len(got))
	}
	first := opened.announcement(ssn.Jobs["ns/crowd-7"])
	for range 2 {
		p := reopen(ssn)
		if len(p.waiting["q"].Demands) != 1 {
			t.Errorf("%d demands wait in a later session", len(p.waiting["q"].Demands))
		}
		if p.announcement(ssn.Jobs["ns/crowd-7"]) != first {
			t.Error("an unchanged PodGroup was read again")
		}
	}
	ssn.Jobs["ns/crowd-7"].PodGroup.Annotations["volcano.sh/card.request"] = `{"NVIDIA-H200":1}`
	p := reopen(ssn)
	if got := p.announcement(ssn.Jobs["ns/crowd-7"]).application.Demands; len(got) != 1 {
		t.Errorf("after a change the PodGroup announces %v", got)
	}
	last := ssn.Jobs["ns/j"]
	clear(ssn.Jobs)
	for range 2 {
		p = reopen(ssn)
		p.announcement(last)
	}
	if known := len(p.memory.announced.now) + len(p.memory.announced.last); known > 2 {
		t.Errorf("%d PodGroups are remembered after they are gone", known)
	}
}
