package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

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

// busyCluster is a cluster in which pods of lab wait for several reasons, while jobs of lab and ads
// hold the cards. Its CardQuota lists no blocked workload.
func busyCluster() []client.Object {
	pod := func(name, queue, owner string) *builder.PodBuilder {
		return builder.Pod("lab", name).Queue(queue).Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", owner).Created(at.Add(-5 * 60e9))
	}

	policy := policyOf("v0.2.0")
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 8, Healthy: 8, Allocated: 7}}}}

	inventory.Name = v1alpha1.InventoryName
	return []client.Object{
		policy, inventory, builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), builder.Queue("free").Obj(),
		counted("llm", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 3, Free: 1, Physical: 8}).Obj(),
		counted("roomy", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj(),
		pod("quota-0", "llm", "quota").Unschedulable("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>").Obj(),
		pod("full-0", "roomy", "full").Unschedulable("0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.").Obj(),
		pod("new-0", "roomy", "new").Obj(),
		builder.Queue("closed").State(v1beta1.QueueStateClosed).Obj(),
		pod("stopped-0", "closed", "stopped").Unschedulable("Queue <closed> is Closed, not Open").Obj(),
		pod("runs-0", "llm", "runs").GPUs(3).Running("h200-0").Obj(),
		builder.Pod("ads", "secret-0").Queue("ads").GPUs(4).Running("h200-0").Obj(),
		builder.Pod("lab", "elsewhere").GPUs(1).Scheduler("default-scheduler").Obj(),
		builder.Pod("lab", "gated").GPUs(1).Gated().Obj(),
		builder.PodGroup("lab", "early").Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "early").Request(`{"NVIDIA-H200":6}`).Phase(v1beta1.PodGroupPending).
			Unschedulable("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <6>, total would be <9>, but capability is <4>").Obj(),
	}
}

func TestWhy(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		args      string
		code      int
	}{
		"quota":         {interceptor.Funcs{}, "quota-0", exitWaits},
		"job":           {interceptor.Funcs{}, "vcjob/quota", exitWaits},
		"full":          {interceptor.Funcs{}, "full-0", exitWaits},
		"full-yaml":     {interceptor.Funcs{}, "full-0 -o yaml", exitWaits},
		"tenant":        {forbid(nodes, &corev1.NodeList{}), "full-0", exitWaits},
		"tenant-quota":  {forbid(nodes, &corev1.NodeList{}), "pod quota-0", exitWaits},
		"untried":       {interceptor.Funcs{}, "pod/new-0", exitWaits},
		"runs":          {interceptor.Funcs{}, "job.batch.volcano.sh runs", exitOK},
		"elsewhere":     {interceptor.Funcs{}, "elsewhere", exitWaits},
		"gated":         {interceptor.Funcs{}, "gated", exitWaits},
		"without-pods":  {interceptor.Funcs{}, "job/early", exitWaits},
		"queue-closed":  {interceptor.Funcs{}, "stopped-0", exitWaits},
		"podgroup-only": {interceptor.Funcs{}, "podgroup early", exitWaits},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, busyCluster(), tc.intercept, append([]string{"why", "-n", "lab"}, strings.Fields(tc.args)...)...).exits(tc.code).silently().matchesGolden("why-" + name)

			if !strings.Contains(tc.args, "yaml") {
				checkColumns(t, r.out)
			}
			if strings.HasPrefix(name, "tenant") {
				check.That(t, !strings.Contains(r.out, "secret"), "it names a workload of another namespace:\n%s", r.out)
			}
		})
	}
}

// TestWhyReadsTheFleetOnlyForWhatWaits: nodes and the pods of other namespaces are many.
func TestWhyReadsTheFleetOnlyForWhatWaits(t *testing.T) {
	for asked, want := range map[string]bool{"job.batch.volcano.sh/runs": false, "elsewhere": false, "gated": false, "quota-0": true, "job/early": true} {
		readsFleet := false
		intercept := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			isOfFleet := sameKind(c, list, &corev1.NodeList{}) || sameKind(c, list, &corev1.PodList{}) || sameKind(c, list, &v1beta1.PodGroupList{})
			readsFleet = readsFleet || (isOfFleet && (&client.ListOptions{}).ApplyOptions(options).Namespace == "")
			return c.List(ctx, list, options...)
		}}
		r := execute(t, busyCluster(), intercept, "why", "-n", "lab", asked)
		check.That(t, r.errOut == "" && readsFleet == want, "%s reads the fleet: %t, want %t: %s%s", asked, readsFleet, want, r.out, r.errOut)
	}
}

// TestWhyWithoutThePolicyKnowsMappedCards: a user who may list nodes, but not read which cards the
// policy maps, sees them in the CardInventory.
func TestWhyWithoutThePolicyKnowsMappedCards(t *testing.T) {
	const resource = "amd.com/gpu"
	objects := append(busyCluster(), builder.Node("amd-0").Resource(resource, "8").Obj(),
		builder.Pod("lab", "amd-0").Queue("roomy").Card("AMD-MI300X").Requests(resource, "2").Unschedulable("0/2 nodes are unavailable: 2 Insufficient amd.com/gpu.").Obj())

	for _, object := range objects {
		switch object := object.(type) {
		case *v1alpha1.ServiceTypePolicy:
			object.Spec.Cards = []v1alpha1.CardMapping{{Resource: resource, Model: "AMD-MI300X"}}
		case *v1alpha1.CardInventory:
			object.Status.Cards = append(object.Status.Cards, v1alpha1.InventoryCard{Name: "AMD-MI300X", Resources: []string{resource}, Total: 8, Healthy: 8, Allocated: 8})
		}
	}

	withoutPolicy := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, ok := object.(*v1alpha1.ServiceTypePolicy); ok {
			return forbidden("get", schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "servicetypepolicies"})
		}
		return c.Get(ctx, key, object, options...)
	}}

	execute(t, objects, withoutPolicy, "why", "-n", "lab", "amd-0").prints("waits for 2 AMD-MI300X", "(NoFreeCard)", "may not get servicetypepolicies").lacks("UnknownCard")
}

// TestWhyFindsTheReplicaSetOfADeployment: its pods and PodGroup belong to the Deployment in
// status.blocked.
func TestWhyFindsTheReplicaSetOfADeployment(t *testing.T) {
	replicaSet := func(hash string) client.Object {
		return builder.Pod("lab", "web-"+hash+"-0").Queue("roomy").Card("NVIDIA-H200").GPUs(2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash).
			Unschedulable("0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.").Obj()
	}

	objects := append(busyCluster(), replicaSet("abc"), replicaSet("def"))
	for _, name := range []string{"rs/web-abc", "replicaset.apps/web-abc"} {
		execute(t, objects, interceptor.Funcs{}, "why", "-n", "lab", name).exits(exitWaits).prints("Deployment lab/web waits for 2 NVIDIA-H200", "NoFreeCard")
	}

	execute(t, objects, interceptor.Funcs{}, "why", "-n", "lab", "rs/web").reports("has no pod and no PodGroup of ReplicaSet web")
}

// TestWhyExplainsTheWorkloadThatWaits: a name may stand for several workloads of the namespace.
func TestWhyExplainsTheWorkloadThatWaits(t *testing.T) {
	const saysFull = "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu."
	waiting := func(name, apiVersion, owner string) client.Object {
		return builder.Pod("lab", name).Queue("roomy").Card("NVIDIA-H200").GPUs(2).PodGroup("shared").Owner(apiVersion, "Job", owner).Unschedulable(saysFull).Obj()
	}
	running := func(name, apiVersion, owner string) client.Object {
		return builder.Pod("lab", name).Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("shared").Owner(apiVersion, "Job", owner).Running("h200-0").Obj()
	}

	const (
		ofBatch   = "batch/v1"
		ofVolcano = "batch.volcano.sh/v1alpha1"
	)

	podless := func(phase v1beta1.PodGroupPhase) client.Object {
		return builder.PodGroup("lab", "podless").Queue("roomy").Owner(ofVolcano, "Job", "x").Request(`{"NVIDIA-H200":9}`).Phase(phase).
			Unschedulable("Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <9>, total would be <9>, but capability is <8>").Obj()
	}

	for name, tc := range map[string]struct {
		objects  []client.Object
		asked    string
		code     int
		contains []string
	}{
		"the other one runs": {[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofBatch, "x")}, "job/x", exitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200 in queue roomy", "(NoFreeCard)"}},
		"without pods":          {[]client.Object{podless("Pending"), running("z-0", ofBatch, "x")}, "job/x", exitWaits, []string{"waits for 9 NVIDIA-H200", "(QuotaExhausted)"}},
		"an ended job":          {[]client.Object{podless("Completed"), waiting("z-0", ofBatch, "x")}, "job/x", exitWaits, []string{"waits for 2 NVIDIA-H200", "(NoFreeCard)"}},
		"both wait":             {[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofBatch, "x")}, "job/x", exitError, []string{"more than one Job x: write job.batch/x or vcjob/x"}},
		"both run":              {[]client.Object{running("a-0", ofVolcano, "x"), running("z-0", ofBatch, "x")}, "job/x", exitError, []string{"write job.batch/x or vcjob/x"}},
		"of Kubernetes":         {[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofBatch, "x")}, "job.batch/x", exitOK, []string{"1 pod has its place"}},
		"of Volcano":            {[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofBatch, "x")}, "vcjob/x", exitWaits, []string{"waits for 2 NVIDIA-H200"}},
		"a shared PodGroup":     {[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofBatch, "y")}, "pg/shared", exitWaits, []string{"Job lab/x waits for 2 NVIDIA-H200", "Other workloads of the PodGroup: Job lab/y."}},
		"both of it wait":       {[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofBatch, "y")}, "pg/shared", exitWaits, []string{"Job lab/x waits for 2 NVIDIA-H200", "Other workloads of the PodGroup: Job lab/y."}},
		"both of it are placed": {[]client.Object{running("a-0", ofVolcano, "x"), running("z-0", ofBatch, "y")}, "pg/shared", exitOK, []string{"Job lab/x does not wait: 1 pod has its place. Other workloads of the PodGroup: Job lab/y."}},
	} {
		objects := append(busyCluster(), builder.PodGroup("lab", "shared").Queue("roomy").Phase(v1beta1.PodGroupInqueue).Obj())
		r := execute(t, append(objects, tc.objects...), interceptor.Funcs{}, "why", "-n", "lab", tc.asked).exits(tc.code)
		check.Contains(t, name, strings.Join(strings.Fields(r.out+r.errOut), " "), tc.contains...)
	}
}

// TestWhyTakesThePluralOfEachKind: kubectl does so too.
func TestWhyTakesThePluralOfEachKind(t *testing.T) {
	for _, found := range targetKinds {
		_, known := targetKinds[strings.ToLower(found.kind)+"s"]
		check.That(t, known, "%ss is unknown", strings.ToLower(found.kind))
	}
}

// TestWhyAgreesWithTheStatus tests that an entry of the CardQuota is what why says, whatever the pods
// would make of it, and that a workload beyond the ten entries is explained by the same rules.
func TestWhyAgreesWithTheStatus(t *testing.T) {
	objects := busyCluster()
	listed := func(change func(*v1alpha1.CardQuotaStatus)) string {
		for _, object := range objects {
			if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Name == "llm" {
				change(&quota.Status)
			}
		}
		return execute(t, objects, interceptor.Funcs{}, "why", "quota-0", "-n", "lab").out
	}

	beyond := listed(func(s *v1alpha1.CardQuotaStatus) {
		for i := range 10 {
			s.Blocked = append(s.Blocked, v1alpha1.BlockedStatus{Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: fmt.Sprint("w", i)}, Since: timeAgo(60 * 60e9), Reason: "NoQuota"})
		}
	})
	check.Contains(t, "beyond the ten", beyond, "(QuotaExhausted)", "Job lab/runs")

	stated := listed(func(s *v1alpha1.CardQuotaStatus) {
		s.Blocked[9].Workload = v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "quota"}
		s.Blocked[9].Reason = v1alpha1.BlockedCardsTerminating
		s.Blocked[9].Count = 2
		s.Blocked[9].Card = "NVIDIA-H200"
	})
	check.Contains(t, "in the status", stated, "(CardsTerminating)")
}

// TestWhyOfAGang: of a gang some pods have a place, and one finds too few free cards.
func TestWhyOfAGang(t *testing.T) {
	gang := v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "j"}
	pod := func(name, message string) client.Object {
		return builder.Pod("lab", name).Queue("roomy").Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", "j").Created(at.Add(-5 * 60e9)).Unschedulable(message).Obj()
	}

	const (
		placed = "Pod lab/j-0 can possibly be assigned to h200-0, once minAvailable is satisfied"
		full   = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
	)

	waits := []v1alpha1.BlockedStatus{
		{Workload: gang, Card: "NVIDIA-H200", Count: 4, Reason: v1alpha1.BlockedNoFreeCard, Message: full, Holders: []v1alpha1.CardHolder{{ServiceType: "training", Card: "NVIDIA-H200", Count: 3}}},
		{Workload: gang, Card: "NVIDIA-H200", Count: 2, Reason: v1alpha1.BlockedGangIncomplete, Message: placed},
	}

	for order, listed := range map[string][]v1alpha1.BlockedStatus{"as listed": waits, "as an earlier operator lists them": {waits[1], waits[0]}, "not listed": nil} {
		local := localQuota()
		local.Status.Queue = "roomy"
		objects := append(busyCluster(), pod("j-0", placed), pod("j-1", full), pod("j-2", "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Schedulable, 2 Unschedulable. Origin reason is j-1: "+full), local)
		for _, object := range objects {
			if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Name == "roomy" {
				quota.Status.Blocked = listed
			}
		}

		local.Status.Blocked = listed
		for asked, want := range map[string]string{"j-0": "GangIncomplete", "j-1": "NoFreeCard", "j-2": "NoFreeCard", "vcjob/j": "NoFreeCard"} {
			r := execute(t, objects, interceptor.Funcs{}, "why", "-n", "lab", asked)
			check.Contains(t, order+", "+asked, r.out, "("+want+")")
			check.That(t, want != "NoFreeCard" || strings.Contains(r.out, "HOLDS"), "%s, %s: no holders:\n%s", order, asked, r.out)
			if listed != nil {
				check.Contains(t, order+", "+asked+" of a tenant", execute(t, objects, forbidCluster("lab"), "why", "-n", "lab", asked).out, "("+want+")")
			}
		}
	}
}

// TestWhyOfATenant tests what the rights of a RoleBinding show: the entry of the LocalCardQuota, or, for
// a workload that it does not list, what the scheduler states about the pods.
func TestWhyOfATenant(t *testing.T) {
	local := localQuota()
	unlisted := execute(t, append(busyCluster(), local), forbidCluster("lab"), "why", "quota-0", "-n", "lab")
	local.Status.Blocked = []v1alpha1.BlockedStatus{{
		Workload: v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "quota"}, Since: timeAgo(5 * 60e9), Card: "NVIDIA-H200", Count: 2,
		Reason: v1alpha1.BlockedQuotaExhausted, Message: "Queue <llm> has insufficient <NVIDIA-H200> quota",
		Holders: []v1alpha1.CardHolder{{ServiceType: "training", Card: "NVIDIA-H200", Count: 3}},
	}}

	listed := execute(t, append(busyCluster(), local), forbidCluster("lab"), "why", "quota-0", "-n", "lab")
	for name, r := range map[string]result{"local": listed, "local-unlisted": unlisted} {
		check.That(t, r.code == exitWaits && r.errOut == "", "%s: exit code %d: %s", name, r.code, r.errOut)
		compareGolden(t, "why-"+name, r.out)
		check.Contains(t, name, r.out, "(QuotaExhausted)", "quota of llm", "3/4 NVIDIA-H200 used, 1 free")
	}
}

func TestWhyOfNothing(t *testing.T) {
	for want, args := range map[string][]string{
		"namespace lab has no pod and no PodGroup of Pod gone": {"gone"},
		"names no workload": {"pod/"},
		"which workload? Write a pod, KIND/NAME or KIND NAME":                       {},
		"why explains one workload, and these are 3 words":                          {"pod", "a", "b"},
		"created pods: did you mean deployment?":                                    {"deploment/chat"},
		"a node does not wait: kubectl cardquota inventory --nodes shows its cards": {"node/h200-0"},
		"a quota does not wait: kubectl cardquota top shows what it uses":           {"cardq", "llm"},
		"a namespace does not wait: name a workload, and the namespace with -n":     {"ns/lab"},
	} {
		execute(t, busyCluster(), interceptor.Funcs{}, append([]string{"why", "-n", "lab"}, args...)...).exits(exitError).printsNothing().reports(want)
	}
}

// waitingCluster is that of docs/kubectl.md: a tree in which the quota of a parent is exhausted, and
// another card is free.
func waitingCluster() []client.Object {
	objects := busyCluster()[2:]
	for _, object := range objects {
		if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Name == "llm" {
			quota.Spec.Parent = "institute"
		}
	}

	gpu := []string{"nvidia.com/gpu"}
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "NVIDIA-H200", Resources: gpu, Total: 8, Healthy: 8, Allocated: 7}, {Name: "NVIDIA-H800", Resources: gpu, Total: 8, Healthy: 8}}}}

	inventory.Name = v1alpha1.InventoryName
	policy := policyOf("v0.2.0")
	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnforced}}

	h800 := v1alpha1.CardStatus{Name: "NVIDIA-H800", Quota: 6, Free: 6, Physical: 8}
	return append(objects, inventory, policy, builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Obj(),
		inTree(counted("institute", "science", "", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 3, Free: 1, Physical: 8}, h800), "").Obj(),
		inTree(counted("astronomy", "science", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 4, Used: 1, Free: 3, Physical: 8}, h800), "institute").Obj(),
		builder.Pod("lab", "train-0").Queue("astronomy").Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", "train").Created(at.Add(-12*60e9)).
			Unschedulable("Queue <institute>, an ancestor of <astronomy>, has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>").Obj())
}
