package cardreclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// withCores sets the CPU that the pods of each job request: "t 4 u 2".
func withCores(text string) func(*corev1.Pod) {
	words := strings.Fields(text)
	changes := []func(*corev1.Pod){}
	for i := 0; i+1 < len(words); i += 2 {
		changes = append(changes, onJob(words[i], requests("cpu", words[i+1])))
	}
	return applyAll(changes...)
}

// TestReclaimOfCPUAndMemory: node n has 8 cores and 4 cards. With reclaimResources All, pods
// without cards reclaim and are reclaimed from, too.
func TestReclaimOfCPUAndMemory(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text, cores     string
		goes, pipelined string
		// byDefault is what is evicted with reclaimResources Cards.
		byDefault string
	}{
		"a pod without cards from one without cards": {text: "job t queue=tra min=1 running=n cards=0 age=1h; job i queue=inf min=1 pending=1 cards=0", cores: "t 8 i 2", goes: "t-0", pipelined: "i-0@n"},
		"a gang without cards goes whole":            {text: "job t queue=tra min=4 running=n*4 cards=0 age=1h; job i queue=inf min=1 pending=1 cards=0", cores: "t 2 i 2", goes: "t*4", pipelined: "i-0@n"},
		"elastic pods alone":                         {text: "job t queue=tra min=1 running=n*4 cards=0 age=1h; job i queue=inf min=1 pending=1 cards=0", cores: "t 2 i 3", goes: "t-0 t-1", pipelined: "i-0@n"},
		"none while CPU suffices":                    {text: "job t queue=tra min=1 running=n cards=0 age=1h; job i queue=inf min=1 pending=1 cards=0", cores: "t 4 i 4"},
		"a card pod that lacks only CPU from training without cards": {text: "job t queue=tra min=1 running=n cards=0 age=1h; job u queue=tra min=1 running=n*2 age=1h; job i queue=inf min=1 pending=1", cores: "t 6 u 1 i 2",
			goes: "t-0", pipelined: "i-0@n", byDefault: "u-0 u-1"},
		"the pod without cards before the one with cards":          {text: "job t queue=tra min=1 running=n cards=0 age=99h; job u queue=tra min=1 running=n age=1h; job i queue=inf min=1 pending=1 cards=0", cores: "t 4 u 4 i 2", goes: "t-0", pipelined: "i-0@n"},
		"but the lower priority first":                             {text: "queue old quota=PLENTY priority=10000 serviceType=training; job t queue=tra min=1 running=n cards=0 age=1h; job u queue=old min=1 running=n age=99h; job i queue=inf min=1 pending=1 cards=0", cores: "t 4 u 4 i 2", goes: "u-0", pipelined: "i-0@n"},
		"the least core-seconds: 4 cores × 3 h, not 2 cores × 9 h": {text: "job t queue=tra min=1 running=n cards=0 age=3h; job u queue=tra min=1 running=n cards=0 age=9h; job i queue=inf min=1 pending=1 cards=0", cores: "t 4 u 2 i 4", goes: "t-0", pipelined: "i-0@n"},
		"no pod of its own queue":                                  {text: "job t queue=inf min=1 running=n cards=0 age=1h; job i queue=inf min=1 pending=1 cards=0", cores: "t 8 i 2"},
		"none that is protected":                                   {text: "job t queue=tra min=1 running=n cards=0 age=1h preemptable=false; job i queue=inf min=1 pending=1 cards=0", cores: "t 8 i 2"},
		"none for training":                                        {text: "job t queue=inf min=1 running=n cards=0 age=1h; job i queue=tra min=1 pending=1 cards=0", cores: "t 8 i 2"},
	}) {
		for resources, goes := range map[string]string{"All": tc.goes, "Cards": tc.byDefault} {
			w := newScene("node n model=A cards=4; "+tc.text, withCores(tc.cores))
			w.Nodes[0].Status.Allocatable["cpu"] = amount("8")
			w.args = framework.Arguments{"reclaimResources": resources}
			w.alone = true
			w.runAction(t)
			if resources == "All" && tc.goes != "" {
				w.expectEvictedAndPlaced(t, goes, tc.pipelined)
				continue
			}

			got, _ := w.Outcome()
			check.Equal(t, "evicted with "+resources, goes, got)
		}
	}
}

// TestReclaimedCPUIsNotBorrowedAgain: a gang of six cores, two of them borrowed, is evicted for a pod.
// When that pod is gone, the gang fits again. It waits until the cooldown is over.
func TestReclaimedCPUIsNotBorrowedAgain(t *testing.T) {
	w := newTree("x quota=8 deserved=8; y quota=8 deserved=8; xa parent=x quota=8 deserved=8 serviceType=training; ya parent=y quota=8 deserved=8 serviceType=training", "node n model=A cards=8; job c queue=ya min=6 running=n*6 cards=0 age=1h; job r queue=xa min=1 pending=1 cards=0", withCores("c 1 r 4"))
	w.Nodes[0].Status.Allocatable["cpu"] = amount("8")
	for _, q := range w.Queues {
		q.Spec.Deserved = corev1.ResourceList{"cpu": amount("4"), "memory": amount("100Gi")}
	}

	w.args["reclaimResources"] = "All"
	w.runAction(t)
	check.Equal(t, "victims", "ya 6", w.evictedByQueue())

	for range 2 {
		w.settle()
		w.runAction(t)
	}

	check.Equal(t, "pods that run", "r-0", session.Names(w.In(api.Running)))
	w.settle()
	w.Cache.DeletePod(w.Pod("r-0"))
	w.runAction(t)
	check.Equal(t, "pods of the gang that start", "", session.Names(append(w.In(api.Allocated), w.In(api.Binding)...)))
}

// TestReclaimOfCPUInTree: queues deserve CPU, and are guaranteed some of it. Node n has 8 cores.
func TestReclaimOfCPUInTree(t *testing.T) {
	const pods = "job b queue=xb min=%d running=n*8 cards=0 age=1h; job r queue=xa min=%d pending=%d cards=0"
	for t, tc := range check.Cases(t, map[string]struct {
		deserved, guarantee string // of xa and of xb
		gang, least, pods   int
		victims             string
	}{
		"what its sibling borrows":              {"2 4", "0 0", 1, 2, 2, "xb 2"},
		"no more than it deserves":              {"2 4", "0 0", 1, 3, 3, ""},
		"the part that it deserves":             {"2 4", "0 0", 1, 1, 3, "xb 2"},
		"no more than its sibling has borrowed": {"4 6", "0 0", 1, 1, 4, "xb 2"},
		"a gang below what its queue deserves":  {"4 7", "0 0", 8, 1, 1, "xb 8"},
		"but not below its guarantee":           {"1 7", "0 1", 8, 1, 1, ""},
	}) {
		w := newTree("x quota=8 deserved=8; xa parent=x quota=8 deserved=8 serviceType=training; xb parent=x quota=8 deserved=8 serviceType=training", fmt.Sprintf("node n model=A cards=8; "+pods, tc.gang, tc.least, tc.pods))
		w.Nodes[0].Status.Allocatable["cpu"] = amount("8")
		for i, queue := range []string{"xa", "xb"} {
			for _, q := range w.Queues {
				if q.Name == "x" {
					q.Spec.Guarantee.Resource = corev1.ResourceList{"cpu": amount("8")}
				}
				if q.Name == queue {
					q.Spec.Deserved = corev1.ResourceList{"cpu": amount(strings.Fields(tc.deserved)[i]), "memory": amount("100Gi")}
					q.Spec.Guarantee.Resource = corev1.ResourceList{"cpu": amount(strings.Fields(tc.guarantee)[i])}
				}
			}
		}

		w.args["reclaimResources"] = "All"
		w.alone = true
		w.runAction(t)
		check.Equal(t, "victims", tc.victims, w.evictedByQueue())
	}
}
