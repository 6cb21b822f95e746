package capacitycard

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
)

// newTreeScene returns a scene whose queues form a tree, and whose pods with cards are free of
// CPU limits.
func newTreeScene(t testing.TB, text string, changes ...func(*corev1.Pod)) *scene {
	return newScene(t, text, changes...).withArguments(framework.Arguments{"queueHierarchy": "Tree", "cardUnlimitedCpuMemory": true})
}

// tenant is a tenant of four cards with two queues that deserve two each.
const tenant = `node a model=A; node b model=B; queue t quota={"A":4} guarantee={"A":2}
	queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}; queue r quota={"A":4} serviceType=training parent=t deserved={"A":2}; `

func TestGatesOfATree(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, placed, why string }{
		"a queue borrows what its sibling does not use":   {tenant + "job j queue=q min=1 pending=4", "a:4", ""},
		"a parent without children reserves no guarantee": {`node a model=A cards=4; queue p quota={"A":4} parentOnly=true guarantee={"A":3}; queue q quota={"A":4} serviceType=training; job j queue=q min=1 pending=4`, "a:4", ""},
		"nor does a closed queue":                         {`node a model=A cards=4; queue p quota={"A":4} state=Closed guarantee={"A":3}; queue q quota={"A":4} serviceType=training; job j queue=q min=1 pending=4`, "a:4", ""},
		"the quota of the parent binds": {tenant + `queue q quota={"A":8} serviceType=training parent=t deserved={"A":2}; job i queue=r min=1 running=a*3; job j queue=q min=1 pending=2`, "a:1",
			"Queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <5>, but capability is <4>"},
		"and that of the grandparent": {tenant + `queue g quota={"A":3}; queue t quota={"A":4} parent=g; job i queue=r min=1 running=a*2; job j queue=q min=1 pending=2`, "a:1",
			"Queue <g>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <4>, but capability is <3>"},
		"an unused guarantee of a sibling is left free": {tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":1}; job j queue=q min=1 pending=4`, "a:3",
			"Queue <q> cannot use <A> that are guaranteed to other queues: requested <1>, total with unused guarantees would be <5>, but capability of <t> is <4>"},
		"a used one is not left free twice": {tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":1}; job i queue=r min=1 running=a; job j queue=q min=1 pending=4`, "a:3", "an ancestor of <q>"},
		"its owner uses it":                 {tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":2}; job i queue=r min=1 running=a*2; job j queue=q min=1 pending=2`, "a:2", ""},
		"a held queue's guarantee is lent":  {tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":1} stopPolicy=Hold; job j queue=q min=1 pending=4`, "a:4", ""},
		"a guarantee is left free in the inventory": {`node a model=A cards=4; queue q quota={"A":4} serviceType=training; queue r quota={"A":4} serviceType=training guarantee={"A":3}; job j queue=q min=1 pending=4`, "a:1",
			"total with unused guarantees would be <5>, but the inventory is <4>"},
		"the inventory is what nodes have that take pods": {`node a model=A cards=2; node c model=A cards=2; job i queue=r min=1 running=c*2; queue q quota={"A":4} serviceType=training; queue r quota={"A":4} serviceType=training guarantee={"A":3}; job j queue=q min=1 pending=2`, "a:1",
			"total with unused guarantees would be <5>, but the inventory is <4>"},
		"pods that may not be evicted do not borrow": {tenant + "job j queue=q min=1 pending=4 preemptable=false", "a:2",
			"Queue <q> cannot borrow <A> for pods from which no other queue can reclaim: requested <1>, such pods would use <3>, but deserved is <2>; let the pods be preemptable"},
		"nor those of a protected PodGroup":          {tenant + "job j queue=q min=1 pending=4 groupPreemptable=false", "a:2", "cannot borrow <A>"},
		"nor those of a queue that is not reclaimed": {tenant + `queue q quota={"A":4} serviceType=training reclaimable=false parent=t deserved={"A":2}; job j queue=q min=1 pending=4`, "a:2", "cannot borrow <A>"},
		"nor those of an unknown type":               {tenant + `queue q quota={"A":4} serviceType=batch parent=t deserved={"A":2}; job j queue=q min=1 pending=4`, "a:2", "cannot borrow <A>"},
		"nor those that name no type":                {tenant + `queue q quota={"A":4} reclaimable=true parent=t deserved={"A":2}; job j queue=q min=1 pending=4`, "a:2", "cannot borrow <A>"},
		"pods name their type if the queue does not": {tenant + `queue q quota={"A":4} reclaimable=true parent=t deserved={"A":2}; job j queue=q min=1 pending=4 serviceType=training`, "a:4", ""},
		"others beside them still borrow":            {tenant + "job j queue=q min=1 pending=2 preemptable=false; job i queue=q min=1 pending=2", "a:2", ""},
		"and they deserve their part beside those":   {tenant + "job i queue=q min=1 running=a*2; job j queue=q min=1 pending=2 preemptable=false", "a:2", ""},
		"at no level":                                 {tenant + `queue t quota={"A":4} deserved={"A":1}; job j queue=q min=1 pending=2 preemptable=false`, "a:1", "cannot borrow <A>"},
		"a quota is inherited":                        {tenant + `queue q quota={} serviceType=training parent=t deserved={"A":2}; job j queue=q min=1 pending=5`, "a:4", "but capability is <4>"},
		"a parent takes no jobs":                      {tenant + "job j queue=t min=1 pending=1", "", "Queue <t> is the parent of other queues and takes no jobs: name one of its children"},
		"nor does a queue that will be one":           {tenant + `queue p quota={"A":4} serviceType=training parentOnly=true; job j queue=p min=1 pending=1`, "", "Queue <p> is the parent of other queues"},
		"pods that a parent has count for it":         {tenant + "job i queue=t min=1 running=a*3; job j queue=q min=1 pending=2", "a:1", "Queue <t>, an ancestor of <q>,"},
		"a missing parent closes the queue":           {`node a model=A; queue q quota={"A":4} serviceType=training parent=gone; job j queue=q min=1 pending=1`, "", "Queue <q> names parent <gone>, which does not exist: nothing new starts in it"},
		"and those below it":                          {`node a model=A; queue p quota={"A":4} parent=gone; queue q quota={"A":4} serviceType=training parent=p; job j queue=q min=1 pending=1`, "", "Queue <q> (its ancestor <p>) names parent <gone>"},
		"and no other":                                {`node a model=A; queue p quota={"A":4} parent=gone; queue x quota={"A":4} parent=y; queue y quota={"A":4} parent=x; queue q quota={"A":4} serviceType=training; job j queue=q min=1 pending=1`, "a:1", ""},
		"a cycle closes its queues":                   {`node a model=A; queue q quota={"A":4} serviceType=training parent=p; queue p quota={"A":4} parent=q; job j queue=q min=1 pending=1`, "", "which leads back to it"},
		"a queue too far down is closed":              {deepTree(7) + "job j queue=q7 min=1 pending=1", "", "Queue <q7> is more than 6 levels below <root>: nothing new starts in it"},
		"the lowest level is not":                     {deepTree(6) + "job j queue=q6 min=1 pending=1", "a:1", ""},
		"a held queue starts nothing":                 {tenant + `queue q quota={"A":4} serviceType=training parent=t stopPolicy=Hold; job j queue=q min=1 pending=1`, "", "Queue <q> is held by its stop policy: nothing new starts in it; set stopPolicy to None"},
		"nor does what is below it":                   {tenant + `queue t quota={"A":4} stopPolicy=HoldAndDrain; job j queue=q min=1 pending=1`, "", "Queue <q> (its ancestor <t>) is held by its stop policy"},
		"nor with a policy that is not known":         {tenant + `queue t quota={"A":4} stopPolicy=Freeze; job j queue=q min=1 pending=1`, "", "is held by its stop policy"},
		"namespaces of an ancestor bind":              {tenant + `queue t quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=lab; job j queue=q min=1 pending=1`, "", "Namespace <ns> may not use queue <t>: ask an administrator"},
		"and let others in":                           {tenant + `queue t quota={"A":4} namespaceSelector={"matchLabels":{"team":"chat"}}; namespace ns team=chat; job j queue=q min=1 pending=1`, "a:1", ""},
		"an unreadable deserved withholds everything": {tenant + `queue q quota={"A":4} serviceType=training parent=t deserved={"A":1.5}; job j queue=q min=1 pending=1`, "", "invalid volcano.sh/card.deserved"},
		"terminating cards of the subtree bind": {tenant + "job gone queue=r min=1 running=a*5; job j queue=q min=1 pending=1", "",
			"Queue <t>, an ancestor of <q>, gets no more <A> while pods that are being deleted hold more than its quota: terminating <5>, but quota is <4>"},
		"root limits nothing": {`node a model=A; queue root quota={"A":0}; queue q quota={"A":4} serviceType=training parent=root; job j queue=q min=1 pending=2`, "a:2", ""},
	}) {
		s := newTreeScene(t, tc.text, func(p *corev1.Pod) {
			if strings.HasPrefix(p.Name, "gone-") {
				deleted(p)
			}
		})
		s.enqueueAndAllocate()
		check.Equal(t, "placed", tc.placed, s.podsByNode("j"))

		said := s.Job("j").JobFitErrors + s.refusals("j")
		check.That(t, containsText(said, tc.why), "said %q, want %q", said, tc.why)
		s.openSession()
		check.Equal(t, "placed pods after another session", tc.placed, s.podsByNode("j"))
	}
}

// deepTree is a chain of queues q1, q2 … so many levels below root.
func deepTree(levels int) string {
	text := `node a model=A; queue q1 quota={"A":4} serviceType=training;`
	for i := 2; i <= levels; i++ {
		text += fmt.Sprintf(`queue q%d quota={"A":4} serviceType=training parent=q%d;`, i, i-1)
	}
	return text
}

// TestHoldWithoutATree: a held queue starts nothing, also if queues are flat.
func TestHoldWithoutATree(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":4} stopPolicy=Hold; job j queue=q min=1 pending=1; queue r quota={"A":4} parent=q; job i queue=r min=1 pending=1`).enqueueAndAllocate()
	check.Equal(t, "placed", " a:1", s.podsByNode("j")+" "+s.podsByNode("i"))
	check.Says(t, s.p.queueRules["q"].Refusal, "Queue <q> is held by its stop policy")
}

// TestPredicateNamesTheAncestor: the reason of a node states the limit that is exceeded.
func TestPredicateNamesTheAncestor(t *testing.T) {
	s := newTreeScene(t, tenant+"job i queue=r min=1 running=a*4; job j queue=q min=1 pending=1").openSession()
	check.Says(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), "queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <5>, but capability is <4>")
	s = newTreeScene(t, tenant+"job i queue=q min=1 running=a*2 preemptable=false; job j queue=q min=1 pending=1 preemptable=false").openSession()
	check.Says(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), "queue <q> cannot borrow <A>")
}

func TestEnqueueInATree(t *testing.T) {
	const two = `job j queue=q min=2 phase=Pending minCards=2 request={"A":2}`

	for t, tc := range check.Cases(t, map[string]struct{ text, why string }{
		"what fits":                              {tenant + two, ""},
		"what a sibling enqueued is reserved":    {tenant + `job i queue=r min=3 minCards=3 request={"A":3}; queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}; ` + two, "Queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <2>, total would be <5>, but capability is <4>"},
		"not beyond what is deserved":            {tenant + `job i queue=r min=4 minCards=4 request={"A":4}; ` + two, ""},
		"what a sibling uses counts":             {tenant + `job i queue=r min=3 running=a*3; queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}; ` + two, "an ancestor of <q>"},
		"but its elastic pods do not":            {tenant + `job i queue=r min=2 running=a*3; queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}; ` + two, ""},
		"a held sibling reserves nothing":        {tenant + `queue r quota={"A":4} serviceType=training parent=t stopPolicy=Hold; job i queue=r min=3 minCards=3 request={"A":3}; queue q quota={"A":4} serviceType=training parent=t deserved={"A":1}; ` + two, ""},
		"protected jobs stay within deserved":    {tenant + `job j queue=q min=3 phase=Pending minCards=3 request={"A":3} groupPreemptable=false`, "cannot borrow <A> for pods from which no other queue can reclaim: requested <3>"},
		"beside what others of them use":         {tenant + `job i queue=q min=1 running=a preemptable=false; job j queue=q min=2 phase=Pending minCards=2 request={"A":2} groupPreemptable=false`, "such pods would use <3>"},
		"and what others of them reserved":       {tenant + `job i queue=q min=2 minCards=2 request={"A":2} groupPreemptable=false; job j queue=q min=1 phase=Pending minCards=1 request={"A":1} groupPreemptable=false`, "such pods would use <3>"},
		"and not beside what may be reclaimed":   {tenant + `job i queue=q min=1 running=a; job j queue=q min=2 phase=Pending minCards=2 request={"A":2} groupPreemptable=false`, ""},
		"guarantees of others are left":          {tenant + `queue r quota={"A":4} serviceType=training parent=t deserved={"A":2} guarantee={"A":2}; job j queue=q min=3 phase=Pending minCards=3 request={"A":3}`, "cannot use <A> that are guaranteed to other queues: requested <3>, total with unused guarantees would be <5>, but capability of <t> is <4>"},
		"more than the own quota of the queue":   {tenant + `queue q quota={"A":1} serviceType=training parent=t; ` + two, "Queue <q> has insufficient <A> quota: requested <2>, total would be <2>, but capability is <1>"},
		"pods may still name their type":         {tenant + `queue q quota={"A":4} reclaimable=true parent=t deserved={"A":2}; job j queue=q min=3 phase=Pending minCards=3 request={"A":3}`, ""},
		"guarantees of the inventory are left":   {`node a model=A cards=8; queue x quota={"A":4} deserved={"A":1}; queue q quota={"A":4} serviceType=training parent=x deserved={"A":1}; queue r quota={"A":8} serviceType=training deserved={"A":6} guarantee={"A":6}; job j queue=q min=4 phase=Pending minCards=4 request={"A":4}`, "Queue <q> cannot use <A> that are guaranteed to other queues: requested <4>, total with unused guarantees would be <10>, but the inventory is <8>"},
		"what no node has is not borrowed":       {`node a model=A cards=4; queue q quota={"A":8} serviceType=training deserved={"A":2}; queue r quota={"A":8} serviceType=training deserved={"A":4}; job i queue=r min=1 running=a*2; job k queue=r min=1 minCards=1 request={"A":1}; ` + two + `; job l queue=q min=1 minCards=1 request={"A":1}`, "Queue <q> cannot borrow <A> that the nodes do not have: requested <2>, total with usage and reservations of all queues would be <6>, but the inventory is <4>"},
		"what is deserved waits for nodes":       {`node a model=A cards=1; queue q quota={"A":8} serviceType=training deserved={"A":2}; ` + two, ""},
		"a closed queue says so before its pods": {tenant + `job j queue=t min=1 phase=Pending minCards=1`, "is the parent of other queues"},
	}) {
		s := newTreeScene(t, tc.text).enqueueAndAllocate()
		job := s.Job("j")
		got := job.PodGroup.Status.Phase == "Inqueue"
		check.That(t, got == (tc.why == "") && containsText(job.JobFitErrors, tc.why), "admitted %v, reason %q, want %q", got, job.JobFitErrors, tc.why)
	}
}

// TestQueueOrderInATree: priority, then what is below deserved by its part, then what has
// borrowed less for its weight.
func TestQueueOrderInATree(t *testing.T) {
	const queues = `node a model=A cards=16; node b model=B; queue t quota={"A":8}; queue u quota={"A":8};
		queue q quota={"A":8} serviceType=training parent=t deserved={"A":4}; queue r quota={"A":8} serviceType=training parent=t deserved={"A":4}; queue v quota={"A":8} serviceType=training parent=u deserved={"A":8};`

	for t, tc := range check.Cases(t, map[string]struct{ text, left, right string }{
		"the higher priority":                       {queues + `queue q quota={"A":8} priority=2 serviceType=training parent=t deserved={"A":4}; job i queue=q min=1 running=a*4`, "q", "r"},
		"the smaller part of what it deserves":      {queues + "job i queue=q min=1 running=a*2; job k queue=r min=1 running=a", "r", "q"},
		"of what it deserves, not of its quota":     {queues + `queue r quota={"A":8} serviceType=training parent=t deserved={"A":2}; job i queue=q min=1 running=a*2; job k queue=r min=1 running=a*2`, "q", "r"},
		"below deserved before above":               {queues + "job i queue=q min=1 running=a*5; job k queue=r min=1 running=a*3", "r", "q"},
		"who has borrowed less":                     {queues + "job i queue=q min=1 running=a*6; job k queue=r min=1 running=a*5", "r", "q"},
		"who has borrowed less for its weight":      {queues + `queue q quota={"A":8} serviceType=training parent=t deserved={"A":4} weight=3; job i queue=q min=1 running=a*6; job k queue=r min=1 running=a*5`, "q", "r"},
		"cousins are compared by their parents":     {queues + `queue t quota={"A":8} deserved={"A":8}; queue u quota={"A":8} deserved={"A":8}; job i queue=q min=1 running=a*5; job k queue=v min=1 running=a*6`, "r", "v"},
		"cousins are compared not by themselves":    {queues + `job i queue=q min=1 running=a*5; job k queue=v min=1 running=a*4`, "v", "r"},
		"a queue that deserves nothing counts full": {queues + `queue r quota={"A":8} serviceType=training parent=t deserved={"A":0}; job i queue=q min=1 running=a*3`, "q", "r"},
	}) {
		s := newTreeScene(t, tc.text).openSession()
		first := s.p.queueOrder(s.Ssn.Queues[api.QueueID(tc.left)], s.Ssn.Queues[api.QueueID(tc.right)])
		second := s.p.queueOrder(s.Ssn.Queues[api.QueueID(tc.right)], s.Ssn.Queues[api.QueueID(tc.left)])
		check.That(t, first < 0 && second > 0, "%s compares to %s as %d, and the other way as %d", tc.left, tc.right, first, second)
	}
}

// TestTreeIsResolvedWhenAQueueChanges: a change takes effect in the next session, and the same
// queues cost nothing.
func TestTreeIsResolvedWhenAQueueChanges(t *testing.T) {
	s := newTreeScene(t, tenant+"job j queue=q min=1 running=a*4").openSession()
	used := func(queue string) int { return s.usedCards(queue, "A") }
	check.That(t, used("q") == 4 && used("t") == 4 && used("r") == 0, "q uses %d, t %d and r %d cards", used("q"), used("t"), used("r"))

	version := s.p.TreeVersion()
	s.openSession()
	check.Equal(t, "version of an unchanged tree", version, s.p.TreeVersion())

	change := func(name string, change func(*v1beta1.Queue)) {
		s.Close()
		for _, queue := range s.Queues {
			if queue.Name == name {
				old := queue.DeepCopy()
				change(queue)
				queue.ResourceVersion += "1"
				s.Cache.UpdateQueueV1beta1(old, queue.DeepCopy())
			}
		}
		s.openSession()
	}

	change("q", func(q *v1beta1.Queue) { q.Labels = map[string]string{"some": "label"} })
	check.Equal(t, "version after a change that does not matter", version, s.p.TreeVersion())
	change("q", func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateClosed })
	check.That(t, s.p.TreeVersion() > version && s.p.queueRules["q"].Refusal.Reason == "QueueNotOpen", "a closed queue: %+v", s.p.queueRules["q"].Refusal)

	version = s.p.TreeVersion()
	change("q", func(q *v1beta1.Queue) { q.Spec.Parent = "root" })
	check.That(t, used("t") == 0 && used("q") == 4 && s.p.TreeVersion() > version, "t uses %d cards after q left it", used("t"))

	mayUse := s.p.ledger.MayUseByLevel("q", "A").Quota
	check.Equal(t, "cards that the inventory leaves beside the guarantee of t", 2, int(mayUse[len(mayUse)-1]))
	change("t", func(q *v1beta1.Queue) { q.Annotations["volcano.sh/card.quota"] = `{"A":3}` })
	check.Equal(t, "quota of r below t", 3, int(s.p.ledger.PathLimits("r").Cards["A"]))

	s.withArguments(framework.Arguments{"cardUnlimitedCpuMemory": true}).openSession()
	check.That(t, len(s.p.pathOf("r")) == 1 && s.p.queueRules["t"].Refusal == nil && used("q") == 4, "the queues are not flat again")
	s.withArguments(framework.Arguments{"queueHierarchy": "Tree", "cardUnlimitedCpuMemory": true}).openSession()
	check.That(t, len(s.p.pathOf("r")) == 2 && used("q") == 4, "the queues are no tree again")
}

// TestCooldownOfAnAncestor: a queue gets what it deserves although its tenant has just lost
// cards that another of its queues had borrowed.
func TestCooldownOfAnAncestor(t *testing.T) {
	const lost = `node a model=A cards=8; queue t quota={"A":8} deserved={"A":4}; queue q quota={"A":4} serviceType=training parent=t deserved={"A":2};
		queue r quota={"A":8} serviceType=training parent=t deserved={"A":2}; job i queue=r min=1 running=a*4; `

	for t, tc := range check.Cases(t, map[string]struct{ text, placed, why string }{
		"within its deserved": {lost + "job j queue=q min=1 pending=2", "a:2", ""},
		"not beyond it":       {lost + "job j queue=q min=1 pending=3", "a:2", "cannot borrow <A> for a while"},
		"not a borrower":      {lost + "job j queue=r min=1 pending=1", "", "cannot borrow <A> for a while"},
	}) {
		s := newTreeScene(t, tc.text).openSession()
		s.p.RecordReclaimed("t", "A")
		s.enqueueAndAllocate()
		check.Equal(t, "placed", tc.placed, s.podsByNode("j"))
		check.Contains(t, "reasons", s.Job("j").JobFitErrors+s.refusals("j"), tc.why)
	}
}

// TestStoppedQueuesEnqueueNoBorrowers: a job that would borrow what was just reclaimed from its queue,
// or from an ancestor, is not enqueued. It would only wait with a reservation.
func TestStoppedQueuesEnqueueNoBorrowers(t *testing.T) {
	const lost = `node a model=A cards=8; node b model=B cards=8; queue t quota={"A":8,"B":8} deserved={"A":4,"B":4}; queue q quota={"A":8,"B":8} serviceType=training parent=t deserved={"A":2,"B":1}; job i queue=q min=1 running=a; `
	for t, tc := range check.Cases(t, map[string]struct{ text, stops, why string }{
		"of the queue":                {lost + `job k queue=q min=1 running=a; job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`, "q", "cannot borrow <A> for a while, because another queue has just reclaimed them: requested <1>, total would be <3>, but"},
		"of its parent":               {lost + `job k queue=q min=1 running=a; job x queue=t min=2 running=a*2; job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`, "t", "cannot borrow <A> for a while, because another queue has just reclaimed them: requested <1>, total would be <5> in its ancestor <t>, but"},
		"not while its parent lends":  {lost + `job k queue=q min=1 running=a; job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`, "t", ""},
		"another card is borrowed":    {lost + `job j queue=q min=1 phase=Pending minCards=1 request={"B":2}`, "q", ""},
		"with an alternative as well": {lost + `job k queue=q min=1 running=a; job j queue=q min=1 phase=Pending minCards=1 request={"A|B":2}`, "q", ""},
		"the card is deserved":        {lost + `job j queue=q min=1 phase=Pending minCards=1 request={"A":1,"B":2}`, "q", ""},
		"beside another card":         {lost + `job k queue=q min=1 running=a; job j queue=q min=1 phase=Pending minCards=1 request={"A":1,"B":2}`, "q", "<A> for a while"},
	}) {
		s := newTreeScene(t, tc.text).openSession()
		s.p.RecordReclaimed(api.QueueID(tc.stops), "A")
		s.enqueueAndAllocate()
		job := s.Job("j")

		got := job.PodGroup.Status.Phase == "Inqueue"
		check.That(t, got == (tc.why == "") && containsText(job.JobFitErrors, tc.why), "enqueued %v, reason %q, want %q", got, job.JobFitErrors, tc.why)
	}
}

// TestADeletedQueueKeepsItsPlace: its pods go on using the quota of its parent, also when the tree
// changes later. They are counted by the Queue's last parent, until the last of them is gone.
func TestADeletedQueueKeepsItsPlace(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=8; queue t quota={"A":4}; queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}; queue r quota={"A":4} serviceType=training parent=t deserved={"A":2}; job i queue=q min=1 running=a*3; job j queue=r min=1 pending=4`).openSession()
	check.Equal(t, "used", 3, s.usedCards("t", "A"))
	s.Close()

	s.Cache.DeleteQueueV1beta1(s.Queues[1])
	for _, pod := range s.Pods[:3] {
		check.NoError(t, s.Cache.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(pod))
	}
	check.Equal(t, "placed beside the pods of the deleted queue", "a:1", s.enqueueAndAllocate().podsByNode("j"))
	s.changeQueue("r", func(q *v1beta1.Queue) { q.Annotations["volcano.sh/card.guarantee"] = `{"A":1}` }).openSession()
	check.Equal(t, "used when the tree has changed", 4, s.usedCards("t", "A"))
}

// TestNodesThatTakeNoPods: cards of a cordoned node are not part of the inventory, and neither
// are those that its pods use.
func TestNodesThatTakeNoPods(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=4; node c model=A cards=4; queue q quota={"A":8} serviceType=training; queue r quota={"A":8} serviceType=training guarantee={"A":2}; job i queue=q min=1 running=c*4; job j queue=q min=1 pending=3`)
	for _, node := range s.Nodes {
		node.Spec.Unschedulable = node.Name == "c"
	}

	s.enqueueAndAllocate()
	check.Equal(t, "placed", "a:2", s.podsByNode("j"))
	check.Contains(t, "reasons", s.refusals("j"), "total with unused guarantees would be <5>, but the inventory is <4>")

	s.Close()
	for _, node := range s.Nodes {
		changed := node.DeepCopy()
		changed.Spec.Unschedulable = node.Name == "a"
		check.NoError(t, s.Cache.AddOrUpdateNode(changed))
	}

	s.openSession()
	check.That(t, !s.p.cache.ledger.Charged(string(s.Task("i-0").UID)).IsOffInventory && s.p.cache.ledger.Charged(string(s.Task("j-0").UID)).IsOffInventory,
		"charges do not follow their nodes")
}

// TestCardsThatNodesDoNotOfferAreNoInventory: a node that offers ten times the cards of its labels
// withholds them, and a node whose label is gone offers none. What pods hold there is not part of the
// inventory, so that it keeps no other pod from borrowing the cards of a third node.
func TestCardsThatNodesDoNotOfferAreNoInventory(t *testing.T) {
	const text = `node a model=A cards=8; node w model=A cards=80; queue q quota={"A":99} serviceType=training deserved={"A":2}; queue r quota={"A":99} serviceType=training deserved={"A":40}; job i queue=r min=40 running=w*40; job k queue=r min=4 running=a*4; `
	const borrower = `job j queue=q min=4 phase=Pending minCards=4 request={"A":4}`
	labels := map[string]func(*corev1.Node){
		"withheld":        func(n *corev1.Node) { n.Labels["nvidia.com/gpu.count"] = "8" },
		"no longer named": func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.product") },
	}

	for name, change := range labels {
		s := newTreeScene(t, text+borrower).openSession()
		charge := func() quota.Charge { return *s.p.cache.ledger.Charged(string(s.Task("i-0").UID)) }
		check.That(t, len(charge().NotOffered) == 0, "%s: a card that the node offers is not in the inventory", name)
		s.changeNode("w", change).enqueueAndAllocate()
		check.Equal(t, name+": phase of the borrower", "Inqueue", string(s.Job("j").PodGroup.Status.Phase))
		check.Equal(t, name+": used cards of the other queue", 44, s.usedCards("r", "A"))

		s.changeNode("w", func(n *corev1.Node) {
			n.Labels["nvidia.com/gpu.count"] = "80"
			n.Labels["nvidia.com/gpu.product"] = "A"
		}).openSession()
		check.That(t, len(charge().NotOffered) == 0, "%s: the charge does not follow the node", name)
	}

	s := newTreeScene(t, text+`job x queue=r min=1 running=a; `+borrower)
	labels["withheld"](s.Nodes[1])
	s.enqueueAndAllocate()
	check.Equal(t, "phase of a job that borrows too much", "Pending", string(s.Job("j").PodGroup.Status.Phase))
	check.Contains(t, "reason", s.Job("j").JobFitErrors, "total with usage and reservations of all queues would be <9>, but the inventory is <8>")
}

// changeNode changes a node between two sessions.
func (s *scene) changeNode(name string, change func(*corev1.Node)) *scene {
	s.t.Helper()
	s.Close()
	for i, node := range s.Nodes {
		if node.Name == name {
			changed := node.DeepCopy()
			change(changed)
			s.Nodes[i] = changed
			check.NoError(s.t, s.Cache.AddOrUpdateNode(changed))
		}
	}
	return s
}

// TestADeletedQueueIsGuaranteedNothing: its guarantee is free at once.
func TestADeletedQueueIsGuaranteedNothing(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=4; queue x quota={"A":4} guarantee={"A":4}; queue y quota={"A":4} serviceType=training; job j queue=y min=1 pending=4`).enqueueAndAllocate()
	check.Equal(t, "placed beside the guarantee", "", s.podsByNode("j"))
	s.Close()
	s.Cache.DeleteQueueV1beta1(s.Queues[0])
	check.Equal(t, "placed without it", "a:4", s.enqueueAndAllocate().podsByNode("j"))
}

// TestGuaranteedInventoryIsNoQuota: a job that waits for what others are guaranteed of the
// inventory does not keep its reservation for ever.
func TestGuaranteedInventoryIsNoQuota(t *testing.T) {
	for text, want := range map[string]bool{
		`node a model=A cards=4; queue x quota={"A":4} guarantee={"A":4}; queue y quota={"A":4} serviceType=training; job j queue=y min=1 pending=1`:                               false,
		`node a model=A cards=4; queue x quota={"A":4}; queue y quota={"A":4} serviceType=training parent=x; job i queue=y min=1 running=a*4; job j queue=y min=1 pending=1`:       true,
		`node a model=A cards=4; queue x quota={"A":1}; queue y quota={"A":4} serviceType=training parent=x; job i queue=y min=1 running=a; job j queue=y min=1 pending=1 cards=2`: false,
		`node a model=A cards=4; queue x quota={"A":2}; queue y quota={"A":4} serviceType=training parent=x; job i queue=y min=1 running=a; job j queue=y min=1 pending=1 cards=2`: true,
	} {
		s := newTreeScene(t, text).openSession()
		task := s.Task("j-0")
		check.Equal(t, text+": waits for quota", want, s.p.waitsForQuota(s.Job("j"), s.p.RequestFor(task)))
	}
}
