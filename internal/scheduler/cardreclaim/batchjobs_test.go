package cardreclaim

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// policiesWithJobs knows Kubernetes Jobs too, by name.
type policiesWithJobs struct {
	fakePolicies
	jobs map[string]*batchv1.Job
}

func (p policiesWithJobs) FailureLimitFor(_, name string, _ types.UID) (workload.FailureLimit, bool) {
	job := p.jobs[name]
	if job == nil {
		return workload.FailureLimit{}, false
	}
	return workload.FailureLimitFor(job), true
}

// kubernetesJob is a Job with a backoffLimit and a pod failure policy of these rules.
func kubernetesJob(backoffLimit int32, rules ...batchv1.PodFailurePolicyRule) *batchv1.Job {
	job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: &backoffLimit}}
	if len(rules) > 0 {
		job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	}
	return job
}

// ofKubernetesJob makes pods those of a Kubernetes Job, none of which the Job controller has counted.
func ofKubernetesJob(name string) podChange {
	return func(p *corev1.Pod) {
		session.OwnedBy("batch/v1", "Job", name, "uid-of-"+name)(p)
		p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	}
}

// newSceneWithKubernetesJob returns a scene in which the pods of PodGroup batch are those of a Kubernetes Job, which is
// unknown if it is nil.
func newSceneWithKubernetesJob(text string, job *batchv1.Job, changes ...podChange) *scene {
	s := newInferenceAndTrainingScene(text, append(changes, onJob("batch", ofKubernetesJob("batch")))...)
	s.startCache()
	s.search.evictions.JobPolicies = policiesWithJobs{s.policies, map[string]*batchv1.Job{"batch": job}}
	return s
}

// TestAnEvictionBeyondTheBackoffLimitCostsTheWholeJob: each evicted pod of a Kubernetes Job counts as a failure,
// unless its podFailurePolicy ignores evictions. More failures than backoffLimit end the Job, and all its work
// is lost. So only as many pods are elastic as the limit allows. A Job that the scheduler does not know has no
// elastic pods. Job batch has 4 pods of 10 hours, of which its minimum is one. The gang has 4 pods of 5 hours.
// Elastic pods are evicted before whole jobs, equal pods in the order of their names. If batch would fail, the gang
// is evicted instead: it loses 20 card-hours, all of batch 40. "gang*4" are the pods gang-0 to gang-3.
func TestAnEvictionBeyondTheBackoffLimitCostsTheWholeJob(t *testing.T) {
	savedNow := onJob("batch", withCheckpoint(time.Now()))
	failOnEviction := workload.EvictionRule()
	failOnEviction.Action = batchv1.PodFailurePolicyActionFailJob

	for t, tc := range check.Cases(t, map[string]struct {
		job         *batchv1.Job
		change      podChange
		waiting     int
		wantEvicted string
	}{
		"backoffLimit 1, one card: a pod of batch":                                  {kubernetesJob(1), nil, 1, "batch-0"},
		"backoffLimit 0, one card: the gang":                                        {kubernetesJob(0), nil, 1, "gang*4"},
		"backoffLimit 2, two cards: two pods of batch":                              {kubernetesJob(2), nil, 2, "batch-0 batch-1"},
		"backoffLimit 2, three cards: the gang":                                     {kubernetesJob(2), nil, 3, "gang*4"},
		"backoffLimit 0, evictions are ignored: three of batch":                     {kubernetesJob(0, workload.EvictionRule()), nil, 3, "batch-0 batch-1 batch-2"},
		"backoffLimit 6, but an eviction fails the Job: the gang":                   {kubernetesJob(6, failOnEviction), nil, 1, "gang*4"},
		"the Job is unknown: the gang":                                              {nil, nil, 1, "gang*4"},
		"backoffLimit 0, and a checkpoint does not save a Job that fails: the gang": {kubernetesJob(0), savedNow, 1, "gang*4"},
	}) {
		s := newSceneWithKubernetesJob(fmt.Sprintf(`
			node n model=A cards=8
			job batch queue=training min=1 running=n*4 age=10h
			job gang queue=training min=4 running=n*4 age=5h
			job i queue=inference min=%[1]d pending=%[1]d`, tc.waiting), tc.job, tc.change)
		s.runSession(t).expectEvicted(t, tc.wantEvicted)
	}
}

// TestPodsOfAJobThatEndedCountForItsLoss: node n has 7 cards, and the pod batch-3 has ended. A pod that failed
// counts against backoffLimit. If the Job fails, the work of a pod that succeeded is lost too: the hours that it
// ran. The 3 running pods of batch are 10 hours old. In all rows one more failure ends the Job: backoffLimit is
// 0, or 1 after one failure. So the scheduler evicts the whole Job or the gang, whichever loses less. "gang*4"
// are the pods gang-0 to gang-3.
func TestPodsOfAJobThatEndedCountForItsLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		backoffLimit int32
		phase        corev1.PodPhase
		ran          time.Duration
		ageOfGang    string
		wantEvicted  string
	}{
		"one failure of backoffLimit 1: batch would lose at least 30 card-hours, the gang loses 4 × 5 = 20": {
			1, corev1.PodFailed, time.Hour, "5h", "gang*4"},
		"batch-3 succeeded after 10 hours: batch would lose 40 card-hours, the gang loses 4 × 9 = 36": {
			0, corev1.PodSucceeded, 10 * time.Hour, "9h", "gang*4"},
		"batch-3 succeeded after 5 hours: batch loses 35 card-hours, the gang would lose 4 × 9 = 36": {
			0, corev1.PodSucceeded, 5 * time.Hour, "9h", "batch*3"},
	}) {
		ended := onPod("batch-3", func(p *corev1.Pod) {
			p.Status.Phase = tc.phase
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(p.Status.StartTime.Add(tc.ran))},
			}}}
		})
		s := newSceneWithKubernetesJob(`
			node n model=A cards=7
			job batch queue=training min=1 running=n*4 age=10h
			job i queue=inference min=1 pending=1
			job gang queue=training min=4 running=n*4 age=`+tc.ageOfGang, kubernetesJob(tc.backoffLimit), ended)

		s.runSession(t).expectEvicted(t, tc.wantEvicted)
	}
}

// TestAJobAtItsBackoffLimitIsEvictedWholeIfThatLosesLess: backoffLimit is 0, so the eviction of one pod ends the
// Job batch. The scheduler evicts all its pods, which loses 4 × 10 card-hours. The gang would lose 4 × 50.
// "batch*4" are the pods batch-0 to batch-3.
func TestAJobAtItsBackoffLimitIsEvictedWholeIfThatLosesLess(t *testing.T) {
	s := newSceneWithKubernetesJob(`
		node n model=A cards=8
		job batch queue=training min=1 running=n*4 age=10h
		job gang queue=training min=4 running=n*4 age=50h
		job i queue=inference min=1 pending=1`, kubernetesJob(0))

	s.runSession(t).expectEvicted(t, "batch*4")
}

// TestEvictedPodsCountAgainstTheBackoffLimitAtOnce: each evicted pod of a Kubernetes Job counts as a failure,
// and more failures than backoffLimit end the Job. The Job controller counts late, so the scheduler itself
// counts the pods that it has evicted. Inference takes one card, then a second one. An elastic pod of batch is
// the cheaper victim, until the limit is reached. Then the gang of 4 pods is evicted. The second list still has
// batch-0, which terminates. "gang*4" are the pods gang-0 to gang-3.
func TestEvictedPodsCountAgainstTheBackoffLimitAtOnce(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		backoffLimit int32
		wantEvicted  string
	}{
		"backoffLimit 1: the second eviction would end the Job": {1, "batch-0 gang*4"},
		"backoffLimit 2: the Job may lose both pods":            {2, "batch-0 batch-1"},
	}) {
		s := newSceneWithKubernetesJob(`
			node n model=A cards=8
			job batch queue=training min=1 running=n*4 age=10h
			job gang queue=training min=4 running=n*4 age=5h
			job first queue=inference min=1 pending=1`, kubernetesJob(tc.backoffLimit))
		s.runSession(t).expectEvictedAndPlaced(t, "batch-0", "first-0@n")

		s.addToCache("job second queue=inference min=1 pending=1")
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "first-0@n second-0@n")
	}
}

// TestAFailedSearchIsRepeatedWhenTheBackoffLimitChanges: with backoffLimit 0 no pod of batch is elastic, and one
// of them is protected, so the whole Job cannot be evicted either. A user raises the limit to 1, and the next session
// evicts batch-0, the first pod by name.
func TestAFailedSearchIsRepeatedWhenTheBackoffLimitChanges(t *testing.T) {
	job := kubernetesJob(0)
	s := newSceneWithKubernetesJob(`
		node n model=A cards=4
		job batch queue=training min=1 running=n*4 age=10h
		job i queue=inference min=1 pending=1`, job, onPod("batch-3", protect))
	s.runSession(t).expectEvictedAndPlaced(t, "", "")

	job.Spec.BackoffLimit = ptr.To[int32](1)
	s.runSession(t).expectEvictedAndPlaced(t, "batch-0", "i-0@n")
}

// TestEventsSayThatAJobFails: backoffLimit is 0, so the eviction of one pod ends the Job. All of its work is
// lost, also what the checkpoint of batch-0 has saved: 4 cards × 24 hours = 345600 card-seconds. "w%d-batch" is
// the UID of PodGroup batch, with the number of the scene. "batch*4" are the pods batch-0 to batch-3.
func TestEventsSayThatAJobFails(t *testing.T) {
	s := newSceneWithKubernetesJob(`
		node n model=A cards=4
		job batch queue=training min=1 running=n*4 age=24h
		job i queue=inference min=1 pending=1`, kubernetesJob(0), onPod("batch-0", withCheckpoint(time.Now())))
	s.runSession(t).expectEvictedAndPlaced(t, "batch*4", "i-0@n")

	message := eventsAbout(t, fmt.Sprintf("w%d-batch", s.ID), "CardsReclaimed")[0].Message
	check.Contains(t, "event of the victim", message, "all of its pods are evicted, and the Job fails",
		"backoffLimit", "DisruptionTarget", "345600 card-seconds of work are lost")
	message = eventsAbout(t, fmt.Sprintf("w%d-i", s.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, "345600 card-seconds of work are lost")
}

// TestOnlyTheFailuresOfAJobAreCached: the scheduler caches all Jobs of the cluster, so it keeps only what
// identifies a Job, and what decides how many failures it survives.
func TestOnlyTheFailuresOfAJobAreCached(t *testing.T) {
	whole := kubernetesJob(3, workload.EvictionRule())
	whole.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "u", ResourceVersion: "7", Labels: map[string]string{"l": "v"}}
	whole.Spec.BackoffLimitPerIndex = ptr.To[int32](1)
	whole.Spec.Template.Spec.NodeName = "n"
	whole.Status = batchv1.JobStatus{Active: 4, Failed: 2, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}}

	cached := check.Value(keepFailures(whole))(t).(*batchv1.Job)
	isSameLimit := reflect.DeepEqual(workload.FailureLimitFor(cached), workload.FailureLimitFor(whole))
	check.That(t, isSameLimit, "the failure limit differs: cached is %+v", cached)
	check.Equal(t, "name", "ns/j", cached.Namespace+"/"+cached.Name)
	check.Equal(t, "UID", types.UID("u"), cached.UID)
	check.Equal(t, "labels", nil, cached.Labels)
	check.Equal(t, "node of the template", "", cached.Spec.Template.Spec.NodeName)

	deleted := cache.DeletedFinalStateUnknown{Key: "ns/j"} // an informer may give this instead of the Job
	check.Equal(t, "deletion of a Job", any(deleted), check.Value(keepFailures(deleted))(t))
}

// TestKubernetesJobsAreWatched: the action reads the Jobs of the API server itself, from the first session on. A
// Job of the same name with another UID is another Job. The limit of 1 that it reads makes one pod of batch
// elastic. So batch-0, the first by name, is evicted before the gang.
func TestKubernetesJobsAreWatched(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=8
		job batch queue=training min=1 running=n*4 age=10h
		job gang queue=training min=4 running=n*4 age=5h
		job i queue=inference min=1 pending=1`, onJob("batch", ofKubernetesJob("batch")))
	s.startCache()
	t.Cleanup(s.Close)
	job := kubernetesJob(1)
	job.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "batch", UID: "uid-of-batch"}
	check.Value(s.Cache.Client().BatchV1().Jobs("ns").Create(t.Context(), job, metav1.CreateOptions{}))(t)

	informer := &jobInformer{vcJobs: capacitycard.NewCache().VCJobs()}
	isKnown := func(name string, uid types.UID) bool {
		_, known := informer.FailureLimitFor("ns", name, uid)
		return known
	}
	check.That(t, !isKnown("batch", "uid-of-batch"), "the Job is known before the first session")

	// The first session starts to watch Jobs.
	s.search = New(NewEvictions(cards, nil))
	s.search.evictions.JobPolicies = informer
	informer.OpenSession(s.openSession().Ssn)
	eventually(t, "the Job is known", func() bool { return isKnown("batch", "uid-of-batch") })
	check.That(t, !isKnown("batch", "another"), "a Job with another UID is known")
	check.That(t, !isKnown("other", "uid-of-batch"), "a Job with another name is known")

	s.runActions()
	s.expectEvictedAndPlaced(t, "batch-0", "i-0@n")
}

// TestPreemptRespectsTheBackoffLimit: the action preempt evicts pods of lower priority of the same queue. It
// takes one pod of batch if the Job survives that. Otherwise the whole Job would fail, and preempt evicts all
// its pods or the gang, whichever loses less. Job batch has 4 pods of 10 hours. "batch*1" is any one pod of
// batch. "gang*4" are the pods gang-0 to gang-3.
func TestPreemptRespectsTheBackoffLimit(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		backoffLimit int32
		ageOfGang    string
		wantDeleted  string
	}{
		"backoffLimit 1: one pod of batch":                       {1, "5h", "batch*1"},
		"backoffLimit 0, the gang has run for 5 hours: the gang": {0, "5h", "gang*4"},
		"backoffLimit 0, the gang has run for 50 hours: batch":   {0, "50h", "batch*4"},
	}) {
		s, preempt := newPreemptScene(t, `
			queue q quota=1000 cpu=1000
			node k model=A cards=8
			job batch queue=q min=1 running=k*4 priorityClass=low age=10h
			job gang queue=q min=4 running=k*4 priorityClass=low age=`+tc.ageOfGang+`
			job high queue=q min=1 pending=1 priorityClass=high`, onJob("batch", ofKubernetesJob("batch")))
		s.search.evictions.JobPolicies = policiesWithJobs{s.policies, map[string]*batchv1.Job{"batch": kubernetesJob(tc.backoffLimit)}}
		s.runPreemptAction(preempt)

		want := strings.Fields(session.Spell(tc.wantDeleted))
		eventually(t, "as many pods are deleted", func() bool { return len(s.deletedPods(t)) == len(want) })
		for _, name := range s.deletedPods(t) { // any pod of batch may be the one
			check.Equal(t, "job of the deleted pod "+name, strings.Split(want[0], "-")[0], strings.Split(name, "-")[0])
		}
	}
}
