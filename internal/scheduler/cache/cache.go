package cache

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/loss"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// Cache is what all parts of the plugin share in all sessions: requests and charges of pods, the ledger, the
// tree of queues, reservations and pending bindings.
type Cache struct {
	// Nodes are the nodes of the cluster, Inventory the cards that they have.
	Nodes     card.Tracker
	Inventory *card.Inventory
	// RequestGeneration counts changes that alter what pods request: of the meaning of a
	// resource or card name, or of CardUnlimitedCPUMemory.
	RequestGeneration uint64
	// CardUnlimitedCPUMemory exempts pods with cards from the CPU and memory limits of their
	// queue.
	CardUnlimitedCPUMemory bool
	// Pods are the states of pods by UID.
	Pods map[types.UID]*PodState
	// podsByObject finds the state of a pod that did not change without reading it.
	podsByObject map[*corev1.Pod]*PodState
	// podsSeen is how many pods this session saw.
	podsSeen int
	queues   map[string]cachedQueue
	// Ledger is updated when a session opens, so a pod that did not move costs one look-up.
	Ledger *quota.Ledger
	// EvictingSince is when the eviction of a pod was requested, by UID, until the pod is gone.
	EvictingSince map[types.UID]time.Time
	// EvictionPolicies are those that the last preempt knew, nil before.
	EvictionPolicies EvictionPolicies
	// FailureLimits are those of Kubernetes Jobs, nil if none is known.
	FailureLimits loss.FailureLimits
	// Tree is the tree of queues, as the last session resolved it.
	Tree Tree
	// LastActionSession is the last session in which an action of package actions ran: allocate deletes pods
	// whose eviction is overdue.
	LastActionSession uint64
	Sync              Sync
	Reservations      Reservations
	vcJobs            VCJobs
	// Resolver resolves requests by the inventory and the namespaces of the session.
	Resolver workload.Resolver
	// Now returns the time.
	Now func() time.Time
	// SessionCount is the number of the session.
	SessionCount  uint64
	OtherBindings otherBindings
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{
		Inventory:     card.NewInventory(nil),
		Pods:          map[types.UID]*PodState{},
		podsByObject:  map[*corev1.Pod]*PodState{},
		queues:        map[string]cachedQueue{},
		Ledger:        quota.New(0),
		Tree:          Tree{Tree: quota.Flat, queues: map[api.QueueID]*resolvedQueue{}},
		EvictingSince: map[types.UID]time.Time{},
		vcJobs:        NewVCJobs(),
		Reservations:  Reservations{},
		OtherBindings: newOtherBindings(),
		Now:           time.Now,
	}
}

// VCJobs returns the Volcano jobs that the sessions of this cache read.
func (c *Cache) VCJobs() VCJobs { return c.vcJobs }

// UseVCJobs replaces the Volcano jobs that the API server has by others, for a scheduler without one.
func (c *Cache) UseVCJobs(jobs VCJobs) { c.vcJobs = jobs }

// BeginSession counts a new session, which has seen no pods yet.
func (c *Cache) BeginSession() {
	c.SessionCount++
	c.podsSeen = 0
	c.OtherBindings.openSession(c.SessionCount, c.Sync.Synced, c.Now())
}

// CloseOtherBindings closes a session: the pods that it placed (assumed) are bound, or will be. So their nodes are
// remembered until the pods show them. It forgets those of pods that no session has contained for long.
func (c *Cache) CloseOtherBindings() {
	bindings := &c.OtherBindings
	for pod, node := range bindings.assumed {
		bindings.addPending(pod, node)
	}
	clear(bindings.assumed)
	maps.DeleteFunc(bindings.pending, func(pod types.UID, sent *pendingBinding) bool {
		_, exists := c.Pods[pod]
		return !exists && bindings.now.Sub(sent.lastSent) > pendingBindingTimeout
	})
}

// ReplaceNodes takes the nodes that the session has. unlimited exempts pods with cards from the CPU and memory
// limits of their queue. A new generation of requests begins when either changes what pods request: then all
// pods are read again.
func (c *Cache) ReplaceNodes(nodes map[string]*corev1.Node, unlimited bool) {
	before := c.Inventory
	c.Nodes.Replace(nodes)
	c.Inventory = c.Nodes.Inventory()
	if c.CardUnlimitedCPUMemory != unlimited || (c.Inventory != before && !c.Inventory.SameNames(before)) {
		c.RequestGeneration++
	}
	c.CardUnlimitedCPUMemory = unlimited
}

// EvictionPolicies returns how a Volcano job handles evictions, false if that is not known.
type EvictionPolicies func(namespace, name string) (workload.EvictionPolicy, bool)

// UseFailureLimits sets where the failure limits of Kubernetes Jobs are known. Without it each Job
// counts as one that fails when a pod of it is evicted.
func (c *Cache) UseFailureLimits(limits loss.FailureLimits) { c.FailureLimits = limits }

// ChargeKind is how the ledger charges a pod.
type ChargeKind int

// How the ledger charges a pod: not at all, as one that uses its cards, or as one that still has them while it ends.
const (
	notCharged ChargeKind = iota
	ChargedAsUsed
	ChargedAsTerminating
)

// PodState is the request and charge of a pod. The request is valid for one object and
// generation.
type PodState struct {
	object     *corev1.Pod
	generation uint64
	Request    workload.Request
	// outOfSync is set if the pod is marked for recreation and Volcano's job controller owns
	// it.
	outOfSync   bool
	lastSession uint64

	// Charge is the last charge of the pod, ChargedNode and chargedInventory what it was
	// computed from. chargedInventory is nil if it must be computed again. If the node loses
	// its label or the PodGroup is deleted, the last charge stays.
	Charge           *quota.Charge
	ChargedNode      string
	chargedInventory *card.Inventory
	// AnnotatedQueue is the queue in the pod's annotation since its binding, "" before. On a
	// pod of another scheduler its creator wrote it.
	AnnotatedQueue string
	// IsOurs is set if the pod names this scheduler.
	IsOurs bool
	// IsProtected is set in a tree if the pod itself may not be evicted. ServiceType is what the
	// pod says, OwnerType that of its owner's kind. treeGeneration is that of the tree when the
	// charge was found right.
	IsProtected            bool
	ServiceType, OwnerType string
	treeGeneration         uint64
	// ChargedAs is how the ledger charges the pod.
	ChargedAs ChargeKind
	// AssumedNodeInvalid is set if the node in the pod object is not real: Volcano writes it
	// when it tries a node, and leaves it there when it gives up.
	AssumedNodeInvalid bool
	// unassigned is set if the API server has shown no node so far. It is read before Volcano
	// may write into the object.
	unassigned bool
}

// cachedQueue has the rules of a queue, and what they were read from. Volcano changes the state in the same
// object.
type cachedQueue struct {
	object    *scheduling.Queue
	unmanaged v1alpha1.UnmanagedQueues
	state     scheduling.QueueState
	rules     *workload.QueueRules
}

// Tree is the tree of queues as a session resolved it. Later sessions use it until the
// rules of a queue change. Flat queues are a tree of depth one, and all but its queues is empty.
type Tree struct {
	*quota.Tree
	// queues are the queues that were resolved, with root.
	queues map[api.QueueID]*resolvedQueue
	// Selectors are those queues on the path of a queue, beside itself, that have a namespace
	// selector.
	Selectors map[api.QueueID][]api.QueueID
	// Version counts how often the tree was resolved.
	Version uint64
	// notices are what is wrong with the tree.
	notices []treeNotice
	// observedAt is when the ledger last observed what is borrowed.
	observedAt time.Time
	// owners are those of the arguments with which pods were read.
	owners servicetype.OwnerKinds
	// nodes, inventory and offInventory, the nodes that take no pods, are those of the last
	// session. generation changes with the latter two.
	nodes        map[string]*corev1.Node
	inventory    *card.Inventory
	offInventory map[string]bool
	generation   uint64
}

// resolvedQueue is a queue in the tree: written are its rules alone, rules those in the tree.
type resolvedQueue struct{ written, rules *workload.QueueRules }

// treeNotice is what an event on a queue says about its place in the tree.
type treeNotice struct {
	Queue api.QueueID
	// Kind is a suffix that keeps messages of several kinds apart.
	Kind types.UID
	// Reason and Message are those of the event.
	Reason, Message string
}
