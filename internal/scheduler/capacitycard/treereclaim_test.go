package capacitycard

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// lending is two tenants that deserve four of eight cards each. Two queues of the first one
// deserve two each. All may use all cards.
const lending = `node a model=A; queue t quota={"A":8} deserved={"A":4}; queue u quota={"A":8} deserved={"A":4}
	queue q quota={"A":8} serviceType=training parent=t deserved={"A":2}; queue r quota={"A":8} serviceType=training parent=t deserved={"A":2}
	queue v quota={"A":8} serviceType=training parent=u deserved={"A":4};`

// TestStockReclaimTakesNothingInATree: only cardreclaim knows the rules of trees. A configuration
// with reclaim is refused, and without that check nothing is evicted either.
func TestStockReclaimTakesNothingInATree(t *testing.T) {
	newTreeScene(t, lending+"job k queue=r min=1 running=a*8; job i queue=q min=1 pending=1").evict(reclaim.New()).expectEvictions("", "")
	newTreeScene(t, lending+`queue q quota={"A":8} priority=80000 serviceType=inference parent=t deserved={"A":2}; queue r quota={"A":8} priority=20000 serviceType=training parent=t deserved={"A":2}; job k queue=r min=1 running=a*8; job i queue=q min=1 pending=1`).evict(reclaim.New()).expectEvictions("", "")
}

// TestNoBorrowingAfterReclaim: a queue does not borrow for five minutes what was reclaimed from
// it. What it deserves it may use.
func TestNoBorrowingAfterReclaim(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		after  time.Duration
		placed string
	}{
		"at once":               {"job j queue=r min=1 pending=4", 0, "a:2"},
		"before five minutes":   {"job j queue=r min=1 pending=4", borrowCooldown - time.Second, "a:2"},
		"after five minutes":    {"job j queue=r min=1 pending=4", borrowCooldown, "a:4"},
		"another queue may":     {"job j queue=q min=1 pending=4", 0, "a:4"},
		"another card":          {`node b model=B; queue r quota={"A":8,"B":8} serviceType=training parent=t deserved={"A":2,"B":0}; queue t quota={"A":8,"B":8} deserved={"A":4}; job j queue=r min=1 pending=4 card=B`, 0, "b:4"},
		"a job is not enqueued": {`job j queue=r min=3 phase=Pending minCards=3 request={"A":3}`, 0, ""},
	}) {
		s := newTreeScene(t, lending+tc.text).useClock().openSession()
		s.reclaimPolicy().RecordReclaimed("r", "A")
		s.clock = s.clock.Add(tc.after)
		s.enqueueAndAllocate()
		check.Equal(t, "placed", tc.placed, s.podsByNode("j"))
		if said := s.refusals("j") + s.Job("j").JobFitErrors; tc.placed == "a:2" || tc.placed == "" {
			check.Contains(t, "reasons", said, "Queue <r> cannot borrow <A> for a while, because another queue has just reclaimed them")
		}
	}

	flat := newScene(t, `node a model=A; queue q quota={"A":8}; job j queue=q min=1 pending=4`).openSession()
	flat.reclaimPolicy().RecordReclaimed("q", "A")
	check.Equal(t, "flat: placed", "a:4", flat.enqueueAndAllocate().podsByNode("j"))
}

// keepCards opens a session that records that cards were reclaimed on a node for pending pods.
func (s *scene) keepCards(node string, pods ...string) *scene {
	s.openSession()
	for _, pod := range pods {
		task := s.Task(pod)
		task.NodeName = node
		s.reclaimPolicy().KeepReclaimedCards([]*api.TaskInfo{task}, nil)
		task.NodeName = ""
	}
	return s
}

// TestReclaimedCardsKeepQuota: what was reclaimed for a pod is kept from every other queue that
// would borrow it, on the node and in the quotas of the ancestors.
func TestReclaimedCardsKeepQuota(t *testing.T) {
	const held = `node a model=A cards=4; node b model=B cards=4; queue t quota={"A":4}; queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}; queue r quota={"A":4} serviceType=training parent=t deserved={"A":1}; job i queue=q min=2 pending=2 card=A;`
	for t, tc := range check.Cases(t, map[string]struct{ text, placed, why string }{
		"a borrower waits":                   {`queue t quota={"A":8}; job k queue=r min=1 pending=4`, "a:2", "node(s) reserve cards for pods that reclaimed them"},
		"quota of the parent is held":        {`queue t quota={"A":3}; job k queue=r min=1 pending=3`, "a:1", "Queue <r> waits while <A> are held for pods that reclaimed them: requested <1>, total would be <4> in its ancestor <t>, but capability is <3>"},
		"another queue that deserves it":     {`queue r quota={"A":4} serviceType=training parent=t deserved={"A":4}; queue t quota={"A":8}; job k queue=r min=1 pending=4`, "a:4", ""},
		"other cards are not kept":           {`queue t quota={"A":4,"B":4}; queue r quota={"A":4,"B":4} serviceType=training parent=t deserved={"A":1,"B":0}; job k queue=r min=1 pending=4 card=B`, "b:4", ""},
		"its own queue may not borrow cards": {`queue q quota={"A":8} serviceType=training parent=t deserved={"A":2}; queue t quota={"A":8}; job k queue=q min=4 pending=4`, "", "node(s) reserve cards for pods that reclaimed them"},
		"its own queue may not borrow quota": {`node c model=A cards=8; queue t quota={"A":8}; job k queue=q min=4 pending=4`, "", "Queue <q> waits while <A> are held for pods that reclaimed them: requested <1>, total would be <5>, but capability is <4>"},
		"the queue itself may use its share": {`job k queue=q min=1 pending=2`, "a:2", ""},
	}) {
		s := newTreeScene(t, held+tc.text, func(p *corev1.Pod) {
			if p.Name == "i-0" || p.Name == "i-1" {
				p.Spec.NodeSelector = map[string]string{"no": "node"} // waits, whatever is free
			}
		})

		s.keepCards("a", "i-0", "i-1").enqueueAndAllocate()
		check.Equal(t, "placed", tc.placed, s.podsByNode("k"))
		check.That(t, containsText(s.refusals("k"), tc.why) || tc.why == "", "said %q, want %q", s.refusals("k"), tc.why)
	}
}

// TestReclaimRules: levels, paths, and what the queues of a tree have above their amounts.
func TestReclaimRules(t *testing.T) {
	p := newTreeScene(t, lending+"job k queue=r min=1 running=a*3; job l queue=v min=1 running=a*5; job i queue=q min=1 pending=1; job x queue=q min=1 running=a preemptable=false").openSession().reclaimPolicy()
	check.Equal(t, "levels", "1 2 1 2", fmt.Sprint(p.Level("q", "r"), p.Level("q", "v"), p.Level("t", "u"), p.Level("q", "u")))
	check.Equal(t, "paths", "[r] [v u] [u] []", fmt.Sprint(p.PathBelow("q", "r"), p.PathBelow("q", "v"), p.PathBelow("t", "u"), p.PathBelow("q", "t")))
	check.Equal(t, "above deserved", "1 1 1 -1", fmt.Sprint(p.ledger.AboveDeserved("r", "A"), p.ledger.AboveDeserved("v", "A"), p.ledger.AboveDeserved("u", "A"), p.ledger.AboveDeserved("q", "A")))
	check.Equal(t, "above guarantee", int64(4), p.ledger.AboveGuarantee("t", "A"))
	mayUse := p.ledger.MayUseByLevel("q", "A")
	check.That(t, len(mayUse.Quota) == 3 && mayUse.Deserved[0] == 1 && mayUse.Deserved[1] == 0, "q may use %+v", mayUse)
	check.Equal(t, "free quota of q", 1, int(p.FreeQuota("q", "A")))
	check.That(t, p.IsTree() && !p.ReclaimsAll(), "not the arguments")
	flat := newScene(t, "node a model=A; queue q quota={}").openSession().reclaimPolicy()
	check.That(t, !flat.IsTree() && flat.Level("q", "r") == 1 && flat.ledger.MayUseByLevel("q", quota.CPUName).Quota[1] == quota.Unlimited, "flat queues have levels")
}

// TestDrainedJobs: those with running pods whose queue or ancestor drains.
func TestDrainedJobs(t *testing.T) {
	names := func(s *scene) (names []string) {
		for _, job := range s.reclaimPolicy().DrainedJobs() {
			names = append(names, job.Name)
		}
		return names
	}
	s := newTreeScene(t, lending+`queue t quota={"A":8} deserved={"A":4} stopPolicy=HoldAndDrain; queue v quota={"A":8} serviceType=training parent=u stopPolicy=Hold; job k queue=r min=1 running=a*2; job i queue=q min=1 pending=1; job l queue=q min=1 running=a; job x queue=v min=1 running=a`).openSession()
	check.Equal(t, "drained jobs", []string{"k", "l"}, names(s))
	check.Equal(t, "k is drained by", "t", string(s.reclaimPolicy().DrainedBy("r")))
	flat := newScene(t, `node a model=A; queue q quota={"A":8} stopPolicy=HoldAndDrain; queue r quota={"A":8} parent=q; job k queue=q min=1 running=a; job l queue=r min=1 running=a`).openSession()
	check.Equal(t, "drained jobs of flat queues", []string{"k"}, names(flat))
}

// TestReclaimAllResources: pods without cards reclaim CPU by the matrix, if the policy says so.
func TestReclaimAllResources(t *testing.T) {
	const cores = `node a model=A; queue q quota={} priority=80000 serviceType=inference cpu=16; queue r quota={} priority=20000 serviceType=training cpu=16; job k queue=r min=1 running=a*16 cards=0; job i queue=q min=1 pending=1 cards=0`
	for resources, want := range map[string]string{"Cards": "", "All": "k-15"} {
		s := newScene(t, cores, requests("memory", "0")).withArguments(framework.Arguments{"reclaimResources": resources})
		for _, node := range s.Nodes {
			node.Status.Allocatable["cpu"] = amount("16")
		}
		goes, _ := s.evict(reclaim.New()).Outcome()
		check.Equal(t, resources+": go", want, goes)
	}
}

// TestPreemptInATree: inside a queue preempt frees what the ancestors lack too.
func TestPreemptInATree(t *testing.T) {
	const two = `queue q quota={"A":8} serviceType=training deserved={"A":2}; job old queue=q min=1 running=a*2 priorityClass=low; job k queue=r min=1 running=a*5;`
	for t, tc := range check.Cases(t, map[string]struct{ text, goes, promised string }{
		"the parent's quota is full":                {lending + `queue t quota={"A":4}; job old queue=q min=1 running=a*2 priorityClass=low; job k queue=r min=1 running=a*2; job new queue=q min=1 pending=1 priorityClass=high`, "old:1", "new@a:1"},
		"and more than the queue's":                 {lending + `queue t quota={"A":3}; job old queue=q min=1 running=a*3 priorityClass=low; job k queue=r min=1 running=a; job new queue=q min=1 pending=1 priorityClass=high`, "old:2", "new@a:1"},
		"pods that cannot be reclaimed make way":    {lending + `queue q quota={"A":8} serviceType=training reclaimable=false parent=t deserved={"A":2}; job old queue=q min=1 running=a*2 priorityClass=low; job new queue=q min=1 pending=1 priorityClass=high`, "old:1", "new@a:1"},
		"in a full queue, too":                      {lending + `queue q quota={"A":2} serviceType=training reclaimable=false parent=t deserved={"A":2}; job old queue=q min=1 running=a*2 priorityClass=low; job new queue=q min=1 pending=1 priorityClass=high`, "old:1", "new@a:1"},
		"pods of others do not":                     {lending + `queue t quota={"A":4}; job k queue=r min=1 running=a*4 priorityClass=low; job new queue=q min=1 pending=1 priorityClass=high`, "", ""},
		"what is deserved by others is no obstacle": {lending + `job old queue=q min=1 running=a*8 priorityClass=low; job new queue=q min=1 pending=1 priorityClass=high`, "old:1", "new@a:1"},
		"idle cards are borrowed besides":           {lending + `job old queue=q min=1 running=a*6 priorityClass=low; job new queue=q min=1 pending=1 cards=3 priorityClass=high`, "old:1", "new@a:1"},
		"none for which another queue waits":        {two + `node a model=A; queue r quota={"A":8} serviceType=training deserved={"A":7}; job new queue=q min=1 pending=1 cards=2 priorityClass=high; job x queue=r min=1 pending=1 cards=2`, "old:2", "new@a:1"},
		"unless that queue would borrow, too":       {two + `node a model=A; queue r quota={"A":8} serviceType=training deserved={"A":6}; job new queue=q min=1 pending=1 cards=2 priorityClass=high; job x queue=r min=1 pending=1 cards=2`, "old:1", "new@a:1"},
		"nor by a gang, on a node without victims":  {two + `node a model=A cards=7; node b model=A cards=1; queue r quota={"A":8} serviceType=training deserved={"A":7}; job new queue=q min=2 pending=2 priorityClass=high; job x queue=r min=1 pending=1 cards=2`, "old:2", "new@a:2"},
		"what others are guaranteed stays free":     {lending + `queue u quota={"A":8} deserved={"A":4} guarantee={"A":1}; job old queue=q min=1 running=a*8 priorityClass=low; job new queue=q min=1 pending=1 priorityClass=high`, "old:2", "new@a:1"},
	}) {
		var s *scene
		for range 30 { // Volcano begins with any queue, and passes over the pods of the others
			s = newTreeScene(t, tc.text).evict(preempt.New())
			if len(s.In(api.Releasing)) > 0 {
				break
			}
		}

		check.Equal(t, "go", tc.goes, countByState(s.In(api.Releasing)))
		check.Equal(t, "promised", tc.promised, countByState(s.In(api.Pipelined)))
	}
}

// TestMissingQuotaInATreeIsTheLeast: less than what is said to be missing does not suffice, neither of all
// quota nor of what cannot be reclaimed.
func TestMissingQuotaInATreeIsTheLeast(t *testing.T) {
	r := seed.Rand(t)
	for range 200 {
		guarantee := r.IntN(3)
		text := fmt.Sprintf(`node a model=A cards=5; queue t quota={"A":%d} deserved={"A":%d} guarantee={"A":%d}; queue q quota={"A":%d} %s parent=t deserved={"A":%d} guarantee={"A":%d}; queue u quota={"A":8} deserved={"A":8} guarantee={"A":%d}; job old queue=q min=1 running=a*%d; job new queue=q min=1 pending=1 cards=%d`,
			2+r.IntN(4), 2+r.IntN(3), guarantee, 2+r.IntN(4), []string{"serviceType=training", "serviceType=training reclaimable=false"}[r.IntN(2)], 2+r.IntN(3), guarantee, r.IntN(6), 1+r.IntN(5), 1+r.IntN(2))

		s := newTreeScene(t, text).openSession()
		p := s.p
		task := s.Task("new-0")
		fits := func(all, unreclaimable int64) bool {
			var released quota.Released
			released.Add(chargeOf(quota.Cards, "A", all-unreclaimable, false))
			released.Add(chargeOf(quota.Cards, "A", unreclaimable, true))
			return p.ledger.FitsAfterRelease("q", p.RequestFor(task).Request, "A", released) == nil
		}

		missing := p.missingAmounts(task, p.ssn.Nodes["a"])
		all := int64(missing[quotaCards])
		unreclaimable := int64(missing[unreclaimableQuota(quotaCards)])
		check.That(t, fits(all, unreclaimable), "%s: %d, %d of them fixed, do not suffice", text, all, unreclaimable)
		check.That(t, all == 0 || !fits(all-1, min(unreclaimable, all-1)), "%s: %d suffice instead of %d", text, all-1, all)
		check.That(t, unreclaimable == 0 || !fits(all, unreclaimable-1), "%s: %d fixed suffice instead of %d", text, unreclaimable-1, unreclaimable)
	}
}
