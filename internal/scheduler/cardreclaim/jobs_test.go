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

func restartPolicies(event bus.Event, action bus.Action) []batch.LifecyclePolicy {
	return []batch.LifecyclePolicy{{Event: event, Action: action}}
}

func TestJobsAreWatched(t *testing.T) {
	w := newScene("node n model=A cards=4; job t queue=tra min=1 running=n*4 owner=vcjob age=24h; job i queue=inf min=1 pending=1")
	w.startCache()
	jobs := w.Cache.VCClient().BatchV1alpha1().Jobs("ns")
	created := check.Value(jobs.Create(t.Context(), &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}, Spec: batch.JobSpec{Policies: restartPolicies(bus.PodEvictedEvent, bus.RestartJobAction)}}, metav1.CreateOptions{}))(t)
	watch := &jobInformer{vcJobs: capacitycard.NewCache().VCJobs()}
	isKnown := func(namespace, name string) bool {
		_, known := watch.EvictionPolicyFor(namespace, name)
		return known
	}
	check.That(t, !isKnown("ns", "t"), "a job is known before jobs are watched")

	w.action = New(cards, nil)
	w.action.jobPolicies = watch
	t.Cleanup(w.Close)

	eventually(t, "all jobs are read", func() bool { return watch.OpenSession(w.openSession().Ssn) })
	eventually(t, "the job is known", func() bool { return isKnown("ns", "t") })
	evictionPolicy, _ := watch.EvictionPolicyFor("ns", "t")
	check.Equal(t, "policy", workload.EvictionPolicy{Inelastic: true}, evictionPolicy)
	check.That(t, !isKnown("ns", "none") && !isKnown("ns", "") && !isKnown("other", "t"), "another job is known")

	// The action uses it: the job is evicted as a whole.
	w.executeActions()
	w.expectEvictedAndPlaced(t, "t*4", "i-0@n")

	created.Spec.Policies = nil
	check.Value(jobs.Update(t.Context(), created, metav1.UpdateOptions{}))(t)
	eventually(t, "the change is known", func() bool {
		evictionPolicy, _ := watch.EvictionPolicyFor("ns", "t")
		return evictionPolicy == workload.EvictionPolicy{}
	})

	check.NoError(t, jobs.Delete(t.Context(), "t", metav1.DeleteOptions{}))
	eventually(t, "the end is known", func() bool { return !isKnown("ns", "t") })
}
