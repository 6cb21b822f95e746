package cache

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/build"
)

// bindingGracePeriod is how long after the first synced session a binding may still be the
// predecessor's. It covers slow requests and the delay of the watch.
var bindingGracePeriod = build.Wait(30 * time.Second)

const (
	// pendingBindingTimeout is how long a binding is kept for a pod that no session contains.
	// Its PodGroup may soon be back.
	pendingBindingTimeout = 10 * time.Minute
	// maxReportedPods is how many pods bound by others are reported.
	maxReportedPods = 5
)

// otherBindings detects bindings by another scheduler with our name: a pod of ours was pending in
// one session and later has a node where this process never placed it.
//
// Every binding of this process starts as an allocation that its session keeps. The detector
// stores it until the pod shows its node. A pod that was never seen pending proves nothing, and
// neither does one last seen pending before bindingGracePeriod ended. The detector cannot see
// two schedulers that choose the same node.
type otherBindings struct {
	// syncedSince is when the first synced session opened, zero before. detectFrom is the first
	// session after bindingGracePeriod, 0 before.
	syncedSince time.Time
	detectFrom  uint64
	// now is when this session opened.
	now time.Time
	// assumed are the allocations of this session.
	assumed map[types.UID]string
	// pending are the nodes on which earlier sessions placed pods that do not show it yet.
	pending map[types.UID]*pendingBinding
	// boundByOthers are the names of pods that another scheduler bound.
	boundByOthers map[types.UID]string
}

// pendingBinding is where a pod may have been bound, and when the last binding was sent.
type pendingBinding struct {
	nodes    []string
	lastSent time.Time
}

func newOtherBindings() otherBindings {
	return otherBindings{assumed: map[types.UID]string{}, pending: map[types.UID]*pendingBinding{}, boundByOthers: map[types.UID]string{}}
}

// openSession starts a session. synced is set once every node and pod was seen together. Bindings are judged from
// bindingGracePeriod after that on: earlier ones may be those of this process's predecessor.
func (o *otherBindings) openSession(session uint64, synced bool, now time.Time) {
	o.now = now
	if synced && o.syncedSince.IsZero() {
		o.syncedSince = now
	}
	if synced && o.detectFrom == 0 && now.Sub(o.syncedSince) >= bindingGracePeriod {
		o.detectFrom = session
	}
}

// Assume records that this session placed a pod on a node. If the session placed it on another node before, it may
// have been bound there.
func (o *otherBindings) Assume(pod types.UID, node string) {
	if before, ok := o.assumed[pod]; ok && before != node {
		o.addPending(pod, before)
	}
	o.assumed[pod] = node
}

// ForgetAssumed records that a placement was undone.
func (o *otherBindings) ForgetAssumed(pod types.UID, node string) {
	if o.assumed[pod] == node {
		delete(o.assumed, pod)
	}
}

// addPending records that this process may have bound a pod to a node.
func (o *otherBindings) addPending(pod types.UID, node string) {
	known, ok := o.pending[pod]
	if !ok {
		known = &pendingBinding{}
		o.pending[pod] = known
	}
	if !slices.Contains(known.nodes, node) {
		known.nodes = append(known.nodes, node)
	}
	known.lastSent = o.now
}

// observeBinding records a pod as bound by another scheduler if it shows a node, for the first time, to which
// this process did not bind it. lastPending is the last session that saw the pod pending.
func (o *otherBindings) observeBinding(pod *corev1.Pod, isOurs bool, lastPending uint64) {
	known, ok := o.pending[pod.UID]
	delete(o.pending, pod.UID)
	if ok && slices.Contains(known.nodes, pod.Spec.NodeName) {
		return
	}
	if o.detectFrom > 0 && lastPending >= o.detectFrom && isOurs {
		o.boundByOthers[pod.UID] = pod.Namespace + "/" + pod.Name
	}
}

// BoundByOthersNames returns the first maxReportedPods pods that another scheduler bound, as namespace/name,
// sorted.
func (o *otherBindings) BoundByOthersNames() []string {
	names := slices.Sorted(maps.Values(o.boundByOthers))
	return names[:min(len(names), maxReportedPods)]
}
