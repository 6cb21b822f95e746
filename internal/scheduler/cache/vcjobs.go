// Package cache has what the scheduler keeps between sessions and does not find in Volcano's cache.
package cache

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/workload"
)

// VCJobs are the Volcano jobs of the cluster. Volcano's scheduler knows only their PodGroups,
// which have no policies and no templates.
type VCJobs interface {
	// OpenSession is called when a session begins, and reports whether all jobs are read.
	OpenSession(*framework.Session) bool
	// VCJob returns a job with what workload.StripVCJob keeps. It returns false for an unknown
	// job, and while not all are read. Callers must not change the job.
	VCJob(namespace, name string) (*batch.Job, bool)
}

// NewVCJobs returns the Volcano jobs that the API server has.
func NewVCJobs() VCJobs { return &vcJobInformer{} }

// vcJobInformer watches the jobs through the API, from the first session on.
type vcJobInformer struct {
	once   sync.Once
	store  cache.Store
	synced cache.InformerSynced
}

// OpenSession starts the informer in the first session, and reports whether it has all jobs. A session without a
// client has none.
func (i *vcJobInformer) OpenSession(ssn *framework.Session) bool {
	client := ssn.VCClient()
	if client == nil {
		return false
	}

	i.once.Do(func() {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(stripVCJob))
		informer := factory.Batch().V1alpha1().Jobs().Informer()
		i.store = informer.GetStore()
		i.synced = informer.HasSynced
		// The informer serves all sessions, so it ends only with the process.
		factory.Start(wait.NeverStop)
	})
	return i.synced()
}

// stripVCJob strips jobs and leaves other objects, such as tombstones, unchanged.
func stripVCJob(object any) (any, error) {
	if job, ok := object.(*batch.Job); ok {
		return workload.StripVCJob(job), nil
	}
	return object, nil
}

// VCJob implements VCJobs.
func (i *vcJobInformer) VCJob(namespace, name string) (*batch.Job, bool) {
	if i.store == nil || !i.synced() {
		return nil, false
	}
	stored, exists, err := i.store.GetByKey(namespace + "/" + name)
	job, ok := stored.(*batch.Job)
	return job, err == nil && exists && ok
}
