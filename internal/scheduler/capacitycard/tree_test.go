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
const tenant = `node a A; node b B; queue t {"A":4} guarantee={"A":2}
	queue q {"A":4} training parent=t deserved={"A":2}; queue r {"A":4} training parent=t deserved={"A":2}; `

func TestGatesOfATree(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, placed, why string }{
		"a queue borrows what its sibling does not use":   {tenant + "j q 1: -*4", "a:4", ""},
		"a parent without children reserves no guarantee": {`node a A 4; queue p {"A":4} parentonly=true guarantee={"A":3}; queue q {"A":4} training; j q 1: -*4`, "a:4", ""},
		"nor does a closed queue":                         {`node a A 4; queue p {"A":4} closed guarantee={"A":3}; queue q {"A":4} training; j q 1: -*4`, "a:4", ""},
		"the quota of the parent binds": {tenant + `queue q {"A":8} training parent=t deserved={"A":2}; i r 1: a*3; j q 1: -*2`, "a:1",
			"Queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <5>, but capability is <4>"},
		"and that of the grandparent": {tenant + `queue g {"A":3}; queue t {"A":4} parent=g; i r 1: a*2; j q 1: -*2`, "a:1",
			"Queue <g>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <4>, but capability is <3>"},
		"an unused guarantee of a sibling is left free": {tenant + `queue r {"A":4} training parent=t deserved={"A":2} guarantee={"A":1}; j q 1: -*4`, "a:3",
			"Queue <q> cannot use <A> that are guaranteed to other queues: requested <1>, total with unused guarantees would be <5>, but capability of <t> is <4>"},
		"a used one is not left free twice": {tenant + `queue r {"A":4} training parent=t deserved={"A":2} guarantee={"A":1}; i r 1: a; j q 1: -*4`, "a:3", "an ancestor of <q>"},
		"its owner uses it":                 {tenant + `queue q {"A":4} training parent=t deserved={"A":2} guarantee={"A":2}; i r 1: a*2; j q 1: -*2`, "a:2", ""},
		"a held queue's guarantee is lent":  {tenant + `queue r {"A":4} training parent=t deserved={"A":2} guarantee={"A":1} stop=Hold; j q 1: -*4`, "a:4", ""},
		"a guarantee is left free in the inventory": {`node a A 4; queue q {"A":4} training; queue r {"A":4} training guarantee={"A":3}; j q 1: -*4`, "a:1",
			"total with unused guarantees would be <5>, but the inventory is <4>"},
		"the inventory is what nodes have that take pods": {`node a A 2; node c A 2; i r 1: c*2; queue q {"A":4} training; queue r {"A":4} training guarantee={"A":3}; j q 1: -*2`, "a:1",
			"total with unused guarantees would be <5>, but the inventory is <4>"},
		"pods that may not be evicted do not borrow": {tenant + "j q 1: -*4 protected", "a:2",
			"Queue <q> cannot borrow <A> for pods from which no other queue can reclaim: requested <1>, such pods would use <3>, but deserved is <2>; let the pods be preemptable"},
		"nor those of a protected PodGroup":          {tenant + "j q 1: -*4 protectedgroup", "a:2", "cannot borrow <A>"},
		"nor those of a queue that is not reclaimed": {tenant + `queue q {"A":4} training keeps parent=t deserved={"A":2}; j q 1: -*4`, "a:2", "cannot borrow <A>"},
		"nor those of an unknown type":               {tenant + `queue q {"A":4} batch parent=t deserved={"A":2}; j q 1: -*4`, "a:2", "cannot borrow <A>"},
		"nor those that name no type":                {tenant + `queue q {"A":4} gives parent=t deserved={"A":2}; j q 1: -*4`, "a:2", "cannot borrow <A>"},
		"pods name their type if the queue does not": {tenant + `queue q {"A":4} gives parent=t deserved={"A":2}; j q 1: -*4 type=training`, "a:4", ""},
		"others beside them still borrow":            {tenant + "j q 1: -*2 protected; i q 1: -*2", "a:2", ""},
		"and they deserve their part beside those":   {tenant + "i q 1: a*2; j q 1: -*2 protected", "a:2", ""},
		"at no level":                                 {tenant + `queue t {"A":4} deserved={"A":1}; j q 1: -*2 protected`, "a:1", "cannot borrow <A>"},
		"a quota is inherited":                        {tenant + `queue q {} training parent=t deserved={"A":2}; j q 1: -*5`, "a:4", "but capability is <4>"},
		"a parent takes no jobs":                      {tenant + "j t 1: -", "", "Queue <t> is the parent of other queues and takes no jobs: name one of its children"},
		"nor does a queue that will be one":           {tenant + `queue p {"A":4} training parentonly=true; j p 1: -`, "", "Queue <p> is the parent of other queues"},
		"pods that a parent has count for it":         {tenant + "i t 1: a*3; j q 1: -*2", "a:1", "Queue <t>, an ancestor of <q>,"},
		"a missing parent closes the queue":           {`node a A; queue q {"A":4} training parent=gone; j q 1: -`, "", "Queue <q> names parent <gone>, which does not exist: nothing new starts in it"},
		"and those below it":                          {`node a A; queue p {"A":4} parent=gone; queue q {"A":4} training parent=p; j q 1: -`, "", "Queue <q> (its ancestor <p>) names parent <gone>"},
		"and no other":                                {`node a A; queue p {"A":4} parent=gone; queue x {"A":4} parent=y; queue y {"A":4} parent=x; queue q {"A":4} training; j q 1: -`, "a:1", ""},
		"a cycle closes its queues":                   {`node a A; queue q {"A":4} training parent=p; queue p {"A":4} parent=q; j q 1: -`, "", "which leads back to it"},
		"a queue too far down is closed":              {deepTree(7) + "j q7 1: -", "", "Queue <q7> is more than 6 levels below <root>: nothing new starts in it"},
		"the lowest level is not":                     {deepTree(6) + "j q6 1: -", "a:1", ""},
		"a held queue starts nothing":                 {tenant + `queue q {"A":4} training parent=t stop=Hold; j q 1: -`, "", "Queue <q> is held by its stop policy: nothing new starts in it; set stopPolicy to None"},
		"nor does what is below it":                   {tenant + `queue t {"A":4} stop=HoldAndDrain; j q 1: -`, "", "Queue <q> (its ancestor <t>) is held by its stop policy"},
		"nor with a policy that is not known":         {tenant + `queue t {"A":4} stop=Freeze; j q 1: -`, "", "is held by its stop policy"},
		"namespaces of an ancestor bind":              {tenant + `queue t {"A":4} for={"matchLabels":{"team":"chat"}}; ns ns lab; j q 1: -`, "", "Namespace <ns> may not use queue <t>: ask an administrator"},
		"and let others in":                           {tenant + `queue t {"A":4} for={"matchLabels":{"team":"chat"}}; ns ns chat; j q 1: -`, "a:1", ""},
		"an unreadable deserved withholds everything": {tenant + `queue q {"A":4} training parent=t deserved={"A":1.5}; j q 1: -`, "", "invalid volcano.sh/card.deserved"},
		"terminating cards of the subtree bind": {tenant + "gone r 1: a*5; j q 1: -", "",
			"Queue <t>, an ancestor of <q>, gets no more <A> while pods that are being deleted hold more than its quota: terminating <5>, but quota is <4>"},
		"root limits nothing": {`node a A; queue root {"A":0}; queue q {"A":4} training parent=root; j q 1: -*2`, "a:2", ""},
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
	text := `node a A; queue q1 {"A":4} training;`
	for i := 2; i <= levels; i++ {
		text += fmt.Sprintf(`queue q%d {"A":4} training parent=q%d;`, i, i-1)
	}
	return text
}

// TestHoldWithoutATree: a held queue starts nothing, also if queues are flat.
func TestHoldWithoutATree(t *testing.T) {
	s := newScene(t, `node a A; queue q {"A":4} stop=Hold; j q 1: -; queue r {"A":4} parent=q; i r 1: -`).enqueueAndAllocate()
	check.Equal(t, "placed", " a:1", s.podsByNode("j")+" "+s.podsByNode("i"))
	check.Says(t, s.p.queueRules["q"].Refusal, "Queue <q> is held by its stop policy")
}

// TestPredicateNamesTheAncestor: the reason of a node states the limit that is exceeded.
func TestPredicateNamesTheAncestor(t *testing.T) {
	s := newTreeScene(t, tenant+"i r 1: a*4; j q 1: -").openSession()
	check.Says(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), "queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <1>, total would be <5>, but capability is <4>")
	s = newTreeScene(t, tenant+"i q 1: a*2 protected; j q 1: - protected").openSession()
	check.Says(t, s.p.predicate(s.Task("j-0"), s.Ssn.Nodes["a"]), "queue <q> cannot borrow <A>")
}

func TestEnqueueInATree(t *testing.T) {
	const two = `j q 2: phase=Pending least=2 request={"A":2}`

	for t, tc := range check.Cases(t, map[string]struct{ text, why string }{
		"what fits":                              {tenant + two, ""},
		"what a sibling enqueued is reserved":    {tenant + `i r 3: least=3 request={"A":3}; queue q {"A":4} training parent=t deserved={"A":1}; ` + two, "Queue <t>, an ancestor of <q>, has insufficient <A> quota: requested <2>, total would be <5>, but capability is <4>"},
		"not beyond what is deserved":            {tenant + `i r 4: least=4 request={"A":4}; ` + two, ""},
		"what a sibling uses counts":             {tenant + `i r 3: a*3; queue q {"A":4} training parent=t deserved={"A":1}; ` + two, "an ancestor of <q>"},
		"but its elastic pods do not":            {tenant + `i r 2: a*3; queue q {"A":4} training parent=t deserved={"A":1}; ` + two, ""},
		"a held sibling reserves nothing":        {tenant + `queue r {"A":4} training parent=t stop=Hold; i r 3: least=3 request={"A":3}; queue q {"A":4} training parent=t deserved={"A":1}; ` + two, ""},
		"protected jobs stay within deserved":    {tenant + `j q 3: phase=Pending least=3 request={"A":3} protectedgroup`, "cannot borrow <A> for pods from which no other queue can reclaim: requested <3>"},
		"beside what others of them use":         {tenant + `i q 1: a protected; j q 2: phase=Pending least=2 request={"A":2} protectedgroup`, "such pods would use <3>"},
		"and what others of them reserved":       {tenant + `i q 2: least=2 request={"A":2} protectedgroup; j q 1: phase=Pending least=1 request={"A":1} protectedgroup`, "such pods would use <3>"},
		"and not beside what may be reclaimed":   {tenant + `i q 1: a; j q 2: phase=Pending least=2 request={"A":2} protectedgroup`, ""},
		"guarantees of others are left":          {tenant + `queue r {"A":4} training parent=t deserved={"A":2} guarantee={"A":2}; j q 3: phase=Pending least=3 request={"A":3}`, "cannot use <A> that are guaranteed to other queues: requested <3>, total with unused guarantees would be <5>, but capability of <t> is <4>"},
		"more than the own quota of the queue":   {tenant + `queue q {"A":1} training parent=t; ` + two, "Queue <q> has insufficient <A> quota: requested <2>, total would be <2>, but capability is <1>"},
		"pods may still name their type":         {tenant + `queue q {"A":4} gives parent=t deserved={"A":2}; j q 3: phase=Pending least=3 request={"A":3}`, ""},
		"guarantees of the inventory are left":   {`node a A 8; queue x {"A":4} deserved={"A":1}; queue q {"A":4} training parent=x deserved={"A":1}; queue r {"A":8} training deserved={"A":6} guarantee={"A":6}; j q 4: phase=Pending least=4 request={"A":4}`, "Queue <q> cannot use <A> that are guaranteed to other queues: requested <4>, total with unused guarantees would be <10>, but the inventory is <8>"},
		"what no node has is not borrowed":       {`node a A 4; queue q {"A":8} training deserved={"A":2}; queue r {"A":8} training deserved={"A":4}; i r 1: a*2; k r 1: least=1 request={"A":1}; ` + two + `; l q 1: least=1 request={"A":1}`, "Queue <q> cannot borrow <A> that the nodes do not have: requested <2>, total with usage and reservations of all queues would be <6>, but the inventory is <4>"},
		"what is deserved waits for nodes":       {`node a A 1; queue q {"A":8} training deserved={"A":2}; ` + two, ""},
		"a closed queue says so before its pods": {tenant + `j t 1: phase=Pending least=1`, "is the parent of other queues"},
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
	const queues = `node a A 16; node b B; queue t {"A":8}; queue u {"A":8};
		queue q {"A":8} training parent=t deserved={"A":4}; queue r {"A":8} training parent=t deserved={"A":4}; queue v {"A":8} training parent=u deserved={"A":8};`

	for t, tc := range check.Cases(t, map[string]struct{ text, left, right string }{
		"the higher priority":                       {queues + `queue q {"A":8} 2 training parent=t deserved={"A":4}; i q 1: a*4`, "q", "r"},
		"the smaller part of what it deserves":      {queues + "i q 1: a*2; k r 1: a", "r", "q"},
		"of what it deserves, not of its quota":     {queues + `queue r {"A":8} training parent=t deserved={"A":2}; i q 1: a*2; k r 1: a*2`, "q", "r"},
		"below deserved before above":               {queues + "i q 1: a*5; k r 1: a*3", "r", "q"},
		"who has borrowed less":                     {queues + "i q 1: a*6; k r 1: a*5", "r", "q"},
		"who has borrowed less for its weight":      {queues + `queue q {"A":8} training parent=t deserved={"A":4} weight=3; i q 1: a*6; k r 1: a*5`, "q", "r"},
		"cousins are compared by their parents":     {queues + `queue t {"A":8} deserved={"A":8}; queue u {"A":8} deserved={"A":8}; i q 1: a*5; k v 1: a*6`, "r", "v"},
		"cousins are compared not by themselves":    {queues + `i q 1: a*5; k v 1: a*4`, "v", "r"},
		"a queue that deserves nothing counts full": {queues + `queue r {"A":8} training parent=t deserved={"A":0}; i q 1: a*3`, "q", "r"},
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
	s := newTreeScene(t, tenant+"j q 1: a*4").openSession()
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

	mayUse := s.p.MayUseByLevel("q", "A").Quota
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
	const lost = `node a A 8; queue t {"A":8} deserved={"A":4}; queue q {"A":4} training parent=t deserved={"A":2};
		queue r {"A":8} training parent=t deserved={"A":2}; i r 1: a*4; `

	for t, tc := range check.Cases(t, map[string]struct{ text, placed, why string }{
		"within its deserved": {lost + "j q 1: -*2", "a:2", ""},
		"not beyond it":       {lost + "j q 1: -*3", "a:2", "cannot borrow <A> for a while"},
		"not a borrower":      {lost + "j r 1: -", "", "cannot borrow <A> for a while"},
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
	const lost = `node a A 8; node b B 8; queue t {"A":8,"B":8} deserved={"A":4,"B":4}; queue q {"A":8,"B":8} training parent=t deserved={"A":2,"B":1}; i q 1: a; `
	for t, tc := range check.Cases(t, map[string]struct{ text, stops, why string }{
		"of the queue":                {lost + `k q 1: a; j q 1: phase=Pending least=1 request={"A":1}`, "q", "cannot borrow <A> for a while, because another queue has just reclaimed them: requested <1>, total would be <3>, but"},
		"of its parent":               {lost + `k q 1: a; x t 2: a*2; j q 1: phase=Pending least=1 request={"A":1}`, "t", "cannot borrow <A> for a while, because another queue has just reclaimed them: requested <1>, total would be <5> in its ancestor <t>, but"},
		"not while its parent lends":  {lost + `k q 1: a; j q 1: phase=Pending least=1 request={"A":1}`, "t", ""},
		"another card is borrowed":    {lost + `j q 1: phase=Pending least=1 request={"B":2}`, "q", ""},
		"with an alternative as well": {lost + `k q 1: a; j q 1: phase=Pending least=1 request={"A|B":2}`, "q", ""},
		"the card is deserved":        {lost + `j q 1: phase=Pending least=1 request={"A":1,"B":2}`, "q", ""},
		"beside another card":         {lost + `k q 1: a; j q 1: phase=Pending least=1 request={"A":1,"B":2}`, "q", "<A> for a while"},
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
	s := newTreeScene(t, `node a A 8; queue t {"A":4}; queue q {"A":4} training parent=t deserved={"A":2}; queue r {"A":4} training parent=t deserved={"A":2}; i q 1: a*3; j r 1: -*4`).openSession()
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
	s := newTreeScene(t, `node a A 4; node c A 4; queue q {"A":8} training; queue r {"A":8} training guarantee={"A":2}; i q 1: c*4; j q 1: -*3`)
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
	const text = `node a A 8; node w A 80; queue q {"A":99} training deserved={"A":2}; queue r {"A":99} training deserved={"A":40}; i r 40: w*40; k r 4: a*4; `
	const borrower = `j q 4: phase=Pending least=4 request={"A":4}`
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

	s := newTreeScene(t, text+`x r 1: a; `+borrower)
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
	s := newTreeScene(t, `node a A 4; queue x {"A":4} guarantee={"A":4}; queue y {"A":4} training; j y 1: -*4`).enqueueAndAllocate()
	check.Equal(t, "placed beside the guarantee", "", s.podsByNode("j"))
	s.Close()
	s.Cache.DeleteQueueV1beta1(s.Queues[0])
	check.Equal(t, "placed without it", "a:4", s.enqueueAndAllocate().podsByNode("j"))
}

// TestGuaranteedInventoryIsNoQuota: a job that waits for what others are guaranteed of the
// inventory does not keep its reservation for ever.
func TestGuaranteedInventoryIsNoQuota(t *testing.T) {
	for text, want := range map[string]bool{
		`node a A 4; queue x {"A":4} guarantee={"A":4}; queue y {"A":4} training; j y 1: -`:          false,
		`node a A 4; queue x {"A":4}; queue y {"A":4} training parent=x; i y 1: a*4; j y 1: -`:       true,
		`node a A 4; queue x {"A":1}; queue y {"A":4} training parent=x; i y 1: a; j y 1: - cards=2`: false,
		`node a A 4; queue x {"A":2}; queue y {"A":4} training parent=x; i y 1: a; j y 1: - cards=2`: true,
	} {
		s := newTreeScene(t, text).openSession()
		task := s.Task("j-0")
		check.Equal(t, text+": waits for quota", want, s.p.waitsForQuota(s.Job("j"), s.p.RequestFor(task)))
	}
}
