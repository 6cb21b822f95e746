package why

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/workload"
)

// inputReader reads what an explanation needs.
type inputReader struct {
	*reader.Reader
	// found are the objects of the workload, loaded those of the cluster, without those that the user may not
	// read.
	found  workloadObjects
	loaded reader.Workloads
	// tracker has the cards of the loaded nodes. resolver knows what pods request and use, also without nodes.
	tracker  *card.Tracker
	resolver workload.Resolver
	// quotas are the CardQuotas or LocalCardQuotas that the user may list, tree their numbers in force.
	quotas []*v1alpha1.CardQuota
	tree   *cardquota.Tree
	// requester is the pod whose request is explained, nil for a job without pods.
	requester *corev1.Pod
	input     explanation.Input
	// nodeRefusals asks the scheduler, nil if the program does not contain it.
	nodeRefusals simulation.NodeRefusals
}

// readInput reads what is known about a workload. What the user may not read is left out.
func readInput(ctx context.Context, cluster *reader.Reader, t target, nodeRefusals simulation.NodeRefusals, now time.Time) (explanation.Input, error) {
	found, err := findTarget(ctx, cluster, t)
	if err != nil {
		return explanation.Input{}, err
	}

	r := &inputReader{Reader: cluster, nodeRefusals: nodeRefusals, found: found}
	r.input.Now = now
	r.input.WaitLonger = -1 // unknown

	r.input.Workload = r.found.ref
	r.input.Others = r.found.others
	for _, read := range []func(context.Context){r.readPolicies, r.readFleet, r.readQuotaPath} {
		read(ctx)
		if err := r.Err(); err != nil {
			return r.input, err
		}
	}

	// The steps need what those before them have set: which pods wait decides which entry of
	// status.blocked is shown, and the entry which pod is the requester.
	request := requestChoice{r}
	request.countPods()
	entryList{r}.setEntries()
	r.setOrphans()
	r.requester = request.findRequester()
	request.setRequest()
	request.setNodeRefusals(ctx)
	if err := r.Err(); err != nil {
		return r.input, err
	}

	r.setForecasts()
	r.setRunning()
	r.readSurroundings(ctx)
	r.readRights(ctx)
	r.readOrder(ctx)
	r.input.Gaps = r.Gaps
	return r.input, r.Err()
}

// setForecasts sets what mode Enforce would change, by all CardQuotas that the user may list: a workload that names no queue
// counts for one that selects its namespace. That of its own queue comes first.
func (r *inputReader) setForecasts() {
	for _, quota := range slices.Concat(r.input.Path, r.quotas) {
		if quota.Status.Forecast != nil {
			r.input.Forecasts = append(r.input.Forecasts, quota.Status.Forecast)
		}
	}
}

// readSurroundings reads what else says why the workload waits: its controller, its events, its gang and
// the jobs that have reserved cards. A workload without pending pods may wait for its controller to create them.
func (r *inputReader) readSurroundings(ctx context.Context) {
	controller := r.getController(ctx)
	events := r.readEvents(ctx)
	r.input.Evictions = events.evictions
	r.setPodCreation(controller, events)
	if r.input.Pending == 0 {
		return
	}

	r.input.Scale = scaleOf(controller)
	gangs := r.countGangPods()
	r.setGang(gangs)
	r.setRollout(ctx, controller)
	r.setReservations(gangs)
}

// readPolicies reads the ServiceTypePolicy and the CardInventory. A cluster without Cardquota has neither.
func (r *inputReader) readPolicies(ctx context.Context) {
	r.input.Policy, _ = reader.Find(ctx, r.Reader, client.ObjectKey{Name: v1alpha1.PolicyName}, &v1alpha1.ServiceTypePolicy{})
	r.IgnoreMissingKind()
	inventory, _ := reader.Find(ctx, r.Reader, client.ObjectKey{Name: v1alpha1.InventoryName}, &v1alpha1.CardInventory{})
	r.IgnoreMissingKind()
	if inventory != nil {
		r.input.Inventory = &inventory.Status
	}
}

// readFleet reads nodes and pods, if the workload waits for our scheduler. It finds which resources are cards
// from the first of these that the user may read: the nodes with the mappings of the policy, the
// CardInventory, the names that the pods of the workload state. A user who may read all pods also learns the
// names of workloads of others.
func (r *inputReader) readFleet(ctx context.Context) {
	r.tracker = &card.Tracker{}
	r.resolver = workload.Resolver{Inventory: card.NewInventory(nil), Schedulers: r.input.Schedulers()}
	if !r.waitsForScheduler() {
		return
	}

	r.loaded = reader.ReadWorkloads(ctx, r.Reader)
	r.tracker = r.loaded.Tracker()
	inventory := r.tracker.Inventory()
	switch {
	case len(r.loaded.Nodes) > 0 && r.loaded.KnowsMappings: // the nodes say it themselves
	case r.input.Inventory != nil:
		inventory = inventoryOf(r.input.Inventory)
	default:
		inventory = inventoryOfPods(r.found.pods)
	}

	r.resolver.Inventory = inventory
	if r.loaded.IsComplete {
		r.input.NamesOthers = true
		r.input.Nodes = nodecards.NewList(r.tracker.Nodes(), r.loaded.Pods, &r.resolver, r.loaded.IsComplete).Items
	}
}

// waitsForScheduler reports whether the workload waits for our scheduler. The explanation of another one needs no
// other pods.
func (r *inputReader) waitsForScheduler() bool {
	if len(r.found.pods) == 0 {
		return r.found.group != nil
	}
	return slices.ContainsFunc(r.found.pods, func(pod *corev1.Pod) bool { return workload.IsPending(pod) && r.resolver.UsesOurScheduler(pod) })
}

// inventoryOf returns the cards of a CardInventory, for a user who may not read nodes, as if all cards of a name
// were on one node. That is enough to find which card a resource is.
func inventoryOf(status *v1alpha1.CardInventoryStatus) *card.Inventory {
	nodes := map[string]card.Node{}
	for _, entry := range status.Cards {
		if entry.Total == 0 {
			continue
		}

		node := card.Node{Model: card.Name(entry.Name).Model()}
		for _, resource := range entry.Resources {
			node.Cards = append(node.Cards, card.NodeCard{Name: card.Name(entry.Name), Resource: corev1.ResourceName(resource), Count: card.Count(entry.Total)})
		}
		nodes[entry.Name] = node
	}

	return card.NewInventory(nodes)
}

// inventoryOfPods returns the cards that pods name, as if nodes had them: for a user who may read neither
// nodes nor the CardInventory. Of the resources of a pod it takes for the card one with the name of a card,
// such as nvidia.com/gpu. Without such a one it may be any resource of a vendor, and the last one counts.
func inventoryOfPods(pods []*corev1.Pod) *card.Inventory {
	nodes := map[string]card.Node{}
	for _, pod := range pods {
		// An annotation that cannot be read has no names.
		request, _ := card.ParseRequest(pod.Annotations[v1alpha1.AnnotationCardName])

		for _, container := range pod.Spec.Containers {
			for _, resource := range slices.Sorted(maps.Keys(container.Resources.Requests)) {
				if !strings.Contains(string(resource), "/") {
					continue
				}
				for _, name := range request.Names() {
					if found := nodes[string(name)].Cards; len(found) == 0 || !card.LooksLikeCard(found[0].Resource) {
						nodes[string(name)] = card.Node{Model: name.Model(), Cards: []card.NodeCard{{Name: name, Resource: resource}}}
					}
				}
			}
		}
	}

	return card.NewInventory(nodes)
}

// readQuotaPath reads the CardQuota of the queue and those above it, else the Queue, and the namespace
// if one of them selects namespaces. A tenant has LocalCardQuotas, and none of those above.
func (r *inputReader) readQuotaPath(ctx context.Context) {
	quotas, source, err := reader.ReadCardQuotas(ctx, r.Client, r.input.Workload.Namespace)
	r.Record(err)
	r.IgnoreMissingKind()
	r.quotas = quotas
	r.tree = cardquota.TreeInForce(r.input.Policy, quotas, nil)
	r.input.Queue = r.queueName()
	if r.input.Queue == "" {
		return // a workload without pods and PodGroup
	}

	// Without a CardQuota at least the Queue says whether it exists and takes work.
	r.input.Path = r.pathOf(r.input.Queue)
	if len(r.input.Path) == 0 {
		// A LocalCardQuota exists only in the namespaces that its CardQuota selects, so the queue may have
		// one.
		r.input.HidesQuota = source.IsLocal()
		queue := &v1beta1.Queue{}
		exists, mayRead := r.LookUp(ctx, client.ObjectKey{Name: r.input.Queue}, queue)
		r.IgnoreMissingKind()
		if mayRead {
			r.input.HasQueue = &exists
		}

		r.input.QueueState = string(queue.Status.State)
		r.input.QueueStop = queue.Annotations[v1alpha1.AnnotationStopPolicy]
		return
	}

	if slices.ContainsFunc(r.input.Path, func(q *v1alpha1.CardQuota) bool { return q.Spec.NamespaceSelector != nil }) {
		namespace := &corev1.Namespace{}
		r.LookUp(ctx, client.ObjectKey{Name: r.input.Workload.Namespace}, namespace)
		r.input.Namespace = namespace.Labels // nil only if unread: each namespace has a label with its name
	}
}

// pathOf returns the CardQuota of a queue and, in a tree, those above it.
func (r *inputReader) pathOf(queue string) []*v1alpha1.CardQuota {
	owner := cardquota.OwnersByQueue(r.quotas)[queue]
	if owner == nil {
		return nil
	}
	return append([]*v1alpha1.CardQuota{owner}, r.tree.Ancestors(owner.Name)...)
}

// queueName returns the queue that the workload names.
func (r *inputReader) queueName() string {
	switch {
	case len(r.found.pods) == 0 && r.found.group == nil:
		return ""
	case len(r.found.pods) == 0:
		return workload.PodGroupQueue(r.found.group)
	}

	// Placed pods may be of an earlier queue. The pod that waits is what the user asks about.
	pod := r.found.pods[0]
	for _, other := range r.found.pods {
		if workload.IsPending(other) {
			pod = other
		}
	}

	return r.queueOf(pod, r.found.groups[workload.PodGroupName(pod)])
}

// queueOf returns the queue of a pod that waits.
func (r *inputReader) queueOf(pod *corev1.Pod, group *v1beta1.PodGroup) string {
	// Volcano's webhook and controller put a pod without a queue into the default one.
	return cmp.Or(r.resolver.Queue(pod, group, ""), workload.DefaultQueue)
}

// readRights asks the API server which changes that would help the user may make. LocalCardQuotas, which have
// a namespace, are not for users to change.
func (r *inputReader) readRights(ctx context.Context) {
	switch {
	case len(r.input.Entries) == 0:
		return
	case len(r.input.Path) == 0:
		r.input.ChangesQuotas = !r.input.HidesQuota && r.IsAllowed(ctx, "create", v1alpha1.GroupVersion.Group, "cardquotas")
	case r.input.Path[0].Namespace == "":
		r.input.ChangesQuotas = r.IsAllowed(ctx, "update", v1alpha1.GroupVersion.Group, "cardquotas")
	}
	if len(r.input.NodeRefusals) > 0 {
		r.input.ChangesNodes = r.IsAllowed(ctx, "patch", corev1.GroupName, "nodes")
	}
}

// setRunning sets since when the workloads that use the cards run, and whether they may be evicted, if the user may list
// all pods. One protected pod protects the workload.
func (r *inputReader) setRunning() {
	if len(r.input.Entries) == 0 || !r.loaded.IsComplete {
		return
	}

	holders := map[v1alpha1.WorkloadReference]bool{}
	for _, holder := range r.input.Entries[0].Holders {
		holders[holder.Workload] = true
	}

	annotations := map[client.ObjectKey]map[string]string{}
	for _, group := range r.loaded.PodGroups {
		annotations[client.ObjectKeyFromObject(group)] = group.Annotations
	}

	r.input.Running = map[v1alpha1.WorkloadReference]explanation.Running{}
	for _, pod := range r.loaded.Pods {
		reference := workload.ReferenceFor(pod)
		if !workload.IsAssigned(pod) || !holders[reference] {
			continue
		}

		runs := r.input.Running[reference]
		if start := workload.StartTime(pod); !start.IsZero() && (runs.Since.IsZero() || start.Before(runs.Since)) {
			runs.Since = start
		}

		group := annotations[podGroupKey(pod)]
		runs.IsProtected = runs.IsProtected || !workload.IsEvictable(pod, group)
		r.input.Running[reference] = runs
	}
}
