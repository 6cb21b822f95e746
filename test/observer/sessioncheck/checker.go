package sessioncheck

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

// Checker is the cluster as it was after some change, and what was found wrong.
type Checker struct {
	options  Options
	state    *clusterState
	sessions sessionReadings
	waiting  map[types.UID]*waitState
	history  history
	// loaded is when the last object was loaded that was not weighed yet.
	loaded time.Time
	found  []Violation
}

// New returns a judge of an empty cluster.
func New(options Options) *Checker {
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
	return &Checker{options: options, state: newClusterState(options), waiting: map[types.UID]*waitState{}, history: newHistory()}
}

// Load takes an object as it was at the start: nothing happened to it yet.
func (j *Checker) Load(object client.Object, at time.Time) {
	j.state.applyChange(object, false)
	j.loaded = at
}

// updateLoaded looks at what was loaded: it was so all at once.
func (j *Checker) updateLoaded() {
	if at := j.loaded; !at.IsZero() {
		j.loaded = time.Time{}
		j.history.moments = nil
		j.history.record(j.state, at)
		j.updateWaiting(at)
	}
}

// Apply takes the next change.
func (j *Checker) Apply(object client.Object, deleted bool, at time.Time) {
	j.updateLoaded()
	before, evicted := "", ""
	if state := j.state.pods[object.GetUID()]; state != nil {
		before, evicted = state.pod.Spec.NodeName, evictedBy(state.pod)
	}
	if j.state.applyChange(object, deleted) {
		j.history.record(j.state, at)
		j.updateWaiting(at)
	}
	if deleted {
		j.history.forget(object.GetUID())
		return
	}
	switch object := object.(type) {
	case *corev1.Pod:
		if before == "" && object.Spec.NodeName != "" && object.Spec.SchedulerName == j.options.SchedulerName {
			j.checkCapacity(j.state.pods[object.UID], at)
		}
		if evicted == "" && evictedBy(object) != "" {
			j.checkNeedlessEviction(j.state.pods[object.UID], at)
		}
		j.checkPodConditions(object, at)
	case *v1beta1.PodGroup:
		j.checkGroupConditions(object, at)
	case *v1alpha1.CardQuota:
		j.checkBlocked(object, at)
	}
}

// AddReading takes a look at the number of closed sessions.
func (j *Checker) AddReading(r Reading) { j.sessions.addReading(r) }

// Check reports what should have happened by now, and returns what still has
// time. Everything that was written before now must have been taken.
func (j *Checker) Check(now time.Time) (open []string) {
	j.updateLoaded()
	j.updateWaiting(now) // reservations end without a change
	return j.checkProgress(now)
}

// TakeViolations returns what was found since the last call.
func (j *Checker) TakeViolations() []Violation {
	found := j.found
	j.found = nil
	return found
}

// Restart gives everything that waits its whole time again.
func (j *Checker) Restart(now time.Time) {
	for _, state := range j.waiting {
		if !state.fitsSince.IsZero() {
			state.fitsSince, state.reported = now, false
		}
	}
}

// WindowStart returns the moment from which on a limit may have been in force to count
// for a placement or statement that was seen at the given moment.
func (j *Checker) WindowStart(at time.Time) time.Time {
	earliest := at.Add(-j.options.Window)
	if snapshot, known := j.sessions.snapshotBefore(at); known && snapshot.Add(-j.options.Lag).After(earliest) {
		return snapshot.Add(-j.options.Lag)
	}
	return earliest
}

func (j *Checker) isConcerned(object string) bool {
	return j.options.Concerns == nil || j.options.Concerns(object)
}

func (j *Checker) addViolation(invariant string, at time.Time, object, format string, args ...any) {
	if j.isConcerned(object) {
		j.found = append(j.found, Violation{Invariant: invariant, Time: at, Object: object, Message: fmt.Sprintf(format, args...)})
	}
}
