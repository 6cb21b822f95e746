package why

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// execute runs the command against a cluster with some objects.
var execute = kubectl.Plugin{Commands: []program.Command{NewCommand}, Scheduler: simulator.New()}.Execute

// whyInLab returns what "kubectl cardquota why -n lab" prints about a workload, in one line.
func whyInLab(t *testing.T, objects []client.Object, workload string) string {
	return execute(t, objects, kubectl.MayReadAll, "why -n lab "+workload).OneLine()
}

// TestWhyExplainsPodsJobsAndPodGroups: the golden files have the explanations of what waits in
// kubectl.ClusterWithOneFreeCard, by the name of a pod, a job or a PodGroup. There one of 8 H200 is free. Pod quota-0
// waits for quota, full-0 for cards, and new-0 is not tried yet. Job runs has its place, and job early waits without
// pods. Pod stopped-0 is in a closed queue, elsewhere names another scheduler, and gated has a scheduling gate. The
// exit code says whether the workload waits. A tenant, who may not list nodes, reads no name of a workload of another
// namespace (secret).
func TestWhyExplainsPodsJobsAndPodGroups(t *testing.T) {
	noNodes := kubectl.Forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{})

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		command   string
		wantCode  int
	}{
		"quota":         {kubectl.MayReadAll, "why -n lab quota-0", program.ExitWaits},
		"job":           {kubectl.MayReadAll, "why -n lab vcjob/quota", program.ExitWaits},
		"full":          {kubectl.MayReadAll, "why -n lab full-0", program.ExitWaits},
		"full-yaml":     {kubectl.MayReadAll, "why -n lab full-0 -o yaml", program.ExitWaits},
		"tenant":        {noNodes, "why -n lab full-0", program.ExitWaits},
		"tenant-quota":  {noNodes, "why -n lab pod quota-0", program.ExitWaits},
		"untried":       {kubectl.MayReadAll, "why -n lab pod/new-0", program.ExitWaits},
		"runs":          {kubectl.MayReadAll, "why -n lab job.batch.volcano.sh runs", program.ExitOK},
		"elsewhere":     {kubectl.MayReadAll, "why -n lab elsewhere", program.ExitWaits},
		"gated":         {kubectl.MayReadAll, "why -n lab gated", program.ExitWaits},
		"without-pods":  {kubectl.MayReadAll, "why -n lab job/early", program.ExitWaits},
		"queue-closed":  {kubectl.MayReadAll, "why -n lab stopped-0", program.ExitWaits},
		"podgroup-only": {kubectl.MayReadAll, "why -n lab podgroup early", program.ExitWaits},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, kubectl.ClusterWithOneFreeCard(), tc.intercept, tc.command).Exits(tc.wantCode).ReportsNothing().MatchesGolden("why-" + name)
			if !strings.HasSuffix(tc.command, "yaml") {
				r.FitsTerminal()
			}
			if strings.HasPrefix(name, "tenant") {
				r.Lacks("secret")
			}
		})
	}
}

// TestWhySaysWhatEnforceWouldDo: the policy observes. Pod elsewhere of another scheduler names no queue, so it counts for the
// CardQuota that selects its namespace, here roomy, whose status says that it needs a queue. A pod that no forecast lists
// has none.
func TestWhySaysWhatEnforceWouldDo(t *testing.T) {
	objects := kubectl.ClusterWithOneFreeCard()
	kubectl.CardQuotaIn(objects, "roomy").Status.Forecast = &v1alpha1.CardQuotaForecast{
		WithoutQueue: &v1alpha1.ForecastWorkloads{Total: 1, Cards: 1, Workloads: []v1alpha1.ForecastWorkload{{
			Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: "elsewhere"}, Card: "NVIDIA-H200", Count: 1,
			Message: "it needs the annotation scheduling.volcano.sh/queue-name: roomy and schedulerName: volcano",
		}}},
	}

	check.Contains(t, "output", whyInLab(t, objects, "elsewhere"), "With mode Enforce Pod lab/elsewhere with 1 NVIDIA-H200 would not be limited by the quota: "+
		"it needs the annotation scheduling.volcano.sh/queue-name: roomy and schedulerName: volcano.")
	check.Text(t, "output of another pod", whyInLab(t, objects, "full-0")).Lacks("mode Enforce")
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
			isOfFleet := kubectl.SameKind(c, list, &corev1.NodeList{}) || kubectl.SameKind(c, list, &corev1.PodList{}) || kubectl.SameKind(c, list, &v1beta1.PodGroupList{})
			readsFleet = readsFleet || (isOfFleet && (&client.ListOptions{}).ApplyOptions(options).Namespace == "")
			return c.List(ctx, list, options...)
		}}

		execute(t, kubectl.ClusterWithOneFreeCard(), intercept, "why -n lab "+asked).ReportsNothing()
		check.Equal(t, asked+" reads the fleet", want, readsFleet)
	}
}

// TestWhyWithoutThePolicyKnowsMappedCards: the policy maps amd.com/gpu to AMD-MI300X, and the user may not read it.
// The CardInventory lists the card too, with 8 of 8 in use. So why knows that the pod waits for free cards, not that
// the card is unknown, and says what the user may not read.
func TestWhyWithoutThePolicyKnowsMappedCards(t *testing.T) {
	const resource = "amd.com/gpu"
	objects := append(kubectl.ClusterWithOneFreeCard(), builder.Node("amd-0").Resource(resource, "8").Obj(),
		builder.Pod("lab", "amd-0").Queue("roomy").Card("AMD-MI300X").Requests(resource, "2").
			Unschedulable("0/2 nodes are unavailable: 2 Insufficient amd.com/gpu.").Obj())
	objects[0].(*v1alpha1.ServiceTypePolicy).Spec.Cards = []v1alpha1.CardMapping{{Resource: resource, Model: "AMD-MI300X"}}
	inventory := objects[1].(*v1alpha1.CardInventory)
	inventory.Status.Cards = append(inventory.Status.Cards,
		v1alpha1.InventoryCard{Name: "AMD-MI300X", Resources: []string{resource}, Total: 8, Healthy: 8, Allocated: 8})

	noPolicy := kubectl.ForbidGet[*v1alpha1.ServiceTypePolicy](v1alpha1.GroupVersion.WithResource("servicetypepolicies").GroupResource())
	execute(t, objects, noPolicy, "why -n lab amd-0").
		Prints("waits for 2 AMD-MI300X", "(NoFreeCard)", "may not get servicetypepolicies").
		Lacks("UnknownCard")
}

// TestWhyFindsTheReplicaSetOfADeployment: pods of a Deployment belong to its ReplicaSets, here web-abc and web-def, but
// status.blocked has the Deployment. If a user names a ReplicaSet, why explains its Deployment. Both pods wait for
// cards. ReplicaSet web does not exist.
func TestWhyFindsTheReplicaSetOfADeployment(t *testing.T) {
	podOf := func(hash string) client.Object {
		pod := kubectl.NewPod("web-"+hash+"-0", "roomy", 2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash)
		return pod.Unschedulable(kubectl.SaysFull).Obj()
	}
	objects := append(kubectl.ClusterWithOneFreeCard(), podOf("abc"), podOf("def"))

	for _, name := range []string{"rs/web-abc", "replicaset.apps/web-abc"} {
		execute(t, objects, kubectl.MayReadAll, "why -n lab "+name).Exits(program.ExitWaits).Prints("Deployment lab/web waits for 2 NVIDIA-H200", "NoFreeCard")
	}
	execute(t, objects, kubectl.MayReadAll, "why -n lab rs/web").Reports("has no pod and no PodGroup of ReplicaSet web")
}

// TestWhyExplainsTheWorkloadThatWaits: a name may stand for several workloads of the namespace: job/x for a Job of
// Kubernetes and a Volcano job, pg/shared for all workloads with pods in this PodGroup. If exactly one of them waits,
// the user means that one. If both or none of two jobs wait, the user must name the kind of job. Of a PodGroup the
// first workload is explained, and the others are named.
func TestWhyExplainsTheWorkloadThatWaits(t *testing.T) {
	const (
		ofKubernetes = "batch/v1"
		ofVolcano    = "batch.volcano.sh/v1alpha1"
	)
	waiting := func(pod, apiVersion, job string) client.Object { // for cards
		return kubectl.NewPod(pod, "roomy", 2).PodGroup("shared").Owner(apiVersion, "Job", job).Unschedulable(kubectl.SaysFull).Obj()
	}
	running := func(pod, apiVersion, job string) client.Object {
		return kubectl.NewPod(pod, "roomy", 1).PodGroup("shared").Owner(apiVersion, "Job", job).Running("h200-0").Obj()
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
			[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "x")}, "job/x", program.ExitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200 in queue roomy", "(NoFreeCard)"},
		},
		"Volcano job x waits without pods, Job x runs": {
			[]client.Object{podless("Pending"), running("z-0", ofKubernetes, "x")}, "job/x", program.ExitWaits,
			[]string{"waits for 9 NVIDIA-H200", "(QuotaExhausted)"},
		},
		"Volcano job x has ended, Job x waits": {
			[]client.Object{podless("Completed"), waiting("z-0", ofKubernetes, "x")}, "job/x", program.ExitWaits,
			[]string{"waits for 2 NVIDIA-H200", "(NoFreeCard)"},
		},
		"Volcano job x and Job x wait": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofKubernetes, "x")}, "job/x", program.ExitError,
			[]string{"more than one Job x: write job.batch/x or vcjob/x"},
		},
		"Volcano job x and Job x run": {
			[]client.Object{running("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "x")}, "job/x", program.ExitError,
			[]string{"write job.batch/x or vcjob/x"},
		},
		"the user names Job x, which runs": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "x")}, "job.batch/x", program.ExitOK,
			[]string{"1 pod has its place"},
		},
		"the user names Volcano job x, and both wait": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofKubernetes, "x")}, "vcjob/x", program.ExitWaits,
			[]string{"waits for 2 NVIDIA-H200"},
		},
		"a PodGroup of x, which waits, and y, which runs": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "y")}, "pg/shared", program.ExitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200", "Other workloads of the PodGroup: Job lab/y."},
		},
		"a PodGroup of x and y, which wait": {
			[]client.Object{waiting("a-0", ofVolcano, "x"), waiting("z-0", ofKubernetes, "y")}, "pg/shared", program.ExitWaits,
			[]string{"Job lab/x waits for 2 NVIDIA-H200", "Other workloads of the PodGroup: Job lab/y."},
		},
		"a PodGroup of x and y, which run": {
			[]client.Object{running("a-0", ofVolcano, "x"), running("z-0", ofKubernetes, "y")}, "pg/shared", program.ExitOK,
			[]string{"Job lab/x does not wait: 1 pod has its place. Other workloads of the PodGroup: Job lab/y."},
		},
	}) {
		objects := append(kubectl.ClusterWithOneFreeCard(), builder.PodGroup("lab", "shared").Queue("roomy").Phase(v1beta1.PodGroupInqueue).Obj())
		execute(t, append(objects, tc.objects...), kubectl.MayReadAll, "why -n lab "+tc.asked).Exits(tc.wantCode).Says(tc.want...)
	}
}

// TestWhyTakesThePluralOfEachKind: users write "why pods x" as often as "why pod x", because kubectl takes both. So each
// kind that why knows is also known by its plural in lower case.
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
	objects := kubectl.ClusterWithOneFreeCard()
	job := v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "quota"}
	kubectl.CardQuotaIn(objects, "llm").Status.Blocked = []v1alpha1.BlockedStatus{
		{Workload: job, Since: kubectl.TimeAgo(time.Hour), Card: "NVIDIA-H200", Count: 2, Reason: v1alpha1.BlockedCardsTerminating},
	}
	check.Contains(t, "why", whyInLab(t, objects, "quota-0"), "(CardsTerminating)")
}

// TestWhyExplainsWhatTheStatusHasNoPlaceFor: status.blocked lists ten workloads at most, here ten others. Pod quota-0
// waits for 2 H200 in queue llm, in which job runs uses 3 of 4. Why finds this reason and the holder by itself.
func TestWhyExplainsWhatTheStatusHasNoPlaceFor(t *testing.T) {
	objects := kubectl.ClusterWithOneFreeCard()
	status := &kubectl.CardQuotaIn(objects, "llm").Status
	for i := range 10 {
		other := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: fmt.Sprint("w", i)}
		status.Blocked = append(status.Blocked, v1alpha1.BlockedStatus{Workload: other, Since: kubectl.TimeAgo(time.Hour), Reason: "NoQuota"})
	}
	check.Contains(t, "why", whyInLab(t, objects, "quota-0"), "(QuotaExhausted)", "Job lab/runs")
}

// TestWhyOfAGangShowsWhatItLacks: of a gang of three pods, j-0 has a place once the gang is complete (GangIncomplete).
// j-1 finds too few free cards (NoFreeCard), and j-2 repeats the reason of j-1. The job waits for the cards, whatever
// order status.blocked has, and why shows who uses these cards (HOLDS). If status.blocked lists the job, a tenant reads
// the same reasons.
func TestWhyOfAGangShowsWhatItLacks(t *testing.T) {
	const (
		saysPlaced = "Pod lab/j-0 can possibly be assigned to h200-0, once minAvailable is satisfied"
		saysFew    = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
		saysSame   = "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Schedulable, 2 Unschedulable. Origin reason is j-1: " + saysFew
	)
	pod := func(name, message string) client.Object {
		return kubectl.NewPod(name, "roomy", 2).Owner("batch.volcano.sh/v1alpha1", "Job", "j").Created(kubectl.At.Add(-5 * time.Minute)).Unschedulable(message).Obj()
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
		local := kubectl.LocalQuota()
		local.Status.Queue = "roomy"
		local.Status.Blocked = listed
		objects := append(kubectl.ClusterWithOneFreeCard(), pod("j-0", saysPlaced), pod("j-1", saysFew), pod("j-2", saysSame), local)
		kubectl.CardQuotaIn(objects, "roomy").Status.Blocked = listed

		for asked, wants := range map[string][]string{
			"j-0":     {"(GangIncomplete)"},
			"j-1":     {"(NoFreeCard)", "HOLDS"},
			"j-2":     {"(NoFreeCard)", "HOLDS"},
			"vcjob/j": {"(NoFreeCard)", "HOLDS"},
		} {
			execute(t, objects, kubectl.MayReadAll, "why -n lab "+asked).Prints(wants...)
			if listed != nil {
				execute(t, objects, kubectl.ForbidCluster("lab"), "why -n lab "+asked).Prints(wants[0])
			}
		}
	}
}

// TestWhyOfATenantUsesItsLocalCardQuota: a user with a RoleBinding in namespace lab may read no CardQuota, but the
// LocalCardQuota of its queue. If that lists the job, why shows the entry, else what the scheduler states about the
// pod. Both say that the quota is exhausted.
func TestWhyOfATenantUsesItsLocalCardQuota(t *testing.T) {
	unlisted := kubectl.LocalQuota()
	listed := kubectl.LocalQuota()
	listed.Status.Blocked = []v1alpha1.BlockedStatus{{
		Workload: v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "quota"},
		Since:    kubectl.TimeAgo(5 * time.Minute), Card: "NVIDIA-H200", Count: 2,
		Reason: v1alpha1.BlockedQuotaExhausted, Message: "Queue <llm> has insufficient <NVIDIA-H200> quota",
		Holders: []v1alpha1.CardHolder{{ServiceType: "training", Card: "NVIDIA-H200", Count: 3}},
	}}

	for golden, local := range map[string]client.Object{"why-local": listed, "why-local-unlisted": unlisted} {
		execute(t, append(kubectl.ClusterWithOneFreeCard(), local), kubectl.ForbidCluster("lab"), "why quota-0 -n lab").
			Exits(program.ExitWaits).ReportsNothing().MatchesGolden(golden).
			Prints("(QuotaExhausted)", "quota of llm", "3/4 NVIDIA-H200 used, 1 free")
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
		execute(t, kubectl.ClusterWithOneFreeCard(), kubectl.MayReadAll, "why -n lab "+words).Exits(program.ExitError).PrintsNothing().Reports(want)
	}
}
