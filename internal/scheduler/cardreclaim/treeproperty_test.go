package cardreclaim

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/queuetree"
	"cardquota.dev/operator/internal/testing/seed"
)

// treeNode is a queue of a random tree, with its amounts of card A.
type treeNode struct {
	queuetree.InForce
	name   string
	isLeaf bool
	// isInference is set for a queue of inference, which reclaims by the matrix and is not reclaimable.
	isInference bool
}

// forest is a random tree of queues, and its scene. Its rules are those of package queuetree, without the ledger.
type forest struct {
	*scene
	queues  map[string]*treeNode
	parents queuetree.Parents
	names   []string
	// cards are those of all nodes.
	cards int64
	// leafOf is the leaf of each job, size the cards of each pod, least the minimum of the job.
	leafOf      map[string]string
	size, least map[string]int64
}

// drawForest returns a tree of at most three levels whose amounts are valid, with pending jobs in
// some of its leaves. Directly under root, all deserve no more than there is.
func drawForest(t *rapid.T) *forest {
	f := &forest{
		scene: newTree("queue root0 quota=0 deserved=0"), queues: map[string]*treeNode{}, parents: queuetree.Parents{},
		leafOf: map[string]string{}, size: map[string]int64{}, least: map[string]int64{},
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		cards := rapid.Int64Range(2, 6).Draw(t, "cards")
		f.cards += cards
		f.add(fmt.Sprintf("node n%d model=A cards=%d", i, cards))
	}

	f.grow(t, "", queuetree.InForce{Quota: f.cards, Deserved: f.cards, Guarantee: f.cards}, 1)
	for _, name := range f.names {
		q := f.queues[name]
		kind := map[bool]string{true: "inference", false: "training"}[q.isInference]
		f.add(fmt.Sprintf("queue %s parent=%s quota=%d deserved=%d guarantee=%d serviceType=%s", q.name, f.parents[q.name], q.Quota, q.Deserved, q.Guarantee, kind))
	}

	return f
}

// grow adds the children of a queue, which share what it deserves and its guarantee.
func (f *forest) grow(t *rapid.T, name string, above queuetree.InForce, depth int) {
	deserved := above.Deserved
	guarantee := above.Guarantee
	for i := range rapid.IntRange(1, 3).Draw(t, "children") {
		q := &treeNode{name: fmt.Sprintf("%sq%d", name, i), isLeaf: depth == 3 || rapid.IntRange(0, 2).Draw(t, "is a leaf") == 0}
		q.Deserved = rapid.Int64Range(min(1, deserved), deserved).Draw(t, "deserved")
		q.Guarantee = rapid.SampledFrom([]int64{0, 0, min(guarantee, q.Deserved), min(guarantee, q.Deserved) / 2}).Draw(t, "guarantee")
		q.Quota = rapid.SampledFrom([]int64{above.Quota, above.Quota, (q.Deserved + above.Quota + 1) / 2}).Draw(t, "quota")
		q.isInference = q.isLeaf && rapid.IntRange(0, 4).Draw(t, "keeps") == 0
		deserved -= q.Deserved
		guarantee -= q.Guarantee

		f.queues[q.name] = q
		f.parents[q.name] = name
		f.names = append(f.names, q.name)
		if !q.isLeaf {
			f.grow(t, q.name, q.InForce, depth+1)
		}
	}
}

// addJobs adds pending jobs to some leaves.
func (f *forest) addJobs(t *rapid.T, prefix string) {
	leaves := slices.DeleteFunc(slices.Clone(f.names), func(name string) bool { return !f.queues[name].isLeaf })
	for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
		leaf := f.queues[rapid.SampledFrom(leaves).Draw(t, "queue")]
		job := fmt.Sprintf("%s%d", prefix, i)
		pods := rapid.Int64Range(1, 6).Draw(t, "pods")
		cards := rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "cards of a pod")
		least := rapid.SampledFrom([]int64{1, pods}).Draw(t, "minimum")

		f.leafOf[job] = leaf.name
		f.size[job] = cards
		f.least[job] = least
		text := fmt.Sprintf("job %s queue=%s min=%d pending=%d cards=%d", job, leaf.name, least, pods, cards)
		if f.Cache == nil {
			f.add(text)
		} else {
			f.addToCache(text)
		}
	}
}

// makeTree returns the tree of package queuetree. All nodes together are the quota of root.
func (f *forest) makeTree() *queuetree.Tree {
	return &queuetree.Tree{Parents: f.parents, IsCard: true, InForce: func(queue string) queuetree.InForce {
		if queue == "" {
			return queuetree.InForce{Quota: f.cards, Deserved: queuetree.Unlimited}
		}
		return f.queues[queue].InForce
	}}
}

// use is what some pods of each job use, by leaf.
func (f *forest) use(pods map[string]int64) queuetree.Use {
	used := queuetree.Use{}
	for job, n := range pods {
		used[f.leafOf[job]] += n * f.size[job]
	}
	return used
}

// run opens a session and runs allocate and the action. It returns how many pods of each job had
// cards before the action, how many were evicted, how many wait for their cards, and how many
// pods allocate placed.
func (f *forest) run() (had, evicted, came map[string]int64, placed int) {
	f.openSession()
	f.Run(f.allocate(), f.reclaim())
	evicted = f.count(api.Releasing)
	came = f.count(api.Pipelined)
	return f.count(api.Running, api.Binding, api.Allocated, api.Releasing), evicted, came, len(f.In(api.Binding)) + len(f.In(api.Allocated))
}

// count counts the pods of each job in some statuses.
func (f *forest) count(statuses ...api.TaskStatus) map[string]int64 {
	counts := map[string]int64{}
	for _, status := range statuses {
		for _, task := range f.In(status) {
			counts[f.Ssn.Jobs[task.Job].Name]++
		}
	}
	return counts
}

// checkSession checks one session against the rules of reclaim.
func (f *forest) checkSession(t *rapid.T, had, evicted, came map[string]int64) {
	tree := f.makeTree()
	before := f.use(had)
	lost := f.use(evicted)
	gained := f.use(came)
	byMatrix := slices.ContainsFunc(slices.Collect(maps.Keys(came)), func(job string) bool { return f.queues[f.leafOf[job]].isInference })

	check.Must(t, len(evicted) == 0 || len(came) > 0, "%v are evicted and no pod is placed", evicted)
	for job := range evicted {
		leaf := f.queues[f.leafOf[job]]
		check.Must(t, !leaf.isInference, "%s is evicted from %s, which is not reclaimable", job, leaf.name)
		left := had[job] - evicted[job]
		check.Must(t, left == 0 || left >= f.least[job], "%s is left with %d of %d pods", job, left, f.least[job])
	}

	for _, name := range f.names {
		q := f.queues[name]
		hasLost := tree.Used(name, lost) > 0
		hasGained := tree.Used(name, gained) > 0
		after := tree.Used(name, before) - tree.Used(name, lost) + tree.Used(name, gained)
		if hasLost && !hasGained {
			check.Must(t, after >= q.Guarantee, "%s is left with %d, its guarantee is %d", name, after, q.Guarantee)
		}

		if q.isLeaf && hasGained && len(evicted) > 0 { // after inference reclaimed, the leaf may do so, too
			check.Must(t, !hasLost || byMatrix, "%s reclaims, and another queue reclaims from it by the tree", name)
			check.Must(t, after <= q.Deserved, "%s evicts others and uses %d of %d that it deserves", name, after, q.Deserved)
		}
	}
}

// reclaimableFor returns a job of which a unit could be evicted for one more card of a leaf, "" if
// there is none.
func (f *forest) reclaimableFor(leaf string, had map[string]int64) string {
	used := f.use(had)
	for job, n := range had {
		from := f.queues[f.leafOf[job]]
		if from.name == leaf || from.isInference || n == 0 {
			continue
		}

		unit := n
		if n > f.least[job] {
			unit = 1 // a pod above the minimum, and not the whole job
		}

		if f.allowsReclaim(leaf, from.name, unit*f.size[job], used) && f.fitsAfter(leaf, job, unit, had) {
			return job
		}
	}

	return ""
}

// allowsReclaim reports whether the queues of both sides allow that a leaf gets one more card and
// another leaf loses some.
func (f *forest) allowsReclaim(leaf, from string, lost int64, used queuetree.Use) bool {
	tree := f.makeTree()
	byMatrix := f.queues[leaf].isInference // inference reclaims from training
	refuses := func(name string) bool {
		return tree.Used(name, used)-lost < f.queues[name].Guarantee || (!byMatrix && !tree.IsAboveDeserved(name, used))
	}
	deservesNoMore := func(name string) bool { return tree.IsAboveDeserved(name, used.With(leaf, 1)) }

	return !slices.ContainsFunc(tree.PathBelow(from, leaf), refuses) && !slices.ContainsFunc(tree.PathBelow(leaf, from), deservesNoMore)
}

// fitsAfter reports whether one more card of a leaf fits every quota and leaves the unused
// guarantees of others once a unit of a job is evicted.
func (f *forest) fitsAfter(leaf, job string, unit int64, had map[string]int64) bool {
	tree := f.makeTree()
	used := f.use(had).With(f.leafOf[job], -unit*f.size[job])
	hasFreeCard := !tree.IsAboveQuota("", used.With(leaf, 1))
	return hasFreeCard && tree.Refusal(queuetree.Request{Queue: leaf, Count: 1}, queuetree.Pods{Used: used}) == ""
}

// TestReclaimInATreeComesToRest: a random tree of queues gets random jobs, some of them later than others.
// The rules are those of package queuetree, without the ledger of the scheduler. For each session
// (checkSession):
// (1) It evicts only if pods get cards by it, and no pod of inference, which is not reclaimable.
// (2) Each victim job keeps its minimum or no pod.
// (3) A queue that only loses pods keeps its guarantee.
// (4) A leaf that reclaims uses no more than it deserves, and loses pods only if inference reclaims.
// In the end:
// (5) Sessions come to rest: three in a row change nothing (rest). A restart may change something again,
// because the scheduler then does not know any more which cards it keeps for which pods, and which queues may
// not borrow. But one of at most ten restarts changes nothing.
// (6) No pod of one card that could start alone waits, within what its queues deserve, for a card that could
// be reclaimed (reclaimableFor). It could start alone if its job needs one pod only, or already has its
// minimum.
func TestReclaimInATreeComesToRest(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawForest(t)
		defer f.Close()

		f.addJobs(t, "a")
		f.startCache()
		f.rest(t)
		f.addJobs(t, "b")

		had := map[string]int64{}
		isQuiet := false
		for restarts := 0; !isQuiet; restarts++ { // until a restart changes nothing
			check.Must(t, restarts < 10, "every restart changes what runs")
			f.rest(t)
			useNewCache()
			f.search = New(NewEvictions(cards, f.policies)) // the restart
			had, isQuiet = f.session(t)
			if !isQuiet {
				f.settle()
			}
		}

		for _, task := range f.In(api.Pending) {
			job := f.Ssn.Jobs[task.Job].Name
			if f.size[job] == 1 && (f.least[job] == 1 || had[job] >= f.least[job]) {
				victim := f.reclaimableFor(f.leafOf[job], had)
				check.Must(t, victim == "", "%s waits in %s, and %s could be evicted for it", task.Name, f.leafOf[job], victim)
			}
		}
	})
}

// rest runs sessions until three of them have changed nothing.
func (f *forest) rest(t *rapid.T) {
	quiet := 0
	for sessions := 0; quiet < 3; sessions++ {
		check.Must(t, sessions < 40, "nothing comes to rest")
		if _, isQuiet := f.session(t); isQuiet {
			quiet++
		} else {
			quiet = 0
		}
		f.settle()
	}
}

// session runs a session and checks it. It returns how many pods of each job had cards, and
// whether the session changed nothing.
func (f *forest) session(t *rapid.T) (had map[string]int64, isQuiet bool) {
	had, evicted, came, placed := f.run()
	f.checkSession(t, had, evicted, came)
	return had, len(evicted)+len(came)+placed == 0
}
