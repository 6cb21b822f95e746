package action

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
)

// Bounds of how long a search is not repeated that placed no pod, while nothing changes
// that it looked at. They hold for what changes and is not looked at: volumes, plugins
// that judge nodes by their own measurements, and searches that ended for lack of effort.
const (
	mostSkipped = 32 // sessions
	longestWait = time.Minute
)

// attempts remembers by job the searches that placed no pod. The same search would be
// made in every session, however many pods wait in vain; it is made again when something
// changed that it looked at, and else after 1, 2, 4 … sessions.
type attempts struct {
	changes
	failed map[api.JobID]*attempt
}

// attempt is the last search for a job that placed none of its pods.
type attempt struct {
	// session is when it was made, skipped how many sessions it is not made again.
	session, skipped int
	// until is when it is made again in any case.
	until time.Time
	// waits stands for the pods that waited, and what their queue could still take.
	waits uint64
	// places are those of the nodes that were asked about, by kind of pod; everywhere
	// tells that pods elsewhere matter too.
	places     [][]int
	everywhere bool
}

// begin begins a session in which some jobs wait, and forgets the others.
func (a *attempts) begin(w *wave, waiting []*api.JobInfo) {
	a.observe(w)
	failed := make(map[api.JobID]*attempt, len(a.failed))
	for _, job := range waiting {
		if known := a.failed[job.UID]; known != nil {
			failed[job.UID] = known
		}
	}
	a.failed = failed
}

// skips reports whether the search for a job, whose sum is waits, would find no more than the
// last one did.
func (a *attempts) skips(w *wave, job *api.JobInfo, waits uint64) bool {
	last := a.failed[job.UID]
	return last != nil && a.isTheSame(last, waits) && a.session-last.session <= last.skipped && w.now.Before(last.until)
}

// isTheSame reports whether nothing has changed that a search looked at.
func (a *attempts) isTheSame(last *attempt, waits uint64) bool {
	return last.waits == waits && !a.after(last.session, last.places, last.everywhere)
}

// note remembers the search for a job that has just been made, and whose sum was waits.
func (a *attempts) note(w *wave, job *api.JobInfo, waits uint64, placed bool) {
	if placed || len(w.looked.kinds) == 0 || w.looked.unbound {
		delete(a.failed, job.UID)
		return
	}
	made := &attempt{session: a.session, skipped: 1, until: w.now.Add(longestWait), waits: waits, places: w.looked.places, everywhere: w.looked.everywhere}
	if last := a.failed[job.UID]; last != nil && a.isTheSame(last, waits) {
		made.skipped = min(2*last.skipped, mostSkipped)
	}
	for key := range w.looked.kinds {
		if at, any := w.ripens[key.giverKey]; any && at.Before(made.until) {
			made.until = at
		}
	}
	a.failed[job.UID] = made
}

// looked is what the search for one job has looked at.
type looked struct {
	kinds      map[kind]bool
	places     [][]int
	everywhere bool
	// unbound tells that it ended at something that no node decides, such as a volume
	// that is not bound yet. That costs little to find, and may change at any time.
	unbound bool
}

// note notes that the search for a job asks about nodes for pods of one kind.
func (a *looked) note(key kind, task *api.TaskInfo, nodes []int) {
	if a.kinds[key] {
		return
	}
	if a.kinds == nil {
		a.kinds = map[kind]bool{}
	}
	a.kinds[key] = true
	a.places = append(a.places, nodes)
	a.everywhere = a.everywhere || caresForOthers(task.Pod)
}

// waitsSum stands for the pods of a job that wait, and what their queue may still take.
func (w *wave) waitsSum(job *api.JobInfo) uint64 {
	sum := hashOf(struct {
		minimum, ready int32
		promised       int
	}{job.MinAvailable, job.ReadyTaskNum(), len(job.TaskStatusIndex[api.Pipelined])})
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		sum += hashOf(struct {
			uid      api.TaskID
			gated    bool
			giverKey giverKey
			needs    string
		}{uid, task.SchGated, w.giverKey(task), w.needsOf(job, task)})
	}
	cards, milliCPU, memory := w.tide.Rooms(job.Queue)
	for name, room := range cards {
		sum += hashOf(struct {
			name card.Name
			room card.Count
		}{name, room})
	}
	return sum + hashOf([2]int64{milliCPU, memory})
}

// caresForOthers reports whether it depends on pods of other nodes where a pod can run.
func caresForOthers(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(surroundings(pod)) > 0 || a != nil && a.PodAffinity != nil
}
