package cardreclaim

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	schedulercache "cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// JobPolicies returns how jobs react to evicted pods.
type JobPolicies interface {
	// OpenSession is called when a session begins, and reports whether all jobs are read.
	OpenSession(*framework.Session) bool
	// EvictionPolicyFor returns false for an unknown job.
	EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool)
	// FailureLimitFor returns the failure limit of a Kubernetes Job, false for an unknown one.
	FailureLimitFor(namespace, name string, uid types.UID) (workload.FailureLimit, bool)
}

// jobInformer has the policies of the Volcano jobs that the plugin reads, and watches the Kubernetes Jobs through the
// API, from the first session on. No session waits for these: a scheduler without the right to read Jobs
// takes each of them for one that fails if a pod is evicted.
type jobInformer struct {
	vcJobs      schedulercache.VCJobs
	once        sync.Once
	batchStore  cache.Store
	batchSynced cache.InformerSynced
}

// OpenSession starts the watch of Kubernetes Jobs in the first session. It reports whether the Volcano jobs are read.
func (i *jobInformer) OpenSession(ssn *framework.Session) bool {
	if ssn.VCClient() == nil { // a session of a test
		return false
	}

	i.once.Do(func() {
		batchFactory := informers.NewSharedInformerFactoryWithOptions(ssn.KubeClient(), 0, informers.WithTransform(keepFailures))
		batchInformer := batchFactory.Batch().V1().Jobs().Informer()
		i.batchStore = batchInformer.GetStore()
		i.batchSynced = batchInformer.HasSynced

		// The informer serves all sessions, so it ends only with the process.
		batchFactory.Start(wait.NeverStop)
	})
	return i.vcJobs.OpenSession(ssn)
}

// EvictionPolicyFor returns how a Volcano job reacts to evicted pods, false for an unknown job.
func (i *jobInformer) EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool) {
	job, known := i.vcJobs.VCJob(namespace, name)
	if !known {
		return workload.EvictionPolicy{}, false
	}
	return workload.EvictionPolicyFor(job), true
}

// keepFailures drops everything of a Kubernetes Job but what FailureLimitFor reads.
func keepFailures(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return object, nil
	}

	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion},
		Spec: batchv1.JobSpec{
			BackoffLimit: job.Spec.BackoffLimit, BackoffLimitPerIndex: job.Spec.BackoffLimitPerIndex,
			PodFailurePolicy: workload.CompactFailurePolicy(job.Spec.PodFailurePolicy),
		},
		Status: batchv1.JobStatus{Failed: job.Status.Failed, UncountedTerminatedPods: job.Status.UncountedTerminatedPods},
	}, nil
}

// FailureLimitFor returns the failure limit of a Kubernetes Job, false while it is unknown or another Job has its name.
func (i *jobInformer) FailureLimitFor(namespace, name string, uid types.UID) (workload.FailureLimit, bool) {
	if i.batchStore == nil || !i.batchSynced() {
		return workload.FailureLimit{}, false
	}
	stored, exists, err := i.batchStore.GetByKey(namespace + "/" + name)
	job, ok := stored.(*batchv1.Job)
	if err != nil || !exists || !ok || job.UID != uid {
		return workload.FailureLimit{}, false
	}
	return workload.FailureLimitFor(job), true
}
