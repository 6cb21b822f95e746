package main

// The rules of package workload: at least one mutant for each row of its table.
var workloadMutants = []mutant{
	// Which pods count.
	{"internal/workload/pod.go", `return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&`, `return pod.DeletionTimestamp == nil &&`, "a pod without a node uses nothing"},
	{"internal/workload/pod.go", `return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&`, `return pod.Spec.NodeName != "" &&`, "a terminating pod does not count as used"},
	{"internal/workload/pod.go", `isUnfinished := isPendingPhase(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning`, `isUnfinished := pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == ""`, "a bound pod counts before it has started"},
	{"internal/workload/pod.go", `isUnfinished := isPendingPhase(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning`, `isUnfinished := isPendingPhase(pod.Status.Phase)`, "a running pod counts"},
	{"internal/workload/pod.go", `isUnfinished := isPendingPhase(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning`, `isUnfinished := pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodUnknown`, "a pod that succeeded uses nothing"},
	{"internal/workload/pod.go", `isUnfinished := isPendingPhase(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning`, `isUnfinished := pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodUnknown`, "a pod that failed uses nothing"},
	{"internal/workload/pod.go", `isUnfinished := isPendingPhase(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning`, `isUnfinished := pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed`, "a pod of unknown state does not count as used"},
	{"internal/workload/pod.go", `return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&`, `return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil &&`, "a gated pod does not wait"},
	{"internal/workload/pod.go", `return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&`, `return pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 &&`, "a deleted pod does not wait"},
	{"internal/workload/pod.go", `return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&`, `return pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&`, "a pod with a node does not wait"},

	// Which queue.
	{"internal/workload/pod.go", `return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]`, `return pod.Annotations["scheduling.volcano.sh/group-name"]`, "the PodGroup is that of scheduling.k8s.io/group-name"},
	{"internal/workload/pod.go", `	if pod.Spec.NodeName == "" {`, `	if pod.Spec.NodeName == "nowhere" {`, "before the binding the record is not trusted"},
	{"internal/workload/resolver.go", `	case lastCharged != "":`, `	case lastCharged == "none":`, "the queue charged last has precedence"},
	{"internal/workload/resolver.go", `	case charged != "":`, `	case charged == "none":`, "the queue of the binding has precedence over the PodGroup's"},
	{"internal/workload/resolver.go", `	case charged != "":
		queue = charged
	case group != nil:
		queue = PodGroupQueue(group)`, `	case group != nil:
		queue = PodGroupQueue(group)
	case charged != "":
		queue = charged`, "a PodGroup that is moved moves no placed pod"},
	{"internal/workload/resolver.go", `	case group != nil:
		queue = PodGroupQueue(group)`, `	case group != nil && pod.Annotations[v1beta1.QueueNameAnnotationKey] == "":
		queue = PodGroupQueue(group)`, "the PodGroup's queue has precedence over the pod's annotation"},
	{"internal/workload/resolver.go", `	case pod.Annotations[v1beta1.QueueNameAnnotationKey] != "":`, `	case pod.Annotations[v1beta1.QueueNameAnnotationKey] == "none":`, "without a PodGroup the pod's annotation names the queue"},
	{"internal/workload/resolver.go", `		queue = pod.Annotations[batchv1alpha1.QueueNameKey]`, `		queue = pod.Annotations[batchv1alpha1.QueueNameKey][:0]`, "without a PodGroup the vcjob's annotation names the queue"},
	{"internal/workload/pod.go", `cmp.Or(group.Spec.Queue, DefaultQueue)`, `cmp.Or(group.Spec.Queue)`, "a PodGroup without a queue is in default"},
	{"internal/workload/pod.go", `const DefaultQueue = "default"`, `const DefaultQueue = "root"`, "the queue of a PodGroup that names none is default"},

	// The service type.
	{"internal/workload/pod.go", `{queue, pod, group} {`, `{pod, queue, group} {`, "the queue's service type has precedence over the pod's"},
	{"internal/workload/pod.go", `{queue, pod, group} {`, `{queue, group, pod} {`, "the pod's service type has precedence over the PodGroup's"},
	{"internal/workload/pod.go", `{queue, pod, group} {`, `{queue, pod} {`, "the PodGroup's service type counts"},
	{"internal/workload/pod.go", `	return ofOwner`, `	return ""`, "the owner's kind counts for the service type"},

	// Which card, and how many.
	{"internal/workload/resolver.go", `return r.Schedulers == nil ||`, `return`, "a pod of our scheduler is trusted"},
	{"internal/workload/resolver.go", `Charge{Queue: queue, MilliCPU: request.MilliCPU, Memory: request.Memory}`, `Charge{Queue: queue, Memory: request.Memory}`, "CPU is charged"},
	{"internal/workload/resolver.go", `Charge{Queue: queue, MilliCPU: request.MilliCPU, Memory: request.Memory}`, `Charge{Queue: queue, MilliCPU: request.MilliCPU}`, "memory is charged"},
	{"internal/workload/resolver.go", `Charge{Queue: queue, MilliCPU: request.MilliCPU, Memory: request.Memory}`, `Charge{MilliCPU: request.MilliCPU, Memory: request.Memory}`, "a queue is charged"},
	{"internal/workload/resolver.go", `	if len(request.ExtraResources) == 0 {`, `	if true {`, "both of two card resources are charged"},
	{"internal/workload/resolver.go", `Amount{{Name: name, Count: request.Count}}`, `Amount{{Name: name, Count: 1}}`, "the pod's own request says how many"},
	{"internal/workload/resolver.go", `Amount{{Name: name, Count: request.Count}}`, `Amount{{Name: append(slices.Clone(request.Named.Names()), name)[0], Count: request.Count}}`, "the card of the node counts, not the one asked for"},
	{"internal/workload/resolver.go", `	if len(request.ExtraResources) == 0 {`, `	if names := lastCards(ResourceCount{request.Resource, request.Count}, inv, last); len(names) > 0 && len(request.ExtraResources) == 0 {
		charge.Cards = []card.Amount{{Name: names[0], Count: request.Count}}
		return charge
	}
	if len(request.ExtraResources) == 0 {`, "a relabelled node: the card that it has now"},
	{"internal/workload/resolver.go", `	if names := lastCards(requested, inv, last); len(names) > 0 {`, `	if names := lastCards(requested, inv, last); len(names) > 99 {`, "label lost or node gone: the card charged last"},
	{"internal/workload/resolver.go", `	if !request.Named.AllowsAny() {
		return request.Named.Names()`, `	if !request.Named.AllowsAny() {
		return request.Named.Names()[:1]`, "label lost, two alternatives: both are withheld"},
	{"internal/workload/resolver.go", `	if !request.Named.AllowsAny() {
		return`, `	if len(request.Named.Names()) > 99 {
		return`, "label lost, nothing charged: the card it names"},
	{"internal/workload/resolver.go", `	return names
}

// lastCards`, `	return nil
}

// lastCards`, "label lost, nothing named: every card it may be"},
	{"internal/workload/resolver.go", `(len(resources) == 0 || slices.Contains(resources, requested.Resource))`, `slices.Contains(resources, requested.Resource)`, "a card that no node has any more stays charged"},
	{"internal/workload/resolver.go", `(len(resources) == 0 || slices.Contains(resources, requested.Resource))`, `len(resources) >= 0`, "what was charged for another resource does not stay"},
	{"internal/workload/resolver.go", `lastCards(request.Unverified, inv, last)`, `lastCards(ResourceCount{}, inv, last)`, "a resource that is a card nowhere: what was charged before stays"},

	// What a pod requests.
	{"internal/workload/request.go", `UseStatusResources: true`, `UseStatusResources: false`, "a pod that was resized counts as Kubernetes counts it"},
	{"internal/workload/request.go", `PodResourcesOptions{UseStatusResources: true}`, `PodResourcesOptions{UseStatusResources: true, ExcludeOverhead: true}`, "overhead counts"},
	{"internal/workload/request.go", `	requests := resourcehelper`, `	pod = pod.DeepCopy()
	pod.Spec.InitContainers = nil
	requests := resourcehelper`, "init containers count by their maximum"},
	{"internal/workload/request.go", `	requests := resourcehelper`, `	pod = pod.DeepCopy()
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].RestartPolicy = nil
	}
	requests := resourcehelper`, "sidecars count beside the containers"},
	{"internal/workload/request.go", `		case quantity.Sign() <= 0:`, `		case quantity.Sign() < 0:`, "zero cards are none"},
	{"internal/workload/request.go", `		case strings.Contains(string(name), "/"):`, `		case strings.Contains(string(name), ""):`, "card.name alone asks for nothing"},
	{"internal/workload/request.go", `MilliCPU: boundedValue(requests.Cpu(), resource.Milli)`, `MilliCPU: boundedValue(requests.Cpu(), 0)`, "CPU is counted in thousandths of a core"},
	{"internal/workload/request.go", `Memory: boundedValue(requests.Memory(), 0)`, `Memory: boundedValue(requests.Memory(), resource.Kilo)`, "memory is counted in bytes"},
	{"internal/workload/request.go", `strings.Compare(string(a.Resource), string(b.Resource))`, `strings.Compare(string(b.Resource), string(a.Resource))`, "of two card resources the first one stands for both"},
	{"internal/workload/request.go", `	if request.Count == 0 && (!isNamed || len(unknown) == 0) {`, `	if request.Count == 0 {`, "a named resource that is a card nowhere is refused"},
	{"internal/workload/request.go", `	case len(request.ExtraResources) > 0:`, `	case len(request.ExtraResources) > 99:`, "two card resources are refused"},
	{"internal/workload/request.go", `	case request.Count > card.MaxCount:`, `	case request.Count < 0:`, "more cards than any quota can give are refused"},
	{"internal/workload/request.go", `	if len(request.Names) == 0 {`, `	if len(request.Names) < 0 {`, "a card resource that no node names is refused"},
	{"internal/workload/request.go", `	request.Names = request.Named.Names()`, `	request.Names = request.Named.Names()[:1]`, "all alternatives may be used"},
	{"internal/workload/request.go", `	request.Names = request.Named.Names()`, `	request.Names = slices.Sorted(slices.Values(request.Named.Names()))`, "alternatives keep their order"},
	{"internal/workload/request.go", `len(resources) > 0 && !slices.Contains(resources, request.Resource)`, `len(resources) > 99 && !slices.Contains(resources, request.Resource)`, "a card of another resource is refused"},
	{"internal/workload/request.go", `len(resources) > 0 && !slices.Contains(resources, request.Resource)`, `!slices.Contains(resources, request.Resource)`, "a card that no node has may be waited for"},
	{"internal/workload/request.go", `	case len(unknown) != 1:`, `	case len(unknown) == 0:`, "one of two resources that are cards nowhere is no card"},
	{"internal/workload/request.go", `pod.Spec.NodeName == "" || (ours && ChargedQueue(pod) != ""):`, `pod.Spec.NodeName == "":`, "a resource that is a card nowhere, of our binding: the card it names"},
	{"internal/workload/request.go", `pod.Spec.NodeName == "" || (ours && ChargedQueue(pod) != ""):`, `pod.Spec.NodeName == "" || ChargedQueue(pod) != "":`, "another scheduler's record proves nothing"},
	{"internal/workload/request.go", `pod.Spec.NodeName == "" || (ours && ChargedQueue(pod) != ""):`, `pod.Spec.NodeName == "" || ours:`, "without a record nothing proves that a resource was a card"},
	{"internal/workload/request.go", `		request.Unverified = unknown[0]`, `		request.Unverified = ResourceCount{}`, "what was charged for a resource stays when it is a card nowhere"},
	{"internal/workload/request.go", `	request.Names = nil
`, ``, "a refused pod may run on no card"},

	// What a queue allows.
	{"internal/workload/queue.go", `	case queue.Name == RootQueue:`, `	case queue.Name == "none":`, "root is no way around the quotas"},
	{"internal/workload/queue.go", `Limits{AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: quota.Unlimited`, `Limits{AnyCard: true, MilliCPU: quota.Unlimited`, "root gives no cards"},
	{"internal/workload/queue.go", `Limits{AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: quota.Unlimited`, `Limits{MilliCPU: quota.Unlimited`, "root gives cards while queues are being moved"},
	{"internal/workload/queue.go", `AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: cmp`, `AnyCard: true, MilliCPU: cmp`, "an unmanaged queue has no cards"},
	{"internal/workload/queue.go", `AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: cmp`, `AnyCard: false, MilliCPU: cmp`, "an unmanaged queue that is ignored has any card"},
	{"internal/workload/queue.go", `rules.Denied = !managed && unmanaged == v1alpha1.UnmanagedDeny`, `rules.Denied = false`, "unmanaged queues are denied"},
	{"internal/workload/queue.go", `rules.Denied = !managed && unmanaged == v1alpha1.UnmanagedDeny`, `rules.Denied = !managed && unmanaged != v1alpha1.UnmanagedIgnore`, "an unmanaged queue that is not denied is not limited in CPU"},
	{"internal/workload/queue.go", `	case rules.Denied && queue.Name == RootQueue:
`, `	case rules.Denied && queue.Name == "none":
`, "root gives nothing while unmanaged queues are denied"},
	{"internal/workload/queue.go", `cmp.Or(milliCPU, quota.Unlimited)`, `cmp.Or(milliCPU, 0)`, "CPU of an unmanaged queue is unlimited"},
	{"internal/workload/queue.go", `cmp.Or(memory, quota.Unlimited)`, `quota.Unlimited`, "an unmanaged queue keeps its capability"},
	{"internal/workload/unlimited.go", `MilliCPU: milliCPU, Memory: memory}`, `MilliCPU: max(1, milliCPU), Memory: memory}`, "capability that is not set is 0 beside a quota"},
	{"internal/workload/unlimited.go", `MilliCPU: milliCPU, Memory: memory}`, `MilliCPU: milliCPU, Memory: quota.Unlimited}`, "memory is limited beside a quota"},
	{"internal/workload/unlimited.go", `	if err != nil {
		return limits, &Refusal{`, `	if err != nil && queue.Name != "q" {
		return limits, &Refusal{`, "a quota that cannot be read withholds everything"},
	{"internal/workload/unlimited.go", `	if err != nil {
		return quota.Limits{}, &Refusal{`, `	if err != nil && queue.Name != "q" {
		return quota.Limits{}, &Refusal{`, "a list of what is unlimited that cannot be read withholds everything"},
	{"internal/workload/unlimited.go", `!isLimited && slices.Contains(unlimited, quota.CPU)`, `slices.Contains(unlimited, quota.CPU)`, "a capability counts beside unlimited.resources"},
	{"internal/workload/unlimited.go", `!isLimited && slices.Contains(unlimited, quota.Memory)`, `!isLimited`, "unlimited.resources lifts only what it names"},
	{"internal/workload/treequeue.go", `if isLimited || !isInherited {`, `if isLimited || !isInherited || t.Parent != "" {`, "in a tree the limit of the parent counts for what is not limited"},
	{"internal/workload/queue.go", `	case !managed:`, `	case text == "" || text == "{}":`, "an empty quota is a quota"},
	{"internal/workload/queue.go", `	case queue.DeletionTimestamp != nil:`, `	case queue.Name == "none":`, "a queue that is being deleted takes nothing"},
	{"internal/workload/queue.go", `queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen:`, `queue.Name == RootQueue || queue.Status.State != v1beta1.QueueStateClosing:`, "a closed queue takes nothing"},
	{"internal/workload/queue.go", `queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen:`, `queue.Name == RootQueue || queue.Status.State != v1beta1.QueueStateClosed && queue.Status.State != "":`, "a closing queue takes nothing"},
	{"internal/workload/queue.go", `queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen:`, `queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen || queue.Status.State == "":`, "a queue without a state takes nothing"},
	{"internal/workload/queue.go", `queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen:`, `queue.Status.State == v1beta1.QueueStateOpen:`, "root needs no state"},
	{"internal/workload/queue.go", `	if rules.selectorRefusal != nil {`, `	if rules.selectorRefusal != nil && !managed {`, "a selector that cannot be read withholds everything"},
	{"internal/workload/treequeue.go", `quantity.AsApproximateFloat64() >= maxCapability`, `quantity.AsApproximateFloat64() < 0`, "a capability beyond 64 bits is unlimited"},
	{"internal/workload/treequeue.go", `quantity.Sign() <= 0`, `quantity.Sign() == 0`, "a negative capability is none"},

	// Terminating pods.
	{"internal/workload/pod.go", `pod.DeletionTimestamp != nil && MayBeRunning(pod)`, `pod.DeletionTimestamp != nil`, "a deleted pod that has finished uses nothing"},
	{"internal/workload/pod.go", `pod.DeletionTimestamp != nil && MayBeRunning(pod)`, `pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodPending && MayBeRunning(pod)`, "a deleted pod uses its cards before it has started"},
	{"internal/workload/pod.go", `pod.DeletionTimestamp != nil && MayBeRunning(pod)`, `pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodUnknown && MayBeRunning(pod)`, "a deleted pod uses its cards on a node whose kubelet does not answer"},
	{"internal/workload/pod.go", `pod.DeletionTimestamp != nil && MayBeRunning(pod)`, `MayBeRunning(pod)`, "a pod that is not deleted does not end"},
	{"internal/workload/resolver.go", `pod.Spec.NodeName, r.Inventory, last)`, `pod.Spec.NodeName, r.Inventory, nil)`, "a deleted pod uses the card that it was charged last"},
	{"internal/workload/pod.go", `return c.Status == corev1.ConditionTrue`, `return c.Status != corev1.ConditionFalse`, "a node whose kubelet does not answer is not ready"},
	{"internal/workload/pod.go", `return c.Status == corev1.ConditionTrue`, `return c.Status != corev1.ConditionUnknown`, "a node that is not ready does not work"},
	{"internal/workload/pod.go", `	return true
}

// TerminationGracePeriod`, `	return false
}

// TerminationGracePeriod`, "a node that does not say is taken to work"},
	{"internal/workload/pod.go", `pod.Status.Phase == corev1.PodSucceeded || `, ``, "a deleted pod that has succeeded uses nothing"},
	{"internal/workload/pod.go", ` || pod.Status.Phase == corev1.PodFailed`, ``, "a deleted pod that has failed uses nothing"},

	// Which pods may be evicted.
	{"internal/workload/evictable.go", `class == SystemClusterCritical || `, ``, "pods critical for the cluster stay"},
	{"internal/workload/evictable.go", ` || class == SystemNodeCritical`, ``, "pods critical for a node stay"},
	{"internal/workload/evictable.go", `pod.Namespace == metav1.NamespaceSystem`, `pod.Namespace == metav1.NamespacePublic`, "pods of kube-system stay"},
	{"internal/workload/evictable.go", `value, set = pod.Labels[v1beta1.PodPreemptable]`, `value, set = pod.Labels["none"]`, "the label preemptable counts"},
	{"internal/workload/evictable.go", `	if !set {
		value, set = pod`, `	if _, labelled := pod.Labels[v1beta1.PodPreemptable]; labelled {
		value, set = pod`, "the annotation preemptable has precedence over the label"},
	{"internal/workload/evictable.go", `return allowsPreemption(value, set) && GroupAllowsEviction(group)`, `return allowsPreemption(value, set)`, "the PodGroup may protect its pods"},
	{"internal/workload/evictable.go", `return allowsPreemption(value, set) && GroupAllowsEviction(group)`, `return GroupAllowsEviction(group) && (allowsPreemption(value, set) || len(group) > 0)`, "a pod may protect itself in a PodGroup that allows it"},
	{"internal/workload/evictable.go", `	if !set {
		return true`, `	if !set {
		return false`, "a pod that says nothing may be evicted"},
	{"internal/workload/evictable.go", `return err == nil && preemptable`, `return err != nil || preemptable`, "a value that is no boolean protects"},

	// Which namespaces.
	{"internal/workload/queue.go", `	if !hasSelector {`, `	if !hasSelector || text == "" {`, "an empty selector text is none that can be read"},
	{"internal/workload/queue.go", `yaml.UnmarshalStrict(`, `yaml.Unmarshal(`, "a field that no selector has is an error"},
	{"internal/workload/queue.go", `	case !json.Valid([]byte(text)):`, `	case text == "none" && !json.Valid(nil):`, "a selector is JSON"},
	{"internal/workload/queue.go", `	if selector == nil { // null`, `	if selector == nil && text == "" { // null`, "null is no selector"},
	{"internal/workload/queue.go", `	case selector.Matches(labels.Set(namespace.Labels)):`, `	case !selector.Matches(labels.Set(namespace.Labels)):`, "the labels of a namespace decide"},
	{"internal/workload/queue.go", `	case selector.Matches(labels.Set(namespace.Labels)):`, `	case selector.Matches(labels.Set(namespace.Labels)) || len(namespace.Labels) < 2:`, "a namespace without the label is left out"},

	// What is trusted in a pod.
	{"internal/workload/resolver.go", `	case lastCharged != "":
		return lastCharged
	case charged`, `	case lastCharged != "":
		queue = lastCharged
	case charged`, "what was charged stays when the queue leaves the namespace out"},
	{"internal/workload/resolver.go", `r.UsesOurScheduler(pod) && (group != nil || charged != "")`, `r.UsesOurScheduler(pod)`, "a pod of ours is not trusted without a record"},
	{"internal/workload/resolver.go", `r.UsesOurScheduler(pod) && (group != nil || charged != "")`, `r.UsesOurScheduler(pod) && group != nil`, "the record of our binding stays when the queue leaves the namespace out"},
	{"internal/workload/resolver.go", `r.UsesOurScheduler(pod) && (group != nil || charged != "")`, `r.UsesOurScheduler(pod) && charged != ""`, "a pod of ours in a PodGroup stays when the queue leaves the namespace out"},
	{"internal/workload/resolver.go", `r.UsesOurScheduler(pod) && (group != nil || charged != "")`, `(group != nil || charged != "")`, "another scheduler's pod is charged only to a queue that takes its namespace"},
	{"internal/workload/resolver.go", `		lastQueue = last.Queue`, `		lastQueue = ""`, "the queue charged last stays"},
	{"internal/workload/request.go", `request.denyUnknownResource(pod, unknown, r.UsesOurScheduler(pod))`, `request.denyUnknownResource(pod, unknown, true)`, "only a record of ours proves that a resource was a card"},
}

// Rules that random nodes and pods reach too rarely.
var rareChargeMutants = []mutant{
	{"internal/workload/resolver.go", `ok && known.Model != "" {`, `ok && known.Model == "none" {`, "of a node that names its model only that model's cards are withheld"},
}
