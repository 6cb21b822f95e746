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
	// Progress: what fits its quota and the nodes starts within Options.Sessions sessions,
	// unless another unit may be placed first.
	Progress = "I7 progress"
	// Truth: the insufficient quota that a pod or PodGroup states existed when it was stated.
	Truth = "I8 truth"
	// Eviction: preempt evicts no more than the waiting pods need.
	Eviction = "I4 eviction"
	// Capacity: no placement exceeds the CPU or memory of its queue or node.
	Capacity = "I9 capacity"
)

// Options configure a Checker. The zero value checks what the documents promise.
type Options struct {
	// SchedulerName selects the pods that are checked; default "volcano".
	SchedulerName string
	// Unmanaged is the argument unmanagedQueues; default Enforce.
	Unmanaged string
	// Tree reports whether the argument queueHierarchy is Tree.
	Tree bool
	// UnlimitedCPUMemory is the argument cardUnlimitedCpuMemory.
	UnlimitedCPUMemory bool
	// Mappings are the entries of spec.cards of the ServiceTypePolicy.
	Mappings []rule.Mapping
	// Sessions is how many sessions a unit may take to start; default 3.
	Sessions int
	// Lag is how much later than the observer the scheduler may see a change.
	Lag time.Duration
	// Window is how long before a placement or a stated reason a limit may have been in force to
	// count, where the sessions do not say it; default 10 s.
	Window time.Duration
	// ReclaimFrom maps service types to those that they may reclaim from by the action
	// cardreclaim, without a minimum runtime; nil where the action does not run.
	ReclaimFrom map[string][]string
	// Concerns reports whether an object is checked; default: all are.
	Concerns func(object string) bool
}

// Violation is one breach of an invariant.
type Violation struct {
	Invariant string
	Time      time.Time
	// Object is kind/namespace/name.
	Object, Message string
}

// Checker has the cluster after the last change, and the violations found so far.
type Checker struct {
	options  Options
	state    *clusterState
	sessions sessionReadings
	waiting  map[types.UID]*waitState
	history  history
	// reclaimed is when cards were last taken back from a queue.
	reclaimed map[string]time.Time
	// loaded is when the last object was loaded that is not yet accounted for.
	loaded time.Time
	found  []Violation
}

// New returns a checker of an empty cluster.
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

	return &Checker{options: options, state: newClusterState(options), waiting: map[types.UID]*waitState{}, history: newHistory(), reclaimed: map[string]time.Time{}}
}

// Load adds an object as it was at the start.
func (j *Checker) Load(object client.Object, at time.Time) {
	j.state.applyChange(object, false)
	j.loaded = at
}

// updateLoaded accounts for the loaded objects at once.
func (j *Checker) updateLoaded() {
	if at := j.loaded; !at.IsZero() {
		j.loaded = time.Time{}
		j.history.moments = nil
		j.history.record(j.state, at)
		j.updateWaiting(at)
	}
}

// Apply applies the next change.
func (j *Checker) Apply(object client.Object, deleted bool, at time.Time) {
	j.updateLoaded()
	before := ""
	evicted := ""
	if state := j.state.pods[object.GetUID()]; state != nil {
		before = state.pod.Spec.NodeName
		evicted = evictedBy(state.pod)
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
			j.recordReclaimed(object, at)
		}
		j.checkPodConditions(object, at)
	case *v1beta1.PodGroup:
		j.checkGroupConditions(object, at)
	case *v1alpha1.CardQuota:
		j.checkBlocked(object, at)
	}
}

// AddReading adds a reading of the number of closed sessions.
func (j *Checker) AddReading(r Reading) { j.sessions.addReading(r) }

// Check reports what should have happened by now, and returns what still has time. All earlier
// changes must have been applied.
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

// Restart restarts the deadline of everything that waits.
func (j *Checker) Restart(now time.Time) {
	for _, state := range j.waiting {
		if !state.fitsSince.IsZero() {
			state.fitsSince = now
			state.reported = false
		}
	}
}

// WindowStart returns since when a limit may have been in force to count for a placement or
// stated reason that was seen at the given moment.
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
