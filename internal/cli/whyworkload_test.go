package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// eventOf is an event in namespace lab.
func eventOf(kind, name, reason, message string, ago time.Duration) *corev1.Event {
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "lab", Name: name}, Type: "Warning", Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at.Add(-ago))}
	event.Namespace = "lab"
	event.Name = fmt.Sprint(name, ".", reason, ago)
	return event
}

func inLab(object client.Object, name string) client.Object {
	object.SetNamespace("lab")
	object.SetName(name)
	return object
}

// TestWhySaysThatPodsCouldNotBeCreated: what admission refuses never becomes a pod, so no scheduler says
// anything about it.
func TestWhySaysThatPodsCouldNotBeCreated(t *testing.T) {
	const refused = `admission webhook denied the request: pod requests 1 nvidia.com/gpu and names schedulerName default-scheduler: write schedulerName: volcano`
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))}}
	deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: refused}}

	silent := func() *appsv1.Deployment {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))}}
	}
	job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(1))}}
	suspended := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	vcjob := &batch.Job{Spec: batch.JobSpec{Tasks: []batch.TaskSpec{{Replicas: 2}}}}

	runs := builder.Pod("lab", "web-a-0").Queue("roomy").Owner("apps/v1", "ReplicaSet", "web-a").Label("pod-template-hash", "a").GPUs(1).Running("h200-0").Obj()
	for name, tc := range map[string]struct {
		objects []client.Object
		asked   string
		code    int
		want    []string
	}{
		"a Deployment by its condition": {[]client.Object{inLab(deployment.DeepCopy(), "web")}, "deployment/web", exitWaits, []string{
			"Deployment lab/web has no pods: its controller could not create them. It says: " + refused, "Write schedulerName: volcano into the spec of the pod template: kubectl -n lab edit deployment web."}},
		"by the events of its ReplicaSet": {[]client.Object{inLab(silent(), "web"), eventOf("ReplicaSet", "web-abc", "FailedCreate", refused, time.Minute)}, "deployment/web", exitWaits, []string{"It says: " + refused}},
		"not by those of another one":     {[]client.Object{inLab(silent(), "web"), eventOf("ReplicaSet", "web-other-abc", "FailedCreate", refused, time.Minute)}, "deployment/web", exitWaits, []string{"its controller has created none yet"}},
		"beside pods that run":            {[]client.Object{inLab(deployment.DeepCopy(), "web"), runs}, "deployment/web", exitWaits, []string{"does not wait: 1 pod has its place. Its controller could not create 1 pod more. It says: " + refused}},
		"a Job, its last event": {[]client.Object{inLab(job, "a6"), eventOf("Job", "a6", "FailedCreate", "exceeded quota: old", time.Hour), eventOf("Job", "a6", "FailedCreate", refused, time.Minute)}, "job.batch/a6", exitWaits, []string{
			"Job lab/a6 has no pods: its controller could not create them. It says: " + refused, "kubectl -n lab delete job.batch a6"}},
		"a suspended Job":         {[]client.Object{inLab(suspended, "a6")}, "job.batch/a6", exitOK, []string{"Job lab/a6 does not wait: it is suspended"}},
		"a Volcano job":           {[]client.Object{inLab(vcjob, "v"), eventOf("Job", "v", "FailedCreate", refused, time.Minute)}, "vcjob/v", exitWaits, []string{"Job lab/v has no pods", "create it again with spec.schedulerName: volcano: kubectl -n lab delete job.batch.volcano.sh v"}},
		"a Deployment of none":    {[]client.Object{inLab(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(0))}}, "web")}, "deployment/web", exitOK, []string{"it wants no pods now"}},
		"a StatefulSet":           {[]client.Object{inLab(&appsv1.StatefulSet{}, "db"), eventOf("StatefulSet", "db", "FailedCreate", "create Pod db-0 failed: "+refused, time.Minute)}, "sts/db", exitWaits, []string{"StatefulSet lab/db has no pods", refused}},
		"one that does not exist": {nil, "deployment/web", exitError, []string{"namespace lab has no pod and no PodGroup of Deployment web"}},
	} {
		r := execute(t, append(busyCluster(), tc.objects...), interceptor.Funcs{}, "why", "-n", "lab", tc.asked)
		check.Equal(t, name+": exit code", tc.code, r.code)
		check.Contains(t, name, strings.Join(strings.Fields(r.out+r.errOut), " "), tc.want...)
	}
}

// TestWhyForgetsAFailureAfterWhichPodsCame: events stay for an hour, and an ordered StatefulSet or a Job
// between two attempts always has fewer pods than it wants.
func TestWhyForgetsAFailureAfterWhichPodsCame(t *testing.T) {
	const refused = "pods are forbidden: write schedulerName: volcano"
	database := func() client.Object {
		return inLab(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(2))}}, "db")
	}
	pod := func(group, kind, owner string, ago time.Duration) *builder.PodBuilder {
		return builder.Pod("lab", owner+"-0").Queue("roomy").Card("NVIDIA-H200").GPUs(1).Owner(group, kind, owner).Created(at.Add(-ago))
	}

	failed := pod("batch/v1", "Job", "a6", time.Minute).Phase(corev1.PodFailed).Obj()
	again := &batch.Job{Spec: batch.JobSpec{Tasks: []batch.TaskSpec{{Replicas: 2}}}}
	again.CreationTimestamp = metav1.NewTime(at.Add(-time.Minute))
	for name, tc := range map[string]struct {
		objects []client.Object
		failed  *corev1.Event
		asked   string
		want    bool
	}{
		"before a pod that waits":       {[]client.Object{database(), pod("apps/v1", "StatefulSet", "db", time.Minute).Obj()}, eventOf("StatefulSet", "db", "FailedCreate", refused, 9*time.Minute), "sts/db", false},
		"after it":                      {[]client.Object{database(), pod("apps/v1", "StatefulSet", "db", 9*time.Minute).Obj()}, eventOf("StatefulSet", "db", "FailedCreate", refused, time.Minute), "sts/db", true},
		"with all its pods":             {[]client.Object{inLab(&appsv1.StatefulSet{}, "db"), pod("apps/v1", "StatefulSet", "db", 9*time.Minute).Obj()}, eventOf("StatefulSet", "db", "FailedCreate", refused, time.Minute), "sts/db", false},
		"one pod of two":                {[]client.Object{database(), pod("apps/v1", "StatefulSet", "db", 9*time.Minute).Obj(), builder.Pod("lab", "db-1").Queue("roomy").GPUs(1).Owner("apps/v1", "StatefulSet", "db").Created(at.Add(-9 * time.Minute)).Obj()}, eventOf("StatefulSet", "db", "FailedCreate", refused, time.Minute), "db-0", false},
		"before a failed attempt":       {[]client.Object{inLab(&batchv1.Job{}, "a6"), failed}, eventOf("Job", "a6", "FailedCreate", refused, 9*time.Minute), "job.batch/a6", false},
		"before a job of the same name": {[]client.Object{inLab(again, "v")}, eventOf("Job", "v", "FailedCreate", refused, 9*time.Minute), "vcjob/v", false},
	} {
		text := explainLab(t, append(append(busyCluster(), tc.objects...), tc.failed), tc.asked)
		check.Equal(t, name+": "+text, tc.want, strings.Contains(text, refused))
	}
}

func TestWhyOfAPodWhosePodGroupIsGone(t *testing.T) {
	orphan := builder.Pod("lab", "orphan").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("gone").Obj()
	check.Contains(t, "why", explainLab(t, append(busyCluster(), orphan), "orphan"), "(PodGroupNotFound): the PodGroup that the pod names does not exist.",
		"PodGroup gone No it does not exist", "kubectl -n lab delete pod orphan.", "create PodGroup gone.")
	mayNotList := forbid(v1beta1.SchemeGroupVersion.WithResource("podgroups").GroupResource(), &v1beta1.PodGroupList{})
	execute(t, append(busyCluster(), orphan), mayNotList, "why", "-n", "lab", "orphan").lacks("does not exist")
}

// TestWhyOfANewPodWhosePodGroupIsNotKnownYet: PodGroups are listed before pods.
func TestWhyOfANewPodWhosePodGroupIsNotKnownYet(t *testing.T) {
	isNew := builder.Pod("lab", "orphan").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("gone").Created(at.Add(-time.Second)).Obj()
	check.Text(t, "why", explainLab(t, append(busyCluster(), isNew), "orphan")).
		Has("The scheduler has not said why yet.").
		Lacks("does not exist", "delete pod") // it may exist
}

// TestAGateNamesThePodGroupThatIsGone: the other pod of the job has its PodGroup.
func TestAGateNamesThePodGroupThatIsGone(t *testing.T) {
	objects := append(busyCluster(),
		builder.PodGroup("lab", "exists").Queue("roomy").Owner("batch.volcano.sh/v1alpha1", "Job", "mixed").Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.Pod("lab", "mixed-0").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("gone").Owner("batch.volcano.sh/v1alpha1", "Job", "mixed").Obj(),
		builder.Pod("lab", "mixed-1").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("exists").Owner("batch.volcano.sh/v1alpha1", "Job", "mixed").Unschedulable("0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.").Obj())
	check.Text(t, "why", explainLab(t, objects, "vcjob/mixed")).
		Has("PodGroup gone No it does not exist").
		Lacks("PodGroup exists No") // it exists
}

// rolloutOf returns a Deployment of two pods, of which old ones hold the quota and a new one waits.
func rolloutOf(strategy appsv1.DeploymentStrategy) []client.Object {
	pod := func(name, hash string) *builder.PodBuilder {
		return builder.Pod("lab", name).Queue("llm").Card("NVIDIA-H200").GPUs(2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash)
	}
	return []client.Object{
		inLab(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2)), Strategy: strategy}}, "web"),
		pod("web-a-0", "a").Running("h200-0").Obj(), pod("web-a-1", "a").Running("h200-0").Obj(), pod("web-b-0", "b").Unschedulable(saysQuota).Obj(),
	}
}

func TestWhyOfARolloutThatAwaitsItsOldPods(t *testing.T) {
	rolling := func(surge, unavailable intstr.IntOrString) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}}
	}

	for name, tc := range map[string]struct {
		strategy appsv1.DeploymentStrategy
		want     bool
	}{
		"default":               {appsv1.DeploymentStrategy{}, true}, // a quarter of two is none
		"a quarter":             {rolling(intstr.FromString("25%"), intstr.FromString("25%")), true},
		"half":                  {rolling(intstr.FromString("25%"), intstr.FromString("50%")), false},
		"one less":              {rolling(intstr.FromInt32(0), intstr.FromInt32(1)), false},
		"neither more nor less": {rolling(intstr.FromInt32(0), intstr.FromInt32(0)), false}, // counts as one less
		"recreate":              {appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, false},
	} {
		text := explainLab(t, append(busyCluster(), rolloutOf(tc.strategy)...), "deployment/web")
		check.Contains(t, name, text, "(QuotaExhausted)")
		for _, words := range []string{"Its rollout waits for its own old pods.", "Deployment web has 2 pods with 4 cards of its earlier revision.", `"maxSurge":0,"maxUnavailable":1`} {
			check.Equal(t, name+": "+words, tc.want, strings.Contains(text, words))
		}
	}
}

// TestWhyOfARolloutCountsOnlyOldPodsThatHelp: an old pod helps by the same cards of the same queue, and
// pods of a later revision are no old ones.
func TestWhyOfARolloutCountsOnlyOldPodsThatHelp(t *testing.T) {
	replicaSet := func(hash, revision string, ago time.Duration) client.Object {
		set := inLab(&appsv1.ReplicaSet{}, "web-"+hash)
		set.SetCreationTimestamp(metav1.NewTime(at.Add(-ago)))
		set.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": revision})
		return set
	}

	first := replicaSet("a", "1", time.Hour)
	second := replicaSet("b", "2", time.Minute)
	for name, tc := range map[string]struct {
		sets   []client.Object
		change func(*builder.PodBuilder) *builder.PodBuilder
		want   bool
	}{
		"the same":      {[]client.Object{first, second}, func(old *builder.PodBuilder) *builder.PodBuilder { return old }, true},
		"by their age":  {[]client.Object{replicaSet("a", "", time.Hour), replicaSet("b", "", time.Minute)}, func(old *builder.PodBuilder) *builder.PodBuilder { return old }, true},
		"another card":  {[]client.Object{first, second}, func(old *builder.PodBuilder) *builder.PodBuilder { return old.Card("NVIDIA-H800").Running("h800-0") }, false},
		"another queue": {[]client.Object{first, second}, func(old *builder.PodBuilder) *builder.PodBuilder { return old.Queue("roomy") }, false},
		"pods that end": {[]client.Object{first, second}, func(old *builder.PodBuilder) *builder.PodBuilder {
			return old.Deleted(at).With(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} })
		}, false},
		"a later revision":         {[]client.Object{replicaSet("a", "2", time.Minute), replicaSet("b", "1", time.Hour)}, func(old *builder.PodBuilder) *builder.PodBuilder { return old }, false},
		"a later one by its age":   {[]client.Object{replicaSet("a", "", time.Minute), replicaSet("b", "", time.Hour)}, func(old *builder.PodBuilder) *builder.PodBuilder { return old }, false},
		"a rollback to an old one": {[]client.Object{replicaSet("a", "2", time.Minute), replicaSet("b", "3", time.Hour)}, func(old *builder.PodBuilder) *builder.PodBuilder { return old }, true},
		"ReplicaSets not readable": {nil, func(old *builder.PodBuilder) *builder.PodBuilder { return old }, true},
	} {
		pod := func(name, hash string) *builder.PodBuilder {
			return builder.Pod("lab", name).Queue("llm").Card("NVIDIA-H200").GPUs(2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash)
		}
		objects := append(busyCluster(), builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Obj(), inLab(&appsv1.Deployment{}, "web"),
			tc.change(pod("web-a-0", "a").Running("h200-0")).Obj(), pod("web-b-0", "b").Unschedulable(saysQuota).Obj())

		text := explainLab(t, append(objects, tc.sets...), "web-b-0")
		check.Contains(t, name, text, "(QuotaExhausted)")
		check.Equal(t, name+": "+text, tc.want, strings.Contains(text, "Its rollout waits for its own old pods."))
		check.Equal(t, name+": "+text, tc.want, strings.Contains(text, "earlier revision"))
	}
}

func TestWhyNamesWhoReservesTheCards(t *testing.T) {
	const saysReserved = "Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <12>, but capability is <8>"
	objects := append(busyCluster(),
		builder.PodGroup("lab", "flow").Queue("roomy").Request(`{"NVIDIA-H200":8}`).MinResource(builder.GPU, "8").Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.PodGroup("lab", "other-queue").Queue("llm").Request(`{"NVIDIA-H200":3}`).MinResource(builder.GPU, "3").Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.PodGroup("lab", "pending").Queue("roomy").Request(`{"NVIDIA-H200":2}`).MinResource(builder.GPU, "2").Phase(v1beta1.PodGroupPending).Obj(),
		builder.PodGroup("lab", "next").Queue("roomy").MinResource(builder.GPU, "4").Phase(v1beta1.PodGroupPending).Unschedulable(saysReserved).Obj(),
		builder.Pod("lab", "next-0").Queue("roomy").Card("NVIDIA-H200").GPUs(4).PodGroup("next").Obj())

	check.Text(t, "why", explainLab(t, objects, "next-0")).
		Has("the quota of the queue is reserved for jobs that the scheduler has enqueued.", "8 reserved by enqueued jobs",
			"PodGroup lab/flow waits for 8 NVIDIA-H200 and has no pods. If nothing creates them, delete it: kubectl -n lab delete podgroup.scheduling.volcano.sh flow.").
		Lacks("other-queue waits", "pending waits", "next waits for 4 NVIDIA-H200 and")
}

// TestAReservationNamesTheCardsOfTheRequest: a job that names no card may have any of the fleet.
func TestAReservationNamesTheCardsOfTheRequest(t *testing.T) {
	const saysReserved = "Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <12>, but capability is <8>"
	objects := append(busyCluster(),
		builder.PodGroup("lab", "any").Queue("roomy").MinResource(builder.GPU, "8").Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.Pod("lab", "next-0").Queue("roomy").Card("NVIDIA-H200").GPUs(4).Unschedulable(saysReserved).Obj())
	check.Contains(t, "why", explainLab(t, objects, "next-0"), "PodGroup lab/any waits for 8 NVIDIA-H200 and has no pods.")
}

func TestWhyTellsOfEvictions(t *testing.T) {
	waits := builder.Pod("lab", "train-worker-0").Queue("roomy").Card("NVIDIA-H200").GPUs(2).Owner("batch.volcano.sh/v1alpha1", "Job", "train").Unschedulable("0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.").Obj()
	reclaimed := eventOf("Job", "train", "CardsReclaimed", "4 card(s) are reclaimed for 1 job of service type inference: the whole job is evicted; 52 card-seconds of work are lost", 12*time.Minute)
	reclaimed.Count = 2
	evicted := eventOf("Pod", "train-worker-0", "Evict", "Pod is evicted, because of reclaim", 12*time.Minute)
	evicted.InvolvedObject.UID = "another"
	check.Contains(t, "by a reclaim", explainLab(t, append(busyCluster(), waits, reclaimed, evicted), "vcjob/train"),
		"Its last eviction was 12m ago: 4 card(s) are reclaimed for 1 job of service type inference: the whole job is evicted; 52 card-seconds of work are lost. Events tell of 1 more.")
	check.Contains(t, "by another pod of its queue", explainLab(t, append(busyCluster(), waits, evicted), "vcjob/train"), "Its last eviction was 12m ago: Pod is evicted, because of reclaim.")
	other := eventOf("Job", "other", "CardsReclaimed", "others", time.Minute)
	check.That(t, !strings.Contains(explainLab(t, append(busyCluster(), waits, other), "vcjob/train"), "eviction"), "another job was evicted")
}

func TestWhyCountsThePodsOfAGang(t *testing.T) {
	objects := append(busyCluster(), builder.PodGroup("lab", "g").Queue("roomy").MinMember(2).Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.Pod("lab", "g-0").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("g").Unschedulable("pod group is not ready, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable").Obj())
	check.Contains(t, "why", explainLab(t, objects, "g-0"), "(GangIncomplete): the gang needs 2 pods, 1 exists.", "Create 1 pod more of PodGroup g, or lower its minMember to 1.")
}

// TestWhyOfAGangKnowsItsController: the controller says which of its fields is too small, if any.
func TestWhyOfAGangKnowsItsController(t *testing.T) {
	four := ptr.To(int32(4))
	parallel := appsv1.StatefulSetSpec{Replicas: four, PodManagementPolicy: appsv1.ParallelPodManagement}

	tasks := []batch.TaskSpec{{Replicas: 1}, {Replicas: 3}}
	for name, tc := range map[string]struct {
		controller client.Object
		group      string
		kind       string
		want       string
	}{
		"an ordered StatefulSet":  {&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: four}}, "apps/v1", "StatefulSet", "spec.podManagementPolicy: Parallel"},
		"a parallel StatefulSet":  {&appsv1.StatefulSet{Spec: parallel}, "apps/v1", "StatefulSet", "has to create 3 pods more. Its events"},
		"a StatefulSet of one":    {&appsv1.StatefulSet{}, "apps/v1", "StatefulSet", "raise spec.replicas to 4"},
		"a ReplicaSet of one":     {&appsv1.ReplicaSet{}, "apps/v1", "ReplicaSet", "raise spec.replicas to 4"},
		"a DaemonSet of no nodes": {&appsv1.DaemonSet{}, "apps/v1", "DaemonSet", "wants 0 pods, and its gang needs 4: lower its annotation"},
		"a Job":                   {&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(2))}}, "batch/v1", "Job", "raise spec.parallelism to 4"},
		"a Job of two":            {&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: four, Completions: ptr.To(int32(2))}}, "batch/v1", "Job", "or create it again with spec.completions: 4"},
		"a Volcano job":           {&batch.Job{Spec: batch.JobSpec{Tasks: tasks}}, "batch.volcano.sh/v1alpha1", "Job", "has to create 3 pods more. Its events"},
	} {
		objects := append(busyCluster(), inLab(tc.controller, "g"), builder.PodGroup("lab", "g").Queue("roomy").MinMember(4).Phase(v1beta1.PodGroupInqueue).Obj(),
			builder.Pod("lab", "g-0").Queue("roomy").Card("NVIDIA-H200").GPUs(1).Owner(tc.group, tc.kind, "g").PodGroup("g").Unschedulable("pod group is not ready, 1 Pending, 4 minAvailable; Pending: 1 Unschedulable").Obj())
		check.Contains(t, name, explainLab(t, objects, "g-0"), "(GangIncomplete): the gang needs 4 pods, 1 exists.", tc.want)
	}
}

// TestWhyOfAGangWithoutTheRightToReadIt: the words of the scheduler have the numbers.
func TestWhyOfAGangWithoutTheRightToReadIt(t *testing.T) {
	objects := append(busyCluster(), builder.Pod("lab", "g-0").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("g").Unschedulable("pod group is not ready, 1 Pending, 3 minAvailable; Pending: 1 Unschedulable").Obj())
	mayNotList := forbid(v1beta1.SchemeGroupVersion.WithResource("podgroups").GroupResource(), &v1beta1.PodGroupList{})
	execute(t, objects, mayNotList, "why", "-n", "lab", "g-0").prints("(GangIncomplete): the gang needs 3 pods, 1 exists.", "Create 2 pods more of PodGroup g")
}

// TestWhyIsAboutThePodThatIsRefused: the first pod of the job would fit.
func TestWhyIsAboutThePodThatIsRefused(t *testing.T) {
	const refused = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <8>, but capability is <4>"
	gang := "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is tf-b-0: " + refused
	objects := append(busyCluster(),
		builder.PodGroup("lab", "tf").Queue("llm").MinMember(2).Owner("batch.volcano.sh/v1alpha1", "Job", "tf").Phase("Inqueue").Obj(),
		ofJob("tf-a-0").Card("NVIDIA-H200").GPUs(1).Unschedulable(gang).Obj(), ofJob("tf-b-0").Card("NVIDIA-H200").GPUs(5).Unschedulable(refused).Obj())
	check.Text(t, "why", explainLab(t, objects, "vcjob/tf")).
		Has("(QuotaExhausted): it requests more than the whole quota of the queue.", "quota of llm No 3/4 NVIDIA-H200 used, 1 free", "CardQuota llm lacks 4 NVIDIA-H200 for the next pod, 5 for all that wait").
		Lacks("Ask again") // it never changes
}

func TestWhyOfACardWithoutLabels(t *testing.T) {
	objects := append(busyCluster(), builder.Node("new").Resource(builder.GPU, "8").Obj(),
		builder.Pod("lab", "b300").Queue("roomy").Card("NVIDIA-B300").GPUs(4).Unschedulable("no node has <NVIDIA-B300>, all nodes are unavailable: 1 node(s) have no named card for nvidia.com/gpu.").Obj(),
		builder.Pod("lab", "bare").Queue("roomy").Card("H200").GPUs(4).Unschedulable("no node has <H200>, all nodes are unavailable: 1 node(s) have another card than <H200>.").Obj())
	for _, object := range objects {
		if inventory, ok := object.(*v1alpha1.CardInventory); ok {
			inventory.Status.Anomalies = []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, Nodes: []string{"new"}, Message: "node new: offers nvidia.com/gpu but no label names it; add these labels"}}
		}
	}

	check.Text(t, "why", explainLab(t, objects, "b300")).
		Has("(UnknownCard): no node has this card, or it is not named yet.", "The card may not be named yet: node new: offers nvidia.com/gpu").
		Lacks("Correct the name") // the name is right
	check.Contains(t, "without the vendor", explainLab(t, objects, "bare"), "Or did you mean NVIDIA-H200?")
}

func TestWhyOfADeletedCardQuota(t *testing.T) {
	objects := append(busyCluster(), builder.Pod("lab", "next").Queue("llm").Card("NVIDIA-H200").GPUs(1).
		Unschedulable("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <1>, total would be <4>, but capability is <0>").Obj())
	for _, object := range objects {
		if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Name == "llm" {
			quota.DeletionTimestamp = ptr.To(metav1.NewTime(at))
			quota.Finalizers = []string{"cardquota.dev/queue"}
		}
	}
	check.Text(t, "why", explainLab(t, objects, "next")).
		Has("CardQuota llm is being deleted, and its queue gives no more cards.", "quota of llm No it is being deleted and gives no more cards").
		Lacks("kubectl edit") // an edit has no effect
}

// TestWhySaysToATenantThatTheQuotaIsDeleted: a LocalCardQuota is not deleted before its CardQuota is gone.
func TestWhySaysToATenantThatTheQuotaIsDeleted(t *testing.T) {
	local := localQuota()
	local.Status.State = v1alpha1.QueueDraining
	r := execute(t, append(busyCluster(), local), forbidCluster("lab"), "why", "quota-0", "-n", "lab")
	check.Text(t, "why", strings.Join(strings.Fields(r.out), " ")).
		Has("CardQuota llm is being deleted, and its queue gives no more cards.", "queue llm No it is Draining", "name another queue, or ask the administrator whether there will be a new one.").
		Lacks("lacks") // more quota is no way out
}
