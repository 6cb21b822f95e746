package kubectl

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// CountedQuota is a CardQuota with a status.
func CountedQuota(name, tenant, serviceType string, cards ...v1alpha1.CardStatus) *builder.CardQuotaBuilder {
	b := builder.CardQuota(name).Tenant(tenant).ServiceType(serviceType)
	return b.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "ok").With(func(q *v1alpha1.CardQuota) {
		for _, card := range cards {
			q.Spec.Cards = append(q.Spec.Cards, v1alpha1.Card{Name: card.Name, Quota: ptr.To(card.Quota)})
		}
		q.Status.Cards = cards
		q.Status.Summary = "counted"
		q.Status.Queue = &v1alpha1.QueueStatus{Name: name, State: "Open"}
	})
}

// InTree puts a CardQuota into a tree.
func InTree(b *builder.CardQuotaBuilder, parent string) *builder.CardQuotaBuilder {
	return b.Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionTrue, v1alpha1.ReasonHierarchyValid, "ok").
		Parent(parent)
}

// FlatQuotas are four CardQuotas. llm-training uses 6 of 8 H200 and all of 3 slices, and llm-chat none of 8 H200. ads
// uses 6 of 4 Ascend-910B and is held. new is not observed yet.
func FlatQuotas() []client.Object {
	h200 := v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 4, Free: 2, Physical: 16}
	mig := v1alpha1.CardStatus{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Quota: 3, Used: 3, Physical: 14}
	over := v1alpha1.CardStatus{Name: "Ascend-910B", Quota: 4, Used: 6, OverQuotaBy: 2, Physical: 8}
	return []client.Object{
		CountedQuota("llm-training", "llm", "training", h200, mig).Obj(),
		CountedQuota("llm-chat", "llm", "inference", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 16}).Obj(),
		CountedQuota("ads", "ads", "training", over).
			Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeld, "stopPolicy Hold").Obj(),
		builder.CardQuota("new").Tenant("vision").Card("NVIDIA-H800", 2).Obj(),
	}
}

// Foretold are workloads of a forecast: the Volcano jobs or pods of namespace lab with some names, of which each has 2 H200,
// and further ones, which are not listed. All have the same message.
func Foretold(kind, message string, further int32, names ...string) *v1alpha1.ForecastWorkloads {
	total := int32(len(names)) + further
	list := &v1alpha1.ForecastWorkloads{Total: total, Cards: 2 * int64(total)}

	for i, name := range names {
		reference := v1alpha1.WorkloadReference{Kind: kind, Namespace: "lab", Name: name}
		if kind == "Job" {
			reference.APIGroup = "batch.volcano.sh"
		}

		list.Workloads = append(list.Workloads, v1alpha1.ForecastWorkload{
			Workload: reference, Card: "NVIDIA-H200", Count: 2, Since: TimeAgo(time.Duration(i) * time.Minute), Message: message,
		})
	}
	return list
}

// ObservedQuotas are FlatQuotas and a policy in mode Observe. In llm-training jobs train and tune would wait, and pod notebook
// names no queue. In llm-chat 12 gangs would be reclaimed. No CardQuota counts pod free, and ads and llm-chat both select
// namespace shared.
func ObservedQuotas() []client.Object {
	objects := FlatQuotas()
	for _, object := range objects {
		object.(*v1alpha1.CardQuota).Status.Mode = v1alpha1.ModeObserve
	}

	CardQuotaIn(objects, "llm-training").Status.Forecast = &v1alpha1.CardQuotaForecast{
		Waiting:      Foretold("Job", "Queue <llm-training> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <10>, but capability is <8>", 0, "train", "tune"),
		WithoutQueue: Foretold("Pod", "it needs the annotation scheduling.volcano.sh/queue-name: llm-training and schedulerName: volcano", 0, "notebook"),
	}
	CardQuotaIn(objects, "llm-chat").Status.Forecast = &v1alpha1.CardQuotaForecast{
		Reclaimed: Foretold("Job", "Job serve of namespace chat in queue chat waits for its cards", 2, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"),
	}

	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Mode = v1alpha1.ModeObserve
	policy.Status.Forecast = &v1alpha1.PolicyForecast{
		Unlimited:                Foretold("Pod", "it names no queue, and no CardQuota selects namespace lab with a namespaceSelector", 0, "free"),
		AmbiguousNamespacesTotal: 1,
		AmbiguousNamespaces:      []v1alpha1.AmbiguousNamespace{{Name: "shared", CardQuotas: []string{"ads", "llm-chat"}}},
	}
	return append(objects, policy)
}

// TreeQuotas are CardQuota institute, which has used all of its 8 H800, and its children: astronomy uses 6, of which 2 are
// borrowed, and biology uses 2. All have a quota of 8.
func TreeQuotas() []client.Object {
	h800 := func(quota, deserved, used, borrowed int64) v1alpha1.CardStatus {
		return v1alpha1.CardStatus{Name: "NVIDIA-H800", Quota: quota, Deserved: deserved, Used: used, Borrowed: borrowed, Free: quota - used, Physical: 8}
	}
	return []client.Object{
		InTree(CountedQuota("institute", "science", "", h800(8, 8, 8, 0)), "").Obj(),
		InTree(CountedQuota("astronomy", "science", "training", h800(8, 4, 6, 2)), "institute").Obj(),
		InTree(CountedQuota("biology", "science", "inference", h800(8, 4, 2, 0)), "institute").Obj(),
	}
}

// LocalQuota is LocalCardQuota lab/llm, the view of a tenant on queue llm: 3 of 4 H200 are used, and 2 are requested by workloads
// that wait.
func LocalQuota() *v1alpha1.LocalCardQuota {
	local := &v1alpha1.LocalCardQuota{Status: v1alpha1.LocalCardQuotaStatus{
		Queue: "llm", State: "Open", ServiceType: "training", Summary: "3/4 NVIDIA-H200", PendingSummary: "2 NVIDIA-H200",
		BlockedTotal: 1, BlockedElsewhere: 2,
		Cards: []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 4, Used: 3, Pending: 2, Free: 1, Physical: 8}},
	}}
	local.Namespace = "lab"
	local.Name = "llm"
	return local
}

// InventoryWith is the CardInventory with one card.
func InventoryWith(card v1alpha1.InventoryCard) *v1alpha1.CardInventory {
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Summary: "counted", Cards: []v1alpha1.InventoryCard{card}}}
	inventory.Name = v1alpha1.InventoryName
	return inventory
}

// CardQuotaIn returns the CardQuota of a name, one of the objects, to be changed.
func CardQuotaIn(objects []client.Object, name string) *v1alpha1.CardQuota {
	at := slices.IndexFunc(objects, func(object client.Object) bool {
		_, isQuota := object.(*v1alpha1.CardQuota)
		return isQuota && object.GetName() == name
	})
	return objects[at].(*v1alpha1.CardQuota)
}

// ClusterWithoutCardQuotas has a node of 8 H200. Two running pods of queue research use 2 cards each, and a third one waits
// for 8. Queue chat has a quota of 4, and queue default nothing.
func ClusterWithoutCardQuotas() []client.Object {
	objects := []client.Object{
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Queue("research").Capability("256", "2Ti").Obj(),
		builder.Queue("chat").Quota(`{"NVIDIA-H200":4}`).ServiceType("inference").Obj(),
		builder.Queue("default").Obj(),
		builder.Queue("root").Obj(),
	}

	for _, pod := range builder.Pod("lab", "train").Queue("research").GPUs(2).Running("h200-0").Copies(2) {
		// As the API server records it for a pod that a scheduler bound.
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)},
		}}
		objects = append(objects, pod)
	}

	objects = append(objects, builder.Pod("lab", "waits").Queue("research").Card("NVIDIA-H200").GPUs(8).Obj(),
		builder.Pod("lab", "done").Queue("research").GPUs(4).Node("h200-0").Phase(corev1.PodSucceeded).Obj())
	return objects
}

// FleetWithFaults has five nodes. h200-0 has 8 H200, of which pods use 5. h200-1 has 8 and is not ready. mig-0 has 14
// slices and is cordoned. new-0 has 8 cards that no label names, and cpu-0 has none. The CardInventory has counted
// them.
func FleetWithFaults() []client.Object {
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{
		Nodes: 4, AnomaliesTotal: 2,
		Cards: []v1alpha1.InventoryCard{
			{
				Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 16, Healthy: 8, Allocated: 5, Quota: 12, OverAllocatedBy: 4,
				ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "inference", Quota: 4, Used: 1}, {Name: "training", Quota: 8, Used: 4}},
			},
			{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Resources: []string{"nvidia.com/mig-1g.18gb"}, Total: 14, Healthy: 14, Cordoned: 14, Quota: 3},
		},
		Anomalies: []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, NodesTotal: 1, Nodes: []string{"new-0"},
			Message: "node new-0: offers nvidia.com/gpu but no label nvidia.com/<type>.product with nvidia.com/<type>.memory names the card; no pod gets it: add these labels to the nodes"}},
	}}

	inventory.Name = v1alpha1.InventoryName
	return []client.Object{
		inventory,
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).NotReady().Obj(),
		builder.Node("mig-0").GPUs("NVIDIA-H200", 2).MIG("1g.18gb", 14).Cordoned().Obj(),
		builder.Node("new-0").Resource("nvidia.com/gpu", "8").Obj(),
		builder.Node("cpu-0").Obj(),
		builder.Pod("lab", "a").Queue("q").GPUs(4).Running("h200-0").Obj(),
		builder.Pod("lab", "b").GPUs(1).Running("h200-0").Obj(),
		builder.Pod("lab", "done").GPUs(8).Node("h200-1").Phase(corev1.PodSucceeded).Obj(),
	}
}

// Deployment is a Deployment of one of the programs, with all replicas ready.
func Deployment(program, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: program, Labels: map[string]string{"app.kubernetes.io/name": program}},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1)), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: strings.TrimPrefix(program, "cardquota-"), Image: image}}}}},
		Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
	}
}

// PolicyWithScheduler is a ServiceTypePolicy whose scheduler reports a version.
func PolicyWithScheduler(version string) *v1alpha1.ServiceTypePolicy {
	return builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) {
		p.Status.Scheduler = &v1alpha1.SchedulerStatus{Identity: "scheduler-0_a", Version: version}
	}).Obj()
}

// TwoNodesWithTraining has nodes h200-0 and h200-1 of 8 H200. On h200-0 runs job train of queue research: two pods of 4
// cards, with a checkpoint 90 minutes ago. Queue research has a quota of 16 and is reclaimable. Queue chat, of
// inference, has a quota of 12, uses nothing, and is not reclaimable.
func TwoNodesWithTraining() []client.Object {
	chat := builder.Queue("chat-queue").Quota(`{"NVIDIA-H200":12}`).ServiceType("inference").Capability("64", "1Ti").Priority(80000).Obj()
	research := builder.Queue("research").Quota(`{"NVIDIA-H200":16}`).ServiceType("training").Capability("64", "1Ti").Priority(20000).Obj()
	chat.Name = "chat"
	chat.Spec.Reclaimable = ptr.To(false)
	research.Spec.Reclaimable = ptr.To(true)

	objects := []client.Object{
		builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), builder.Node("h200-1").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Queue("root").Obj(), builder.Queue("default").Obj(), chat, research,
		builder.CardQuota("research-quota").Queue("research").Obj(),
	}

	pod := builder.Pod("lab", "train").Scheduler("volcano").Card("NVIDIA-H200").GPUs(4).CPU("1").Memory("1Gi")
	job := builder.Gang("lab", "train", 2, pod).Queue("research").Obj()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		panic(err)
	}

	manifest := &unstructured.Unstructured{Object: content}
	manifest.SetAPIVersion("batch.volcano.sh/v1alpha1")
	manifest.SetKind("Job")
	made, err := simulation.NewWorkloads(&simulation.Cluster{
		Schedulers: []string{"volcano"}, Namespaces: []*corev1.Namespace{builder.Namespace("lab")}, Queues: []*v1beta1.Queue{research},
	}, []*unstructured.Unstructured{manifest}, "lab")
	if err != nil {
		panic(err)
	}

	made[0].Group.Status.Phase = v1beta1.PodGroupRunning
	made[0].Group.Annotations = map[string]string{v1alpha1.AnnotationCheckpointTime: At.Add(-90 * time.Minute).Format(time.RFC3339)}
	objects = append(objects, job, made[0].Group)
	for _, pod := range made[0].Pods {
		began := metav1.NewTime(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)) // longer than the minimum runtime on any clock
		pod.Spec.NodeName = "h200-0"
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = &began
		objects = append(objects, pod)
	}

	return objects
}

// ClusterWithOneFreeCard has node h200-0 with 8 H200, of which pods use 7: job runs of namespace lab 3, and a pod of
// namespace ads 4. Queue llm has a quota of 4 H200 and uses 3; queue roomy has a quota of 8 and uses none. Pods of lab
// wait for 2 H200 each: quota-0 in llm for quota, full-0 in roomy for cards, new-0 in roomy and not tried yet,
// stopped-0 in a closed queue. PodGroup early of llm requests 6 and has no pods. Status.blocked of the CardQuotas is
// empty.
func ClusterWithOneFreeCard() []client.Object {
	pod := func(name, queue, owner string) *builder.PodBuilder {
		return NewPod(name, queue, 2).Owner("batch.volcano.sh/v1alpha1", "Job", owner).Created(At.Add(-5 * time.Minute))
	}

	policy := PolicyWithScheduler("v0.2.0")
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 8, Healthy: 8, Allocated: 7}}}}

	inventory.Name = v1alpha1.InventoryName
	return []client.Object{
		policy, inventory, builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), builder.Queue("free").Obj(),
		CountedQuota("llm", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 3, Free: 1, Physical: 8}).Obj(),
		CountedQuota("roomy", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj(),
		pod("quota-0", "llm", "quota").Unschedulable(SaysQuota).Obj(),
		pod("full-0", "roomy", "full").Unschedulable(SaysFull).Obj(),
		pod("new-0", "roomy", "new").Obj(),
		builder.Queue("closed").State(v1beta1.QueueStateClosed).Obj(),
		pod("stopped-0", "closed", "stopped").Unschedulable("Queue <closed> is Closed, not Open").Obj(),
		pod("runs-0", "llm", "runs").GPUs(3).Running("h200-0").Obj(),
		builder.Pod("ads", "secret-0").Queue("ads").GPUs(4).Running("h200-0").Obj(),
		builder.Pod("lab", "elsewhere").GPUs(1).Scheduler("default-scheduler").Obj(),
		builder.Pod("lab", "gated").GPUs(1).Gated().Obj(),
		builder.PodGroup("lab", "early").Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "early").
			Request(`{"NVIDIA-H200":6}`).Phase(v1beta1.PodGroupPending).
			Unschedulable("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <6>, total would be <9>, but capability is <4>").Obj(),
	}
}

// What the scheduler states about a pod of 2 H200 in queue llm, which uses 3 of 4, and about one that no node has cards for.
const (
	SaysQuota = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>"
	SaysFull  = "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu."
)

// NewPod is a pod of namespace lab that requests H200.
func NewPod(name, queue string, cards int) *builder.PodBuilder {
	return builder.Pod("lab", name).Queue(queue).Card("NVIDIA-H200").GPUs(cards)
}

// WaitingCluster is that of docs/kubectl.md: a tree in which the quota of a parent is exhausted, and
// another card is free.
func WaitingCluster() []client.Object {
	objects := ClusterWithOneFreeCard()[2:]
	CardQuotaIn(objects, "llm").Spec.Parent = "institute"

	gpu := []string{"nvidia.com/gpu"}
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "NVIDIA-H200", Resources: gpu, Total: 8, Healthy: 8, Allocated: 7}, {Name: "NVIDIA-H800", Resources: gpu, Total: 8, Healthy: 8}}}}

	inventory.Name = v1alpha1.InventoryName
	policy := PolicyWithScheduler("v0.2.0")
	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}

	h800 := v1alpha1.CardStatus{Name: "NVIDIA-H800", Quota: 6, Free: 6, Physical: 8}
	return append(objects, inventory, policy, builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Obj(),
		InTree(CountedQuota("institute", "science", "", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 3, Free: 1, Physical: 8}, h800), "").Obj(),
		InTree(CountedQuota("astronomy", "science", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 1, Free: 3, Physical: 8}, h800), "institute").Obj(),
		NewPod("train-0", "astronomy", 2).Owner("batch.volcano.sh/v1alpha1", "Job", "train").Created(At.Add(-12*time.Minute)).
			Unschedulable("Queue <institute>, an ancestor of <astronomy>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>").Obj())
}

// StoredSums are the ConfigMaps of an operator that has counted from 2026-09-29 until now, 2026-11-23, in the zone of Berlin.
// Tenant lab uses 3 H200 and 2 slices all the time, chat 8 H200 from 8 to 20 o'clock, and a pod without a queue one H200 on
// 2026-10-05.
func StoredSums(t *testing.T) []client.Object {
	zone := check.Value(time.LoadLocation("Europe/Berlin"))(t)

	lab := cardseconds.Series{Tenant: "lab", Project: "llm", Queue: "lab-llm", ServiceType: "training", Card: "NVIDIA-H200"}
	chat := cardseconds.Series{Tenant: "chat", Project: "assistant", Queue: "chat", ServiceType: "inference", Card: "NVIDIA-H200"}
	slices := cardseconds.Series{Tenant: "lab", Project: "vision", Queue: "lab-vision", ServiceType: "training", Card: "NVIDIA-H200/mig-1g.18gb-mixed"}
	outside := cardseconds.Series{Namespace: "default", ServiceType: "none", Card: "NVIDIA-H200"}
	m := &cardseconds.Meter{}
	entries := map[string][]byte{}
	m.SetZone(zone)

	begin := time.Date(2026, 9, 29, 12, 0, 0, 0, zone)
	for now := begin; !now.After(At); now = now.Add(2 * time.Minute) {
		counts := map[cardseconds.Series]card.Count{lab: 3, slices: 2}
		if local := now.In(zone); local.Hour() >= 8 && local.Hour() < 20 {
			counts[chat] = 8
		}
		if now.In(zone).Format(cardseconds.DayLayout) == "2026-10-05" {
			counts[outside] = 1
		}

		m.SetCounts(now, counts)
		m.AddUncounted(nil)
		m.Place()
		for _, period := range m.ClosablePeriods(0, now) {
			if period == "2026-11-22" {
				continue // its entry could not be written yet
			}

			key := cardseconds.EntryKey{Period: period, Part: 0}
			entries[key.String()] = m.Entry(key)
			m.Close(key)
		}
	}

	configMap := func(number int) *corev1.ConfigMap {
		meta := metav1.ObjectMeta{Namespace: "volcano-system", Name: cardseconds.ConfigMapName(number), Labels: cardseconds.ConfigMapLabels()}
		return &corev1.ConfigMap{ObjectMeta: meta}
	}

	running := configMap(0)
	archived := configMap(cardseconds.Parts)
	running.Data = map[string]string{cardseconds.TextKey: m.Texts()[0].Text, cardseconds.WriterKey: "manager"}
	archived.BinaryData = entries
	return []client.Object{running, archived}
}

// ForeignCluster is a cluster on which Cardquota was never installed, with pods of Kubernetes' own scheduler. Labels say
// that node h200-0 has 8 H200. No label names the 8 cards of node new-0, and the H200 of h200-1 are lost, because the
// node is not ready. Pods of namespace lab use 4 H200, and one waits for 8. One of web uses 2 cards of new-0, and one of
// ops uses amd.com/gpu of a node that is gone.
func ForeignCluster() []client.Object {
	pod := func(namespace, name string) *builder.PodBuilder {
		return builder.Pod(namespace, name).Scheduler("default-scheduler")
	}

	objects := []client.Object{
		builder.Namespace("lab"), builder.Namespace("web"), builder.Namespace("ops"),
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).NotReady().Obj(),
		builder.Node("new-0").GPUs("", 8).Obj(),
		builder.Node("cpu-0").Obj(),
		pod("lab", "waits").GPUs(8).Obj(),
		pod("lab", "done").GPUs(8).Node("h200-0").Phase(corev1.PodSucceeded).Obj(),
		pod("web", "serve").GPUs(2).Running("new-0").Obj(),
		pod("ops", "old").Requests("amd.com/gpu", "1").Running("gone-0").Obj(),
	}
	for _, train := range pod("lab", "train").GPUs(2).Running("h200-0").Copies(2) {
		objects = append(objects, train)
	}
	return objects
}
