package action

import (
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
	// fitting are the nodes that pods of the same needs could run on if there were
	// room.
	fitting map[string][]int
	// hopeless are needs of pods for which nobody can go in this session.
	hopeless map[hopelessKey]bool
	// onTheirWay are the pods that were on their way out when the session began.
	onTheirWay map[api.TaskID]bool
}

// giverKey is all that the rules look at in who takes.
type giverKey struct {
	queue       api.QueueID
	serviceType string
}

type hopelessKey struct {
	giverKey
	needs string
}

func newWave(ssn *framework.Session, tide *capacitycard.Tide, action *Action) *wave {
	w := &wave{
		ssn: ssn, tide: tide, action: action, now: tide.Now(),
		nodes: make(map[string]int, len(ssn.NodeList)), list: ssn.NodeList,
		givers: map[giverKey][]*giver{}, fitting: map[string][]int{}, hopeless: map[hopelessKey]bool{},
		onTheirWay: map[api.TaskID]bool{},
	}
	for i, node := range ssn.NodeList {
		w.nodes[node.Name] = i
	}
	for _, job := range ssn.Jobs {
		for uid := range job.TaskStatusIndex[api.Releasing] {
			w.onTheirWay[uid] = true
		}
	}
	return w
}

// mostAttempts bounds how often a plan is made anew because a node turned out
// not to fit after all.
const mostAttempts = 8

// place finds nodes for pods of one job and takes cards back for them: for all
// of them or for none, or for as many as can be. It tells whether pods were
// placed.
func (w *wave) place(job *api.JobInfo, tasks []*api.TaskInfo, all bool) bool {
	w.sort(tasks)
	claims, ok := w.claimsOf(job, tasks, all)
	if !ok || w.known(claims) {
		return false
	}
	for range mostAttempts {
		q := w.question(job, claims)
		plan, ok := q.answer(true)
		if !ok { // what is free is not enough for all
			w.addGivers(q)
			plan, ok = q.answer(all)
		}
		if !ok {
			w.giveUp(claims)
			return false
		}
		unfit, placed := w.carryOut(job, q, plan, all)
		if placed {
			return true
		}
		if unfit == nil || unfit.waits && all {
			return false
		}
		unfit.claim.exclude(unfit.node)
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

// known tells that the needs of a job were found hopeless in this session.
// Other jobs of its queue and service type with the same needs are not looked at
// again.
func (w *wave) known(claims []*claim) bool { return w.hopeless[w.hopelessKey(claims)] }

func (w *wave) hopelessKey(claims []*claim) hopelessKey {
	return hopelessKey{w.giverKey(claims[0].tasks[0]), claims[0].needs}
}

func (w *wave) giverKey(task *api.TaskInfo) giverKey {
	return giverKey{w.ssn.Jobs[task.Job].Queue, w.tide.TypeOf(task)}
}

// giveUp remembers the needs of a single pod that nobody can make room for; a
// gang may be hopeless for its size.
func (w *wave) giveUp(claims []*claim) {
	if len(claims) == 1 && len(claims[0].tasks) == 1 && len(claims[0].excluded) == 0 {
		w.hopeless[w.hopelessKey(claims)] = true
	}
}

// placeOf is the place of a node, one after all others for a node that the
// session does not have.
func (w *wave) placeOf(node string) int {
	if i, ok := w.nodes[node]; ok {
		return i
	}
	return len(w.list)
}
