// Package forecast says what mode Enforce would refuse or take back while quotas are only observed. It places all
// workloads once more, the oldest first, in a ledger with the limits of the CardQuotas: what does not fit would wait.
//
// The package is pure. It knows no clients and no clocks.
package forecast

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// Input is the input of New, which does not change it.
type Input struct {
	// Pods include all pods that have not finished, PodGroups are all PodGroups.
	Pods      []*corev1.Pod
	PodGroups []*v1beta1.PodGroup
	// Charges is the charge of each pod with a node, as queueusage counts it.
	Charges map[types.UID]quota.Charge
	// Facts are those of the count, which has read what each pod requests.
	Facts *queueusage.PodFacts
	// Inventory has the cards of each node, Healthy how many of each card nodes offer to pods.
	Inventory *card.Inventory
	Healthy   map[card.Name]card.Count
	// Nodes are all nodes: Healthy has the cards of ready ones only. nil: all are ready.
	Nodes []card.NodeState
	// Owners are the CardQuotas by the queue that they own.
	Owners map[string]*v1alpha1.CardQuota
	// Tree is the tree of queues, with the limits of flat ones.
	Tree *quota.Tree
	// UnmanagedQueues says what queues without a CardQuota may use with Enforce.
	UnmanagedQueues v1alpha1.UnmanagedQueues
	// Namespaces says for which queue pods count that name none.
	Namespaces *Namespaces
	// AllowsNamespace reports whether a queue allows a namespace.
	AllowsNamespace func(queue, namespace string) bool
	// Schedulers are the names of the schedulers that would enforce quotas. Bypasses are the pods with a node that no such
	// scheduler placed.
	Schedulers []string
	Bypasses   []enforcement.Bypass
	// TypeFor returns a service type of the policy, false for an unknown one. Matrix says which reclaim from which.
	TypeFor func(name string) (servicetype.Type, bool)
	Matrix  servicetype.Matrix
	// IgnoresComputeOfCardPods reports whether CPU and memory of pods with cards are not limited.
	IgnoresComputeOfCardPods bool
	// ListsAll names all workloads of each list, not only those for which a status has room.
	ListsAll bool
}

// Forecast is what Enforce would refuse or take back.
type Forecast struct {
	// Quotas is the forecast of each queue with a CardQuota that has something to say, with what it says of the
	// queues below it.
	Quotas map[string]*v1alpha1.CardQuotaForecast
	// Policy is how many CardQuotas foretell something, and what none of them decides about; nil for nothing.
	Policy *v1alpha1.PolicyForecast
}

// forecaster has the state of one forecast.
type forecaster struct {
	input    *Input
	resolver workload.Resolver
	ledger   *quota.Ledger
	queues   map[string]*queueLists
	// ready are the ready nodes, nil if all are.
	ready map[string]bool
	// bypasses say how a pod bypasses the scheduler, by namespace/name.
	bypasses map[string]string
	// unlimited are the workloads that no CardQuota counts, ambiguous the CardQuotas that select the namespace of some
	// of them together.
	unlimited workloadList
	ambiguous map[string][]string
}

// queueLists are the lists of one queue.
type queueLists struct{ waiting, reclaimed, withoutQueue, bypassing, unknownServiceType workloadList }

// New returns the forecast.
func New(input *Input) Forecast {
	f := &forecaster{
		input:    input,
		resolver: workload.Resolver{Inventory: input.Inventory, Schedulers: input.Schedulers, AllowsNamespace: input.AllowsNamespace},
		ledger:   quota.New(len(input.Pods)), queues: map[string]*queueLists{}, bypasses: make(map[string]string, len(input.Bypasses)), ambiguous: map[string][]string{},
	}
	f.ledger.SetTree(input.Tree)
	f.ledger.SetInventory(input.Healthy, quota.Unlimited, quota.Unlimited) // which guarantees of a tree share
	for _, bypass := range input.Bypasses {
		f.bypasses[bypass.Pod] = bypass.Reason
	}

	if input.Nodes != nil {
		f.ready = make(map[string]bool, len(input.Nodes))
	}
	for i := range input.Nodes {
		f.ready[input.Nodes[i].Name] = input.Nodes[i].IsReady
	}

	var placed []*job
	for _, job := range f.readJobs() {
		if !f.isLimited(job.queue) {
			f.listUnlimited(job)
			continue
		}
		// Any tenant can name any queue. Such work that waits never starts there, and must not fill its lists.
		if f.refusingQueue(job) != "" && !job.isRunning() {
			continue
		}
		f.listByMembership(job)
		f.place(job)
		placed = append(placed, job)
	}

	f.reclaim(placed)
	return f.result()
}

// hasHealthyCards reports whether the cards of a node are among the healthy ones.
func (f *forecaster) hasHealthyCards(node string) bool { return f.ready == nil || f.ready[node] }

// isLimited reports whether a CardQuota limits a queue: its own, or that of a queue above it.
func (f *forecaster) isLimited(queue string) bool {
	owns := func(at string) bool { return f.input.Owners[at] != nil }
	return owns(queue) || slices.ContainsFunc(f.input.Tree.Ancestors(queue), owns)
}

// listUnlimited lists a job with cards that no CardQuota counts.
func (f *forecaster) listUnlimited(job *job) {
	cards := countCards(job.pods, func(p *podRequest) bool { return p.request.Count > 0 })
	if cards.total() == 0 {
		return
	}

	namespace := job.workload.Namespace
	message := fmt.Sprintf("queue %s has no CardQuota: create one with queueName: %s, or name a queue that has one", job.queue, job.queue)
	if f.input.UnmanagedQueues != v1alpha1.UnmanagedIgnore {
		message += fmt.Sprintf("; with unmanagedQueues: %s it would wait", f.input.UnmanagedQueues)
	}
	if job.queue == "" {
		message = "it names no queue, and no CardQuota selects namespace " + namespace + " with a namespaceSelector"
		if together := f.input.Namespaces.SelectedBy(namespace); len(together) > 0 {
			f.ambiguous[namespace] = together
			message = "it names no queue, and several CardQuotas select namespace " + namespace + ": name the queue, or change a namespaceSelector"
		}
	}
	f.unlimited.add(job, cards, message)
}

// listByMembership lists a job of a queue that names no queue, another scheduler, or whose service type is unknown.
func (f *forecaster) listByMembership(job *job) {
	lists := f.listsFor(job.queue)
	all := countCards(job.pods, func(*podRequest) bool { return true })
	others := countCards(job.pods, func(p *podRequest) bool { return p.bypass != "" && p.request.Count > 0 })

	switch {
	case !job.namesQueue:
		lists.withoutQueue.add(job, all, f.membershipHelp(job.queue))
	case others.total() > 0:
		first := job.pods[slices.IndexFunc(job.pods, func(p *podRequest) bool { return p.bypass != "" && p.request.Count > 0 })]
		lists.bypassing.add(job, others, first.bypass+": "+f.membershipHelp(job.queue))
	}

	owner := f.input.Owners[job.queue]
	if owner == nil { // a queue below that of a CardQuota
		return
	}
	if _, isKnown := f.input.TypeFor(owner.Spec.ServiceType); !isKnown && owner.Spec.ServiceType != "" {
		lists.unknownServiceType.add(job, all, fmt.Sprintf(
			"service type %s of CardQuota %s is not in the ServiceTypePolicy: add it there, or change spec.serviceType", owner.Spec.ServiceType, owner.Name))
	}
}

// membershipHelp says what a workload needs so that the quota of a queue limits it.
func (f *forecaster) membershipHelp(queue string) string {
	scheduler := "volcano"
	if len(f.input.Schedulers) > 0 {
		scheduler = f.input.Schedulers[0]
	}
	return fmt.Sprintf("it needs the annotation %s: %s, schedulerName: %s, and no nodeName", v1beta1.QueueNameAnnotationKey, queue, scheduler)
}

// listsFor returns the lists of a queue, which the forecast adds to.
func (f *forecaster) listsFor(queue string) *queueLists {
	lists := f.queues[queue]
	if lists == nil {
		lists = &queueLists{}
		f.queues[queue] = lists
	}
	return lists
}

// result returns the lists as they are in status, with those of the queues below.
func (f *forecaster) result() Forecast {
	sums := map[string]*queueLists{}
	for queue, lists := range f.queues {
		for _, at := range append([]string{queue}, f.input.Tree.Ancestors(queue)...) {
			sum := sums[at]
			if sum == nil {
				sum = &queueLists{}
				sums[at] = sum
			}
			sum.addAll(lists)
		}
	}

	quotas := map[string]*v1alpha1.CardQuotaForecast{}
	for queue, sum := range sums {
		if status := sum.status(f.mostListed()); f.input.Owners[queue] != nil && status != nil {
			quotas[queue] = status
		}
	}
	return Forecast{quotas, f.policyStatus(len(quotas))}
}

// addAll adds the lists of a queue below.
func (l *queueLists) addAll(below *queueLists) {
	l.waiting.addAll(&below.waiting)
	l.reclaimed.addAll(&below.reclaimed)
	l.withoutQueue.addAll(&below.withoutQueue)
	l.bypassing.addAll(&below.bypassing)
	l.unknownServiceType.addAll(&below.unknownServiceType)
}

// mostListed returns how many workloads a list names at most.
func (f *forecaster) mostListed() int {
	if f.input.ListsAll {
		return math.MaxInt
	}
	return maxListed
}

// status returns the lists as they are in status, nil if all are empty. Each names so many workloads at most.
func (l *queueLists) status(most int) *v1alpha1.CardQuotaForecast {
	status := &v1alpha1.CardQuotaForecast{
		Waiting: l.waiting.status(most), Reclaimed: l.reclaimed.status(most), WithoutQueue: l.withoutQueue.status(most),
		Bypassing: l.bypassing.status(most), UnknownServiceType: l.unknownServiceType.status(most),
	}
	if *status == (v1alpha1.CardQuotaForecast{}) {
		return nil
	}
	return status
}
