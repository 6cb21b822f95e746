package capacitycard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// changePod applies a change to the pod of a name, and leaves all others.
func changePod(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Name == name {
			change(p)
		}
	}
}

// The two ways in which Volcano's action preempt searches nodes.
const (
	byDefault     = false
	topologyAware = true
)

// expectPreemption runs Volcano's action preempt on a scene in one or both ways. It compares how many pods of each job are
// evicted, as "old:1", and how many are pipelined to a node, as "new@a:1": they get that node once the evicted pods are
// evicted. Among equal pods Volcano chooses.
func expectPreemption(t *testing.T, text string, change func(*corev1.Pod), wantEvicted, wantPipelined string, ways ...bool) {
	for _, isAware := range ways {
		t.Run(fmt.Sprintf("topologyAware=%v", isAware), func(t *testing.T) {
			s := newScene(t, text, change).evict(preempt.New(), topologyAwarePreempt(isAware))
			check.Equal(t, "evicted", wantEvicted, countByState(s.In(api.Releasing)))
			check.Equal(t, "pipelined", wantPipelined, countByState(s.In(api.Pipelined)))
		})
	}
}

// countByState writes tasks as "old:2 new@a:1".
func countByState(tasks []*api.TaskInfo) string {
	var order []string
	count := map[string]int{}
	for _, word := range strings.Fields(session.Names(tasks)) {
		name, node, placed := strings.Cut(word, "@")
		job, _, _ := strings.Cut(name, "-")
		if placed {
			job += "@" + node
		}

		count[job]++
		if count[job] == 1 {
			order = append(order, job)
		}
	}

	for i, job := range order {
		order[i] = fmt.Sprintf("%s:%d", job, count[job])
	}

	return strings.Join(order, " ")
}

// TestPreemptEvictsOnlyWhatQuotaAndNodeLack: Volcano's action preempt evicts pods of lower priority in the queue of a
// pending pod. The plugin gives it only pods that may be evicted, and no more of them than the quota or the node
// lacks. It gives none if the pod could not run afterwards.
//
// Node a has 8 cards A and node b 8 cards B. PriorityClass low is below high. A pod requests one card A unless its job says
// otherwise, and running=a*4 are 4 pods on node a. Pods of job other use cards of a node, but no quota. Wanted are the
// numbers of pods: "old:1" is one evicted pod of job old, and "new@a:1" one of job new, which gets its place on node a.
// Preempt can search the nodes by default or topology-aware. Each row runs in both ways, unless isDefaultOnly is set.
func TestPreemptEvictsOnlyWhatQuotaAndNodeLack(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, jobs, wantEvicted, wantPipelined string
		change                                  func(*corev1.Pod)
		// isDefaultOnly: a pod is pipelined that needs no eviction of its own. Topology-aware preempt does not do that.
		isDefaultOnly bool
	}{
		"the quota of 4 is full, node a has 4 free cards: one evicted pod makes place in the quota": {
			quota: `{"A":4}`,
			jobs: `job old queue=q min=1 running=a*4 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"B has 2 cards of free quota, but no free card: cards of A are freed for a pod that may use A or B": {
			quota: `{"A":4,"B":2}`,
			jobs: `job old queue=q min=1 running=a*4 priorityClass=low
				job other queue=none min=1 running=b*8 card=B
				job new queue=q min=1 pending=1 priorityClass=high cards=2 card=A|B`,
			wantEvicted: "old:2", wantPipelined: "new@a:1",
		},
		"pods of equal priority are no victims": {
			quota: `{"A":4}`,
			jobs: `job old queue=q min=1 running=a*4 priorityClass=high
				job new queue=q min=1 pending=1 priorityClass=high`,
		},
		"5 cards exceed the quota of 4 even when all others are evicted: no pod is evicted": {
			quota: `{"A":4}`,
			jobs: `job old queue=q min=1 running=a*4 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high cards=5`,
		},
		"pods with cards B are no victims for a pod that needs A, of which a pod of equal priority has the only one": {
			quota: `{"A":1,"B":4}`,
			jobs: `job old queue=q min=1 running=b*4 card=B priorityClass=low
				job top queue=q min=1 running=a*1 priorityClass=high
				job new queue=q min=1 pending=1 priorityClass=high`,
		},
		"pods without cards stay, because they release none": {
			quota: `{"A":2}`,
			jobs: `job cpu queue=q min=1 running=a*2 cards=0 priorityClass=low
				job old queue=q min=1 running=a*2 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high cards=2`,
			wantEvicted: "old:2", wantPipelined: "new@a:1",
		},
		"pods with the annotation volcano.sh/preemptable=false stay": {
			quota: `{"A":2}`,
			jobs: `job old queue=q min=1 running=a*2 priorityClass=low preemptable=false
				job new queue=q min=1 pending=1 priorityClass=high`,
		},
		"pods whose PodGroup has volcano.sh/preemptable=false stay": {
			quota: `{"A":2}`,
			jobs: `job old queue=q min=1 running=a*2 priorityClass=low groupPreemptable=false
				job new queue=q min=1 pending=1 priorityClass=high`,
		},
		"running pods of PriorityClass system-node-critical stay": {
			quota: `{"A":2}`,
			jobs: `job old queue=q min=1 running=a*2 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
			change: func(p *corev1.Pod) {
				if p.Spec.NodeName != "" {
					p.Spec.PriorityClassName = "system-node-critical"
				}
			},
		},
		"one pod with 2 cards makes place for a gang of 2": {
			quota: `{"A":2}`,
			jobs: `job old queue=q min=1 running=a cards=2 priorityClass=low
				job new queue=q min=2 pending=2 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:2", isDefaultOnly: true,
		},
		"a gang of 3 uses the only free card, of B, and frees 2 cards of A": {
			quota: `{"A":8,"B":8}`,
			jobs: `job old queue=q min=1 running=a*2 priorityClass=low
				job other queue=none min=1 running=a*6,b*7
				job new queue=q min=3 pending=3 card=A|B priorityClass=high`,
			wantEvicted: "old:2", wantPipelined: "new@a:2 new@b:1", isDefaultOnly: true,
		},
		"the pod with 1 card stays, since the one with 4 cards is enough": {
			quota: `{"A":5}`,
			jobs: `job large queue=q min=1 running=a cards=4 priorityClass=low
				job small queue=q min=1 running=a priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high cards=4`,
			wantEvicted: "large:1", wantPipelined: "new@a:1",
		},
		"a pod of the same job with a higher priority of its own takes the place of another one": {
			quota:       `{"A":2}`,
			jobs:        "job j queue=q min=1 running=a*2 pending=1 priority=1",
			change:      changePod("j-2", func(p *corev1.Pod) { *p.Spec.Priority = 10 }),
			wantEvicted: "j:1", wantPipelined: "j@a:1",
		},
		"a pod of the same job with a higher priority needs 4 CPU, beyond the limit of 2: no eviction for cards helps": {
			quota:  `{"A":2} cpu=2`,
			jobs:   "job j queue=q min=1 running=a*2 pending=1 priority=1",
			change: changePod("j-2", func(p *corev1.Pod) { *p.Spec.Priority = 10; requests("cpu", "4")(p) }),
		},
	}) {
		text := "node a model=A cards=8; node b model=B cards=8; queue q quota=" + tc.quota + "\n" + tc.jobs

		expectPreemption(t, text, tc.change, tc.wantEvicted, tc.wantPipelined, byDefault)
		if !tc.isDefaultOnly {
			expectPreemption(t, text, tc.change, tc.wantEvicted, tc.wantPipelined, topologyAware)
		}
	}
}

// deleteEnded deletes the pods of job ended, so that they are terminating.
func deleteEnded(p *corev1.Pod) {
	if strings.HasPrefix(p.Name, "ended-") {
		deleted(p)
	}
}

// TestPreemptEvictsOnlyIfThePreemptorCanRun: terminating pods use no quota, but a queue places no pod while more of its
// cards terminate than its quota has. So preempt evicts no pod with which more cards would terminate than the quota of
// queue q, here 2. A pod without cards does not wait for terminating cards. The two pods of job old use the whole quota.
// Pods of job ended are terminating already, with one card each. A row name sums up the cards that would terminate with
// the evictions for job new.
//
// wantEvicted lists the terminating pods as well: "ended:1 old:1" is one pod of job ended, and one evicted pod of job old.
// "new@a:1" is one pod of job new, which gets its place on node a.
func TestPreemptEvictsOnlyIfThePreemptorCanRun(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ queue, jobs, wantEvicted, wantPipelined string }{
		"0 cards terminate, a pod needs 2: 2 would terminate": {
			`quota={"A":2}`, "job new queue=q min=1 pending=1 cards=2 priorityClass=high", "old:2", "new@a:1"},
		"1 terminates, a pod needs 1: 2 would terminate": {
			`quota={"A":2}`, "job new queue=q min=1 pending=1 priorityClass=high; job ended queue=q min=1 running=a", "ended:1 old:1", "new@a:1"},
		"1 terminates, a pod needs 2: 3 would terminate": {
			`quota={"A":2}`, "job new queue=q min=1 pending=1 cards=2 priorityClass=high; job ended queue=q min=1 running=a", "ended:1", ""},
		"1 terminates, two pods need 1 each: 3 would terminate with the second": {
			`quota={"A":2}`, "job new queue=q min=1 pending=2 priorityClass=high; job ended queue=q min=1 running=a", "ended:1 old:1", "new@a:1"},
		"2 terminate, a pod needs 1: 3 would terminate": {
			`quota={"A":2}`, "job new queue=q min=1 pending=1 priorityClass=high; job ended queue=q min=1 running=a*2", "ended:2", ""},
		"3 terminate already": {
			`quota={"A":2}`, "job new queue=q min=1 pending=1 priorityClass=high; job ended queue=q min=1 running=a*3", "ended:3", ""},
		"3 terminate, but a pod needs no card, only CPU, of which old uses both cores of the queue": {
			`quota={"A":2} cpu=2`, "job new queue=q min=1 pending=1 cards=0 priorityClass=high; job ended queue=q min=1 running=a*3",
			"ended:3 old:1", "new@a:1"},
	}) {
		text := "node a model=A cards=8; job old queue=q min=1 running=a*2 priorityClass=low; queue q " + tc.queue + "\n" + tc.jobs

		expectPreemption(t, text, deleteEnded, tc.wantEvicted, tc.wantPipelined, byDefault, topologyAware)
	}
}

// newReclaimScene returns a scene with node a (8 cards A), node b (8 cards B), queue inf (inference, priority 80000) and
// queue tra (training, priority 20000). Each queue has a quota of 8 A and 8 B. The text adds to it, and a queue of the
// text replaces the one of its name.
func newReclaimScene(t testing.TB, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, `node a model=A cards=8; node b model=B cards=8
		queue inf quota={"A":8,"B":8} priority=80000 serviceType=inference
		queue tra quota={"A":8,"B":8} priority=20000 serviceType=training`).addObjects(text, changes...)
}

// TestReclaimFollowsTheMatrixAndTheCards: Volcano's action reclaim evicts pods of other queues for a pending pod. The
// plugin gives it only those from which the reclaim matrix lets the pod reclaim: by default inference from training. The
// queue of the victims must be reclaimable and have a lower priority. The cards must be ones that the reclaimer may use,
// within the quota of its queue.
//
// Node a has 8 cards A and node b 8 cards B. Queue inf is inference of priority 80000 and queue tra training of
// priority 20000, each with quota for all cards of both nodes. A queue line in a row replaces the queue of its name.
// Pod i-0 of queue inf requests one card A, or what cards= and card= say. In wantPipelined "i-0@b" is pod i-0 with a
// place on node b. wantEvicted are the pods that are evicted for it: among equal pods the youngest, which have the
// highest numbers.
func TestReclaimFollowsTheMatrixAndTheCards(t *testing.T) {
	const (
		trainingIsFull = `
			job t1 queue=tra min=1 running=a*8
			job t2 queue=tra min=1 running=b*8 card=B`
		queuesWithoutType = `
			queue inf quota={"A":8,"B":8} priority=80000 reclaimable=false
			queue tra quota={"A":8,"B":8} priority=20000 reclaimable=true`
	)

	for t, tc := range check.Cases(t, map[string]struct {
		text, wantEvicted, wantPipelined string
		change                           func(*corev1.Pod)
	}{
		"inference needs 2 cards B: the 2 youngest training pods on B are evicted": {
			text:        trainingIsFull + "; job i queue=inf min=1 pending=1 cards=2 card=B",
			wantEvicted: "t2-6 t2-7", wantPipelined: "i-0@b",
		},
		"the reclaimer's queue is training, which reclaims from no queue": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1
				queue inf quota={"A":8,"B":8} priority=80000 serviceType=training reclaimable=false`,
		},
		"the victims' queue is inference, from which no queue reclaims": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1
				queue tra quota={"A":8,"B":8} priority=20000 serviceType=inference reclaimable=true`,
		},
		"neither queues nor pods have a service type: pods without one reclaim nothing": {
			text: queuesWithoutType + trainingIsFull + "; job i queue=inf min=1 pending=1",
		},
		"only the reclaimer has a service type, inference: it does not reclaim from pods without one": {
			text: queuesWithoutType + trainingIsFull + "; job i queue=inf min=1 pending=1 serviceType=inference",
		},
		"the queues have no service type: that of the pods counts": {
			text: queuesWithoutType + `
				job t1 queue=tra min=1 running=a*8 serviceType=training
				job t2 queue=tra min=1 running=b*8 card=B serviceType=training
				job i queue=inf min=1 pending=1 serviceType=inference`,
			wantEvicted: "t1-7", wantPipelined: "i-0@a",
		},
		"the queue is training, its pod says inference: the queue counts": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1 serviceType=inference
				queue inf quota={"A":8,"B":8} priority=80000 serviceType=training reclaimable=false`,
		},
		"a queue that is not reclaimable keeps its cards": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1
				queue tra quota={"A":8,"B":8} priority=20000 serviceType=training reclaimable=false`,
		},
		"a queue of equal priority keeps its cards": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1
				queue tra quota={"A":8,"B":8} priority=80000 serviceType=training`,
		},
		"a reclaimer of 2 cards whose queue has a quota of 1 reclaims nothing": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1 cards=2
				queue inf quota={"A":1} priority=80000 serviceType=inference`,
		},
		"a reclaimer that may use A or B has quota for B only: B is reclaimed": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1 card=A|B
				queue inf quota={"B":2} priority=80000 serviceType=inference`,
			wantEvicted: "t2-7", wantPipelined: "i-0@b",
		},
		"4 cards A are free, but a reclaimer that may use A or B has quota for B only: B is reclaimed": {
			text: `job t1 queue=tra min=1 running=a*4; job t2 queue=tra min=1 running=b*8 card=B
				job i queue=inf min=1 pending=1 card=A|B
				queue inf quota={"B":2} priority=80000 serviceType=inference`,
			wantEvicted: "t2-7", wantPipelined: "i-0@b",
		},
		"pods with the annotation volcano.sh/preemptable=false stay": {
			text: "job t1 queue=tra min=1 running=a*8 preemptable=false; job i queue=inf min=1 pending=1",
		},
		"the PodGroup on node a has volcano.sh/preemptable=false: node b loses a pod": {
			text: `job t1 queue=tra min=1 running=a*8 groupPreemptable=false
				job t2 queue=tra min=1 running=b*8 card=B
				job i queue=inf min=1 pending=1 card=A|B`,
			wantEvicted: "t2-7", wantPipelined: "i-0@b",
		},
		"pods without cards stay, because they release none": {
			text: `job cpu queue=tra min=1 running=a*4 cards=0
				job t1 queue=tra min=1 running=a*8
				job i queue=inf min=1 pending=1`,
			wantEvicted: "t1-7", wantPipelined: "i-0@a",
		},
		"5 cards A are needed, but the reclaimer's own queue uses 4 of the 8: no pod is evicted": {
			text: `job t1 queue=tra min=1 running=a*4; job own queue=inf min=1 running=a cards=4
				job i queue=inf min=1 pending=1 cards=5
				queue inf quota={"A":16} priority=80000 serviceType=inference`,
		},
		"elastic pods, above the minimum of their job, are evicted before a gang is broken": {
			text: `job elastic queue=tra min=1 running=a*4
				job gang queue=tra min=4 running=a*4
				job i queue=inf min=1 pending=1 cards=2`,
			wantEvicted: "elastic-2 elastic-3", wantPipelined: "i-0@a",
		},
		"a closed queue reclaims nothing": {
			text: trainingIsFull + `; job i queue=inf min=1 pending=1
				queue inf quota={"A":8,"B":8} priority=80000 serviceType=inference state=Closed`,
		},
		"no pod is evicted for one that needs 65 CPU, which no node has": {
			text:   trainingIsFull + "; job i queue=inf min=1 pending=1",
			change: changePod("i-0", requests("cpu", "65")),
		},
		"8 cards are free, but job cpu uses all CPU of node a: its pod without cards stays, as only cards are reclaimed": {
			text:   "job cpu queue=tra min=1 running=a cards=0; job i queue=inf min=1 pending=1",
			change: changePod("cpu-0", requests("cpu", "64")),
		},
		"no pod is evicted for one whose node selector matches no node": {
			text:   trainingIsFull + "; job i queue=inf min=1 pending=1",
			change: changePod("i-0", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "x"} }),
		},
	}) {
		newReclaimScene(t, tc.text, tc.change).evict(reclaim.New()).expectEvictions(tc.wantEvicted, tc.wantPipelined)
	}
}

// TestReclaimEvictsTheLowestPriorityFirst: inference needs 2 of the 8 cards that training uses on node a. With victimOrder
// Priority the pods of the lowest priority lose them: first the queue's priority counts, then the PriorityClass. A class
// that the policy does not list counts as its lowest, pc-low. Only among equals, or with victimOrder Loss, the smaller
// loss decides: an elastic pod (min=1) costs less than a pod of a gang of 4 (min=4), which breaks and loses its work of 9
// hours (age=9h). classOfJob has the PriorityClass of each job. "low:2" are 2 evicted pods of job low.
func TestReclaimEvictsTheLowestPriorityFirst(t *testing.T) {
	classOfJob := map[string]string{"low": "pc-low", "elastic": "pc-low", "high": "pc-high", "unlisted": "own-class"}
	setClass := func(p *corev1.Pod) {
		job, _, _ := strings.Cut(p.Name, "-")
		p.Spec.PriorityClassName = classOfJob[job]
	}

	for t, tc := range check.Cases(t, map[string]struct{ victimOrder, jobs, wantEvicted string }{
		"Priority: the gang of pc-low, although it breaks": {
			"Priority", "job low queue=tra min=4 running=a*4 age=9h; job high queue=tra min=1 running=a*4", "low:2"},
		"Loss: elastic pods, although they are pc-high": {
			"Loss", "job low queue=tra min=4 running=a*4 age=9h; job high queue=tra min=1 running=a*4", "high:2"},
		"Priority: the gang of a class that the policy does not list": {
			"Priority", "job unlisted queue=tra min=4 running=a*4 age=9h; job high queue=tra min=1 running=a*4", "unlisted:2"},
		"Priority: of two jobs of pc-low the elastic pods": {
			"Priority", "job low queue=tra min=4 running=a*4 age=9h; job elastic queue=tra min=1 running=a*4", "elastic:2"},
		"Priority: the gang of pc-high in a queue of priority 10000, below the 20000 of tra": {
			"Priority", `queue less quota={"A":8,"B":8} priority=10000 serviceType=training
				job high queue=less min=4 running=a*4; job low queue=tra min=1 running=a*4`, "high:2"},
	}) {
		s := newReclaimScene(t, tc.jobs+"; job i queue=inf min=1 pending=1 cards=2", setClass)
		s.withArguments(framework.Arguments{"victimOrder": tc.victimOrder}).evict(reclaim.New())
		check.Equal(t, "evicted", tc.wantEvicted, countByState(s.In(api.Releasing)))
	}
}

// TestOwnerKindSetsTheServiceType: the argument podOwnerReferenceToServiceType gives pods of a kind of owner a service
// type, without an annotation of queue or pod. Pod i-0 has the label and the ReplicaSet by which a Deployment is
// recognised, so it is inference. It reclaims a card from a Volcano job, which is training: from the youngest pod, t-7.
func TestOwnerKindSetsTheServiceType(t *testing.T) {
	serviceTypes := map[any]any{"Deployment": "inference", "Job.batch.volcano.sh": "training"}
	ownByDeployment := changePod("i-0", func(p *corev1.Pod) {
		p.Labels["pod-template-hash"] = "1"
		session.OwnedBy("apps/v1", "ReplicaSet", "o", "o")(p)
	})

	s := newScene(t, `node a model=A cards=8
		queue inf quota={"A":8} priority=80000 reclaimable=false
		queue tra quota={"A":8} priority=20000 reclaimable=true
		job t queue=tra min=1 running=a*8 owner=vcjob
		job i queue=inf min=1 pending=1`, ownByDeployment)
	s.withArguments(framework.Arguments{"podOwnerReferenceToServiceType": serviceTypes}).evict(reclaim.New())
	s.expectEvictions("t-7", "i-0@a")
}

// TestReclaimRespectsTheMinimumRuntime: a service type can have a minimumRuntime. Until a job has run that long, the plugin
// gives Volcano's action reclaim none of its pods. Jobs old and new of training use 4 of the 8 cards each, and pod i-0 of
// inference needs one. Without a minimum the younger job loses its youngest pod, because that loses the least work.
func TestReclaimRespectsTheMinimumRuntime(t *testing.T) {
	oneHour := framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}},
		"training":  map[string]any{"reclaimable": true, "minimumRuntime": "1h"},
	}}

	for t, tc := range check.Cases(t, map[string]struct {
		args                       framework.Arguments
		oldAge, newAge             string
		change                     func(*corev1.Pod)
		wantEvicted, wantPipelined string
	}{
		"no minimum: the younger job loses a pod": {
			oldAge: "2h", newAge: "1m", wantEvicted: "new-3", wantPipelined: "i-0@a"},
		"1h: the older job loses a pod, because the younger has run for 59 minutes only": {
			args: oneHour, oldAge: "61m", newAge: "59m", wantEvicted: "old-3", wantPipelined: "i-0@a"},
		"1h: neither job has run that long, and no pod is evicted": {
			args: oneHour, oldAge: "59m", newAge: "1m"},
		"1h: job new counts from its oldest pod, new-0, which has run for 2 hours": {
			args: oneHour, oldAge: "59m", newAge: "1m",
			change:      changePod("new-0", func(p *corev1.Pod) { p.Status.StartTime.Time = p.Status.StartTime.Add(-2 * time.Hour) }),
			wantEvicted: "new-3", wantPipelined: "i-0@a"},
		"1h: pods without a start time have not run, however long ago they were created": {
			args: oneHour, oldAge: "2h", newAge: "2h",
			change: func(p *corev1.Pod) { p.Status.StartTime = nil }},
	}) {
		s := newReclaimScene(t, fmt.Sprintf(`
			job old queue=tra min=1 running=a*4 age=%s
			job new queue=tra min=1 running=a*4 age=%s
			job i queue=inf min=1 pending=1`, tc.oldAge, tc.newAge), tc.change)
		s.withArguments(tc.args).evict(reclaim.New()).expectEvictions(tc.wantEvicted, tc.wantPipelined)
	}
}

// TestReclaimWaitsForTerminatingPods: terminating pods use no quota, but a queue places no pod while more of its cards
// terminate than its quota has. So it reclaims nothing then, and has no free quota. Queue inf has a quota of 2. The pods of
// its job ended terminate, with one card on each of the nodes endedOn. These nodes have one card only, too few for the
// pending pod of 2 cards. It needs 2 cards of job t on node a. "ended:2 t:2" are 2 terminating or evicted pods of each.
func TestReclaimWaitsForTerminatingPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		endedOn     string
		wantFree    int
		wantEvicted string
	}{
		"2 cards terminate, as many as the quota": {"c,d", 2, "ended:2 t:2"},
		"3 cards terminate":                       {"c,d,e", 0, "ended:3"},
	}) {
		s := newReclaimScene(t, `node c,d,e model=A cards=1
			queue inf quota={"A":2} priority=80000 serviceType=inference
			job t queue=tra min=1 running=a*8
			job i queue=inf min=1 pending=1 cards=2
			job ended queue=inf min=1 running=`+tc.endedOn, deleteEnded).openSession()
		check.Equal(t, "free quota", tc.wantFree, int(s.pluginForActions().Rules.FreeQuota("inf", "A")))
		check.Equal(t, "the pending pod may reclaim", tc.wantFree > 0, s.pluginForActions().Rules.CanReclaim(s.Task("i-0")))

		s.evict(reclaim.New())
		check.Equal(t, "terminating and evicted", tc.wantEvicted, countByState(s.In(api.Releasing)))
	}
}

// TestReclaimEvictsConflictingPods: the pending pod high-0 of inference has an anti-affinity against app=x, the label
// of all training pods on node a. So high-0 can run there only if all of them are evicted. Volcano evicts just as
// many pods as the missing cards need, but at least one. So the plugin gives Volcano no victim if a conflicting pod
// would stay. "t:1" is one evicted pod of job t.
func TestReclaimEvictsConflictingPods(t *testing.T) {
	protected := annotate("volcano.sh/preemptable", "false")
	conflict := func(p *corev1.Pod) {
		avoidsX(p) // adds the anti-affinity to pods of job high
		if strings.HasPrefix(p.Name, "t-") {
			p.Labels["app"] = "x"
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		jobs        string
		change      func(*corev1.Pod)
		wantEvicted string
	}{
		"one pod conflicts, 7 cards are free: that pod is evicted": {
			"job t queue=tra min=1 running=a; job high queue=inf min=1 pending=1 cards=1", nil, "t:1"},
		"one pod conflicts and may not be evicted": {
			"job t queue=tra min=1 running=a; job high queue=inf min=1 pending=1 cards=1", changePod("t-0", protected), ""},
		"two pods conflict, and one of them may not be evicted": {
			"job t queue=tra min=1 running=a*2; job high queue=inf min=1 pending=1 cards=1", changePod("t-1", protected), ""},
		"two pods conflict, 6 cards are free: Volcano would evict only one": {
			"job t queue=tra min=1 running=a*2; job high queue=inf min=1 pending=1 cards=1", nil, ""},
		"eight pods conflict, and all their cards are needed": {
			"job t queue=tra min=1 running=a*8; job high queue=inf min=1 pending=1 cards=8", nil, "t:8"},
	}) {
		s := newReclaimScene(t, tc.jobs, conflict, tc.change).evict(reclaim.New())
		check.Equal(t, "evicted", tc.wantEvicted, countByState(s.In(api.Releasing)))
	}
}
