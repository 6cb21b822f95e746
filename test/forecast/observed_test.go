package forecast

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// observedWeek is the week in mode Observe.
type observedWeek struct {
	begin   time.Time
	tracker *card.Tracker
	// free is how many cards each node has left, in the order of the nodes.
	nodes []string
	free  map[string]int

	pods   map[*recordedWorkload][]*corev1.Pod
	groups map[*recordedWorkload]*v1beta1.PodGroup
	// charges and facts are what a count keeps for the next one.
	charges map[types.UID]quota.Charge
	facts   queueusage.PodFacts

	owners     map[string]*v1alpha1.CardQuota
	cardQuotas map[string]card.Quota
	tree       *quota.Tree
	namespaces *forecast.Namespaces
	inForce    *v1alpha1.ServiceTypePolicy
	// named are the workloads that a forecast named.
	named map[string]bool
}

// newObservedWeek returns the week with a CardQuota for each tenant, before the first workload.
func newObservedWeek(quotas map[string]int, begin time.Time) *observedWeek {
	o := &observedWeek{
		begin: begin, tracker: &card.Tracker{}, free: map[string]int{}, pods: map[*recordedWorkload][]*corev1.Pod{}, groups: map[*recordedWorkload]*v1beta1.PodGroup{},
		cardQuotas: map[string]card.Quota{}, inForce: builder.ServiceTypePolicy().Obj(), named: map[string]bool{},
	}

	for _, node := range newNodes() {
		o.tracker.Update(node)
		o.nodes = append(o.nodes, node.Name)
		o.free[node.Name] = cardsPerNode
	}

	var all []*v1alpha1.CardQuota
	var namespaces []*corev1.Namespace
	for _, tenant := range slices.Sorted(maps.Keys(quotas)) {
		all = append(all, builder.CardQuota(tenant).Card(cardName, int64(quotas[tenant])).Selects("tenant", tenant).Obj())
		namespaces = append(namespaces, builder.Namespace(tenant, "tenant", tenant))
		o.cardQuotas[tenant] = card.Quota{cardName: card.Count(quotas[tenant])}
	}

	o.owners = cardquota.OwnersByQueue(all)
	o.tree = quota.Flat.WithFlat(cardquota.FlatLimits(o.owners))
	o.namespaces = forecast.NewNamespaces(o.owners, o.tree, namespaces)
	return o
}

// play plays the week, and returns the names of the workloads that a forecast named.
func (o *observedWeek) play(t check.T, week []*recordedWorkload) map[string]bool {
	for _, now := range changesOf(week) {
		for _, w := range week {
			if w.arrival+w.duration == now {
				o.end(w)
			}
		}

		for _, w := range week {
			if w.arrival == now {
				o.start(t, w)
			}
		}
		o.addNamed(t, o.forecastAt(o.begin.Add(now)))
	}
	return o.named
}

// changesOf returns when workloads arrive and end if none waits, in order.
func changesOf(week []*recordedWorkload) []time.Duration {
	var changes []time.Duration
	for _, w := range week {
		changes = append(changes, w.arrival, w.arrival+w.duration)
	}
	slices.Sort(changes)
	return slices.Compact(changes)
}

// start lets a workload run. One with several pods names its queue. One with a single pod is a pod of Kubernetes' own
// scheduler, which counts by its namespace.
func (o *observedWeek) start(t check.T, w *recordedWorkload) {
	pods := w.pods(o.begin)
	for _, pod := range pods {
		if !w.isGang() {
			pod.Spec.SchedulerName = corev1.DefaultSchedulerName
			delete(pod.Annotations, v1beta1.KubeGroupNameAnnotationKey)
		}

		cards := int(pod.Spec.Containers[0].Resources.Requests.Name(builder.GPU, "").Value())
		node := slices.IndexFunc(o.nodes, func(name string) bool { return o.free[name] >= cards })
		check.Must(t, node >= 0, "no node has room for %d cards of %s", cards, w.name)
		pod.Spec.NodeName = o.nodes[node]
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = ptr.To(metav1.NewTime(o.begin.Add(w.arrival)))
		o.free[pod.Spec.NodeName] -= cards
	}

	o.pods[w] = pods
	if w.isGang() {
		o.groups[w] = w.podGroup(o.begin)
		o.groups[w].Status.Phase = v1beta1.PodGroupRunning
	}
}

// end removes a workload, and frees its cards.
func (o *observedWeek) end(w *recordedWorkload) {
	for _, pod := range o.pods[w] {
		o.free[pod.Spec.NodeName] += int(pod.Spec.Containers[0].Resources.Requests.Name(builder.GPU, "").Value())
	}
	delete(o.pods, w)
	delete(o.groups, w)
}

// forecastAt counts what runs, and returns the forecast, as the operator does.
func (o *observedWeek) forecastAt(now time.Time) forecast.Forecast {
	pods := slices.Concat(slices.Collect(maps.Values(o.pods))...)
	groups := slices.Collect(maps.Values(o.groups))
	allowsNamespace := func(queue, namespace string) bool { return queue == namespace }
	schedulers := []string{scheduler}

	_, o.charges = queueusage.CountWithCharges(queueusage.Input{
		Pods: pods, PodGroups: groups, Inventory: o.tracker.Inventory(), Nodes: o.tracker.Nodes(), Quotas: o.cardQuotas, LastCharges: o.charges, Facts: &o.facts,
		Schedulers: schedulers, AllowsNamespace: allowsNamespace, QueueOfNamespace: o.namespaces.QueueFor, Now: now,
	})

	return forecast.New(&forecast.Input{
		Pods: pods, PodGroups: groups, Charges: o.charges, Facts: &o.facts, Inventory: o.tracker.Inventory(), Healthy: o.tracker.Healthy(), Owners: o.owners, Tree: o.tree,
		Namespaces: o.namespaces, AllowsNamespace: allowsNamespace, Schedulers: schedulers, TypeFor: policy.ServiceTypes(o.inForce),
		Matrix: policy.ReclaimMatrix(o.inForce), IgnoresComputeOfCardPods: policy.IgnoresComputeOfCardPods(o.inForce), ListsAll: true,
	})
}

// addNamed remembers which workloads a forecast names as waiting.
func (o *observedWeek) addNamed(t check.T, said forecast.Forecast) {
	check.Must(t, said.Policy == nil || said.Policy.Unlimited == nil, "no CardQuota counts some workloads: %+v", said.Policy)
	for queue, of := range said.Quotas {
		if of.Waiting == nil {
			continue
		}
		check.Must(t, len(of.Waiting.Workloads) == int(of.Waiting.Total), "queue %s has %d waiting workloads, and lists %d",
			queue, of.Waiting.Total, len(of.Waiting.Workloads))
		for _, entry := range of.Waiting.Workloads {
			o.named[entry.Workload.Name] = true
		}
	}
}
