package capacitycard

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// knownVCJobs are Volcano jobs by name, as the scheduler reads them. It has not read them yet while isUnread is set.
type knownVCJobs struct {
	jobs     map[string]*batch.Job
	isUnread bool
}

func (k *knownVCJobs) OpenSession(*framework.Session) bool { return !k.isUnread }

func (k *knownVCJobs) VCJob(_, name string) (*batch.Job, bool) {
	job, known := k.jobs[name]
	return job, known && !k.isUnread
}

// newVCJob returns the Volcano job j with one task for each text. A task has one pod with so many cards as a limit,
// and names a card or none: "A:4", ":2".
func newVCJob(uid types.UID, tasks ...string) *batch.Job {
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: uid}}
	for _, text := range tasks {
		named, count, _ := strings.Cut(text, ":")
		task := batch.TaskSpec{Replicas: 1, MinAvailable: ptr.To[int32](1)}
		if named != "" {
			task.Template.Annotations = map[string]string{v1alpha1.AnnotationCardName: named}
		}

		limits := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)}
		task.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}
		job.Spec.Tasks = append(job.Spec.Tasks, task)
	}

	job.Spec.MinAvailable = int32(len(job.Spec.Tasks))
	return workload.StripVCJob(job)
}

// ownedByVCJob is the owner reference of a PodGroup of the Volcano job j with the UID u.
var ownedByVCJob = []metav1.OwnerReference{
	*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "j", UID: "u"}, batch.SchemeGroupVersion.WithKind("Job")),
}

// TestVCJobIsEnqueuedByItsTemplates: a Volcano job has no pods until Volcano enqueues its PodGroup. Until then its pod
// templates say what its minimum needs: limits count as requests, and each template names its card. "A:4" is a pod of 4
// cards A, ":3" one of 3 cards that names none. The PodGroup's minResources have only CPU. While the scheduler does not
// know the job, it does not enqueue it. Node a has cards A, node b cards B.
func TestVCJobIsEnqueuedByItsTemplates(t *testing.T) {
	const unknown = "the scheduler does not know Volcano job <ns/j>, which decides what the PodGroup requests"
	withTasks := func(tasks ...string) *knownVCJobs {
		return &knownVCJobs{jobs: map[string]*batch.Job{"j": newVCJob("u", tasks...)}}
	}
	insufficient := func(name string, requested, limit int) string {
		return fmt.Sprintf("Queue <q> has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>",
			name, requested, requested, limit)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota       string
		total       string // the word with the annotation card.request of the PodGroup
		known       *knownVCJobs
		wantRefusal string // "" if the job is enqueued
	}{
		"two pods of 4 A, quota 8: enqueued": {quota: `{"A":8}`, known: withTasks("A:4", "A:4")},
		"two pods of 4 A, quota 3: refused": {
			quota: `{"A":3}`, known: withTasks("A:4", "A:4"), wantRefusal: insufficient("A", 8, 3),
		},
		"a pod of 4 B, quota 8 A and 3 B: refused": {
			quota: `{"A":8,"B":3}`, known: withTasks("B:4"), wantRefusal: insufficient("B", 4, 3),
		},
		"a pod of 3 cards that names none, quota 2 B: refused for B": {
			quota: `{"B":2}`, known: withTasks(":3"), wantRefusal: insufficient("B", 3, 2),
		},
		"a pod of 3 cards that names none, no quota: refused for A, the first card": {
			quota: `{}`, known: withTasks(":3"), wantRefusal: insufficient("A", 3, 0) + "; the other card it may use has no more room",
		},
		"two pods of 1 A, a total of 4, quota 3: refused for the total": {
			quota: `{"A":3}`, total: `request={"A":4}`, known: withTasks("A:1", "A:1"),
			wantRefusal: insufficient("A", 4, 3) + " (volcano.sh/card.request requests 4 cards in all, the job's minimum is 2)",
		},
		"no job is read yet: refused": {quota: `{"A":8}`, known: &knownVCJobs{isUnread: true}, wantRefusal: unknown},
		"the job is gone: refused":    {quota: `{"A":8}`, known: &knownVCJobs{}, wantRefusal: unknown},
		"a job of the same name has another UID: refused": {
			quota: `{"A":8}`, known: &knownVCJobs{jobs: map[string]*batch.Job{"j": newVCJob("other", "A:4")}}, wantRefusal: unknown,
		},
		"the job is gone, and the PodGroup has a total: refused": {
			quota: `{"A":8}`, total: `request={"A":4}`, known: &knownVCJobs{}, wantRefusal: unknown,
		},
	}) {
		s := newScene(t, `node a model=A
			node b model=B
			queue q cpu=64 quota=`+tc.quota+`
			job j queue=q min=2 phase=Pending minCards=0 `+tc.total)
		s.m.UseVCJobs(tc.known)
		s.Groups[0].OwnerReferences = ownedByVCJob

		job := s.enqueueAndAllocate().Job("j")
		check.Equal(t, "enqueued", tc.wantRefusal == "", job.PodGroup.Status.Phase == scheduling.PodGroupInqueue)
		check.Equal(t, "reason", tc.wantRefusal, job.JobFitErrors)
	}
}

// TestJobIsNotEnqueuedIntoAFullQueueIfItsPodsWillNeverPreempt: queue q has a quota of 8 A, all used by a gang of
// lower priority. Job j has no pods yet. It is enqueued only if its pods will be able to preempt that gang. The
// first of these that is given decides: the preemption policy of the pod template, its PriorityClass, the class of
// the PodGroup, the default class. Of two default classes, Kubernetes uses the one of lower value. Pods of class
// "high" or of no class preempt, those of class "polite" never do.
func TestJobIsNotEnqueuedIntoAFullQueueIfItsPodsWillNeverPreempt(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		isVCJob bool
		// templateClass and templatePolicy are those of the pod template of a Volcano job.
		templateClass  string
		templatePolicy *corev1.PreemptionPolicy
		groupClass     string // of the PodGroup
		// hasDefaultClass makes polite a default class, beside a default class of higher value that preempts.
		hasDefaultClass bool
		wantEnqueued    bool
	}{
		"a Volcano job of class high: enqueued": {isVCJob: true, groupClass: "high", wantEnqueued: true},
		"a Volcano job of class high, and its template says Never: refused": {
			isVCJob: true, groupClass: "high", templatePolicy: ptr.To(corev1.PreemptNever),
		},
		"a Volcano job of class polite: refused": {isVCJob: true, groupClass: "polite"},
		"a Volcano job of class high, and its template names polite: refused": {
			isVCJob: true, groupClass: "high", templateClass: "polite",
		},
		"a Volcano job of class polite, and its template names high: enqueued": {
			isVCJob: true, groupClass: "polite", templateClass: "high", wantEnqueued: true,
		},
		"a Volcano job of class polite, and its template says PreemptLowerPriority: enqueued": {
			isVCJob: true, groupClass: "polite", templatePolicy: ptr.To(corev1.PreemptLowerPriority), wantEnqueued: true,
		},
		"a PodGroup without a Volcano job, of class high: enqueued":  {groupClass: "high", wantEnqueued: true},
		"a PodGroup without a Volcano job, of class polite: refused": {groupClass: "polite"},
		"a Volcano job without a class, and polite is the default: refused": {
			isVCJob: true, hasDefaultClass: true,
		},
		"a PodGroup without a Volcano job or a class, and polite is the default: refused": {hasDefaultClass: true},
		"a Volcano job of class high, and polite is the default: enqueued": {
			isVCJob: true, hasDefaultClass: true, groupClass: "high", wantEnqueued: true,
		},
		"a Volcano job without a class, and there is no default: enqueued": {isVCJob: true, wantEnqueued: true},
	}) {
		s := newScene(t, `node a model=A
			queue q quota={"A":8} cpu=1000
			job low queue=q min=8 running=a*8 priorityClass=low
			job j queue=q min=1 phase=Pending minCards=1 priorityClass=high`)
		vcJob := newVCJob("u", "A:1")
		vcJob.Spec.Tasks[0].Template.Spec.PriorityClassName = tc.templateClass
		vcJob.Spec.Tasks[0].Template.Spec.PreemptionPolicy = tc.templatePolicy
		s.m.UseVCJobs(&knownVCJobs{jobs: map[string]*batch.Job{"j": workload.StripVCJob(vcJob)}})
		s.m.EvictionPolicies = s.evictionPolicyOf

		s.openSession()
		classes := s.Ssn.InformerFactory().Scheduling().V1().PriorityClasses().Informer().GetIndexer()
		check.NoError(t, classes.Add(&schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 1, PreemptionPolicy: ptr.To(corev1.PreemptNever), GlobalDefault: tc.hasDefaultClass,
		}))
		check.NoError(t, classes.Add(&schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: "eager"}, Value: 2, PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority), GlobalDefault: tc.hasDefaultClass,
		}))

		// The priority of j, above that of low, was read when the session opened. Only the name of the class changes.
		job := s.Job("j")
		job.PodGroup.Spec.PriorityClassName = tc.groupClass
		if tc.isVCJob {
			job.PodGroup.OwnerReferences = ownedByVCJob
		}

		s.Run(enqueue.New(), idleAction{preempt.New()})
		check.Equal(t, "enqueued", tc.wantEnqueued, !job.IsPending())
	}
}

// TestVCJobIsReadAgain: the quota is 3 A. The PodGroup of a Volcano job waits until the scheduler has read the job,
// then because the job needs 4 cards. When the owner lowers the job to 3 cards, the PodGroup is enqueued.
func TestVCJobIsReadAgain(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":3} cpu=64
		job j queue=q min=1 phase=Pending minCards=0`)
	known := &knownVCJobs{isUnread: true, jobs: map[string]*batch.Job{"j": newVCJob("u", "A:4")}}
	s.m.UseVCJobs(known)
	s.Groups[0].OwnerReferences = ownedByVCJob

	s.enqueueAndAllocate().checkEnqueued(t, "j", "the scheduler does not know Volcano job <ns/j>")
	known.isUnread = false
	s.enqueueAndAllocate().checkEnqueued(t, "j", "requested <4>")
	known.jobs["j"] = newVCJob("u", "A:3")
	s.enqueueAndAllocate().checkEnqueued(t, "j", "")
}

// TestRefusalOfATotalNamesNoMinimumOfZero: a PodGroup has a total of 4 cards, more than the quota of 3, and
// minResources without cards. Its minimum of cards is unknown then, and not 0. So the reason names the total, and no
// minimum beside it.
func TestRefusalOfATotalNamesNoMinimumOfZero(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":3}
		job j queue=q min=2 phase=Pending minCards=0 request={"A":4}`).enqueueAndAllocate()

	const reason = "Queue <q> has insufficient <A> quota: requested <4>, total would be <4>, but capability is <3>"
	check.Equal(t, "reason", reason, s.Job("j").JobFitErrors)
}

// TestRefusedRequestStaysRefused: Volcano asks about each waiting job in each session. While a session enqueues jobs,
// reservations only grow. So a request that equals a refused one gets the same refusal without another check. A
// smaller request is checked, and after an eviction all are. The quota is 4. Job t uses 2 cards, one of them for an
// elastic pod, which can make way. So 3 cards fit, those of job l, but not the 4 of jobs j and k.
func TestRefusedRequestStaysRefused(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":4}
		job t queue=q min=1 running=a*2
		job j queue=q min=1 phase=Pending minCards=4
		job k queue=q min=1 phase=Pending minCards=4
		job l queue=q min=1 phase=Pending minCards=3`).openSession()
	refusalOf := func(job string) *workload.Refusal {
		_, refusal := s.p.enqueue.Check(s.Job(job))
		return refusal
	}

	first := refusalOf("j")
	check.Must(t, first != nil, "the 4 cards of job j are not refused")
	check.That(t, refusalOf("k") == first, "the equal request of job k is checked again")
	check.That(t, refusalOf("l") == nil, "the 3 cards of job l are refused")

	s.p.sums.Reserve("q", quota.JobRequest{Cards: []quota.CardRequest{{Names: []card.Name{"A"}, Count: 2}}})
	check.That(t, refusalOf("l") != nil, "the 3 cards of job l are not refused beside a reservation of 2")
	check.NoError(t, framework.NewStatement(s.Ssn).Evict(s.Task("t-0"), "test"))
	check.That(t, refusalOf("k") != first, "the equal request of job k is not checked again after an eviction")
}
