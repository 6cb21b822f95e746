package why

import (
	"context"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// clusterFullOfTraining has node h200-0 with 8 H200, which two pods of job train use: train-0 for one minute now,
// train-1 for six. Policy: inference reclaims from training, and training keeps its cards for ten minutes at least. Pod
// ads/chat-0 of inference waits for 2 H200, with this message.
func clusterFullOfTraining(group *builder.PodGroupBuilder, message string, further ...client.Object) []client.Object {
	policy := kubectl.PolicyWithScheduler("v0.2.0")
	policy.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: v1alpha1.ReclaimNever, ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: v1alpha1.ReclaimWhenNeeded, MinimumRuntimeSeconds: 600},
	}

	running := func(name string, started time.Duration) *corev1.Pod {
		pod := kubectl.NewPod(name, "lab", 4).PodGroup("train").Owner("batch.volcano.sh/v1alpha1", "Job", "train").Running("h200-0")
		return pod.With(func(pod *corev1.Pod) { pod.Status.StartTime = ptr.To(kubectl.TimeAgo(started)) }).Obj()
	}

	return append(further, policy, builder.Namespace("ads"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		kubectl.CountedQuota("chat", "ads", "inference", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 24}).Obj(),
		kubectl.CountedQuota("lab", "lab", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 8, Physical: 24}).Obj(),
		group.Obj(), running("train-0", time.Minute), running("train-1", 6*time.Minute),
		builder.Pod("ads", "chat-0").Queue("chat").Card("NVIDIA-H200").GPUs(2).Unschedulable(message).Obj())
}

// TestWhyNamesTheEndOfAMinimumRuntime: pod chat-0 of inference may have the 8 H200 of job train when its minimum
// runtime of ten minutes ends. The first pod of the job to run began six minutes ago, so that is in 4 minutes. A
// protected job (annotation volcano.sh/preemptable: false) is never reclaimed, so its minimum runtime is not named.
func TestWhyNamesTheEndOfAMinimumRuntime(t *testing.T) {
	group := builder.PodGroup("lab", "train").Queue("lab")
	execute(t, clusterFullOfTraining(group, kubectl.SaysFull), kubectl.MayReadAll, "why -n ads chat-0").
		Prints("(NoFreeCard)", "Job lab/train holds 8 NVIDIA-H200 and ends its minimum runtime in 4m. It may then be reclaimed")

	protected := builder.PodGroup("lab", "train").Queue("lab").Annotation("volcano.sh/preemptable", "false")
	execute(t, clusterFullOfTraining(protected, kubectl.SaysFull), kubectl.MayReadAll, "why -n ads chat-0").Lacks("minimum runtime")
}

// TestWhyNamesTaintsAndCordons: nodes h200-1 and h200-2 have 8 H200 free each. The first is cordoned and the second has
// a taint, so the pod waits for them and not for cards. Why names both, and what lifts the cordon.
func TestWhyNamesTaintsAndCordons(t *testing.T) {
	objects := clusterFullOfTraining(builder.PodGroup("lab", "train").Queue("lab"),
		"0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {dedicated: infra}, 1 node(s) were unschedulable.",
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).Cordoned().Obj(),
		builder.Node("h200-2").GPUs("NVIDIA-H200", 8).With(func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "infra", Effect: corev1.TaintEffectNoSchedule}}
		}).Obj())

	execute(t, objects, kubectl.MayReadAll, "why -n ads chat-0").Prints("(NodesUnsuitable)",
		"taints and labels No h200-2 has 8 free and has taint dedicated=infra:NoSchedule; h200-1 has 8 free and is cordoned",
		"Node h200-1 has 8 NVIDIA-H200 free and is cordoned: kubectl uncordon h200-1 when its maintenance is over.")
}

// TestWhyNamesNoCommandThatItsReaderMayNotRun: some users may read everything and change nothing. Why asks the API
// server whether the user has the right that a command takes (a SelfSubjectAccessReview). Without the right, or if the
// API server does not answer, the advice is to ask the administrator. Pod quota-0 lacks 1 card of the quota of llm. Pod
// x is in a queue without CardQuota. Pod chat-0 could run on a cordoned node.
func TestWhyNamesNoCommandThatItsReaderMayNotRun(t *testing.T) {
	cordoned := clusterFullOfTraining(builder.PodGroup("lab", "train").Queue("lab"),
		"0/2 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.",
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).Cordoned().Obj())
	inPlainQueue := kubectl.NewPod("x", "free", 1).
		Unschedulable("Queue <free> has insufficient <NVIDIA-H200> quota: requested <1>, total would be <1>, but capability is <0>").Obj()

	for t, tc := range check.Cases(t, map[string]struct {
		objects               []client.Object
		workload              string
		right                 authorizationv1.ResourceAttributes
		wantWith, wantWithout string // the right
	}{
		"quota is missing, and the right is to update CardQuotas": {
			kubectl.ClusterWithOneFreeCard(), "-n lab quota-0", authorizationv1.ResourceAttributes{Verb: "update", Group: "cardquota.dev", Resource: "cardquotas"},
			"CardQuota llm lacks 1 NVIDIA-H200 for the next pod: kubectl edit cardq llm.",
			"CardQuota llm lacks 1 NVIDIA-H200 for the next pod: ask the administrator for them.",
		},
		"the queue has no CardQuota, and the right is to create one": {
			append(kubectl.ClusterWithOneFreeCard(), inPlainQueue), "-n lab x",
			authorizationv1.ResourceAttributes{Verb: "create", Group: "cardquota.dev", Resource: "cardquotas"},
			"kubectl cardquota import free prints one.",
			"Queue free has no CardQuota: ask the administrator for one.",
		},
		"a node is cordoned, and the right is to patch nodes": {
			cordoned, "-n ads chat-0", authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"},
			"kubectl uncordon h200-1 when its maintenance is over.",
			"is cordoned: ask the administrator when its maintenance is over.",
		},
	}) {
		onlyRight := interceptor.Funcs{Create: kubectl.Grant(func(asked authorizationv1.ResourceAttributes) bool { return asked == tc.right })}
		allButRight := interceptor.Funcs{Create: kubectl.Grant(func(asked authorizationv1.ResourceAttributes) bool { return asked != tc.right })}
		noAnswer := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return kubectl.StatusText("no reviews")
		}}

		execute(t, tc.objects, onlyRight, "why "+tc.workload).Prints(tc.wantWith)
		execute(t, tc.objects, allButRight, "why "+tc.workload).Prints(tc.wantWithout)
		execute(t, tc.objects, noAnswer, "why "+tc.workload).Prints(tc.wantWithout)
	}
}

// podOfTF is a pod of Volcano job lab/tf, whose pods request different cards.
func podOfTF(name string) *builder.PodBuilder {
	return builder.Pod("lab", name).Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").PodGroup("tf").Created(kubectl.At.Add(-5 * time.Minute))
}

// groupOfTF is the PodGroup of Volcano job lab/tf, which the scheduler has enqueued.
func groupOfTF() *builder.PodGroupBuilder {
	return builder.PodGroup("lab", "tf").Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").Phase(v1beta1.PodGroupInqueue)
}

// TestWhyIsAboutTheNamedPod: pods of job tf request different things. Its worker waits for quota of 2 H200 in queue
// llm, in which job runs uses 3 of 4. Its parameter server, 5 minutes old, requests no cards and waits for CPU of
// nodes. If the user names the job, the cards matter most.
func TestWhyIsAboutTheNamedPod(t *testing.T) {
	objects := append(kubectl.ClusterWithOneFreeCard(), groupOfTF().Obj(),
		podOfTF("tf-ps-0").CPU("4").Unschedulable("all nodes are unavailable: 1 Insufficient cpu.").Obj(),
		podOfTF("tf-worker-0").Card("NVIDIA-H200").GPUs(2).Unschedulable(kubectl.SaysQuota).Obj())

	for _, asked := range []string{"vcjob/tf", "tf-worker-0"} {
		check.Contains(t, asked, whyInLab(t, objects, asked),
			"waits for 2 NVIDIA-H200", "(QuotaExhausted)", "quota of llm No 3/4 NVIDIA-H200 used, 1 free", "Job lab/runs")
	}
	check.Contains(t, "tf-ps-0", whyInLab(t, objects, "tf-ps-0"),
		"waits to start in queue llm for 5m (NodesUnsuitable): every node refuses the pod.")
}

// TestWhySaysThatAJobRunsBelowItsMinimum: job tf needs two pods to run. By the status of its PodGroup one runs, and uses
// cards with which the job cannot work. The other one waits for cards.
func TestWhySaysThatAJobRunsBelowItsMinimum(t *testing.T) {
	const saysFew = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
	group := groupOfTF().MinMember(2).Phase(v1beta1.PodGroupRunning).Obj()
	group.Status.Running = 1
	objects := append(kubectl.ClusterWithOneFreeCard(), group, podOfTF("tf-worker-1").Card("NVIDIA-H200").GPUs(1).Unschedulable(saysFew).Obj())
	check.Contains(t, "why", whyInLab(t, objects, "vcjob/tf"), "runs below its minimum: 1 of 2 pods; "+saysFew)
}

// TestWhyPrefersTheEntryOfTheNamedPod: status.blocked has one entry for each card of a workload. Job tf waits for an
// H800, which no node has, and for 2 H200 in queue llm, which has 1 left of its quota. Each pod is explained by the
// entry of its card. If the status lists only the H800, the pod of the H200 is explained by what the scheduler states
// about it.
func TestWhyPrefersTheEntryOfTheNamedPod(t *testing.T) {
	const saysUnknown = "no node has NVIDIA-H800"
	objects := append(kubectl.ClusterWithOneFreeCard(), groupOfTF().Obj(),
		podOfTF("of-h800").Card("NVIDIA-H800").GPUs(1).Unschedulable(saysUnknown).Obj(),
		podOfTF("of-h200").Card("NVIDIA-H200").GPUs(2).Unschedulable(kubectl.SaysQuota).Obj())

	job := v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "tf"}
	h800 := v1alpha1.BlockedStatus{
		Workload: job, Since: kubectl.TimeAgo(6 * time.Minute), Card: "NVIDIA-H800", Count: 1, Reason: v1alpha1.BlockedUnknownCard, Message: saysUnknown,
	}
	h200 := v1alpha1.BlockedStatus{
		Workload: job, Since: kubectl.TimeAgo(5 * time.Minute), Card: "NVIDIA-H200", Count: 2, Reason: v1alpha1.BlockedQuotaExhausted, Message: kubectl.SaysQuota,
	}

	for t, listed := range check.Cases(t, map[string][]v1alpha1.BlockedStatus{
		"the status lists both cards":    {h800, h200},
		"the status lists only the H800": {h800},
	}) {
		kubectl.CardQuotaIn(objects, "llm").Status.Blocked = listed

		check.Contains(t, "why of the H200", whyInLab(t, objects, "of-h200"), "waits for 2 NVIDIA-H200", "(QuotaExhausted)",
			"Others of its pods wait for other reasons: UnknownCard.", "CardQuota llm lacks 1 NVIDIA-H200")
		check.Contains(t, "why of the H800", whyInLab(t, objects, "of-h800"),
			"waits for 1 NVIDIA-H800", "(UnknownCard)", "quota of llm No no quota of NVIDIA-H800")
	}
}

// TestWhyCountsTheWholeGangUntilItIsEnqueued: the scheduler enqueues a PodGroup only if the quota has all of its
// cards. The job requests 10 H200 and queue roomy has a quota of 8, so 2 lack for the whole gang. Of nodes it needs only
// the cards of its minimum to start, and nodes have 1 free. Once the PodGroup is Inqueue, the scheduler checks the
// quota for each pod by itself. Its message still says that 10 cards were refused, so why repeats that number, but
// not that the whole gang requests them.
func TestWhyCountsTheWholeGangUntilItIsEnqueued(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		phase       v1beta1.PodGroupPhase
		minimum     string // cards, in minResources
		want, lacks []string
	}{
		"Pending, and its minimum is all 10 cards": {
			v1beta1.PodGroupPending, "10",
			[]string{
				"(QuotaExhausted)", "quota of roomy No 0/8 NVIDIA-H200 used, 8 free; the whole gang requests 10",
				"CardQuota roomy lacks 2 NVIDIA-H200 for the whole gang", "free cards No 1 of 8 healthy NVIDIA-H200; its gang needs 10 to start",
			}, nil,
		},
		"Pending, and its minimum is 4 cards": {
			v1beta1.PodGroupPending, "4", []string{"free cards No 1 of 8 healthy NVIDIA-H200; its gang needs 4 to start"}, nil,
		},
		"Inqueue: the quota is checked for each pod, not for the whole gang": {
			v1beta1.PodGroupInqueue, "10",
			[]string{"quota of roomy No 0/8 NVIDIA-H200 used, 8 free; the scheduler refuses 10 at once"}, []string{"the whole gang"},
		},
	}) {
		group := groupOfTF().Queue("roomy").Request(`{"NVIDIA-H200":10}`).MinResource(builder.GPU, tc.minimum).Phase(tc.phase).
			Unschedulable("Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <10>, total would be <10>, but capability is <8>")
		objects := append(kubectl.ClusterWithOneFreeCard(), group.Obj(), podOfTF("tf-0").Queue("roomy").Card("NVIDIA-H200").GPUs(2).Obj())

		check.Text(t, "why", whyInLab(t, objects, "vcjob/tf")).Has(tc.want...).Lacks(tc.lacks...)
	}
}

// TestWhyWithoutTheRightToReadQuotas: pod quota-0 waits for quota of queue llm. A tenant without a LocalCardQuota of
// that queue cannot know whether the queue has a CardQuota. So the answers about the quota are Unknown, and why does
// not advise to create a CardQuota.
func TestWhyWithoutTheRightToReadQuotas(t *testing.T) {
	ofOtherQueue := kubectl.LocalQuota()
	ofOtherQueue.Status.Queue = "another"

	for t, objects := range check.Cases(t, map[string][]client.Object{
		"no LocalCardQuota":                   kubectl.ClusterWithOneFreeCard(),
		"the LocalCardQuota of another queue": append(kubectl.ClusterWithOneFreeCard(), ofOtherQueue),
	}) {
		execute(t, objects, kubectl.ForbidCluster("lab"), "why -n lab quota-0").
			Prints("(QuotaExhausted)", "queue llm Unknown you may not read its CardQuota, and you may not read Queues",
				"quota Unknown you may not read the CardQuota of queue llm", "- Ask the administrator for quota of queue llm.").
			Lacks("no CardQuota", "cardquota import")
	}
}
