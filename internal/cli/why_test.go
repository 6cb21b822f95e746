package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// clusterWithOneFreeCard has node h200-0 with 8 H200, of which pods hold 7: job runs of namespace lab 3, and a pod of
// namespace ads 4. Queue llm has a quota of 4 H200 and uses 3; queue roomy has a quota of 8 and uses none. Pods of lab
// wait for 2 H200 each: quota-0 in llm for quota, full-0 in roomy for cards, new-0 in roomy and not tried yet,
// stopped-0 in a closed queue. PodGroup early of llm requests 6 and has no pods. Status.blocked of the CardQuotas is
// empty.
func clusterWithOneFreeCard() []client.Object {
	pod := func(name, queue, owner string) *builder.PodBuilder {
		return newPod(name, queue, 2).Owner("batch.volcano.sh/v1alpha1", "Job", owner).Created(at.Add(-5 * time.Minute))
	}

	policy := policyWithScheduler("v0.2.0")
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 8, Healthy: 8, Allocated: 7}}}}

	inventory.Name = v1alpha1.InventoryName
	return []client.Object{
		policy, inventory, builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), builder.Queue("free").Obj(),
		countedQuota("llm", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 3, Free: 1, Physical: 8}).Obj(),
		countedQuota("roomy", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj(),
		pod("quota-0", "llm", "quota").Unschedulable(saysQuota).Obj(),
		pod("full-0", "roomy", "full").Unschedulable(saysFull).Obj(),
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
	saysQuota = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>"
	saysFull  = "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu."
)

// newPod is a pod of namespace lab that requests H200.
func newPod(name, queue string, cards int) *builder.PodBuilder {
	return builder.Pod("lab", name).Queue(queue).Card("NVIDIA-H200").GPUs(cards)
}

// whyInLab returns what "kubectl cardquota why -n lab" prints about a workload, in one line.
func whyInLab(t *testing.T, objects []client.Object, workload string) string {
	return execute(t, objects, mayReadAll, "why -n lab "+workload).oneLine()
}

// TestWhyExplainsPodsJobsAndPodGroups: the golden files have the explanations of what waits in clusterWithOneFreeCard,
// by the name of a pod, a job or a PodGroup. Pod elsewhere names another scheduler, and pod gated has a scheduling
// gate. The exit code says whether the workload waits. A tenant, who may not list nodes, reads no name of a workload of
// another namespace (secret).
func TestWhyExplainsPodsJobsAndPodGroups(t *testing.T) {
	noNodes := forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{})

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		command   string
		wantCode  int
	}{
		"quota":         {mayReadAll, "why -n lab quota-0", exitWaits},
		"job":           {mayReadAll, "why -n lab vcjob/quota", exitWaits},
		"full":          {mayReadAll, "why -n lab full-0", exitWaits},
		"full-yaml":     {mayReadAll, "why -n lab full-0 -o yaml", exitWaits},
		"tenant":        {noNodes, "why -n lab full-0", exitWaits},
		"tenant-quota":  {noNodes, "why -n lab pod quota-0", exitWaits},
		"untried":       {mayReadAll, "why -n lab pod/new-0", exitWaits},
		"runs":          {mayReadAll, "why -n lab job.batch.volcano.sh runs", exitOK},
		"elsewhere":     {mayReadAll, "why -n lab elsewhere", exitWaits},
		"gated":         {mayReadAll, "why -n lab gated", exitWaits},
		"without-pods":  {mayReadAll, "why -n lab job/early", exitWaits},
		"queue-closed":  {mayReadAll, "why -n lab stopped-0", exitWaits},
		"podgroup-only": {mayReadAll, "why -n lab podgroup early", exitWaits},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, clusterWithOneFreeCard(), tc.intercept, tc.command).exits(tc.wantCode).reportsNothing().matchesGolden("why-" + name)
			if !strings.HasSuffix(tc.command, "yaml") {
				r.fitsTerminal()
			}
			if strings.HasPrefix(name, "tenant") {
				r.lacks("secret")
			}
		})
	}
}

// TestWhyReadsTheFleetOnlyForWhatWaits: all nodes and the pods of all namespaces are many objects. Why lists them only
// for a workload that waits for cards: not for one that runs, has another scheduler, or has a scheduling gate.
func TestWhyReadsTheFleetOnlyForWhatWaits(t *testing.T) {
	for asked, want := range map[string]bool{
		"job.batch.volcano.sh/runs": false,
		"elsewhere":                 false,
		"gated":                     false,
		"quota-0":                   true,
		"job/early":                 true,
	} {
		readsFleet := false
		intercept := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			isOfFleet := sameKind(c, list, &corev1.NodeList{}) || sameKind(c, list, &corev1.PodList{}) || sameKind(c, list, &v1beta1.PodGroupList{})
			readsFleet = readsFleet || (isOfFleet && (&client.ListOptions{}).ApplyOptions(options).Namespace == "")
			return c.List(ctx, list, options...)
		}}

		execute(t, clusterWithOneFreeCard(), intercept, "why -n lab "+asked).reportsNothing()
		check.Equal(t, asked+" reads the fleet", want, readsFleet)
	}
}

// TestWhyWithoutThePolicyKnowsMappedCards: the policy maps amd.com/gpu to AMD-MI300X, and the user may not read it. The
// CardInventory lists the card too, with 8 of 8 in use. So why knows that the pod waits for free cards, not that the card is
// unknown, and says what the user may not read.
func TestWhyWithoutThePolicyKnowsMappedCards(t *testing.T) {
	const resource = "amd.com/gpu"
	objects := append(clusterWithOneFreeCard(), builder.Node("amd-0").Resource(resource, "8").Obj(),
		builder.Pod("lab", "amd-0").Queue("roomy").Card("AMD-MI300X").Requests(resource, "2").
			Unschedulable("0/2 nodes are unavailable: 2 Insufficient amd.com/gpu.").Obj())
	objects[0].(*v1alpha1.ServiceTypePolicy).Spec.Cards = []v1alpha1.CardMapping{{Resource: resource, Model: "AMD-MI300X"}}
	inventory := objects[1].(*v1alpha1.CardInventory)
	inventory.Status.Cards = append(inventory.Status.Cards,
		v1alpha1.InventoryCard{Name: "AMD-MI300X", Resources: []string{resource}, Total: 8, Healthy: 8, Allocated: 8})

	noPolicy := forbidGet[*v1alpha1.ServiceTypePolicy](v1alpha1.GroupVersion.WithResource("servicetypepolicies").GroupResource())
	execute(t, objects, noPolicy, "why -n lab amd-0").
		prints("waits for 2 AMD-MI300X", "(NoFreeCard)", "may not get servicetypepolicies").
		lacks("UnknownCard")
}

// TestWhyFindsTheReplicaSetOfADeployment: pods of a Deployment belong to its ReplicaSets, here web-abc and web-def, but
// status.blocked has the Deployment. A user may name either. ReplicaSet web does not exist.
func TestWhyFindsTheReplicaSetOfADeployment(t *testing.T) {
	podOf := func(hash string) client.Object {
		pod := newPod("web-"+hash+"-0", "roomy", 2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash)
		return pod.Unschedulable(saysFull).Obj()
	}
	objects := append(clusterWithOneFreeCard(), podOf("abc"), podOf("def"))

	for _, name := range []string{"rs/web-abc", "replicaset.apps/web-abc"} {
		execute(t, objects, mayReadAll, "why -n lab "+name).exits(exitWaits).prints("Deployment lab/web waits for 2 NVIDIA-H200", "NoFreeCard")
	}
	execute(t, objects, mayReadAll, "why -n lab rs/web").reports("has no pod and no PodGroup of ReplicaSet web")
}

// TestWhyExplainsTheWorkloadThatWaits: a name may stand for several workloads of the namespace: job/x for a Job of Kubernetes
// and a Volcano job, pg/shared for all workloads with pods in this PodGroup. If exactly one of them waits, the user means that
// one. If both or none of two jobs wait, the user must name the kind of job. Of a PodGroup the first workload is explained, and
// the others are named.
func TestWhyExplainsTheWorkloadThatWaits(t *testing.T) {
	const (
		ofKubernetes = "batch/v1"
		ofVolcano    = "batch.volcano.sh/v1alpha1"
	)
	waiting := func(pod, apiVersion, job string) client.Object { // for cards
		return newPod(pod, "roomy", 2).PodGroup("shared").Owner(apiVersion, "Job", job).Unschedulable(saysFull).Obj()
	}
	running := func(pod, apiVersion, job string) client.Object {
		return newPod(pod, "roomy", 1).PodGroup("shared").Owner(apiVersion, "Job", job).Running("h200-0").Obj()
	}
	podless := func(phase v1beta1.PodGroupPhase) client.Object { // Volcano job x, which waits for quota
		return builder.PodGroup("lab", "podless").Queue("roomy").Owner(ofVolcano, "Job", "x").Request(`{"NVIDIA-H200":9}`).Phase(phase).
			Unschedulable("Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <9>, total would be <9>, but capability is <8>").Obj()
	}

	for t, tc := range check.Cases(t, map[string]struct {
		objects  []client.Object
		asked    string
		wantCode int
		want     []string
	}{
		"Volcano job x waits, Job x runs": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "x")}, "job/x", exitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200 in queue roomy", "(NoFreeCard)"},
		},
		"Volcano job x waits without pods, Job x runs": {
			[]client.Object{podless("Pending"), running("z-0", ofKubernetes, "x")}, "job/x", exitWaits,
			[]string{"waits for 9 NVIDIA-H200", "(QuotaExhausted)"},
		},
		"Volcano job x has ended, Job x waits": {
			[]client.Object{podless("Completed"), waiting("z-0", ofKubernetes, "x")}, "job/x", exitWaits,
			[]string{"waits for 2 NVIDIA-H200", "(NoFreeCard)"},
		},
		"Volcano job x and Job x wait": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofKubernetes, "x")}, "job/x", exitError,
			[]string{"more than one Job x: write job.batch/x or vcjob/x"},
		},
		"Volcano job x and Job x run": {
			[]client.Object{running("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "x")}, "job/x", exitError,
			[]string{"write job.batch/x or vcjob/x"},
		},
		"the user names Job x, which runs": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "x")}, "job.batch/x", exitOK,
			[]string{"1 pod has its place"},
		},
		"the user names Volcano job x, and both wait": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofKubernetes, "x")}, "vcjob/x", exitWaits,
			[]string{"waits for 2 NVIDIA-H200"},
		},
		"a PodGroup of x, which waits, and y, which runs": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "y")}, "pg/shared", exitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200", "Other workloads of the PodGroup: Job lab/y."},
		},
		"a PodGroup of x and y, which wait": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofKubernetes, "y")}, "pg/shared", exitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200", "Other workloads of the PodGroup: Job lab/y."},
		},
		"a PodGroup of x and y, which run": {
			[]client.Object{running("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "y")}, "pg/shared", exitOK,
			[]string{"Job lab/x does not wait: 1 pod has its place. Other workloads of the PodGroup: Job lab/y."},
		},
	}) {
		objects := append(clusterWithOneFreeCard(), builder.PodGroup("lab", "shared").Queue("roomy").Phase(v1beta1.PodGroupInqueue).Obj())
		execute(t, append(objects, tc.objects...), mayReadAll, "why -n lab "+tc.asked).exits(tc.wantCode).says(tc.want...)
	}
}

// TestWhyTakesThePluralOfEachKind: as kubectl does, "pods x" is "pod x".
func TestWhyTakesThePluralOfEachKind(t *testing.T) {
	for _, found := range targetKinds {
		_, known := targetKinds[strings.ToLower(found.kind)+"s"]
		check.That(t, known, "the plural of %s is unknown", found.kind)
	}
}

// TestWhyAgreesWithTheStatus: pod quota-0 of job quota states that the quota of queue llm is exhausted. But
// status.blocked of CardQuota llm lists the job with reason CardsTerminating. Users compare both, so why shows the
// reason of the status.
func TestWhyAgreesWithTheStatus(t *testing.T) {
	objects := clusterWithOneFreeCard()
	job := v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "quota"}
	cardQuotaIn(objects, "llm").Status.Blocked = []v1alpha1.BlockedStatus{
		{Workload: job, Since: timeAgo(time.Hour), Card: "NVIDIA-H200", Count: 2, Reason: v1alpha1.BlockedCardsTerminating},
	}
	check.Contains(t, "why", whyInLab(t, objects, "quota-0"), "(CardsTerminating)")
}

// TestWhyExplainsWhatTheStatusHasNoPlaceFor: status.blocked lists ten workloads at most, here ten others. Pod quota-0
// waits for 2 H200 in queue llm, in which job runs uses 3 of 4. Why finds the same reason and holder by itself.
func TestWhyExplainsWhatTheStatusHasNoPlaceFor(t *testing.T) {
	objects := clusterWithOneFreeCard()
	status := &cardQuotaIn(objects, "llm").Status
	for i := range 10 {
		other := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: fmt.Sprint("w", i)}
		status.Blocked = append(status.Blocked, v1alpha1.BlockedStatus{Workload: other, Since: timeAgo(time.Hour), Reason: "NoQuota"})
	}
	check.Contains(t, "why", whyInLab(t, objects, "quota-0"), "(QuotaExhausted)", "Job lab/runs")
}

// TestWhyOfAGangShowsWhatItLacks: of a gang of three pods, j-0 has a place once the gang is complete (GangIncomplete).
// j-1 finds too few free cards (NoFreeCard), and j-2 repeats the reason of j-1. The job waits for the cards, whatever
// order status.blocked has, and why shows who holds these cards (HOLDS). If status.blocked lists the job, a tenant reads
// the same reasons.
func TestWhyOfAGangShowsWhatItLacks(t *testing.T) {
	const (
		saysPlaced = "Pod lab/j-0 can possibly be assigned to h200-0, once minAvailable is satisfied"
		saysFew    = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
		saysSame   = "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Schedulable, 2 Unschedulable. Origin reason is j-1: " + saysFew
	)
	pod := func(name, message string) client.Object {
		return newPod(name, "roomy", 2).Owner("batch.volcano.sh/v1alpha1", "Job", "j").Created(at.Add(-5 * time.Minute)).Unschedulable(message).Obj()
	}

	gang := v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "j"}
	incomplete := v1alpha1.BlockedStatus{Workload: gang, Card: "NVIDIA-H200", Count: 2, Reason: v1alpha1.BlockedGangIncomplete, Message: saysPlaced}
	lacksCards := v1alpha1.BlockedStatus{
		Workload: gang, Card: "NVIDIA-H200", Count: 4, Reason: v1alpha1.BlockedNoFreeCard, Message: saysFew,
		Holders: []v1alpha1.CardHolder{{ServiceType: "training", Card: "NVIDIA-H200", Count: 3}},
	}

	for t, listed := range check.Cases(t, map[string][]v1alpha1.BlockedStatus{
		"the lacking cards are listed first":                        {lacksCards, incomplete},
		"the lacking cards are listed last, by an earlier operator": {incomplete, lacksCards},
		"not listed": nil,
	}) {
		local := localQuota()
		local.Status.Queue = "roomy"
		local.Status.Blocked = listed
		objects := append(clusterWithOneFreeCard(), pod("j-0", saysPlaced), pod("j-1", saysFew), pod("j-2", saysSame), local)
		cardQuotaIn(objects, "roomy").Status.Blocked = listed

		for asked, wants := range map[string][]string{
			"j-0":     {"(GangIncomplete)"},
			"j-1":     {"(NoFreeCard)", "HOLDS"},
			"j-2":     {"(NoFreeCard)", "HOLDS"},
			"vcjob/j": {"(NoFreeCard)", "HOLDS"},
		} {
			execute(t, objects, mayReadAll, "why -n lab "+asked).prints(wants...)
			if listed != nil {
				execute(t, objects, forbidCluster("lab"), "why -n lab "+asked).prints(wants[0])
			}
		}
	}
}

// TestWhyOfATenantUsesItsLocalCardQuota: a user with a RoleBinding in namespace lab may read no CardQuota, but the
// LocalCardQuota of its queue. If that lists the job, why shows the entry, else what the scheduler states about the
// pod. Both say that the quota is exhausted.
func TestWhyOfATenantUsesItsLocalCardQuota(t *testing.T) {
	unlisted := localQuota()
	listed := localQuota()
	listed.Status.Blocked = []v1alpha1.BlockedStatus{{
		Workload: v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "quota"},
		Since:    timeAgo(5 * time.Minute), Card: "NVIDIA-H200", Count: 2,
		Reason: v1alpha1.BlockedQuotaExhausted, Message: "Queue <llm> has insufficient <NVIDIA-H200> quota",
		Holders: []v1alpha1.CardHolder{{ServiceType: "training", Card: "NVIDIA-H200", Count: 3}},
	}}

	for golden, local := range map[string]client.Object{"why-local": listed, "why-local-unlisted": unlisted} {
		execute(t, append(clusterWithOneFreeCard(), local), forbidCluster("lab"), "why quota-0 -n lab").
			exits(exitWaits).reportsNothing().matchesGolden(golden).
			prints("(QuotaExhausted)", "quota of llm", "3/4 NVIDIA-H200 used, 1 free")
	}
}

// TestWhyRefusesWhatIsNoWorkload: the error says what the user may write, or which command answers the question.
func TestWhyRefusesWhatIsNoWorkload(t *testing.T) {
	for words, want := range map[string]string{
		"gone":           "namespace lab has no pod and no PodGroup of Pod gone",
		"pod/":           "names no workload",
		"":               "which workload? Write a pod, KIND/NAME or KIND NAME",
		"pod a b":        "why explains one workload, and these are 3 words",
		"deploment/chat": "created pods: did you mean deployment?",
		"node/h200-0":    "a node does not wait: kubectl cardquota inventory --nodes shows its cards",
		"cardq llm":      "a quota does not wait: kubectl cardquota top shows what it uses",
		"ns/lab":         "a namespace does not wait: name a workload, and the namespace with -n",
	} {
		execute(t, clusterWithOneFreeCard(), mayReadAll, "why -n lab "+words).exits(exitError).printsNothing().reports(want)
	}
}

// waitingCluster is that of docs/kubectl.md: a tree in which the quota of a parent is exhausted, and
// another card is free.
func waitingCluster() []client.Object {
	objects := clusterWithOneFreeCard()[2:]
	cardQuotaIn(objects, "llm").Spec.Parent = "institute"

	gpu := []string{"nvidia.com/gpu"}
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "NVIDIA-H200", Resources: gpu, Total: 8, Healthy: 8, Allocated: 7}, {Name: "NVIDIA-H800", Resources: gpu, Total: 8, Healthy: 8}}}}

	inventory.Name = v1alpha1.InventoryName
	policy := policyWithScheduler("v0.2.0")
	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}

	h800 := v1alpha1.CardStatus{Name: "NVIDIA-H800", Quota: 6, Free: 6, Physical: 8}
	return append(objects, inventory, policy, builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Obj(),
		inTree(countedQuota("institute", "science", "", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 3, Free: 1, Physical: 8}, h800), "").Obj(),
		inTree(countedQuota("astronomy", "science", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 1, Free: 3, Physical: 8}, h800), "institute").Obj(),
		newPod("train-0", "astronomy", 2).Owner("batch.volcano.sh/v1alpha1", "Job", "train").Created(at.Add(-12*time.Minute)).
			Unschedulable("Queue <institute>, an ancestor of <astronomy>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>").Obj())
}
