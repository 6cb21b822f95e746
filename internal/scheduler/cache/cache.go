package cache

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/loss"
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
	// LastReclaimSession is the last session with the action cardreclaim, which deletes pods
	// whose eviction is overdue.
	LastReclaimSession uint64
	Sync               Sync
	Reservations       Reservations
	vcJobs             VCJobs
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
		Tree:          Tree{Tree: quota.Flat},
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
