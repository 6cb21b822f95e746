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
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// knownVCJobs are Volcano jobs by name. They are not read while isUnread is set.
type knownVCJobs struct {
	jobs     map[string]*batch.Job
	isUnread bool
}

func (k *knownVCJobs) OpenSession(*framework.Session) bool { return !k.isUnread }

func (k *knownVCJobs) VCJob(_, name string) (*batch.Job, bool) {
	job, known := k.jobs[name]
	return job, known && !k.isUnread
}

// newVCJob returns a Volcano job as the informer keeps it. Each task has one pod with so many cards as a
// limit, and names a card or none, "A:4 :2".
func newVCJob(uid types.UID, cards ...string) *batch.Job {
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: uid}}
	for _, text := range cards {
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

// TestEnqueueOfVCJob: before a Volcano job has pods, its templates say what it needs, with limits as
// requests and the cards that they name. minResources of its PodGroup has only CPU.
func TestEnqueueOfVCJob(t *testing.T) {
	const unknown = "the scheduler does not know Volcano job <ns/j>, which decides what the PodGroup requests"
	jobOf := func(cards ...string) *knownVCJobs {
		return &knownVCJobs{jobs: map[string]*batch.Job{"j": newVCJob("u", cards...)}}
	}
	refused := func(cards string, requested, limit int) string {
		return fmt.Sprintf("Queue <q> has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>", cards, requested, requested, limit)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, request string
		known          *knownVCJobs
		why            string // "" for admitted
	}{
		"limits fit":                              {`{"A":8}`, "", jobOf("A:4", "A:4"), ""},
		"limits exceed the quota":                 {`{"A":3}`, "", jobOf("A:4", "A:4"), refused("A", 8, 3)},
		"other cards that the templates name":     {`{"A":8,"B":3}`, "", jobOf("B:4"), refused("B", 4, 3)},
		"templates without a card name":           {`{"B":2}`, "", jobOf(":3"), refused("B", 3, 2)},
		"templates without a card name, and none": {`{}`, "", jobOf(":3"), refused("A", 3, 0) + "; the other card it may use has no more room"},
		"the total is larger": {`{"A":3}`, `{"A":4}`, jobOf("A:1", "A:1"),
			refused("A", 4, 3) + " (volcano.sh/card.request requests 4 cards in all, the job's minimum is 2)"},
		"the job is not read yet":          {`{"A":8}`, "", &knownVCJobs{isUnread: true}, unknown},
		"the job is gone":                  {`{"A":8}`, "", &knownVCJobs{}, unknown},
		"another job has its name":         {`{"A":8}`, "", &knownVCJobs{jobs: map[string]*batch.Job{"j": newVCJob("other", "A:4")}}, unknown},
		"a total does not replace the job": {`{"A":8}`, `{"A":4}`, &knownVCJobs{}, unknown},
	}) {
		s := newScene(t, "node a model=A; node b model=B; queue q quota="+tc.quota+" cpu=64; job j queue=q min=2 phase=Pending minCards=0")
		s.m.UseVCJobs(tc.known)
		group := s.Groups[0]
		group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "j", UID: "u"}, batch.SchemeGroupVersion.WithKind("Job"))}
		if tc.request != "" {
			group.Annotations[v1alpha1.AnnotationCardRequest] = tc.request
		}

		s.enqueueAndAllocate()
		job := s.Job("j")
		check.Equal(t, "admitted", tc.why == "", job.PodGroup.Status.Phase == "Inqueue")
		check.Equal(t, "reason", tc.why, job.JobFitErrors)
	}
}

// TestVotesCountNothingForAnnouncedPodsThatNeverPreempt: a job without pods whose queue is full is not
// enqueued if the preemption policy of its pods will be Never.
func TestVotesCountNothingForAnnouncedPodsThatNeverPreempt(t *testing.T) {
	never := corev1.PreemptNever
	lower := corev1.PreemptLowerPriority
	for t, tc := range check.Cases(t, map[string]struct {
		isVCJob bool
		// class and policy are those of the template.
		class  string
		policy *corev1.PreemptionPolicy
		group  string // the class of the PodGroup
		// isDefault makes the class that never preempts the default one, beside a higher one that does.
		isDefault bool
		enqueued  bool
	}{
		"a vcjob":                                  {isVCJob: true, group: "high", enqueued: true},
		"a vcjob with a template that does not":    {isVCJob: true, group: "high", policy: &never},
		"a vcjob with a class that does not":       {isVCJob: true, group: "polite"},
		"a template with a class that does not":    {isVCJob: true, group: "high", class: "polite"},
		"a template with another class":            {isVCJob: true, group: "polite", class: "high", enqueued: true},
		"a template that does, whatever the class": {isVCJob: true, group: "polite", policy: &lower, enqueued: true},
		"a PodGroup":                               {group: "high", enqueued: true},
		"a PodGroup with a class that does not":    {group: "polite"},
		"a vcjob of a default class that does not": {isVCJob: true, isDefault: true},
		"a PodGroup of such a default class":       {isDefault: true},
		"a class beside such a default class":      {isVCJob: true, isDefault: true, group: "high", enqueued: true},
		"no class":                                 {isVCJob: true, enqueued: true},
	}) {
		s := newScene(t, `node a model=A; queue q quota={"A":8} cpu=1000; job low queue=q min=8 running=a*8 priorityClass=low; job j queue=q min=1 phase=Pending minCards=1 priorityClass=high`)
		vcJob := newVCJob("u", "A:1")
		vcJob.Spec.Tasks[0].Template.Spec.PriorityClassName = tc.class
		vcJob.Spec.Tasks[0].Template.Spec.PreemptionPolicy = tc.policy
		s.m.UseVCJobs(&knownVCJobs{jobs: map[string]*batch.Job{"j": workload.StripVCJob(vcJob)}})
		s.m.evictionPolicies = s.evictionPolicyOf

		s.openSession()
		classes := s.Ssn.InformerFactory().Scheduling().V1().PriorityClasses().Informer().GetIndexer()
		polite := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 1, PreemptionPolicy: &never, GlobalDefault: tc.isDefault}
		eager := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "eager"}, Value: 2, PreemptionPolicy: &lower, GlobalDefault: tc.isDefault}
		check.NoError(t, classes.Add(polite))
		check.NoError(t, classes.Add(eager))

		job := s.Job("j")
		job.PodGroup.Spec.PriorityClassName = tc.group
		if tc.isVCJob {
			job.PodGroup.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "j", UID: "u"}, batch.SchemeGroupVersion.WithKind("Job"))}
		}

		s.Run(enqueue.New(), idleAction{preempt.New()})
		check.Equal(t, "enqueued", tc.enqueued, !job.IsPending())
	}
}

// TestVCJobIsReadAgain: a job that changes, or is read late, is judged by what it is now.
func TestVCJobIsReadAgain(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":3} cpu=64; job j queue=q min=1 phase=Pending minCards=0`)
	known := &knownVCJobs{isUnread: true, jobs: map[string]*batch.Job{"j": newVCJob("u", "A:4")}}
	s.m.UseVCJobs(known)
	s.Groups[0].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "j", UID: "u"}, batch.SchemeGroupVersion.WithKind("Job"))}

	phases := func() v1beta1.PodGroupPhase {
		s.enqueueAndAllocate()
		return v1beta1.PodGroupPhase(s.Job("j").PodGroup.Status.Phase)
	}
	check.Equal(t, "before it is read", v1beta1.PodGroupPending, phases())

	known.isUnread = false
	check.Equal(t, "with four cards", v1beta1.PodGroupPending, phases())
	known.jobs["j"] = newVCJob("u", "A:3")
	check.Equal(t, "with three cards", v1beta1.PodGroupInqueue, phases())
}

// TestTotalWithoutMinimum: a PodGroup with a total and without minResources has a minimum all the same,
// so the reason names none.
func TestTotalWithoutMinimum(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":3}; job j queue=q min=2 phase=Pending minCards=0 request={"A":4}`).enqueueAndAllocate()
	check.Equal(t, "reason", "Queue <q> has insufficient <A> quota: requested <4>, total would be <4>, but capability is <3>", s.Job("j").JobFitErrors)
}

// TestRefusedRequestStaysRefused: while jobs are enqueued, an equal request of an equal job needs no
// second vote. A smaller one does, and so does an equal one after an eviction.
func TestRefusedRequestStaysRefused(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":4}; job t queue=q min=1 running=a*2; job j queue=q min=1 phase=Pending minCards=4; job k queue=q min=1 phase=Pending minCards=4; job l queue=q min=1 phase=Pending minCards=3`).openSession()
	request := func(name string) *workload.Refusal {
		_, refusal := s.p.checkEnqueue(s.Job(name))
		return refusal
	}

	first := request("j")
	check.Must(t, first != nil, "a request beyond the quota is admitted")
	check.That(t, request("k") == first, "an equal request is checked again")
	check.That(t, request("l") == nil, "a smaller request is refused")

	s.p.reserve("q", quota.JobRequest{Cards: []quota.CardRequest{{Names: []card.Name{"A"}, Count: 2}}})
	check.That(t, request("l") != nil, "a request is admitted beside a reservation")
	check.NoError(t, framework.NewStatement(s.Ssn).Evict(s.Task("t-0"), "test"))
	check.That(t, request("k") != first, "an equal request is not checked again after an eviction")
}
