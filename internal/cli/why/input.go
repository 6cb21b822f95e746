package why

import (
	"cmp"
	"context"
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
	found    workloadObjects
	loaded   reader.Workloads
	tracker  *card.Tracker
	quotas   []*v1alpha1.CardQuota
	tree     *cardquota.Tree
	resolver workload.Resolver
	// requester is the pod whose request is explained, nil for a job without pods.
	requester *corev1.Pod
	input     explanation.Input
	// nodeRefusals asks the scheduler, nil if the program does not contain it.
	nodeRefusals simulation.NodeRefusals
}

// readInput reads what is known about a workload. What the user may not read is left out.
func readInput(ctx context.Context, r *reader.Reader, t target, nodeRefusals simulation.NodeRefusals, now time.Time) (explanation.Input, error) {
	found, err := findTarget(ctx, r, t)
	if err != nil {
		return explanation.Input{}, err
	}

	w := &inputReader{Reader: r, nodeRefusals: nodeRefusals, found: found}
	w.input.Now = now
	w.input.WaitLonger = -1

	w.input.Workload = w.found.ref
	w.input.Others = w.found.others
	for _, read := range []func(context.Context){w.readPolicies, w.readFleet, w.readQuotaPath} {
		read(ctx)
		if err := r.Err(); err != nil {
			return w.input, err
		}
	}

	// The steps need what those before them have set: which pods wait decides which entry is
	// shown.
	request := requestChoice{w}
	request.countPods()
	entryList{w}.findEntries()
	w.setOrphans()
	request.setRequest(request.shownCard())
	request.setObstacles(ctx)
	if err := r.Err(); err != nil {
		return w.input, err
	}

	w.readHolders()
	w.readSurroundings(ctx)
	w.readRights(ctx)
	w.countAhead(ctx)
	w.input.Gaps = r.Gaps
	return w.input, r.Err()
}

// readSurroundings reads what else says why the workload waits: its controller, its events, its gang and
// the jobs that have reserved cards. A workload without pending pods may wait for its controller to create them.
func (w *inputReader) readSurroundings(ctx context.Context) {
	controller := w.getController(ctx)
	events := w.readEvents(ctx)
	w.input.Evictions = events.evictions
	w.setPodCreation(controller, events)
	if w.input.Pending == 0 {
		return
	}

	w.input.Scale = scaleOf(controller)
	gangs := w.countGangPods()
	w.setGang(gangs)
	w.setRollout(ctx, controller)
	w.setReservations(gangs)
}

// readPolicies reads the ServiceTypePolicy and the CardInventory. A cluster without Cardquota has neither.
func (w *inputReader) readPolicies(ctx context.Context) {
	w.input.Policy, _ = reader.Find(ctx, w.Reader, client.ObjectKey{Name: v1alpha1.PolicyName}, &v1alpha1.ServiceTypePolicy{})
	w.IgnoreMissingKind()
	inventory, _ := reader.Find(ctx, w.Reader, client.ObjectKey{Name: v1alpha1.InventoryName}, &v1alpha1.CardInventory{})
	w.IgnoreMissingKind()
	if inventory != nil {
		w.input.Inventory = &inventory.Status
	}
}

// readFleet reads nodes and pods, if the workload waits for them. Without the right to do so, or to read
// which cards the policy maps, the cards are those of the CardInventory.
func (w *inputReader) readFleet(ctx context.Context) {
	w.tracker = &card.Tracker{}
	w.resolver = workload.Resolver{Inventory: card.NewInventory(nil), Schedulers: w.input.Schedulers()}
	if !w.waitsForScheduler() {
		return
	}

	w.loaded = reader.ReadWorkloads(ctx, w.Reader)
	w.IgnoreMissingKind()
	w.tracker = w.loaded.Tracker()
	inventory := w.tracker.Inventory()
	switch {
	case len(w.loaded.Nodes) > 0 && w.loaded.KnowsMappings:
	case w.input.Inventory != nil:
		inventory = inventoryOf(w.input.Inventory)
	default:
		inventory = inventoryOfPods(w.found.pods)
	}

	w.resolver.Inventory = inventory
	if w.loaded.IsComplete {
		w.input.NamesOthers = true
		w.input.Nodes = nodecards.NewList(w.tracker.Nodes(), w.loaded.Pods, &w.resolver, true).Items
	}
}

// waitsForScheduler reports whether the workload waits for our scheduler. The explanation of another one needs no
// other pods.
func (w *inputReader) waitsForScheduler() bool {
	if len(w.found.pods) == 0 {
		return w.found.group != nil
	}
	return slices.ContainsFunc(w.found.pods, func(pod *corev1.Pod) bool { return workload.IsPending(pod) && w.resolver.UsesOurScheduler(pod) })
}

// inventoryOf returns the cards of a CardInventory, for a user who may not read nodes: all cards of a name on one
// node. It tells which card a resource is.
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

// inventoryOfPods returns the cards that pods name, as if they were right: for a user who may read
// neither nodes nor the CardInventory.
func inventoryOfPods(pods []*corev1.Pod) *card.Inventory {
	nodes := map[string]card.Node{}
	for _, pod := range pods {
		request, err := card.ParseRequest(pod.Annotations[v1alpha1.AnnotationCardName])
		if err != nil {
			continue
		}

		for _, container := range pod.Spec.Containers {
			for resource := range container.Resources.Requests {
				if !strings.Contains(string(resource), "/") {
					continue
				}
				for _, name := range request.Names() {
					nodes[string(name)] = card.Node{Model: name.Model(), Cards: []card.NodeCard{{Name: name, Resource: resource}}}
				}
			}
		}
	}

	return card.NewInventory(nodes)
}

// readQuotaPath reads the CardQuota of the queue and those above it, else the queue, and the namespace
// if one of them selects namespaces.
func (w *inputReader) readQuotaPath(ctx context.Context) {
	quotas, source, err := reader.ReadCardQuotas(ctx, w.Client, w.input.Workload.Namespace)
	w.Record(err)
	w.IgnoreMissingKind()
	w.quotas = quotas
	w.tree = cardquota.TreeInForce(w.input.Policy, quotas, nil)
	w.input.Queue = w.queueName()
	if w.input.Queue == "" {
		return // a workload without pods and PodGroup
	}

	// Without a CardQuota at least the Queue says whether it exists and takes work.
	w.input.Path = w.pathOf(w.input.Queue)
	if len(w.input.Path) == 0 {
		w.input.HidesQuota = source.IsLocal()
		queue := &v1beta1.Queue{}
		exists, mayRead := w.LookUp(ctx, client.ObjectKey{Name: w.input.Queue}, queue)
		w.IgnoreMissingKind()
		if mayRead {
			w.input.HasQueue = &exists
		}

		w.input.QueueState = string(queue.Status.State)
		w.input.QueueStop = queue.Annotations[v1alpha1.AnnotationStopPolicy]
		return
	}

	if slices.ContainsFunc(w.input.Path, func(q *v1alpha1.CardQuota) bool { return q.Spec.NamespaceSelector != nil }) {
		namespace := &corev1.Namespace{}
		w.LookUp(ctx, client.ObjectKey{Name: w.input.Workload.Namespace}, namespace)
		w.input.Namespace = namespace.Labels // always one with its name, and none without the right to read it
	}
}

// pathOf returns the CardQuota of a queue and, in a tree, those above it.
func (w *inputReader) pathOf(queue string) []*v1alpha1.CardQuota {
	owner := cardquota.OwnersByQueue(w.quotas)[queue]
	if owner == nil {
		return nil
	}
	return append([]*v1alpha1.CardQuota{owner}, w.tree.Ancestors(owner.Name)...)
}

// queueName returns the queue that the workload names.
func (w *inputReader) queueName() string {
	switch {
	case len(w.found.pods) == 0 && w.found.group == nil:
		return ""
	case len(w.found.pods) == 0:
		return workload.PodGroupQueue(w.found.group)
	}

	// Placed pods may have another queue by now. The one that waits is what the user asks about.
	pod := w.found.pods[0]
	for _, other := range w.found.pods {
		if workload.IsPending(other) {
			pod = other
		}
	}

	return w.queueOf(pod, w.found.groups[workload.PodGroupName(pod)])
}

// queueOf returns the queue of a pod that waits.
func (w *inputReader) queueOf(pod *corev1.Pod, group *v1beta1.PodGroup) string {
	// Volcano's webhook and controller put a pod without a queue into the default one.
	return cmp.Or(w.resolver.Queue(pod, group, ""), workload.DefaultQueue)
}

// readRights asks which changes that would help the user may make himself.
func (w *inputReader) readRights(ctx context.Context) {
	switch {
	case len(w.input.Entries) == 0:
		return
	case len(w.input.Path) == 0:
		w.input.ChangesQuotas = !w.input.HidesQuota && w.IsAllowed(ctx, "create", v1alpha1.GroupVersion.Group, "cardquotas")
	case w.input.Path[0].Namespace == "":
		w.input.ChangesQuotas = w.IsAllowed(ctx, "update", v1alpha1.GroupVersion.Group, "cardquotas")
	}
	if len(w.input.Obstacles) > 0 {
		w.input.ChangesNodes = w.IsAllowed(ctx, "patch", corev1.GroupName, "nodes")
	}
}

// readHolders sets since when the holders of cards run, and whether they may be evicted.
func (w *inputReader) readHolders() {
	if len(w.input.Entries) == 0 || !w.loaded.IsComplete {
		return
	}

	holders := map[v1alpha1.WorkloadReference]bool{}
	for _, holder := range w.input.Entries[0].Holders {
		holders[holder.Workload] = true
	}

	annotations := map[client.ObjectKey]map[string]string{}
	for _, group := range w.loaded.PodGroups {
		annotations[client.ObjectKeyFromObject(group)] = group.Annotations
	}

	w.input.Running = map[v1alpha1.WorkloadReference]explanation.Running{}
	for _, pod := range w.loaded.Pods {
		reference := workload.ReferenceFor(pod)
		if !workload.IsAssigned(pod) || !holders[reference] {
			continue
		}

		runs := w.input.Running[reference]
		if start := workload.StartTime(pod); !start.IsZero() && (runs.Since.IsZero() || start.Before(runs.Since)) {
			runs.Since = start
		}

		group := annotations[client.ObjectKey{Namespace: pod.Namespace, Name: workload.PodGroupName(pod)}]
		runs.IsProtected = runs.IsProtected || !workload.IsEvictable(pod, group)
		w.input.Running[reference] = runs
	}
}
