package cardreclaim

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// TestPoliciesOfVolcanoJobsAreWatched: the action reads the Volcano jobs from the first session on, and follows
// changes. Job t restarts as a whole when a pod is evicted. So no pod of it is elastic, although its minimum is
// one of 4, and all four are evicted for one card. "t*4" are the pods t-0 to t-3.
func TestPoliciesOfVolcanoJobsAreWatched(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job t queue=training min=1 running=n*4 owner=vcjob age=24h
		job i queue=inference min=1 pending=1`)
	s.startCache()
	t.Cleanup(s.Close)
	jobs := s.Cache.VCClient().BatchV1alpha1().Jobs("ns")
	created := check.Value(jobs.Create(t.Context(), &batch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"},
		Spec:       batch.JobSpec{Policies: []batch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}},
	}, metav1.CreateOptions{}))(t)

	informer := &jobInformer{vcJobs: capacitycard.NewCache().VCJobs()}
	isKnown := func(namespace, name string) bool {
		_, known := informer.EvictionPolicyFor(namespace, name)
		return known
	}
	check.That(t, !isKnown("ns", "t"), "the job is known before the first session")

	// The first session starts to watch Volcano jobs.
	s.search = New(NewEvictions(cards, nil))
	s.search.evictions.JobPolicies = informer
	eventually(t, "all jobs are read", func() bool { return informer.OpenSession(s.openSession().Ssn) })
	eventually(t, "the job is known", func() bool { return isKnown("ns", "t") })
	evictionPolicy, _ := informer.EvictionPolicyFor("ns", "t")
	check.Equal(t, "eviction policy", workload.EvictionPolicy{Inelastic: true}, evictionPolicy)
	check.That(t, !isKnown("ns", "none") && !isKnown("ns", "") && !isKnown("other", "t"), "a job that does not exist is known")
	s.runActions()
	s.expectEvictedAndPlaced(t, "t*4", "i-0@n")

	// A user removes the policy, and then the job.
	created.Spec.Policies = nil
	check.Value(jobs.Update(t.Context(), created, metav1.UpdateOptions{}))(t)
	eventually(t, "the job has no policy any more", func() bool {
		evictionPolicy, _ := informer.EvictionPolicyFor("ns", "t")
		return evictionPolicy == workload.EvictionPolicy{}
	})

	check.NoError(t, jobs.Delete(t.Context(), "t", metav1.DeleteOptions{}))
	eventually(t, "the deleted job is unknown", func() bool { return !isKnown("ns", "t") })
}
