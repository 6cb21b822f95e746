package action

import (
	"maps"
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
	// hopeless is how many pods of the same needs cannot be placed together, whoever
	// goes, until somebody goes.
	hopeless map[hopelessKey]int
	// onTheirWay are the pods that were on their way out when the session began.
	onTheirWay map[api.TaskID]*api.TaskInfo
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
		givers: map[giverKey][]*giver{}, fitting: map[string][]int{}, hopeless: map[hopelessKey]int{},
		onTheirWay: map[api.TaskID]*api.TaskInfo{},
	}
	for i, node := range ssn.NodeList {
		w.nodes[node.Name] = i
	}
	for _, job := range ssn.Jobs {
		maps.Copy(w.onTheirWay, job.TaskStatusIndex[api.Releasing])
	}
	return w
}

// mostAttempts bounds how often a plan is made anew because a node turned out
// not to fit after all.
const mostAttempts = 16

// place finds nodes for pods of one job and takes cards back for them: for all
// of them or for none, or for as many as can be. It tells whether pods were
// placed.
func (w *wave) place(job *api.JobInfo, tasks []*api.TaskInfo, all bool) bool {
	w.sort(tasks)
	claims, ok := w.claimsOf(job, tasks, all)
	if !ok || w.known(claims, all) {
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

// known tells that pods of the same queue, service type and needs were found
// hopeless: so many of them, if all are to be placed, else even one.
func (w *wave) known(claims []*claim, all bool) bool {
	for _, c := range claims {
		if n, known := w.hopeless[w.hopelessKey(c)]; known && (all && len(c.tasks) >= n || !all && n == 1 && len(claims) == 1) {
			return true
		}
	}
	return false
}

// giveUp remembers that pods of one kind cannot be placed, whoever goes.
func (w *wave) giveUp(claims []*claim, all bool) {
	if len(claims) != 1 || len(claims[0].excluded)+len(claims[0].caps) > 0 {
		return
	}
	n := 1
	if all {
		n = len(claims[0].tasks)
	}
	key := w.hopelessKey(claims[0])
	if known, ok := w.hopeless[key]; !ok || n < known {
		w.hopeless[key] = n
	}
}

func (w *wave) hopelessKey(c *claim) hopelessKey {
	return hopelessKey{w.giverKey(c.tasks[0]), c.needs}
}

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
