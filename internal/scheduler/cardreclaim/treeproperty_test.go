package cardreclaim

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// treeNode is a queue of a random tree, with its amounts of card A.
type treeNode struct {
	name, parent               string
	quota, deserved, guarantee int
	isLeaf                     bool
	// isInference is set for a queue of inference, which reclaims by the matrix and is not reclaimable.
	isInference bool
}

// forest is a random tree of queues, and its scene. Its rules are written without the ledger.
type forest struct {
	*scene
	queues map[string]*treeNode
	names  []string
	cards  int
	// leafOf is the leaf of each job, size the cards of each pod, least the minimum of the job.
	leafOf      map[string]string
	size, least map[string]int
}

// drawForest returns a tree of at most three levels whose amounts are valid, with pending jobs in
// some of its leaves. Directly under root, all deserve no more than there is.
func drawForest(t *rapid.T) *forest {
	f := &forest{
		scene: newTree("queue root0 quota=0 deserved=0"), queues: map[string]*treeNode{},
		leafOf: map[string]string{}, size: map[string]int{}, least: map[string]int{},
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		cards := rapid.IntRange(2, 6).Draw(t, "cards")
		f.cards += cards
		f.add(fmt.Sprintf("node n%d model=A cards=%d", i, cards))
	}

	f.grow(t, "", &treeNode{quota: f.cards, deserved: f.cards, guarantee: f.cards}, 1)
	for _, name := range f.names {
		q := f.queues[name]
		kind := map[bool]string{true: "inference", false: "training"}[q.isInference]
		f.add(fmt.Sprintf("queue %s parent=%s quota=%d deserved=%d guarantee=%d serviceType=%s", q.name, q.parent, q.quota, q.deserved, q.guarantee, kind))
	}

	return f
}

// grow adds the children of a queue, which share what it deserves and its guarantee.
func (f *forest) grow(t *rapid.T, name string, above *treeNode, depth int) {
	deserved := above.deserved
	guarantee := above.guarantee
	for i := range rapid.IntRange(1, 3).Draw(t, "children") {
		q := &treeNode{name: fmt.Sprintf("%sq%d", name, i), parent: name, isLeaf: depth == 3 || rapid.IntRange(0, 2).Draw(t, "is a leaf") == 0}
		q.deserved = rapid.IntRange(min(1, deserved), deserved).Draw(t, "deserved")
		q.guarantee = rapid.SampledFrom([]int{0, 0, min(guarantee, q.deserved), min(guarantee, q.deserved) / 2}).Draw(t, "guarantee")
		q.quota = rapid.SampledFrom([]int{above.quota, above.quota, (q.deserved + above.quota + 1) / 2}).Draw(t, "quota")
		q.isInference = q.isLeaf && rapid.IntRange(0, 4).Draw(t, "keeps") == 0
		deserved -= q.deserved
		guarantee -= q.guarantee

		f.queues[q.name] = q
		f.names = append(f.names, q.name)
		if !q.isLeaf {
			f.grow(t, q.name, q, depth+1)
		}
	}
}

// addJobs adds pending jobs to some leaves.
func (f *forest) addJobs(t *rapid.T, prefix string) {
	leaves := slices.DeleteFunc(slices.Clone(f.names), func(name string) bool { return !f.queues[name].isLeaf })
	for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
		leaf := f.queues[rapid.SampledFrom(leaves).Draw(t, "queue")]
		job := fmt.Sprintf("%s%d", prefix, i)
		pods := rapid.IntRange(1, 6).Draw(t, "pods")
		cards := rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "cards of a pod")
		least := rapid.SampledFrom([]int{1, pods}).Draw(t, "minimum")

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

// pathOf returns a queue and its ancestors.
func (f *forest) pathOf(queue string) (path []string) {
	for ; queue != ""; queue = f.queues[queue].parent {
		path = append(path, queue)
	}
	return path
}

// below returns the queue and its ancestors that are no ancestors of another one.
func (f *forest) below(queue, other string) []string {
	shared := f.pathOf(other)
	return slices.DeleteFunc(f.pathOf(queue), func(name string) bool { return slices.Contains(shared, name) })
}

// use is what a set of jobs uses in every queue.
func (f *forest) use(pods map[string]int) map[string]int {
	used := map[string]int{}
	for job, n := range pods {
		for _, name := range f.pathOf(f.leafOf[job]) {
			used[name] += n * f.size[job]
		}
		used[""] += n * f.size[job]
	}
	return used
}

// unused is the guarantee of a queue, and of all below it, that they do not use.
func (f *forest) unused(name string, used map[string]int) int {
	if name == "" {
		return f.unusedBelow(name, used)
	}
	return max(f.unusedBelow(name, used), f.queues[name].guarantee-used[name])
}

func (f *forest) unusedBelow(name string, used map[string]int) (sum int) {
	for _, child := range f.names {
		if f.queues[child].parent == name {
			sum += f.unused(child, used)
		}
	}
	return sum
}

// run opens a session and runs allocate and the action. It returns how many pods of each job had
// cards before the action, how many were evicted, how many wait for their cards, and how many
// pods allocate placed.
func (f *forest) run() (had, evicted, came map[string]int, placed int) {
	f.openSession()
	f.Run(f.allocate(), f.reclaim())
	evicted = f.count(api.Releasing)
	came = f.count(api.Pipelined)
	return f.count(api.Running, api.Binding, api.Allocated, api.Releasing), evicted, came, len(f.In(api.Binding)) + len(f.In(api.Allocated))
}

// count counts the pods of each job in some statuses.
func (f *forest) count(statuses ...api.TaskStatus) map[string]int {
	counts := map[string]int{}
	for _, status := range statuses {
		for _, task := range f.In(status) {
			counts[f.Ssn.Jobs[task.Job].Name]++
		}
	}
	return counts
}

// checkSession checks one session against the rules of reclaim.
func (f *forest) checkSession(t *rapid.T, had, evicted, came map[string]int) {
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
		if after := before[name] - lost[name]; lost[name] > 0 && gained[name] == 0 {
			check.Must(t, after >= q.guarantee, "%s is left with %d, its guarantee is %d", name, after, q.guarantee)
		}

		if q.isLeaf && gained[name] > 0 && len(evicted) > 0 {
			check.Must(t, lost[name] == 0 || byMatrix, "%s reclaims, and another queue reclaims from it by the tree", name)
			after := before[name] - lost[name] + gained[name] // after inference reclaimed, it may do so, too
			check.Must(t, after <= q.deserved, "%s evicts others and uses %d of %d that it deserves", name, after, q.deserved)
		}
	}
}

// reclaimableFor returns a job of which a unit could be evicted for one more card of a leaf, "" if
// there is none.
func (f *forest) reclaimableFor(leaf string, had map[string]int) string {
	used := f.use(had)
	for job, n := range had {
		from := f.queues[f.leafOf[job]]
		if from.name == leaf || from.isInference || n == 0 {
			continue
		}

		unit := n
		if n > f.least[job] {
			unit = 1
		}

		if f.allowsReclaim(leaf, from.name, unit*f.size[job], used) && f.fitsAfter(leaf, job, unit, had) {
			return job
		}
	}

	return ""
}

// allowsReclaim reports whether the queues of both sides allow that a leaf gets one more card and
// another leaf loses some.
func (f *forest) allowsReclaim(leaf, from string, lost int, used map[string]int) bool {
	byMatrix := f.queues[leaf].isInference // inference reclaims from training
	allowed := true
	for _, name := range f.below(from, leaf) {
		q := f.queues[name]
		allowed = allowed && used[name]-lost >= q.guarantee && (byMatrix || used[name] > q.deserved)
	}

	for _, name := range f.below(leaf, from) {
		allowed = allowed && used[name]+1 <= f.queues[name].deserved
	}

	return allowed
}

// fitsAfter reports whether one more card of a leaf fits every quota and leaves the unused
// guarantees of others once a unit of a job is gone.
func (f *forest) fitsAfter(leaf, job string, unit int, had map[string]int) bool {
	used := f.use(had)
	for _, name := range append(f.pathOf(f.leafOf[job]), "") {
		used[name] -= unit * f.size[job]
	}

	path := append(f.pathOf(leaf), "")
	covered := false

	with := maps.Clone(used)
	for _, name := range path {
		with[name]++
	}

	for i, name := range path {
		quota := f.cards
		if name != "" {
			quota = f.queues[name].quota
		}

		if with[name] > quota || (i > 0 && !covered && with[name]+f.unusedBelow(name, with) > quota) {
			return false
		}
		covered = f.unused(name, with) < f.unused(name, used)
	}

	return true
}

// TestReclaimInATreeComesToRest: a random tree of queues gets random jobs, some of them later than others. For each
// session: (1) It evicts only if pods get cards by it, and no pod of inference, which is not reclaimable. (2) Each
// victim job keeps its minimum or no pod. (3) A queue that only loses pods keeps its guarantee. (4) A leaf that
// reclaims uses no more than it deserves, and loses pods only if inference reclaims. In the end: (5) No session
// changes anything, even after a restart. The scheduler then does not know any more which cards it keeps for which
// pods, and which queues may not borrow. (6) No pod of one card that could start alone waits, within what its queues
// deserve, for a card that could be reclaimed. The rules are computed without the ledger of the scheduler.
func TestReclaimInATreeComesToRest(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawForest(t)
		defer f.Close()

		f.addJobs(t, "a")
		f.startCache()
		f.rest(t)
		f.addJobs(t, "b")

		had := map[string]int{}
		for restarts, isQuiet := 0, false; !isQuiet; restarts++ { // until a restart changes nothing
			check.Must(t, restarts < 10, "every restart changes what runs")
			f.rest(t)
			useNewCache()
			f.search = New(NewEvictions(cards, f.policies))
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
	for quiet, sessions := 0, 0; quiet < 3; sessions++ {
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
func (f *forest) session(t *rapid.T) (had map[string]int, isQuiet bool) {
	had, evicted, came, placed := f.run()
	f.checkSession(t, had, evicted, came)
	return had, len(evicted)+len(came)+placed == 0
}
