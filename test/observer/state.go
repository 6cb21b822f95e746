package observer

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
	"cardquota.dev/operator/test/observer/sessioncheck"
)

// clusterState is the cluster after some change, and the violations found so far. It reads no
// clock: changes and checks bring their time.
type clusterState struct {
	options Options

	pods   map[types.UID]*podState
	groups map[types.NamespacedName]*groupState
	queues map[string]*v1beta1.Queue
	limits map[string]*timeline[rule.Limits]
	// selectors are the namespaces that each queue takes, namespaces their labels.
	selectors  map[string]*timeline[rule.Selector]
	namespaces map[string]*timeline[map[string]string]
	// nodes are what the nodes offer, nodeObjects the nodes themselves.
	nodes       map[string]rule.Node
	nodeObjects map[string]*corev1.Node
	notReady    map[string]*timeline[bool]
	// renamedCards are the cards that pods use, or used, by another name now.
	renamedCards map[string]bool
	inventory    *rule.Inventory
	quotas       map[types.UID]*quotaState
	classes      map[string]*schedulingv1.PriorityClass
	// allocated are records of the Queues without a CardQuota.
	allocated map[string]*allocatedState
	// views are the LocalCardQuotas, viewErrors what is wrong with them, and endingNamespaces the
	// namespaces that are being deleted.
	views            map[types.NamespacedName]*v1alpha1.LocalCardQuota
	viewErrors       differences
	endingNamespaces map[string]bool
	// stated is the CardInventory, nil without one. inventoryErrors are the records of its entries.
	stated          *v1alpha1.CardInventory
	inventoryErrors map[string]*entryState
	// ignoresInventory is set where CardInventories are not served.
	ignoresInventory bool
	metricsState
	// settling is when Settle was called last.
	settling time.Time
	// ignoresViews is set where LocalCardQuotas are not served.
	ignoresViews bool
	// ignoresWaiting is set where what waits is not compared with status.blocked.
	ignoresWaiting bool
	// blocked are the entries of status.blocked that differ from a recount.
	blocked differences
	// numbersChanged is when the numbers of a queue may have changed last.
	numbersChanged map[string]time.Time
	// evictions are the allowed evictions, served the pods that stopped waiting, both in their
	// order.
	evictions []*eviction
	served    []*servedPod
	// suspicions are violations that later changes may excuse.
	suspicions []suspicion

	// tree is the tree of queues.
	tree treeState

	// sessionChecker checks sessions, nil where they are not counted.
	sessionChecker *sessioncheck.Checker

	// lastChange is when the newest change was seen.
	lastChange time.Time
	// excused invariants are not checked.
	excused    map[Invariant]int
	violations []Violation
}

// podState is the record of a pod.
type podState struct {
	pod *corev1.Pod
	// charge is what the pod uses, nil for nothing.
	charge *rule.Charge
	// terminating is what the pod uses while it is being deleted, nil for nothing.
	terminating *rule.Charge
	// waiting is since when the pod waits for a node, zero when it does not.
	waiting waitState
	// placed is when the pod was seen on its node first.
	placed time.Time
	// nominated is where the scheduler will place it.
	nominated nomination
	// evicted is its eviction, nil without one.
	evicted      *eviction
	contribution contribution
}

type groupState struct {
	group        *v1beta1.PodGroup
	waiting      waitState
	contribution contribution
	// belowMinimum is since when too few of its pods run after an eviction.
	belowMinimum waitState
}

type quotaState struct {
	quota *v1alpha1.CardQuota
	// expected is the expected status, since when it is expected, and whether a difference was
	// reported.
	expected expectation
	waitState
}

func newClusterState(options Options) *clusterState {
	m := &clusterState{
		options:    options,
		tree:       treeState{unschedulable: map[string]bool{}, allocatable: map[string]rule.Quota{}},
		pods:       map[types.UID]*podState{},
		groups:     map[types.NamespacedName]*groupState{},
		queues:     map[string]*v1beta1.Queue{},
		limits:     map[string]*timeline[rule.Limits]{},
		selectors:  map[string]*timeline[rule.Selector]{},
		namespaces: map[string]*timeline[map[string]string]{},
		nodes:      map[string]rule.Node{},
		notReady:   map[string]*timeline[bool]{},

		renamedCards: map[string]bool{},
		inventory:    rule.NewInventory().WithMappings(options.Mappings),

		nodeObjects:     map[string]*corev1.Node{},
		inventoryErrors: map[string]*entryState{},
		metricsState:    newMetricsState(),

		quotas:     map[types.UID]*quotaState{},
		classes:    map[string]*schedulingv1.PriorityClass{},
		allocated:  map[string]*allocatedState{},
		blocked:    differences{},
		views:      map[types.NamespacedName]*v1alpha1.LocalCardQuota{},
		viewErrors: differences{},

		endingNamespaces: map[string]bool{},
		numbersChanged:   map[string]time.Time{},
		excused:          map[Invariant]int{},
		sessionChecker:   newSessionChecker(options),
	}
	if options.Tree {
		m.setTree(true, time.Time{})
	}

	return m
}

// loadObject adds an object as it was at the start.
func (m *clusterState) loadObject(object client.Object, at time.Time) {
	m.recordChange(change{seen: at, object: object}, false)
}

// applyChange applies the next change.
func (m *clusterState) applyChange(c change) { m.recordChange(c, true) }

func (m *clusterState) recordChange(c change, happened bool) {
	m.lastChange = c.seen
	m.forwardToSessionChecker(c, happened)

	switch object := c.object.(type) {
	case *corev1.Pod:
		m.recordPod(object, c, happened)
	case *v1beta1.PodGroup:
		m.recordPodGroup(object, c)
	case *v1beta1.Queue:
		m.recordQueue(object, c)
	case *corev1.Namespace:
		m.recordNamespace(object, c)
	case *corev1.Node:
		m.recordNode(object, c)
	case *schedulingv1.PriorityClass:
		m.recordPriorityClass(object, c)
	case *v1alpha1.LocalCardQuota:
		m.recordLocalCardQuota(object, c)
	case *v1alpha1.CardInventory:
		m.recordCardInventory(object, c)
	case *v1alpha1.CardQuota:
		m.recordCardQuota(object, c)
	}
}

func (m *clusterState) recordPriorityClass(object *schedulingv1.PriorityClass, c change) {
	m.classes[object.Name] = object
	if c.deleted {
		delete(m.classes, object.Name)
	}
}

func (m *clusterState) recordLocalCardQuota(object *v1alpha1.LocalCardQuota, c change) {
	m.views[client.ObjectKeyFromObject(object)] = object
	if c.deleted {
		delete(m.views, client.ObjectKeyFromObject(object))
	}
}

func (m *clusterState) recordCardInventory(object *v1alpha1.CardInventory, c change) {
	m.stated = object
	if c.deleted {
		m.stated = nil
	}
}

func (m *clusterState) recordCardQuota(object *v1alpha1.CardQuota, c change) {
	state, known := m.quotas[object.UID]
	switch {
	case c.deleted:
		delete(m.quotas, object.UID)
	case known:
		if state.quota.Generation != object.Generation {
			m.numbersChanged[object.QueueName()] = c.seen
		}
		state.quota = object
	default:
		m.quotas[object.UID] = &quotaState{quota: object, waitState: waitState{since: c.seen}}
	}

	m.recordQueueLabels(object.QueueName())
}

func (m *clusterState) recordPod(pod *corev1.Pod, c change, happened bool) {
	state, known := m.pods[pod.UID]
	if !known {
		state = &podState{pod: &corev1.Pod{}}
		m.pods[pod.UID] = state
	}

	placed := pod.Spec.NodeName != "" && state.pod.Spec.NodeName == ""
	waited := m.isWaiting(state)
	before := state.charge
	nominated := state.nominated
	state.pod = pod
	m.recordNomination(state, c.seen)
	m.updateCharge(state)

	if placed {
		state.placed = c.seen
	}

	state.waiting.setWaiting(rule.IsWaiting(pod) && !c.deleted, c.seen)
	if waited && !m.isWaiting(state) {
		m.recordServed(state, c)
	}

	m.checkEviction(state, c, happened)
	m.recordEnd(before, state, c)
	if happened && placed && !c.deleted {
		m.recordBinding(state, c.seen)
		m.checkPlacement(state, c)
		m.checkKeptCards(state, nominated, c)
		m.checkTenancy(state, c)
	}

	if c.deleted {
		delete(m.pods, pod.UID)
		m.recordUse(state, state.charge, nil, c.seen)
		m.recordUnbound(state, c.seen)
		m.recordContribution(&state.contribution, contribution{})
		if state.evicted != nil {
			state.evicted.due = c.seen
		}
	}
}

func (m *clusterState) recordPodGroup(group *v1beta1.PodGroup, c change) {
	key := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
	state, ok := m.groups[key]
	if !ok {
		state = &groupState{}
		m.groups[key] = state
	}

	if ok && state.group.UID != group.UID {
		state.waiting = waitState{}
	}

	state.group = group
	if c.deleted {
		delete(m.groups, key)
		m.recordContribution(&state.contribution, contribution{})
	} else {
		m.recordContribution(&state.contribution, m.groupContribution(group))
	}

	for _, state := range m.pods {
		if state.pod.Namespace == group.Namespace && rule.PodGroupName(state.pod) == group.Name {
			m.updateCharge(state)
		}
	}
}

func (m *clusterState) recordQueue(queue *v1beta1.Queue, c change) {
	now := rule.Limits{}
	if c.deleted {
		delete(m.queues, queue.Name)
		delete(m.allocated, queue.Name)
	} else {
		m.queues[queue.Name] = queue
		if limits := rule.LimitsOf(queue, m.options.Unmanaged); limits.Closed == "" {
			now = limits // a queue that is not open takes nothing
		}
	}

	setValueOf(m.limits, queue.Name, now, c.seen)
	setValueOf(m.selectors, queue.Name, rule.SelectorOf(queue), c.seen)
	m.recordQueueLabels(queue.Name)
	m.recordTree(c.seen)
	m.chargeUnchargedPods()
}

func (m *clusterState) recordNode(node *corev1.Node, c change) {
	m.recordNodeReadiness(node, c)
	m.recordNodeSpec(node, c)
	m.nodeObjects[node.Name] = node
	if c.deleted {
		delete(m.nodeObjects, node.Name)
	}

	defer m.recordSchedulable(c.seen)
	before, known := m.nodes[node.Name]
	now := m.inventory.Read(node)
	switch {
	case c.deleted:
		delete(m.nodes, node.Name)
		m.inventory.Remove(node.Name)
	case known && reflect.DeepEqual(before, now):
		return // a heartbeat
	default:
		m.nodes[node.Name] = now
		m.inventory.Set(node.Name, now)
	}

	for _, state := range m.pods {
		m.updateCharge(state)
	}
	for _, state := range m.groups {
		m.recordContribution(&state.contribution, m.groupContribution(state.group))
	}
}

// updateCharge recomputes what a pod uses.
func (m *clusterState) updateCharge(state *podState) {
	charge, isCharged := rule.ChargeOf(state.pod, m.groupOf(state.pod), m.inventory, state.charge, m.originOf(state.pod))
	m.updateTerminatingCharge(state)
	before := state.charge

	state.charge = nil
	if isCharged {
		state.charge = &charge
	}

	m.recordRenamedCards(state, before)
	m.recordUse(state, before, state.charge, m.lastChange)
	if before != nil && !isCharged {
		m.recordUnbound(state, m.lastChange)
	}
	m.recordContribution(&state.contribution, m.podContribution(state))
}

func (m *clusterState) groupOf(pod *corev1.Pod) *v1beta1.PodGroup {
	if state, ok := m.groups[types.NamespacedName{Namespace: pod.Namespace, Name: rule.PodGroupName(pod)}]; ok {
		return state.group
	}
	return nil
}

func (m *clusterState) addViolation(invariant Invariant, at time.Time, object, format string, args ...any) {
	if m.excused[invariant] > 0 || (invariant != Sight && !m.options.Concerns(object)) {
		return
	}
	m.violations = append(m.violations, Violation{Invariant: invariant, Time: at, Object: object, Message: fmt.Sprintf(format, args...)})
}

// checkAll checks what must have happened by now. All earlier changes must have been applied.
// It returns what is still open: expected, missing, and not late yet.
func (m *clusterState) checkAll(now time.Time) []string {
	return slices.Concat(m.checkStatus(now), m.checkAllocated(now), m.checkReclaimers(now), m.checkSuspicions(now), m.checkGangs(now), m.checkReasons(now), m.checkBlocked(now), m.checkViews(now), m.checkInventory(now), m.checkMetrics(now), m.checkSessions(now))
}

// setExcused stops or resumes checking an invariant; excuses add up. When the last one ends,
// every deadline starts again.
func (m *clusterState) setExcused(invariant Invariant, excused bool, now time.Time) {
	if invariant == Status {
		m.seconds.setExcused(excused, now)
	}

	if excused {
		m.excused[invariant]++
		return
	}

	m.excused[invariant]--
	if m.excused[invariant] > 0 {
		return
	}

	for _, state := range m.quotas {
		state.since = now
	}

	for _, state := range m.allocated {
		state.since = now
	}

	for _, state := range m.pods {
		state.waiting.restartIfWaiting(now)
	}

	for _, state := range m.groups {
		state.waiting.restartIfWaiting(now)
		state.belowMinimum.restartIfWaiting(now)
	}

	for _, e := range m.evictions {
		e.due = now
	}

	if m.sessionChecker != nil {
		m.sessionChecker.Restart(now)
	}
}
