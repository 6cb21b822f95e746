package judge

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// The invariants.
const (
	// Progress: what fits its quota and the nodes starts within Options.Sessions
	// sessions, unless something stands ahead of it.
	Progress = "I7 progress"
	// Truth: a shortage that a pod or PodGroup states existed when it was stated.
	Truth = "I8 truth"
	// Eviction: preempt evicts no more than all that waits needs.
	Eviction = "I4 eviction"
	// Capacity: no placement exceeds the CPU or memory of its queue, or what its
	// node has.
	Capacity = "I9 capacity"
)

// Options are what a judge goes by. The zero value judges by the documents.
type Options struct {
	// SchedulerName is whose pods are judged; default "volcano".
	SchedulerName string
	// Unmanaged is the argument unmanagedQueues; default Enforce.
	Unmanaged string
	// UnlimitedCPUMemory is the argument cardUnlimitedCpuMemory.
	UnlimitedCPUMemory bool
	// Sessions is how many sessions something may take to start; default 3.
	Sessions int
	// Lag is how long the scheduler may learn of a change after it was seen.
	Lag time.Duration
	// Window is how long before a placement or a statement a limit may have been in
	// force to count, while the sessions do not say; default 10 s.
	Window time.Duration
	// ReclaimFrom are the service types that each type may reclaim from by the
	// action cardreclaim, without a minimum runtime; nil where it does not run.
	ReclaimFrom map[string][]string
	// Concerns reports whose affairs are judged; default: everybody's.
	Concerns func(object string) bool
}

// Violation is one breach of an invariant.
type Violation struct {
	Invariant string
	Time      time.Time
	// Object is kind/namespace/name.
	Object, Message string
}

// Judge is the cluster as it was after some change, and what was found wrong.
type Judge struct {
	options  Options
	world    *world
	sessions sessions
	waits    map[types.UID]*waiting
	history  history
	// loaded is when the last object was loaded that was not weighed yet.
	loaded time.Time
	found  []Violation
}

// New returns a judge of an empty cluster.
func New(options Options) *Judge {
	if options.SchedulerName == "" {
		options.SchedulerName = "volcano"
	}
	if options.Unmanaged == "" {
		options.Unmanaged = rule.UnmanagedEnforce
	}
	if options.Sessions == 0 {
		options.Sessions = 3
	}
	if options.Window == 0 {
		options.Window = 10 * time.Second
	}
	return &Judge{options: options, world: newWorld(options), waits: map[types.UID]*waiting{}, history: newHistory()}
}

// Load takes an object as it was at the start: nothing happened to it yet.
func (j *Judge) Load(object client.Object, at time.Time) {
	j.world.take(object, false)
	j.loaded = at
}

// weighLoaded looks at what was loaded: it was so all at once.
func (j *Judge) weighLoaded() {
	if at := j.loaded; !at.IsZero() {
		j.loaded = time.Time{}
		j.history.moments = nil
		j.history.note(j.world, at)
		j.weigh(at)
	}
}

// Take takes the next change.
func (j *Judge) Take(object client.Object, deleted bool, at time.Time) {
	j.weighLoaded()
	before, evicted := "", ""
	if state := j.world.pods[object.GetUID()]; state != nil {
		before, evicted = state.pod.Spec.NodeName, evictedBy(state.pod)
	}
	if j.world.take(object, deleted) {
		j.history.note(j.world, at)
		j.weigh(at)
	}
	if deleted {
		j.history.forget(object.GetUID())
		return
	}
	switch object := object.(type) {
	case *corev1.Pod:
		if before == "" && object.Spec.NodeName != "" && object.Spec.SchedulerName == j.options.SchedulerName {
			j.judgeCapacity(j.world.pods[object.UID], at)
		}
		if evicted == "" && evictedBy(object) != "" {
			j.judgeNeedless(j.world.pods[object.UID], at)
		}
		j.judgePodSays(object, at)
	case *v1beta1.PodGroup:
		j.judgeGroupSays(object, at)
	case *v1alpha1.CardQuota:
		j.judgeQuotaSays(object, at)
	}
}

// Hear takes a look at the number of closed sessions.
func (j *Judge) Hear(r Reading) { j.sessions.add(r) }

// Judge reports what should have happened by now, and returns what still has
// time. Everything that was written before now must have been taken.
func (j *Judge) Judge(now time.Time) (open []string) {
	j.weighLoaded()
	j.weigh(now) // reservations end without a change
	return j.judgeProgress(now)
}

// Found returns what was found since the last call.
func (j *Judge) Found() []Violation {
	found := j.found
	j.found = nil
	return found
}

// Restart gives everything that waits its whole time again.
func (j *Judge) Restart(now time.Time) {
	for _, state := range j.waits {
		if !state.fits.IsZero() {
			state.fits, state.reported = now, false
		}
	}
}

// Since returns the moment from which on a limit may have been in force to count
// for a placement or statement that was seen at the given moment.
func (j *Judge) Since(at time.Time) time.Time {
	earliest := at.Add(-j.options.Window)
	if snapshot, known := j.sessions.snapshotBefore(at); known && snapshot.Add(-j.options.Lag).After(earliest) {
		return snapshot.Add(-j.options.Lag)
	}
	return earliest
}

func (j *Judge) concerned(object string) bool {
	return j.options.Concerns == nil || j.options.Concerns(object)
}

func (j *Judge) report(invariant string, at time.Time, object, format string, args ...any) {
	if j.concerned(object) {
		j.found = append(j.found, Violation{Invariant: invariant, Time: at, Object: object, Message: fmt.Sprintf(format, args...)})
	}
}
