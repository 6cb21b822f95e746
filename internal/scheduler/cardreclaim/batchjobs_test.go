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

// kubernetesJob is a Job that survives so many failed pods.
func kubernetesJob(backoffLimit int32, rules ...batchv1.PodFailurePolicyRule) *batchv1.Job {
	job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: &backoffLimit}}
	if len(rules) > 0 {
		job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	}
	return job
}

// ofKubernetesJob makes pods those of a Kubernetes Job, none of which was counted.
func ofKubernetesJob(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		session.OwnedBy("batch/v1", "Job", name, "uid-of-"+name)(p)
		p.Finalizers = []string{batchv1.JobTrackingFinalizer}
	}
}

// withJobs returns a scene in which the pods of groups of the same name are those of these Jobs.
func withJobs(text string, jobs map[string]*batchv1.Job, changes ...func(*corev1.Pod)) *scene {
	for _, name := range []string{"t", "u"} {
		changes = append(changes, onJob(name, ofKubernetesJob(name)))
	}
	w := newScene(text, changes...)
	w.startCache()
	w.action.jobPolicies = policiesWithJobs{w.habits, jobs}
	return w
}

// TestAnEvictionBeyondTheBackoffLimitCostsTheWholeJob: g is a gang that loses less than all of
// the work of t, and more than single pods of it.
func TestAnEvictionBeyondTheBackoffLimitCostsTheWholeJob(t *testing.T) {
	const (
		one   = "job i queue=inf min=1 pending=1"
		two   = "job i queue=inf min=2 pending=2"
		three = "job i queue=inf min=3 pending=3"
		base  = "node n model=A cards=8; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=5h; "
	)

	ended := func(name string, phase corev1.PodPhase, ran time.Duration) func(*corev1.Pod) {
		return onPod(name, func(p *corev1.Pod) {
			p.Status.Phase = phase
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(p.Status.StartTime.Add(ran))},
			}}}
		})
	}

	savedNow := onJob("t", func(p *corev1.Pod) {
		p.Annotations["volcano.sh/checkpoint-time"] = time.Now().UTC().Format(time.RFC3339)
	})

	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		job    *batchv1.Job
		change func(*corev1.Pod)
		goes   string
	}{
		"an elastic pod while the limit allows it":     {base + one, kubernetesJob(1), nil, "t-0"},
		"no elastic pod when it does not":              {base + one, kubernetesJob(0), nil, "g*4"},
		"as many as the limit allows":                  {base + two, kubernetesJob(2), nil, "t-0 t-1"},
		"not one more":                                 {base + three, kubernetesJob(2), nil, "g*4"},
		"any number where evictions are ignored":       {base + three, kubernetesJob(0, workload.EvictionRule()), nil, "t-0 t-1 t-2"},
		"none where evictions fail the Job":            {base + one, kubernetesJob(6, failJobOnEviction()), nil, "g*4"},
		"none of an unknown Job":                       {base + one, nil, nil, "g*4"},
		"the whole Job when that loses less":           {"node n model=A cards=8; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=50h; " + one, kubernetesJob(0), nil, "t*4"},
		"a checkpoint does not help a Job that fails":  {base + one, kubernetesJob(0), savedNow, "g*4"},
		"pods that failed before count":                {"node n model=A cards=7; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=5h; " + one, kubernetesJob(1), ended("t-3", corev1.PodFailed, time.Hour), "g*4"},
		"what succeeded counts as work of the Job":     {"node n model=A cards=7; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=9h; " + one, kubernetesJob(0), ended("t-3", corev1.PodSucceeded, 10*time.Hour), "g*4"},
		"what succeeded in a time is work of the time": {"node n model=A cards=7; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=9h; " + one, kubernetesJob(0), ended("t-3", corev1.PodSucceeded, 5*time.Hour), "t*3"},
	}) {
		goes, _ := withJobs(tc.text, map[string]*batchv1.Job{"t": tc.job}, onJob("t", tc.change)).runAction(t).Outcome()
		check.Equal(t, "evicted", session.Spell(tc.goes), goes)
	}
}

func failJobOnEviction() batchv1.PodFailurePolicyRule {
	rule := workload.EvictionRule()
	rule.Action = batchv1.PodFailurePolicyActionFailJob
	return rule
}

// TestEvictedPodsCountAgainstTheBackoffLimitAtOnce: before the Job controller has counted them.
func TestEvictedPodsCountAgainstTheBackoffLimitAtOnce(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		limit int32
		goes  string
	}{
		"the limit allows one":  {1, "t-0 g*4"},
		"the limit allows both": {2, "t-0 t-1"},
	}) {
		w := withJobs("node n model=A cards=8; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=5h; job i queue=inf min=1 pending=1", map[string]*batchv1.Job{"t": kubernetesJob(tc.limit)})
		w.runAction(t).expectEvictedAndPlaced(t, "t-0", "i-0@n")

		w.addToCache("job late queue=inf min=1 pending=1")
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, "i-0@n late-0@n")
	}
}

// TestAFailedSearchIsRepeatedWhenTheBackoffLimitChanges: the search had not considered elastic pods.
func TestAFailedSearchIsRepeatedWhenTheBackoffLimitChanges(t *testing.T) {
	protected := onPod("t-3", func(p *corev1.Pod) { p.Annotations["volcano.sh/preemptable"] = "false" })
	job := kubernetesJob(0)
	w := withJobs("node n model=A cards=4; job t queue=tra min=1 running=n*4 age=10h; job i queue=inf min=1 pending=1", map[string]*batchv1.Job{"t": job}, protected)
	w.runAction(t).expectEvictedAndPlaced(t, "", "")

	job.Spec.BackoffLimit = ptr.To[int32](1)
	w.runAction(t).expectEvictedAndPlaced(t, "t-0", "i-0@n")
}

// TestTheEventSaysThatTheJobFails: all of its work is lost, also what a checkpoint has saved.
func TestTheEventSaysThatTheJobFails(t *testing.T) {
	savedNow := onPod("t-0", func(p *corev1.Pod) {
		p.Annotations["volcano.sh/checkpoint-time"] = time.Now().UTC().Format(time.RFC3339)
	})
	w := withJobs("node n model=A cards=4; job t queue=tra min=1 running=n*4 age=24h; job i queue=inf min=1 pending=1", map[string]*batchv1.Job{"t": kubernetesJob(0)}, savedNow)
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")

	message := eventsAbout(t, fmt.Sprintf("w%d-t", w.ID), "CardsReclaimed")[0].Message
	check.Contains(t, "event", message, "all of its pods are evicted, and the Job fails", "backoffLimit", "DisruptionTarget", "345600 card-seconds of work are lost")
	message = eventsAbout(t, fmt.Sprintf("w%d-i", w.ID), "ReclaimsCards")[0].Message
	check.Contains(t, "event of the reclaimer", message, "345600 card-seconds of work are lost")
}

func TestOnlyFailuresAreKept(t *testing.T) {
	whole := kubernetesJob(3, workload.EvictionRule())
	whole.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "u", ResourceVersion: "7", Labels: map[string]string{"l": "v"}}
	whole.Spec.BackoffLimitPerIndex = ptr.To[int32](1)
	whole.Spec.Template.Spec.NodeName = "n"
	whole.Status = batchv1.JobStatus{Active: 4, Failed: 2, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}}

	kept := check.Value(keepFailures(whole))(t).(*batchv1.Job)
	check.That(t, reflect.DeepEqual(workload.FailureLimitFor(kept), workload.FailureLimitFor(whole)), "kept is %+v", kept)
	check.That(t, kept.Name == "j" && kept.UID == "u" && kept.Labels == nil && kept.Spec.Template.Spec.NodeName == "", "kept is %+v", kept)

	gone := cache.DeletedFinalStateUnknown{Key: "ns/j"}
	check.Equal(t, "the end of a Job", any(gone), check.Value(keepFailures(gone))(t))
}

// TestKubernetesJobsAreWatched: one of the same name, but another UID, is another Job.
func TestKubernetesJobsAreWatched(t *testing.T) {
	w := newScene("node n model=A cards=8; job t queue=tra min=1 running=n*4 age=10h; job g queue=tra min=4 running=n*4 age=5h; job i queue=inf min=1 pending=1", onJob("t", ofKubernetesJob("t")))
	w.startCache()
	job := kubernetesJob(1)
	job.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "uid-of-t"}
	check.Value(w.Cache.Client().BatchV1().Jobs("ns").Create(t.Context(), job, metav1.CreateOptions{}))(t)
	watch := &jobInformer{vcJobs: capacitycard.NewCache().VCJobs()}
	isKnown := func(name string, uid types.UID) bool {
		_, known := watch.FailureLimitFor("ns", name, uid)
		return known
	}
	check.That(t, !isKnown("t", "uid-of-t"), "a Job is known before Jobs are watched")

	w.action = New(cards, nil)
	w.action.jobPolicies = watch
	t.Cleanup(w.Close)

	watch.OpenSession(w.openSession().Ssn)
	eventually(t, "the Job is known", func() bool { return isKnown("t", "uid-of-t") })
	check.That(t, !isKnown("t", "another") && !isKnown("u", "uid-of-t"), "another Job is known")
	w.executeActions()
	w.expectEvictedAndPlaced(t, "t-0", "i-0@n")
}

// TestPreemptEvictsAWholeJobOnceItFails: Kubernetes would delete its other pods anyway. A Job at its limit
// stays while another job loses less.
func TestPreemptEvictsAWholeJobOnceItFails(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		limit   int32
		other   string
		deleted string
	}{
		"the limit allows one":             {1, "5h", "t-0"},
		"it allows none":                   {0, "5h", "g*4"},
		"it allows none, the other is old": {0, "50h", "t*4"},
	}) {
		w, preempt := newPreemptScene(t, "node k model=A cards=8; queue q quota=PLENTY cpu=1000; job full queue=q min=8 running=n*8,m*8 priorityClass=high; job t queue=q min=1 running=k*4 priorityClass=low age=10h; job g queue=q min=4 running=k*4 priorityClass=low age="+tc.other+"; job high queue=q min=1 pending=1 priorityClass=high", onJob("t", ofKubernetesJob("t")))
		w.action.jobPolicies = policiesWithJobs{w.habits, map[string]*batchv1.Job{"t": kubernetesJob(tc.limit)}}
		w.runPreemptAction(preempt)

		want := session.Spell(tc.deleted)
		eventually(t, "deleted "+want, func() bool { return len(w.deletedPods(t)) == len(strings.Fields(want)) })
		goes := strings.Join(w.deletedPods(t), " ")
		check.That(t, goes == want || (tc.limit == 1 && strings.HasPrefix(goes, "t-")), "%q are deleted, want %q", goes, want)
	}
}
