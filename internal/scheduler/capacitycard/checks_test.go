package capacitycard

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// nameOf is the name of a function without its package.
func nameOf(function any) string {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	return name[strings.LastIndex(name, ".")+1:]
}

// checkInputFor is a request that a test may change, and the queue's rules with it.
func (s *scene) checkInputFor(task, node string) checkInput {
	s.t.Helper()
	r, known := s.p.checkInputFor(s.Task(task))
	check.Must(s.t, known, "pod %s has no job", task)
	r.request = ptr.To(*r.request)
	r.node = node
	return r
}

// keepForPreemptor keeps so many cards of node a, and of the quota of a queue, for a pod of an
// equal job.
func (s *scene) keepForPreemptor(r *checkInput, queue string, cards card.Count) {
	task := r.task.Clone()
	task.InitResreq = api.NewResource(corev1.ResourceList{gpu: *resource.NewQuantity(int64(cards), resource.DecimalSI)})
	job := &api.JobInfo{UID: "other", Queue: api.QueueID(queue), Priority: r.job.Priority}
	w := &waitingPreemptor{task, job, &quota.Charge{Queue: queue, Cards: []card.Amount{{Name: "A", Count: cards}}}}
	s.p.preemptedCards = preemptedCards{map[string][]*waitingPreemptor{"a": {w}}, map[api.QueueID][]*waitingPreemptor{job.Queue: {w}}}
}

// withClaim returns a task whose pod has a ResourceClaim.
func withClaim(task *api.TaskInfo) *api.TaskInfo {
	changed := task.Clone()
	changed.Pod = task.Pod.DeepCopy()
	claims("claim")(changed.Pod)
	return changed
}

// TestKeptQuotaRefusesNoPodWithoutCards: a pod may have no card that it could use, because no node offers its
// resource. What is kept for others has nothing against it.
func TestKeptQuotaRefusesNoPodWithoutCards(t *testing.T) {
	s := newReclaimScene(t, "job t queue=tra min=1 running=a*4; job i queue=inf min=1 pending=1").openSession()
	r := s.checkInputFor("i-0", "")
	s.keepForPreemptor(&r, "inf", 8)
	r.request.Names = nil
	check.That(t, preemptedQuotaStaysFree(s.p, r) == nil, "the pod is refused")
}

// TestEachCheckRefuses: every check has nothing against a pod that fits, and refuses it for
// the one thing that it looks at.
func TestEachCheckRefuses(t *testing.T) {
	rule := func(change func(*workload.QueueRules)) func(*scene, *checkInput) {
		return func(_ *scene, r *checkInput) {
			r.rules = ptr.To(*r.rules)
			change(r.rules)
		}
	}

	many := func(_ *scene, r *checkInput) { r.request.Count = 10_000 }
	cases := map[string]struct {
		spoil func(*scene, *checkInput)
		says  string
	}{
		"argumentsAreValid": {func(s *scene, _ *checkInput) { s.p.argumentsErr = errors.New("wrong") }, "Arguments of capacity-card are invalid: wrong"},
		"cacheIsSynced":     {func(s *scene, _ *checkInput) { s.p.notReadyReason = "not yet" }, "not yet"},
		"queueExists": {func(_ *scene, r *checkInput) {
			r.job = &api.JobInfo{Queue: "gone"}
			r.rules = nil
		}, "Queue <gone> does not exist"},
		"queueIsUsable":        {rule(func(rules *workload.QueueRules) { rules.Refusal = &workload.Refusal{Message: "closed"} }), "closed"},
		"namespaceIsAllowed":   {rule(func(rules *workload.QueueRules) { rules.Namespaces = labels.Nothing() }), "namespace"},
		"requestIsValid":       {func(_ *scene, r *checkInput) { r.request.Denied = &workload.Refusal{Message: "unreadable"} }, "unreadable"},
		"claimsAreAllowed":     {func(_ *scene, r *checkInput) { r.task = withClaim(r.task) }, "Pod waits for ResourceClaim <claim>, which does not exist yet"},
		"queueHasQuota":        {many, "Queue <inf> has insufficient <A> quota: requested <10000>"},
		"mayReclaim":           {func(s *scene, r *checkInput) { r.task = s.Task("t-0") }, `service type "training" may not reclaim cards`},
		"cardIsAllowed":        {func(_ *scene, r *checkInput) { r.node = "b" }, "pod ns/i-0 may not run on the card of node b"},
		"queueHasQuotaForCard": {many, "Queue <inf> has insufficient <A> quota: requested <10000>"},
		"preemptedQuotaStaysFree": {func(s *scene, r *checkInput) { s.keepForPreemptor(r, "inf", 8) },
			"Queue <inf> has insufficient <A> quota: requested <1>, total would be <9>, but capability is <8>; preempt freed quota for other pods, which come first"},
	}

	tested := map[string]bool{}
	for _, checks := range [][]checkFunc{quotaChecks, reclaimChecks, placeChecks} {
		for _, c := range checks {
			name := nameOf(c)
			tc, known := cases[name]
			check.Must(t, known, "check %s has no case", name)

			if tested[name] {
				continue
			}
			tested[name] = true

			t.Run(name, func(t *testing.T) {
				s := newReclaimScene(t, "job t queue=tra min=1 running=a*4; job i queue=inf min=1 pending=1").openSession()
				r := s.checkInputFor("i-0", "a")
				check.That(t, c(s.p, r) == nil, "a pod that fits is refused: %v", c(s.p, r))
				tc.spoil(s, &r)
				refusal := c(s.p, r)
				check.That(t, refusal != nil && strings.Contains(refusal.Message, tc.says), "refused with %v, want %q", refusal, tc.says)
			})
		}
	}

	check.Equal(t, "checks", len(cases), len(tested))
}

// TestEachCheckOfNodesRefuses is the same for those of a node.
func TestEachCheckOfNodesRefuses(t *testing.T) {
	hung := changePod("h-0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)} })
	port := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }
	cases := map[string]struct {
		text   string
		change func(*corev1.Pod)
		spoil  func(*scene, *checkInput)
		why    int
	}{
		"noStuckPodConflicts":     {"job h queue=tra min=1 running=a; job i queue=inf min=1 pending=1", func(p *corev1.Pod) { port(p); hung(p) }, nil, conflictsWithStuckPod},
		"conflictsArePreemptable": {"job t queue=tra min=1 running=a; job i queue=inf min=1 pending=1", port, func(s *scene, _ *checkInput) { s.p.preemption = &preemption{p: s.p} }, conflictNotPreemptable},
		"cardsAreNotStuck":        {"job h queue=tra min=1 running=a cards=8; job i queue=inf min=1 pending=1", hung, nil, cardsAreStuck},
		"reclaimedCardsStayFree": {"job i queue=inf min=1 pending=1; job v queue=inf min=1 pending=1 cards=8", nil, func(s *scene, r *checkInput) {
			s.p.reclaimedCards = map[string][]keptCardsOwner{"a": {{task: s.Task("v-0"), serviceType: "inference", priority: 90000}}}
			r.task = s.Task("i-0")
			s.p.args.serviceTypes["inference"] = s.p.args.serviceTypes["training"]
			rule := s.p.args.serviceTypes["inference"]
			rule.ReclaimFrom = []string{"inference"}
			s.p.args.serviceTypes["inference"] = rule
		}, reclaimedByOthers},
		"preemptedCardsStayFree": {"job i queue=inf min=1 pending=1", nil, func(s *scene, r *checkInput) { s.keepForPreemptor(r, "tra", 8) }, keptForPreemptors},
		"preemptedCardsStayFree where nothing may be evicted": {"job i queue=inf min=1 pending=1", nil, func(s *scene, r *checkInput) {
			s.keepForPreemptor(r, "tra", 8)
			s.p.preemption = &preemption{p: s.p}
		}, keptForPreemptorsWithoutVictims},
		"preemptedQuotaStaysFreeOnNode": {"job i queue=inf min=1 pending=1", nil, func(s *scene, r *checkInput) { s.keepForPreemptor(r, "inf", 8) }, quotaKeptForPreemptors},
		"cardIsDeserved":                {"job i queue=inf min=1 pending=1 card=A|B", nil, func(s *scene, _ *checkInput) { s.p.deservedFirst = &deservedFirst{} }, cardNotDeserved},
		"cardFits the card":             {"job i queue=inf min=1 pending=1 card=B", nil, nil, cardNotAllowed},
		"cardFits the quota":            {"job i queue=inf min=1 pending=1", nil, func(_ *scene, r *checkInput) { r.request.Count = 10_000 }, quotaExceeded},
		"awaitedCardsStayFree":          {"job g queue=inf min=1 pending=1 cards=8; job i queue=tra min=1 pending=1", nil, func(s *scene, _ *checkInput) { s.p.loadAwaitedCards() }, cardsAwaitedByOthers},
	}

	tested := map[string]bool{}
	for _, c := range nodeChecks {
		free := newReclaimScene(t, "job t queue=tra min=1 running=a; job i queue=inf min=1 pending=1").openSession()
		check.Equal(t, "reason of "+nameOf(c)+" against a pod that fits", nodeFits, c(free.p, free.checkInputFor("i-0", "a"), free.Ssn.Nodes["a"]))
		for name, tc := range cases {
			if of, _, _ := strings.Cut(name, " "); of != nameOf(c) {
				continue
			}
			tested[name] = true

			t.Run(name, func(t *testing.T) {
				s := newReclaimScene(t, tc.text, tc.change).openSession()
				r := s.checkInputFor("i-0", "a")
				if tc.spoil != nil {
					tc.spoil(s, &r)
				}
				check.Equal(t, "reason", tc.why, c(s.p, r, s.Ssn.Nodes["a"]))
			})
		}
	}

	check.That(t, len(tested) == len(cases) && len(cases) > len(nodeChecks), "%d of %d cases of %d checks were tried", len(tested), len(cases), len(nodeChecks))
}

// TestQuotaIsIgnoredUntilTheLastCheckEnds: topology-aware preemption checks several nodes at once. The end of
// one check must not let another one see the exceeded quota.
func TestQuotaIsIgnoredUntilTheLastCheckEnds(t *testing.T) {
	s := newScene(t, `node a model=A cards=2; queue q quota={"A":1}; job j queue=q min=1 pending=1`).openSession()
	task := s.Task("j-0")

	s.p.ignoringQuota.begin(task.UID)
	s.p.ignoringQuota.begin(task.UID)
	s.p.ignoringQuota.end()
	check.That(t, s.p.ignoresQuota(task), "the quota is not ignored while a check runs")

	s.p.ignoringQuota.end()
	check.That(t, !s.p.ignoresQuota(task), "the quota is ignored after the last check")
}
