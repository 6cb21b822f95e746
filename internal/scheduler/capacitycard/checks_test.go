package capacitycard

import (
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// nameOf is the name of a function without its package.
func nameOf(function any) string {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	return name[strings.LastIndex(name, ".")+1:]
}

// checkInputFor is what the checks read of a pod on a node. A test may change its request.
func (s *scene) checkInputFor(task, node string) snapshot.CheckInput {
	input, known := s.p.CheckInputFor(s.Task(task))
	check.Must(s.t, known, "pod %s has no job", task)
	input.Request = ptr.To(*input.Request)
	input.Node = node
	return input
}

// keptQuotaCheck is the check of what preempt freed for other pods, which is none of the lists of package snapshot.
const keptQuotaCheck = "checkKeptQuota"

// refusalBy returns the refusal of a check.
func (s *scene) refusalBy(name string, input snapshot.CheckInput) *workload.Refusal {
	if name == keptQuotaCheck {
		return s.p.Kept.CheckKeptQuota(input)
	}
	for _, each := range slices.Concat(snapshot.QuotaChecks, snapshot.ReclaimChecks, snapshot.PlaceChecks) {
		if nameOf(each) == name {
			return each(s.p.Session, input)
		}
	}
	s.t.Fatalf("there is no check %s", name)
	return nil
}

// keepForPreemptor keeps the cards of pod p-0 on node a, and as much of the quota of its queue. Preempt evicted others for
// that pod. Its job has the priority of all jobs here, so it comes before them.
func (s *scene) keepForPreemptor() {
	s.m.kept.Preempted[s.Pod("p-0").UID] = keptcards.Nomination{Node: "a", Since: s.m.Now()}
	s.p.Kept.Load()
}

// withClaim returns a task whose pod has a ResourceClaim.
func withClaim(task *api.TaskInfo) *api.TaskInfo {
	changed := task.Clone()
	changed.Pod = task.Pod.DeepCopy()
	claims("claim")(changed.Pod)
	return changed
}

// TestKeptQuotaRefusesNoPodWithoutCards: preempt evicted pods for pod p-0 of queue inf, and the whole quota of 8 is
// kept for that pod. Pod i-0 of the same queue requests a resource that no node has. So it can use no card, and its
// request has no card names. The check for kept quota does not refuse i-0, as i-0 takes none of that quota.
func TestKeptQuotaRefusesNoPodWithoutCards(t *testing.T) {
	s := newReclaimScene(t, "job i queue=inf min=1 pending=1; job p queue=inf min=1 pending=1 cards=8").openSession()
	input := s.checkInputFor("i-0", "")
	s.keepForPreemptor()
	input.Request.Names = nil // no node has the resource
	check.That(t, s.p.Kept.CheckKeptQuota(input) == nil, "pod i-0 is refused for the kept quota")
}

// TestEachCheckRefusesAPod: the plugin decides about a pod by lists of checks, and each check looks at one thing. Pod i-0
// of inference requests one card A. Node a has 8 of them, of which job t uses 4, and the quota of queue inf is 8. The check
// of a row does not refuse i-0 at first. Then the row changes one thing, and its check refuses the pod with a message.
// Every check has a row. Pod p-0 is for the row in which quota is kept.
func TestEachCheckRefusesAPod(t *testing.T) {
	setRule := func(change func(*workload.QueueRules)) func(*scene, *snapshot.CheckInput) {
		return func(_ *scene, input *snapshot.CheckInput) {
			input.Rules = ptr.To(*input.Rules)
			change(input.Rules)
		}
	}
	requestTooMany := func(_ *scene, input *snapshot.CheckInput) { input.Request.Count = 10_000 }

	cases := map[string]struct {
		check       string
		change      func(*scene, *snapshot.CheckInput)
		wantMessage string
	}{
		"the arguments of the plugin are wrong": {
			"argumentsAreValid", func(s *scene, _ *snapshot.CheckInput) { s.p.ArgumentsErr = errors.New("wrong") },
			"Arguments of capacity-card are invalid: wrong"},
		"Volcano's cache is not synced": {
			"cacheIsSynced", func(s *scene, _ *snapshot.CheckInput) { s.p.AwaitsSync = true }, "has not seen every node and pod yet"},
		"the queue does not exist": {
			"queueExists", func(_ *scene, input *snapshot.CheckInput) {
				input.Job = &api.JobInfo{Queue: "gone"}
				input.Rules = nil
			}, "Queue <gone> does not exist"},
		"the queue accepts no pods, as it is being deleted": {
			"queueIsUsable", setRule(func(rules *workload.QueueRules) { rules.Refusal = &workload.Refusal{Code: workload.CodeQueueDeleted} }), "is being deleted"},
		"the queue selects other namespaces": {
			"namespaceIsAllowed", setRule(func(rules *workload.QueueRules) { rules.Namespaces = labels.Nothing() }), "namespace"},
		"the request of the pod cannot be read": {
			"requestIsValid", func(_ *scene, input *snapshot.CheckInput) {
				input.Request.Denied = &workload.Refusal{Code: workload.CodeInvalidPod, Detail: "unreadable"}
			}, "unreadable"},
		"the pod has a ResourceClaim that does not exist": {
			"claimsAreAllowed", func(_ *scene, input *snapshot.CheckInput) { input.Task = withClaim(input.Task) },
			"Pod waits for ResourceClaim <claim>, which does not exist yet"},
		"the pod requests 10000 cards, more than the quota of each card that it may use": {
			"queueHasQuota", requestTooMany, "Queue <inf> has insufficient <A> quota: requested <10000>"},
		"the pod requests 10000 cards, more than its queue deserves, which is its quota": {
			"queueDeserves", requestTooMany, "Queue <inf> has insufficient <A> quota: requested <10000>"},
		"the pod is training, which may not reclaim": {
			"mayReclaim", func(s *scene, input *snapshot.CheckInput) { input.Task = s.Task("t-0") }, `service type "training" may not reclaim cards`},
		"the node has cards B, and the pod may use A only": {
			"cardIsAllowed", func(_ *scene, input *snapshot.CheckInput) { input.Node = "b" }, "pod ns/i-0 may not run on the card of node b"},
		"the pod requests 10000 cards, more than the quota of the node's card": {
			"queueHasQuotaForCard", requestTooMany, "Queue <inf> has insufficient <A> quota: requested <10000>"},
		"all 8 cards of the quota are kept for p-0, for which preempt evicted others": {
			keptQuotaCheck, func(s *scene, _ *snapshot.CheckInput) { s.keepForPreemptor() },
			"Queue <inf> has insufficient <A> quota: requested <1>, total would be <9>, but capability is <8>; " +
				"preempt freed quota for other pods, which come first"},
	}
	for t, tc := range check.Cases(t, cases) {
		s := newReclaimScene(t, "job t queue=tra min=1 running=a*4; job i queue=inf min=1 pending=1; job p queue=inf min=1 pending=1 cards=8").openSession()
		input := s.checkInputFor("i-0", "a")
		check.That(t, s.refusalBy(tc.check, input) == nil, "the pod is refused before the change: %v", s.refusalBy(tc.check, input))

		tc.change(s, &input)
		refusal := s.refusalBy(tc.check, input)
		check.Must(t, refusal != nil, "the pod is not refused")
		check.Contains(t, "refusal", refusal.Message(), tc.wantMessage)
	}

	tested := map[string]bool{}
	for _, tc := range cases {
		tested[tc.check] = true
	}
	check.That(t, tested[keptQuotaCheck], "check %s has no row", keptQuotaCheck)
	for _, each := range slices.Concat(snapshot.QuotaChecks, snapshot.ReclaimChecks, snapshot.PlaceChecks) {
		check.That(t, tested[nameOf(each)], "check %s has no row", nameOf(each))
	}
}

// TestEachCheckOfNodesRefusesANode: the predicate asks a list of checks whether pod i-0 may run on node a. In each row one
// check refuses the node with its reason. Every check has a row. In the scene free, in which i-0 fits beside a training pod
// with one card, no check refuses node a.
//
// Node a has 8 cards A, and i-0 requests one. Queue inf is inference of priority 80000, queue tra training of priority
// 20000, each with a quota of 8 cards A and 8 cards B.
func TestEachCheckOfNodesRefusesANode(t *testing.T) {
	// A pod that should have been gone an hour ago is stuck: its node may never get its cards back.
	stick := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)} }
	usePort := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }
	// While a row with this text is checked, preempt runs for pod strong-0 of the queue of i-0.
	const preemptRuns = `; job weak queue=inf min=1 running=b card=B priorityClass=low
		job strong queue=inf min=1 pending=1 card=B priorityClass=high`

	cases := map[string]struct {
		check      nodeCheckFunc
		jobs       string
		changePods []func(*corev1.Pod)
		change     func(*scene, *snapshot.CheckInput)
		wantReason int
	}{
		"a stuck pod uses the host port of i-0": {
			check: noStuckPodConflicts, jobs: "job stuck queue=tra min=1 running=a; job i queue=inf min=1 pending=1",
			changePods: []func(*corev1.Pod){usePort, changePod("stuck-0", stick)},
			wantReason: conflictsWithStuckPod,
		},
		"preempt runs, and a pod of another queue uses the host port of i-0: preempt may not evict it": {
			check: conflictsArePreemptable, jobs: "job t queue=tra min=1 running=a; job i queue=inf min=1 pending=1" + preemptRuns,
			changePods: []func(*corev1.Pod){usePort},
			wantReason: conflictNotPreemptable,
		},
		"a stuck pod uses all 8 cards": {
			check: cardsAreNotStuck, jobs: "job stuck queue=tra min=1 running=a cards=8; job i queue=inf min=1 pending=1",
			changePods: []func(*corev1.Pod){changePod("stuck-0", stick)},
			wantReason: cardsAreStuck,
		},
		"all 8 cards were reclaimed for a pod of inference, and i-0 is training": {
			check: reclaimedCardsStayFree, jobs: "job i queue=tra min=1 pending=1; job v queue=inf min=1 pending=1 cards=8",
			change: func(s *scene, _ *snapshot.CheckInput) {
				s.keepReclaimed("a", "v-0")
				s.p.Kept.Load()
			},
			wantReason: reclaimedByOthers,
		},
		"preempt freed all 8 cards for a pod of another queue": {
			check: preemptedCardsStayFree, jobs: "job i queue=inf min=1 pending=1; job p queue=tra min=1 pending=1 cards=8",
			change:     func(s *scene, _ *snapshot.CheckInput) { s.keepForPreemptor() },
			wantReason: keptForPreemptors,
		},
		"preempt freed all 8 cards for a pod of another queue; now preempt runs, and finds no victim for i-0": {
			check: preemptedCardsStayFree, jobs: "job i queue=inf min=1 pending=1; job p queue=tra min=1 pending=1 cards=8" + preemptRuns,
			change:     func(s *scene, _ *snapshot.CheckInput) { s.keepForPreemptor() },
			wantReason: keptForPreemptorsWithoutVictims,
		},
		"preempt freed the whole quota of 8 for another pod of queue inf": {
			check: preemptedQuotaStaysFreeOnNode, jobs: "job i queue=inf min=1 pending=1; job p queue=inf min=1 pending=1 cards=8",
			change:     func(s *scene, _ *snapshot.CheckInput) { s.keepForPreemptor() },
			wantReason: quotaKeptForPreemptors,
		},
		"in a tree, allocate first places pods with alternatives on cards that their queues deserve, and inf deserves no A": {
			check: cardIsDeserved, jobs: "job i queue=inf min=1 pending=1 card=A|B",
			// In the first of two runs of allocate, which found just before that inf deserves no card of the request.
			change: func(s *scene, r *snapshot.CheckInput) {
				s.p.allocation.deservedFirst = &deservedFirst{tried: r.Task.UID}
			},
			wantReason: cardNotDeserved,
		},
		"i-0 may use cards B only": {
			check: cardFits, jobs: "job i queue=inf min=1 pending=1 card=B",
			wantReason: cardNotAllowed,
		},
		"i-0 requests 10000 cards, more than the quota": {
			check: cardFits, jobs: "job i queue=inf min=1 pending=1",
			change:     func(_ *scene, input *snapshot.CheckInput) { input.Request.Count = 10_000 },
			wantReason: quotaExceeded,
		},
		"all 8 free cards are kept for a job of inference, and i-0 is training": {
			check: awaitedCardsStayFree, jobs: "job g queue=inf min=1 pending=1 cards=8; job i queue=tra min=1 pending=1",
			change:     func(s *scene, _ *snapshot.CheckInput) { s.p.waiting.Load() },
			wantReason: cardsAwaitedByOthers,
		},
	}
	for t, tc := range check.Cases(t, cases) {
		s := newReclaimScene(t, tc.jobs, tc.changePods...).openSession()
		input := s.checkInputFor("i-0", "a")
		if tc.change != nil {
			tc.change(s, &input)
		}

		reason := -1
		checkNode := func() { reason = tc.check(s.p.nodes, input, s.Ssn.Nodes["a"]) }
		if strings.HasSuffix(tc.jobs, preemptRuns) {
			s.p.Preempt(preemption.Hooks{}, checkNode)
		} else {
			checkNode()
		}
		check.Equal(t, "reason", tc.wantReason, reason)
	}

	tested := map[string]bool{}
	for _, tc := range cases {
		tested[nameOf(tc.check)] = true
	}

	free := newReclaimScene(t, "job t queue=tra min=1 running=a; job i queue=inf min=1 pending=1").openSession()
	for _, each := range nodeChecks {
		check.That(t, tested[nameOf(each)], "check %s has no row", nameOf(each))
		check.Equal(t, "reason of "+nameOf(each)+" against node a, on which i-0 fits", nodeFits, each(free.p.nodes, free.checkInputFor("i-0", "a"), free.Ssn.Nodes["a"]))
	}
}
