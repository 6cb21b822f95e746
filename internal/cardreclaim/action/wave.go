package action

import (
	"fmt"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/capacitycard"
)

// wave is one execution of the action: one session, and what was worked out in
// it so far.
type wave struct {
	ssn    *framework.Session
	tide   *capacitycard.Tide
	action *Action
	now    time.Time
	// nodes is the place of each node in list, by name.
	nodes map[string]int
	list  []*api.NodeInfo
	// givers are the jobs from which cards may be taken, by who takes.
	givers map[giverKey][]*giver
	// fitting are the nodes that pods of one kind could run on if there were room.
	fitting map[kind][]int
	// offering are the nodes that have what pods of one kind ask for, in use or not, and a
	// card that they may use.
	offering map[kind][]int
	// hopeless is how many pods of one kind cannot be placed together, whoever goes,
	// until somebody goes.
	hopeless map[kind]int
	// together are kinds of pods that cannot be placed together, whoever goes, until
	// somebody goes.
	together map[string]bool
	// looked is what the search for the job that is served looked at.
	looked looked
	// ripens is when the first job will have run long enough to be taken, by who takes.
	ripens map[giverKey]time.Time
	// left tells that somebody did not get all the effort that it needs.
	left bool
	limit
	// mayGo are the pods that givers could give, by who takes.
	mayGo   map[giverKey]map[api.TaskID]bool
	budgets budgets
	// onTheirWay are the pods that were on their way out when the session began, and do not
	// hang.
	onTheirWay map[api.TaskID]*api.TaskInfo
}

// giverKey is all that the rules look at in who takes.
type giverKey struct {
	queue       api.QueueID
	serviceType string
}

// kind tells pods apart for which different nodes may fit: Volcano's plugins look at
// the queue of a pod as well as at the pod.
type kind struct {
	giverKey
	needs string
}

func newWave(ssn *framework.Session, tide *capacitycard.Tide, action *Action) *wave {
	action.texts.begin()
	w := &wave{
		ssn: ssn, tide: tide, action: action, now: tide.Now(),
		nodes: make(map[string]int, len(ssn.NodeList)), list: ssn.NodeList,
		givers: map[giverKey][]*giver{}, fitting: map[kind][]int{}, offering: map[kind][]int{}, ripens: map[giverKey]time.Time{}, hopeless: map[kind]int{},
		together: map[string]bool{}, limit: action.limit,
		onTheirWay: map[api.TaskID]*api.TaskInfo{}, mayGo: map[giverKey]map[api.TaskID]bool{},
	}
	for i, node := range ssn.NodeList {
		w.nodes[node.Name] = i
	}
	w.budgets = w.readBudgets()
	for _, job := range ssn.Jobs {
		for uid, task := range job.TaskStatusIndex[api.Releasing] {
			if !tide.Hangs(task) {
				w.onTheirWay[uid] = task
			}
		}
	}
	return w
}

// place finds nodes for pods of one job and takes cards back for them: for all
// of them or for none, or for as many as can be. It tells whether pods were
// placed.
func (w *wave) place(job *api.JobInfo, tasks []*api.TaskInfo, all bool) bool {
	w.sort(tasks)
	claims, ok := w.claimsOf(job, tasks, all)
	if claims = w.hopeful(claims, all); !ok || len(claims) == 0 {
		return false
	}
	// Each turn leaves a node out that turned out not to fit, so the turns come to an end.
	for !w.exhausted() {
		q := w.question(job, claims)
		plan, ok := q.answer(&w.limit, true)
		if !ok { // what is free is not enough for all
			w.addGivers(q)
			plan, ok = q.answer(&w.limit, all)
		}
		if !ok {
			w.giveUp(claims, all)
			return false
		}
		unfit, placed := w.carryOut(job, q, plan, all)
		if placed {
			return true
		}
		if unfit == nil || unfit.waits && all {
			return false
		}
		w.avoid(unfit)
		if unfit.waits { // one pod has a place to wait for, the others have not
			if unfit.claim.tasks = unfit.claim.tasks[1:]; len(unfit.claim.tasks) == 0 {
				claims = slices.DeleteFunc(claims, func(c *claim) bool { return c == unfit.claim })
			}
			if len(claims) == 0 {
				return false
			}
		}
	}
	return false
}

// hopeful leaves out the kinds of which not even one pod can be placed: there is
// no node for it, or that was found for pods of the same queue, service type and
// needs. It returns none when all are to be placed and cannot be: so many of one
// kind, or just these.
func (w *wave) hopeful(claims []*claim, all bool) []*claim {
	hopeless := func(c *claim) bool {
		n, known := w.hopeless[w.kindOf(c)]
		return known && (n == 1 || all && len(c.tasks) >= n) || w.exhausted() || len(w.nodesOf(c)) == 0
	}
	if all && (slices.ContainsFunc(claims, hopeless) || len(claims) > 1 && w.together[w.setKey(claims)]) {
		return nil
	}
	return slices.DeleteFunc(claims, hopeless)
}

// giveUp remembers that pods cannot be placed, whoever goes: those of the only
// kind, all kinds together, or of each kind even one. What a search without the
// effort for it did not find is not known, and neither is what was asked about
// some of the nodes only.
func (w *wave) giveUp(claims []*claim, all bool) {
	narrowed := func(c *claim) bool { return len(c.excluded)+len(c.caps) > 0 }
	if w.exhausted() || w.cut || all && slices.ContainsFunc(claims, narrowed) {
		return
	}
	if all && len(claims) > 1 {
		w.together[w.setKey(claims)] = true
		return
	}
	for _, c := range claims {
		if narrowed(c) {
			continue
		}
		n, key := 1, w.kindOf(c)
		if all {
			n = len(c.tasks)
		}
		if known, ok := w.hopeless[key]; !ok || n < known {
			w.hopeless[key] = n
		}
	}
}

// setKey stands for who takes, and how many pods of which kinds there are.
func (w *wave) setKey(claims []*claim) string {
	by := w.giverKey(claims[max(0, taker(claims))].tasks[0])
	parts := make([]string, len(claims))
	for i, c := range claims {
		parts[i] = fmt.Sprintf("%d of %s", len(c.tasks), c.needs)
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %q %q", by.queue, by.serviceType, parts)
}

func (w *wave) kindOf(c *claim) kind { return kind{w.giverKey(c.tasks[0]), c.needs} }

func (w *wave) giverKey(task *api.TaskInfo) giverKey {
	return giverKey{w.ssn.Jobs[task.Job].Queue, w.tide.TypeOf(task)}
}

// placeOf is the place of a node, one after all others for a node that the
// session does not have.
func (w *wave) placeOf(node string) int {
	if i, ok := w.nodes[node]; ok {
		return i
	}
	return len(w.list)
}
