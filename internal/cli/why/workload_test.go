package why

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// eventOf is a warning in namespace lab.
func eventOf(kind, name, reason, message string, ago time.Duration) *corev1.Event {
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "lab", Name: name},
		Type:           "Warning",
		Reason:         reason,
		Message:        message,
		LastTimestamp:  kubectl.TimeAgo(ago),
	}
	event.Namespace = "lab"
	event.Name = fmt.Sprint(name, ".", reason, ago)
	return event
}

func inLab(object client.Object, name string) client.Object {
	object.SetNamespace("lab")
	object.SetName(name)
	return object
}

// newDeployment is Deployment lab/web.
func newDeployment(replicas int32, conditions ...appsv1.DeploymentCondition) client.Object {
	return inLab(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{Conditions: conditions}}, "web")
}

// TestWhySaysThatPodsCouldNotBeCreated: a pod that admission refuses never exists, so the scheduler states nothing
// about it. The controller of the pod reports the failure in a condition or in an event. Why shows the last one, and
// what helps. A workload that wants no pods now does not wait.
func TestWhySaysThatPodsCouldNotBeCreated(t *testing.T) {
	const refused = `admission webhook denied the request: pod requests 1 nvidia.com/gpu and names schedulerName default-scheduler: write schedulerName: volcano`
	failed := appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: refused}
	failure := func(kind, name string) client.Object {
		return eventOf(kind, name, "FailedCreate", refused, time.Minute)
	}

	job := inLab(&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(1))}}, "a6")
	suspended := inLab(&batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}, "a6")
	vcjob := inLab(&batch.Job{Spec: batch.JobSpec{Tasks: []batch.TaskSpec{{Replicas: 2}}}}, "v")
	running := builder.Pod("lab", "web-a-0").Queue("roomy").Owner("apps/v1", "ReplicaSet", "web-a").Label("pod-template-hash", "a").
		GPUs(1).Running("h200-0").Obj()

	for t, tc := range check.Cases(t, map[string]struct {
		objects  []client.Object
		asked    string
		wantCode int
		want     []string
	}{
		"a Deployment with a condition": {
			[]client.Object{newDeployment(2, failed)}, "deployment/web", program.ExitWaits,
			[]string{
				"Deployment lab/web has no pods: its controller could not create them. It says: " + refused,
				"Write schedulerName: volcano into the spec of the pod template: kubectl -n lab edit deployment web.",
			},
		},
		"an event of the ReplicaSet of the Deployment": {
			[]client.Object{newDeployment(2), failure("ReplicaSet", "web-abc")}, "deployment/web", program.ExitWaits, []string{"It says: " + refused},
		},
		"an event of a ReplicaSet of Deployment web-other": {
			[]client.Object{newDeployment(2), failure("ReplicaSet", "web-other-abc")}, "deployment/web", program.ExitWaits,
			[]string{"its controller has created none yet"},
		},
		"one of two pods runs": {
			[]client.Object{newDeployment(2, failed), running}, "deployment/web", program.ExitWaits,
			[]string{"does not wait: 1 pod has its place. Its controller could not create 1 pod more. It says: " + refused},
		},
		"a Job with an event of an hour ago and one of a minute ago": {
			[]client.Object{job, eventOf("Job", "a6", "FailedCreate", "exceeded quota: old", time.Hour), failure("Job", "a6")}, "job.batch/a6", program.ExitWaits,
			[]string{"Job lab/a6 has no pods: its controller could not create them. It says: " + refused, "kubectl -n lab delete job.batch a6"},
		},
		"a suspended Job": {[]client.Object{suspended}, "job.batch/a6", program.ExitOK, []string{"Job lab/a6 does not wait: it is suspended"}},
		"a Volcano job": {
			[]client.Object{vcjob, failure("Job", "v")}, "vcjob/v", program.ExitWaits,
			[]string{"Job lab/v has no pods", "create it again with spec.schedulerName: volcano: kubectl -n lab delete job.batch.volcano.sh v"},
		},
		"a Deployment of 0 replicas": {[]client.Object{newDeployment(0)}, "deployment/web", program.ExitOK, []string{"it wants no pods now"}},
		"a StatefulSet": {
			[]client.Object{inLab(&appsv1.StatefulSet{}, "db"), eventOf("StatefulSet", "db", "FailedCreate", "create Pod db-0 failed: "+refused, time.Minute)},
			"sts/db", program.ExitWaits, []string{"StatefulSet lab/db has no pods", refused},
		},
		"a Deployment that does not exist": {
			nil, "deployment/web", program.ExitError, []string{"namespace lab has no pod and no PodGroup of Deployment web"},
		},
	}) {
		execute(t, append(kubectl.ClusterWithOneFreeCard(), tc.objects...), kubectl.MayReadAll, "why -n lab "+tc.asked).Exits(tc.wantCode).Says(tc.want...)
	}
}

// TestWhyForgetsAFailureAfterWhichPodsCame: events stay for an hour, and an ordered StatefulSet, or a Job between two
// attempts, always has fewer pods than it wants. So a failure to create pods is shown only if it is newer than all
// pods and than the workload, and only while pods are missing. If the user asks about a pod, all pods of its workload
// count. In the rows "failed" is the creation of a pod, 1 or 9 minutes ago.
func TestWhyForgetsAFailureAfterWhichPodsCame(t *testing.T) {
	const refused = "pods are forbidden: write schedulerName: volcano"
	failedAgo := func(kind, name string, minutes time.Duration) client.Object {
		return eventOf(kind, name, "FailedCreate", refused, minutes*time.Minute)
	}
	statefulSet := func(replicas int32) client.Object {
		return inLab(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}, "db")
	}
	podOfSet := func(name string, minutes time.Duration) client.Object {
		return kubectl.NewPod(name, "roomy", 1).Owner("apps/v1", "StatefulSet", "db").Created(kubectl.At.Add(-minutes * time.Minute)).Obj()
	}

	failedPod := kubectl.NewPod("a6-0", "roomy", 1).Owner("batch/v1", "Job", "a6").Created(kubectl.At.Add(-time.Minute)).Phase(corev1.PodFailed).Obj()
	vcjob := inLab(&batch.Job{Spec: batch.JobSpec{Tasks: []batch.TaskSpec{{Replicas: 2}}}}, "v")
	vcjob.SetCreationTimestamp(kubectl.TimeAgo(time.Minute))

	for t, tc := range check.Cases(t, map[string]struct {
		objects   []client.Object
		asked     string
		wantShown bool
	}{
		"failed 1 minute ago, 1 of 2 pods is 9 minutes old": {
			[]client.Object{statefulSet(2), podOfSet("db-0", 9), failedAgo("StatefulSet", "db", 1)}, "sts/db", true,
		},
		"failed 9 minutes ago, 1 of 2 pods is 1 minute old": {
			[]client.Object{statefulSet(2), podOfSet("db-0", 1), failedAgo("StatefulSet", "db", 9)}, "sts/db", false,
		},
		"failed 1 minute ago, 1 of 1 pod exists": {
			[]client.Object{statefulSet(1), podOfSet("db-0", 9), failedAgo("StatefulSet", "db", 1)}, "sts/db", false,
		},
		"failed 1 minute ago, 1 of 2 pods exists, and the user asks about it": {
			[]client.Object{statefulSet(2), podOfSet("db-0", 9), failedAgo("StatefulSet", "db", 1)}, "db-0", true,
		},
		"failed 1 minute ago, 2 of 2 pods exist, and the user asks about one": {
			[]client.Object{statefulSet(2), podOfSet("db-0", 9), podOfSet("db-1", 9), failedAgo("StatefulSet", "db", 1)}, "db-0", false,
		},
		"failed 9 minutes ago, a pod of the Job was created 1 minute ago and has ended": {
			[]client.Object{inLab(&batchv1.Job{}, "a6"), failedPod, failedAgo("Job", "a6", 9)}, "job.batch/a6", false,
		},
		"failed 9 minutes ago, the job was created again 1 minute ago": {
			[]client.Object{vcjob, failedAgo("Job", "v", 9)}, "vcjob/v", false,
		},
	}) {
		text := whyInLab(t, append(kubectl.ClusterWithOneFreeCard(), tc.objects...), tc.asked)
		check.Equal(t, "shows the failure: "+text, tc.wantShown, strings.Contains(text, refused))
	}
}

// TestWhyOfAPodWhosePodGroupIsGone: Volcano schedules a pod only by its PodGroup, and PodGroup gone does not exist.
// So the user deletes the pod or creates the PodGroup. Without the right to list PodGroups, why does not claim that.
func TestWhyOfAPodWhosePodGroupIsGone(t *testing.T) {
	objects := append(kubectl.ClusterWithOneFreeCard(), kubectl.NewPod("orphan", "roomy", 1).PodGroup("gone").Obj())
	check.Contains(t, "why", whyInLab(t, objects, "orphan"), "(PodGroupNotFound): the PodGroup that the pod names does not exist.",
		"PodGroup gone No it does not exist", "kubectl -n lab delete pod orphan.", "create PodGroup gone.")

	noPodGroups := kubectl.Forbid(v1beta1.SchemeGroupVersion.WithResource("podgroups").GroupResource(), &v1beta1.PodGroupList{})
	execute(t, objects, noPodGroups, "why -n lab orphan").Lacks("does not exist")
}

// TestWhyOfANewPodWhosePodGroupIsNotKnownYet: why lists PodGroups before pods, so a pod that was created a second ago
// may have a PodGroup that was created in between. Why must not advise to delete such a pod.
func TestWhyOfANewPodWhosePodGroupIsNotKnownYet(t *testing.T) {
	isNew := kubectl.NewPod("orphan", "roomy", 1).PodGroup("gone").Created(kubectl.At.Add(-time.Second)).Obj()
	check.Text(t, "why", whyInLab(t, append(kubectl.ClusterWithOneFreeCard(), isNew), "orphan")).
		Has("The scheduler has not said why yet.").
		Lacks("does not exist", "delete pod")
}

// TestAGateNamesThePodGroupThatIsGone: job mixed has two pods. PodGroup exists of the first does exist, PodGroup gone of
// the second does not. A gate is a line of the explanation about one thing that a pod must pass. Only the second
// PodGroup has one with answer No.
func TestAGateNamesThePodGroupThatIsGone(t *testing.T) {
	pod := func(name, group string) *builder.PodBuilder {
		return kubectl.NewPod(name, "roomy", 1).PodGroup(group).Owner("batch.volcano.sh/v1alpha1", "Job", "mixed")
	}
	objects := append(kubectl.ClusterWithOneFreeCard(),
		builder.PodGroup("lab", "exists").Queue("roomy").Owner("batch.volcano.sh/v1alpha1", "Job", "mixed").Phase(v1beta1.PodGroupInqueue).Obj(),
		pod("mixed-0", "exists").Unschedulable(kubectl.SaysFull).Obj(), pod("mixed-1", "gone").Obj())

	check.Text(t, "why", whyInLab(t, objects, "vcjob/mixed")).
		Has("PodGroup gone No it does not exist").
		Lacks("PodGroup exists No")
}

// rollout returns Deployment web of two replicas, in a rollout: its old ReplicaSet web-a has two running pods, and
// pod web-b-0 of the new one waits for quota. Each pod requests 2 H200.
func rollout(strategy appsv1.DeploymentStrategy) []client.Object {
	pod := func(name, hash string) *builder.PodBuilder {
		return kubectl.NewPod(name, "llm", 2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash)
	}
	return []client.Object{
		inLab(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(2)), Strategy: strategy}}, "web"),
		pod("web-a-0", "a").Running("h200-0").Obj(), pod("web-a-1", "a").Running("h200-0").Obj(), pod("web-b-0", "b").Unschedulable(kubectl.SaysQuota).Obj(),
	}
}

// TestWhyOfARolloutThatAwaitsItsOldPods: Deployment web has 2 replicas of 2 H200 each. Two old pods run, and a new
// pod waits for cards that they use. If maxUnavailable, rounded down, is 0, the Deployment ends no old pod before a
// new one is ready, so it waits for ever. Why says so, and how to let it end an old pod first.
func TestWhyOfARolloutThatAwaitsItsOldPods(t *testing.T) {
	rolling := func(maxSurge, maxUnavailable intstr.IntOrString) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &maxSurge, MaxUnavailable: &maxUnavailable}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		strategy appsv1.DeploymentStrategy
		want     bool
	}{
		"by default 25 %, which of 2 is 0":                   {appsv1.DeploymentStrategy{}, true},
		"maxUnavailable 25 %, which of 2 is 0":               {rolling(intstr.FromString("25%"), intstr.FromString("25%")), true},
		"maxUnavailable 50 %, which of 2 is 1":               {rolling(intstr.FromString("25%"), intstr.FromString("50%")), false},
		"maxUnavailable 1":                                   {rolling(intstr.FromInt32(0), intstr.FromInt32(1)), false},
		"maxSurge 0 and maxUnavailable 0, which counts as 1": {rolling(intstr.FromInt32(0), intstr.FromInt32(0)), false},
		"strategy Recreate ends all old pods first":          {appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, false},
	}) {
		text := whyInLab(t, append(kubectl.ClusterWithOneFreeCard(), rollout(tc.strategy)...), "deployment/web")
		check.Contains(t, "why", text, "(QuotaExhausted)")
		for _, words := range []string{
			"Its rollout waits for its own old pods.",
			"Deployment web has 2 pods with 4 cards of its earlier revision.",
			`"maxSurge":0,"maxUnavailable":1`,
		} {
			check.Equal(t, "says "+words, tc.want, strings.Contains(text, words))
		}
	}
}

// TestWhyOfARolloutCountsOnlyOldPodsThatHelp: pod web-b-0 of ReplicaSet web-b waits for quota of 2 H200 in queue llm,
// and a pod of ReplicaSet web-a runs. It is an old pod if its ReplicaSet has the earlier revision, or without
// revisions is older. Its end helps if it uses the same card in the same queue, and is not terminating already. If
// the user may not read ReplicaSets, a pod of another ReplicaSet counts as old.
func TestWhyOfARolloutCountsOnlyOldPodsThatHelp(t *testing.T) {
	replicaSet := func(hash, revision string, ago time.Duration) client.Object {
		set := inLab(&appsv1.ReplicaSet{}, "web-"+hash)
		set.SetCreationTimestamp(kubectl.TimeAgo(ago))
		set.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": revision})
		return set
	}
	first := replicaSet("a", "1", time.Hour)
	second := replicaSet("b", "2", time.Minute)
	pod := func(hash string) *builder.PodBuilder {
		return kubectl.NewPod("web-"+hash+"-0", "llm", 2).Owner("apps/v1", "ReplicaSet", "web-"+hash).Label("pod-template-hash", hash)
	}

	running := pod("a").Running("h200-0").Obj()
	terminating := pod("a").Running("h200-0").Deleted(kubectl.At).With(func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} }).Obj() // else it would be gone
	for t, tc := range check.Cases(t, map[string]struct {
		replicaSets []client.Object
		pod         *corev1.Pod // of web-a
		want        bool
	}{
		"web-a has revision 1, web-b revision 2":         {[]client.Object{first, second}, running, true},
		"without revisions, web-a is older":              {[]client.Object{replicaSet("a", "", time.Hour), replicaSet("b", "", time.Minute)}, running, true},
		"the pod of web-a uses H800":                     {[]client.Object{first, second}, pod("a").Card("NVIDIA-H800").Running("h800-0").Obj(), false},
		"the pod of web-a is of queue roomy":             {[]client.Object{first, second}, pod("a").Queue("roomy").Running("h200-0").Obj(), false},
		"the pod of web-a terminates":                    {[]client.Object{first, second}, terminating, false},
		"web-a has revision 2, web-b revision 1":         {[]client.Object{replicaSet("a", "2", time.Minute), replicaSet("b", "1", time.Hour)}, running, false},
		"without revisions, web-a is newer":              {[]client.Object{replicaSet("a", "", time.Minute), replicaSet("b", "", time.Hour)}, running, false},
		"a rollback: web-b is older, and has revision 3": {[]client.Object{replicaSet("a", "2", time.Minute), replicaSet("b", "3", time.Hour)}, running, true},
		"the user may not read ReplicaSets":              {nil, running, true},
	}) {
		objects := append(kubectl.ClusterWithOneFreeCard(), builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Obj(), inLab(&appsv1.Deployment{}, "web"),
			tc.pod, pod("b").Unschedulable(kubectl.SaysQuota).Obj())
		text := whyInLab(t, append(objects, tc.replicaSets...), "web-b-0")
		check.Contains(t, "why", text, "(QuotaExhausted)")
		check.Equal(t, "waits for old pods: "+text, tc.want, strings.Contains(text, "Its rollout waits for its own old pods."))
		check.Equal(t, "names the old pods: "+text, tc.want, strings.Contains(text, "earlier revision"))
	}
}

// TestWhyNamesTheJobThatReservesTheCards: pod next-0 requests 4 H200 in queue roomy. Its quota of 8 is not used, but
// PodGroup flow, which the scheduler has enqueued and which has no pods, has reserved it. PodGroups of another queue,
// and those that are still Pending, reserve nothing there.
func TestWhyNamesTheJobThatReservesTheCards(t *testing.T) {
	group := func(name, queue, cards string, phase v1beta1.PodGroupPhase) client.Object {
		return builder.PodGroup("lab", name).Queue(queue).Request(`{"NVIDIA-H200":`+cards+`}`).MinResource(builder.GPU, cards).Phase(phase).Obj()
	}
	objects := append(kubectl.ClusterWithOneFreeCard(),
		group("flow", "roomy", "8", v1beta1.PodGroupInqueue),
		group("other-queue", "llm", "3", v1beta1.PodGroupInqueue),
		group("pending", "roomy", "2", v1beta1.PodGroupPending))

	check.Text(t, "why", whyInLab(t, append(objects, nextOfRoomy(4, 12)...), "next-0")). // 12 = 8 reserved + 4
												Has("the quota of the queue is reserved for jobs that the scheduler has enqueued.", "8 reserved by enqueued jobs",
			"PodGroup lab/flow waits for 8 NVIDIA-H200 and has no pods. If nothing creates them, delete it: kubectl -n lab delete podgroup.scheduling.volcano.sh flow.").
		Lacks("other-queue waits", "pending waits", "next waits for 4 NVIDIA-H200 and")
}

// TestAReservationNamesTheCardsOfTheRequest: PodGroup any has reserved 8 cards and names none, so it may have any card
// of the fleet, here H200 or H800. To pod next-0, which requests H200, it is named as a reservation of H200.
func TestAReservationNamesTheCardsOfTheRequest(t *testing.T) {
	const saysReserved = "Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <12>, but capability is <8>"
	objects := append(kubectl.ClusterWithOneFreeCard(), builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Obj(),
		builder.PodGroup("lab", "any").Queue("roomy").MinResource(builder.GPU, "8").Phase(v1beta1.PodGroupInqueue).Obj(),
		kubectl.NewPod("next-0", "roomy", 4).Unschedulable(saysReserved).Obj())
	check.Contains(t, "why", whyInLab(t, objects, "next-0"), "PodGroup lab/any waits for 8 NVIDIA-H200 and has no pods.")
}

// TestWhyShowsTheLastEviction: job train waits, because it was evicted 12 minutes ago. The event of a reclaim on the
// job says most. Without it, the event on its evicted pod does, which had the name of the new pod and another UID. Events
// of another job are not shown.
func TestWhyShowsTheLastEviction(t *testing.T) {
	const message = "4 card(s) are reclaimed for 1 job of service type inference: the whole job is evicted; 52 card-seconds of work are lost"
	reclaimed := eventOf("Job", "train", "CardsReclaimed", message, 12*time.Minute)
	reclaimed.Count = 2 // it stands for two evictions: the last one and 1 more
	evicted := eventOf("Pod", "train-worker-0", "Evict", "Pod is evicted, because of reclaim", 12*time.Minute)
	evicted.InvolvedObject.UID = "another"
	ofOther := eventOf("Job", "other", "CardsReclaimed", "others", time.Minute)

	waiting := kubectl.NewPod("train-worker-0", "roomy", 2).Owner("batch.volcano.sh/v1alpha1", "Job", "train").Unschedulable(kubectl.SaysFull).Obj()
	why := func(events ...client.Object) string {
		return whyInLab(t, append(append(kubectl.ClusterWithOneFreeCard(), waiting), events...), "vcjob/train")
	}
	check.Contains(t, "with events on the job and the pod", why(reclaimed, evicted), "Its last eviction was 12m ago: "+message+". Events tell of 1 more.")
	check.Contains(t, "with an event on the pod", why(evicted), "Its last eviction was 12m ago: Pod is evicted, because of reclaim.")
	check.Text(t, "with an event on job other", why(ofOther)).Lacks("eviction")
}

// TestWhyCountsThePodsOfAGang: PodGroup g needs 2 pods, and one exists. The scheduler cannot create the second, so
// the user creates it or lowers the minimum.
func TestWhyCountsThePodsOfAGang(t *testing.T) {
	objects := append(kubectl.ClusterWithOneFreeCard(), builder.PodGroup("lab", "g").Queue("roomy").MinMember(2).Phase(v1beta1.PodGroupInqueue).Obj(),
		kubectl.NewPod("g-0", "roomy", 1).PodGroup("g").Unschedulable("pod group is not ready, 1 Pending, 2 minAvailable; Pending: 1 Unschedulable").Obj())
	check.Contains(t, "why", whyInLab(t, objects, "g-0"),
		"(GangIncomplete): the gang needs 2 pods, 1 exists.", "Create 1 pod more of PodGroup g, or lower its minMember to 1.")
}

// TestWhyOfAGangKnowsItsController: a gang needs 4 pods, and one exists. If its controller wants fewer than 4, why
// names the field to raise; a DaemonSet has none, so there the user lowers the minimum. A StatefulSet that creates a
// pod only when the one before is ready never completes the gang. Any other controller that wants 4 has not created
// them yet, and its events say why.
func TestWhyOfAGangKnowsItsController(t *testing.T) {
	four := ptr.To(int32(4))
	inParallel := appsv1.StatefulSetSpec{Replicas: four, PodManagementPolicy: appsv1.ParallelPodManagement}
	tasks := []batch.TaskSpec{{Replicas: 1}, {Replicas: 3}}

	for t, tc := range check.Cases(t, map[string]struct {
		controller       client.Object
		apiVersion, kind string
		want             string
	}{
		"a StatefulSet of 4 that creates one pod after the other": {
			&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: four}}, "apps/v1", "StatefulSet", "spec.podManagementPolicy: Parallel",
		},
		"a StatefulSet of 4 that creates all pods at once": {
			&appsv1.StatefulSet{Spec: inParallel}, "apps/v1", "StatefulSet", "has to create 3 pods more. Its events",
		},
		"a StatefulSet of 1, the default": {&appsv1.StatefulSet{}, "apps/v1", "StatefulSet", "raise spec.replicas to 4"},
		"a ReplicaSet of 1, the default":  {&appsv1.ReplicaSet{}, "apps/v1", "ReplicaSet", "raise spec.replicas to 4"},
		"a DaemonSet that fits no node": {
			&appsv1.DaemonSet{}, "apps/v1", "DaemonSet", "wants 0 pods, and its gang needs 4: lower its annotation",
		},
		"a Job of parallelism 2": {
			&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(2))}}, "batch/v1", "Job", "raise spec.parallelism to 4",
		},
		"a Job of parallelism 4 and 2 completions, which cannot be changed": {
			&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: four, Completions: ptr.To(int32(2))}}, "batch/v1", "Job",
			"or create it again with spec.completions: 4",
		},
		"a Volcano job of 1 + 3 replicas": {
			&batch.Job{Spec: batch.JobSpec{Tasks: tasks}}, "batch.volcano.sh/v1alpha1", "Job", "has to create 3 pods more. Its events",
		},
	}) {
		pod := kubectl.NewPod("g-0", "roomy", 1).Owner(tc.apiVersion, tc.kind, "g").PodGroup("g").
			Unschedulable("pod group is not ready, 1 Pending, 4 minAvailable; Pending: 1 Unschedulable").Obj()
		group := builder.PodGroup("lab", "g").Queue("roomy").MinMember(4).Phase(v1beta1.PodGroupInqueue).Obj()
		objects := append(kubectl.ClusterWithOneFreeCard(), inLab(tc.controller, "g"), group, pod)
		check.Contains(t, "why", whyInLab(t, objects, "g-0"), "(GangIncomplete): the gang needs 4 pods, 1 exists.", tc.want)
	}
}

// TestWhyOfAGangWithoutTheRightToReadIt: the user may not list PodGroups. The message of the scheduler has the numbers:
// 1 pod of 3.
func TestWhyOfAGangWithoutTheRightToReadIt(t *testing.T) {
	objects := append(kubectl.ClusterWithOneFreeCard(),
		kubectl.NewPod("g-0", "roomy", 1).PodGroup("g").Unschedulable("pod group is not ready, 1 Pending, 3 minAvailable; Pending: 1 Unschedulable").Obj())
	noPodGroups := kubectl.Forbid(v1beta1.SchemeGroupVersion.WithResource("podgroups").GroupResource(), &v1beta1.PodGroupList{})
	execute(t, objects, noPodGroups, "why -n lab g-0").Prints("(GangIncomplete): the gang needs 3 pods, 1 exists.", "Create 2 pods more of PodGroup g")
}

// TestWhyIsAboutThePodThatIsRefused: of job tf, pod tf-a-0 requests 1 H200 and would fit, and tf-b-0 requests 5. Queue
// llm has a quota of 4, so tf-b-0 never fits, and the gang waits for ever. So why explains tf-b-0. The queue uses 3, so
// tf-b-0 lacks 3 + 5 - 4 = 4 cards, and both pods together 5. Why does not advise to ask again later.
func TestWhyIsAboutThePodThatIsRefused(t *testing.T) {
	const refused = "Queue <llm> has insufficient <NVIDIA-H200> quota: requested <5>, total would be <8>, but capability is <4>"
	const ofGang = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is tf-b-0: " + refused
	objects := append(kubectl.ClusterWithOneFreeCard(), groupOfTF().MinMember(2).Obj(),
		podOfTF("tf-a-0").Card("NVIDIA-H200").GPUs(1).Unschedulable(ofGang).Obj(),
		podOfTF("tf-b-0").Card("NVIDIA-H200").GPUs(5).Unschedulable(refused).Obj())

	check.Text(t, "why", whyInLab(t, objects, "vcjob/tf")).
		Has("(QuotaExhausted): it requests more than the whole quota of the queue.", "quota of llm No 3/4 NVIDIA-H200 used, 1 free",
			"CardQuota llm lacks 4 NVIDIA-H200 for the next pod, 5 for all that wait").
		Lacks("Ask again")
}

// TestWhyOfACardWithoutLabels: node new offers 8 nvidia.com/gpu, and no label says which card that is. It may be the
// NVIDIA-B300 that a pod requests, so why does not say that this name is wrong. A pod that requests H200 may also have
// meant NVIDIA-H200.
func TestWhyOfACardWithoutLabels(t *testing.T) {
	objects := append(kubectl.ClusterWithOneFreeCard(), builder.Node("new").Resource(builder.GPU, "8").Obj(),
		kubectl.NewPod("b300", "roomy", 4).Card("NVIDIA-B300").
			Unschedulable("no node has <NVIDIA-B300>, all nodes are unavailable: 1 node(s) have no named card for nvidia.com/gpu.").Obj(),
		kubectl.NewPod("bare", "roomy", 4).Card("H200").
			Unschedulable("no node has <H200>, all nodes are unavailable: 1 node(s) have another card than <H200>.").Obj())
	objects[1].(*v1alpha1.CardInventory).Status.Anomalies = []v1alpha1.InventoryAnomaly{{
		Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, Nodes: []string{"new"},
		Message: "node new: offers nvidia.com/gpu but no label names it; add these labels",
	}}

	check.Text(t, "why of NVIDIA-B300", whyInLab(t, objects, "b300")).
		Has("(UnknownCard): no node has this card, or it is not named yet.", "The card may not be named yet: node new: offers nvidia.com/gpu").
		Lacks("Correct the name")
	check.Contains(t, "why of H200", whyInLab(t, objects, "bare"), "Or did you mean NVIDIA-H200?")
}

// TestWhyOfADeletedCardQuota: CardQuota llm is being deleted, and its finalizer keeps it until its pods have ended. Its
// queue gives no more cards, and an edit would have no effect.
func TestWhyOfADeletedCardQuota(t *testing.T) {
	objects := append(kubectl.ClusterWithOneFreeCard(), kubectl.NewPod("next", "llm", 1).
		Unschedulable("Queue <llm> has insufficient <NVIDIA-H200> quota: requested <1>, total would be <4>, but capability is <0>").Obj())
	deleted := kubectl.CardQuotaIn(objects, "llm")
	deleted.DeletionTimestamp = ptr.To(kubectl.TimeAgo(0))
	deleted.Finalizers = []string{"cardquota.dev/queue"}

	check.Text(t, "why", whyInLab(t, objects, "next")).
		Has("CardQuota llm is being deleted, and its queue gives no more cards.", "quota of llm No it is being deleted and gives no more cards").
		Lacks("kubectl edit")
}

// TestWhySaysToATenantThatTheQuotaIsDeleted: pod quota-0 waits in queue llm, and its CardQuota is being deleted. A
// tenant sees only its LocalCardQuota, which stays until the CardQuota is gone and has state Draining. More quota is
// no way out.
func TestWhySaysToATenantThatTheQuotaIsDeleted(t *testing.T) {
	local := kubectl.LocalQuota()
	local.Status.State = v1alpha1.QueueDraining
	check.Text(t, "why", execute(t, append(kubectl.ClusterWithOneFreeCard(), local), kubectl.ForbidCluster("lab"), "why quota-0 -n lab").OneLine()).
		Has("CardQuota llm is being deleted, and its queue gives no more cards.", "queue llm No it is Draining",
			"name another queue, or ask the administrator whether there will be a new one.").
		Lacks("lacks")
}
