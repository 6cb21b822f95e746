package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// trainingFleet is a fleet of which a job of training, which has just started, holds all cards of the
// first node, while a pod of inference waits.
func trainingFleet(group *builder.PodGroupBuilder, message string, further ...client.Object) []client.Object {
	policy := policyOf("v0.2.0")
	policy.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{
		{Name: "inference", Priority: 80000, ReclaimPolicy: v1alpha1.ReclaimNever, ReclaimFrom: []string{"training"}},
		{Name: "training", Priority: 20000, ReclaimPolicy: v1alpha1.ReclaimWhenNeeded, MinimumRuntimeSeconds: 600},
	}

	trains := func(name string, started time.Duration) *corev1.Pod {
		return builder.Pod("lab", name).Queue("lab").PodGroup("train").Card("NVIDIA-H200").GPUs(4).Owner("batch.volcano.sh/v1alpha1", "Job", "train").Running("h200-0").With(func(pod *corev1.Pod) {
			since := timeAgo(started)
			pod.Status.StartTime = &since
		}).Obj()
	}

	return append(further, policy, builder.Namespace("ads"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		counted("chat", "ads", "inference", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 24}).Obj(),
		counted("lab", "lab", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 8, Physical: 24}).Obj(),
		group.Obj(), trains("train-0", time.Minute), trains("train-1", 6*time.Minute),
		builder.Pod("ads", "chat-0").Queue("chat").Card("NVIDIA-H200").GPUs(2).Unschedulable(message).Obj())
}

func explainChat(t *testing.T, objects []client.Object) string {
	return strings.Join(strings.Fields(execute(t, objects, interceptor.Funcs{}, "why", "-n", "ads", "chat-0").out), " ")
}

func TestWhyNamesTheEndOfAMinimumRuntime(t *testing.T) {
	const (
		full = "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu."
		ends = "Job lab/train holds 8 NVIDIA-H200 and ends its minimum runtime in 4m. It may then be reclaimed"
	)
	group := func() *builder.PodGroupBuilder { return builder.PodGroup("lab", "train").Queue("lab") }
	check.Contains(t, "explanation", explainChat(t, trainingFleet(group(), full)), "(NoFreeCard)", ends)
	text := explainChat(t, trainingFleet(group().Annotation("volcano.sh/preemptable", "false"), full))
	check.That(t, !strings.Contains(text, "minimum runtime"), "a protected job is said to be reclaimed: %s", text)
}

func TestWhyNamesTaintsAndCordons(t *testing.T) {
	objects := trainingFleet(builder.PodGroup("lab", "train").Queue("lab"),
		"0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {dedicated: infra}, 1 node(s) were unschedulable.",
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).Cordoned().Obj(),
		builder.Node("h200-2").GPUs("NVIDIA-H200", 8).With(func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "infra", Effect: corev1.TaintEffectNoSchedule}}
		}).Obj())
	check.Contains(t, "explanation", explainChat(t, objects),
		"(NodesUnsuitable)", "taints and labels No h200-2 has 8 free and has taint dedicated=infra:NoSchedule; h200-1 has 8 free and is cordoned",
		"Node h200-1 has 8 NVIDIA-H200 free and is cordoned: kubectl uncordon h200-1 when its maintenance is over.")
}

// TestWhyNamesNoCommandThatItsReaderMayNotRun: some may read everything and change nothing.
func TestWhyNamesNoCommandThatItsReaderMayNotRun(t *testing.T) {
	cordoned := trainingFleet(builder.PodGroup("lab", "train").Queue("lab"), "0/2 nodes are unavailable: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.",
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).Cordoned().Obj())
	for name, tc := range map[string]struct {
		objects     []client.Object
		args        string
		right       authorizationv1.ResourceAttributes
		may, mayNot string
	}{
		"a CardQuota": {busyCluster(), "-n lab quota-0", authorizationv1.ResourceAttributes{Verb: "update", Group: "cardquota.dev", Resource: "cardquotas"},
			"CardQuota llm lacks 1 NVIDIA-H200 for the next pod: kubectl edit cardq llm.", "CardQuota llm lacks 1 NVIDIA-H200 for the next pod: ask the administrator for them."},
		"no CardQuota": {append(busyCluster(), builder.Pod("lab", "x").Queue("free").Card("NVIDIA-H200").GPUs(1).Unschedulable("Queue <free> has insufficient <NVIDIA-H200> quota: requested <1>, total would be <1>, but capability is <0>").Obj()), "-n lab x",
			authorizationv1.ResourceAttributes{Verb: "create", Group: "cardquota.dev", Resource: "cardquotas"}, "kubectl cardquota import free prints one.", "Queue free has no CardQuota: ask the administrator for one."},
		"a cordon": {cordoned, "-n ads chat-0", authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"},
			"kubectl uncordon h200-1 when its maintenance is over.", "is cordoned: ask the administrator when its maintenance is over."},
	} {
		for want, create := range map[string]func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error{
			tc.may:    grant(func(asked authorizationv1.ResourceAttributes) bool { return asked == tc.right }),
			tc.mayNot: grant(func(asked authorizationv1.ResourceAttributes) bool { return asked != tc.right }),
		} {
			r := execute(t, tc.objects, interceptor.Funcs{Create: create}, append([]string{"why"}, strings.Fields(tc.args)...)...)
			check.Contains(t, name, strings.Join(strings.Fields(r.out), " "), want)
		}

		failing := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return statusText("no reviews")
		}}
		r := execute(t, tc.objects, failing, append([]string{"why"}, strings.Fields(tc.args)...)...)
		check.Contains(t, name, strings.Join(strings.Fields(r.out), " "), tc.mayNot)
	}
}

const saysQuota = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <2>, total would be <5>, but capability is <4>"

// ofJob is a pod of Volcano job lab/tf, whose pods request different cards.
func ofJob(name string) *builder.PodBuilder {
	return builder.Pod("lab", name).Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").PodGroup("tf").Created(at.Add(-5 * 60e9))
}

func explainLab(t *testing.T, objects []client.Object, args ...string) string {
	return strings.Join(strings.Fields(execute(t, objects, interceptor.Funcs{}, append([]string{"why", "-n", "lab"}, args...)...).out), " ")
}

// TestWhyIsAboutTheNamedPod: pods of one job may request different cards, or none.
func TestWhyIsAboutTheNamedPod(t *testing.T) {
	objects := append(busyCluster(),
		builder.PodGroup("lab", "tf").Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").Phase("Inqueue").Obj(),
		ofJob("tf-ps-0").CPU("4").Unschedulable("all nodes are unavailable: 1 Insufficient cpu.").Obj(),
		ofJob("tf-worker-0").Card("NVIDIA-H200").GPUs(2).Unschedulable(saysQuota).Obj())
	for name, args := range map[string][]string{"the job": {"vcjob/tf"}, "its worker": {"tf-worker-0"}} {
		check.Contains(t, name, explainLab(t, objects, args...), "waits for 2 NVIDIA-H200", "(QuotaExhausted)", "quota of llm No 3/4 NVIDIA-H200 used, 1 free", "Job lab/runs")
	}
	check.Contains(t, "its other pod", explainLab(t, objects, "tf-ps-0"), "waits to start in queue llm for 5m (NodesUnsuitable): every node refuses the pod.")
}

// TestWhySaysThatAJobRunsBelowItsMinimum: one of two pods runs, and the other one waits.
func TestWhySaysThatAJobRunsBelowItsMinimum(t *testing.T) {
	const saysFew = "too few <NVIDIA-H200> are free, all nodes are unavailable: 1 Insufficient nvidia.com/gpu."
	group := builder.PodGroup("lab", "tf").Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").MinMember(2).Phase("Running").Obj()
	group.Status.Running = 1
	objects := append(busyCluster(), group, ofJob("tf-worker-1").Card("NVIDIA-H200").GPUs(1).Unschedulable(saysFew).Obj())
	check.Contains(t, "why", explainLab(t, objects, "vcjob/tf"), "runs below its minimum: 1 of 2 pods; "+saysFew)
}

// TestWhyPrefersTheEntryOfTheNamedPod: status.blocked has one entry for each card of a workload.
func TestWhyPrefersTheEntryOfTheNamedPod(t *testing.T) {
	objects := append(busyCluster(),
		builder.PodGroup("lab", "tf").Queue("llm").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").Phase("Inqueue").Obj(),
		ofJob("tg-a-0").Card("NVIDIA-H800").GPUs(1).Unschedulable("no node has NVIDIA-H800").Obj(),
		ofJob("tg-b-0").Card("NVIDIA-H200").GPUs(2).Unschedulable(saysQuota).Obj())

	job := v1alpha1.WorkloadReference{APIGroup: "batch.volcano.sh", Kind: "Job", Namespace: "lab", Name: "tf"}
	h800 := v1alpha1.BlockedStatus{Workload: job, Since: timeAgo(6 * time.Minute), Card: "NVIDIA-H800", Count: 1, Reason: v1alpha1.BlockedUnknownCard, Message: "no node has NVIDIA-H800"}
	h200 := v1alpha1.BlockedStatus{Workload: job, Since: timeAgo(5 * time.Minute), Card: "NVIDIA-H200", Count: 2, Reason: v1alpha1.BlockedQuotaExhausted, Message: saysQuota}
	for name, listed := range map[string][]v1alpha1.BlockedStatus{"both": {h800, h200}, "the other one only": {h800}} {
		for _, object := range objects {
			if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Name == "llm" {
				quota.Status.Blocked = listed
			}
		}
		check.Contains(t, name, explainLab(t, objects, "tg-b-0"), "waits for 2 NVIDIA-H200", "(QuotaExhausted)", "Others of its pods wait for other reasons: UnknownCard.", "CardQuota llm lacks 1 NVIDIA-H200")
		check.Contains(t, name, explainLab(t, objects, "tg-a-0"), "waits for 1 NVIDIA-H800", "(UnknownCard)", "quota of llm No no quota of NVIDIA-H800")
	}
}

// TestWhyCountsTheGangUntilItIsAdmitted: the scheduler asks the quota for a whole PodGroup first.
func TestWhyCountsTheGangUntilItIsAdmitted(t *testing.T) {
	explain := func(phase v1beta1.PodGroupPhase, minimum string) string {
		objects := append(busyCluster(),
			builder.PodGroup("lab", "tf").Queue("roomy").Owner("batch.volcano.sh/v1alpha1", "Job", "tf").Request(`{"NVIDIA-H200":10}`).MinResource(builder.GPU, minimum).Phase(phase).
				Unschedulable("Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <10>, total would be <10>, but capability is <8>").Obj(),
			ofJob("tf-0").Queue("roomy").Card("NVIDIA-H200").GPUs(2).Obj())
		return explainLab(t, objects, "vcjob/tf")
	}

	check.Contains(t, "explanation", explain(v1beta1.PodGroupPending, "10"), "(QuotaExhausted)",
		"quota of roomy No 0/8 NVIDIA-H200 used, 8 free; the whole gang requests 10", "CardQuota roomy lacks 2 NVIDIA-H200 for the whole gang",
		"free cards No 1 of 8 healthy NVIDIA-H200; its gang needs 10 to start")
	check.Contains(t, "of an elastic job", explain(v1beta1.PodGroupPending, "4"), "free cards No 1 of 8 healthy NVIDIA-H200; its gang needs 4 to start")

	check.Text(t, "explanation", explain(v1beta1.PodGroupInqueue, "10")).
		Has("quota of roomy No 0/8 NVIDIA-H200 used, 8 free; the scheduler refuses 10 at once").
		Lacks("the whole gang") // it is admitted, and the PodGroup still says why it was not
}

// TestWhyWithoutTheRightToReadQuotas: a tenant without a LocalCardQuota of his queue cannot know that
// it has no CardQuota.
func TestWhyWithoutTheRightToReadQuotas(t *testing.T) {
	ofAnotherQueue := localQuota()
	ofAnotherQueue.Status.Queue = "another"
	for name, objects := range map[string][]client.Object{"none": busyCluster(), "of another queue": append(busyCluster(), ofAnotherQueue)} {
		r := execute(t, objects, forbidCluster("lab"), "why", "-n", "lab", "quota-0")
		check.Text(t, name, strings.Join(strings.Fields(r.out), " ")).
			Has("(QuotaExhausted)", "queue llm Unknown you may not read its CardQuota, and you may not read Queues",
									"quota Unknown you may not read the CardQuota of queue llm", "- Ask the administrator for quota of queue llm.").
			Lacks("no CardQuota", "cardquota import") // it claims that there is no CardQuota
	}
}
