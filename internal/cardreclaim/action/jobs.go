package action

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/workload"
)

// Jobs tells how Volcano jobs take it when their pods are taken away.
type Jobs interface {
	// Open is called when a session begins.
	Open(*framework.Session)
	// HabitOf is false for a job that is not known.
	HabitOf(namespace, name string) (workload.EvictionPolicy, bool)
}

// informed watches the jobs through the API, from the first session on. Volcano's
// scheduler knows PodGroups only, and they carry no policies.
type informed struct {
	once   sync.Once
	store  cache.Store
	synced cache.InformerSynced
}

func (i *informed) Open(ssn *framework.Session) {
	client := ssn.VCClient()
	if client == nil {
		return
	}
	i.once.Do(func() {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(policiesOnly))
		informer := factory.Batch().V1alpha1().Jobs().Informer()
		i.store, i.synced = informer.GetStore(), informer.HasSynced
		factory.Start(wait.NeverStop)
	})
}

// policiesOnly keeps what habits are read from: thousands of pod templates are
// nobody's business here.
func policiesOnly(object any) (any, error) {
	job, ok := object.(*batch.Job)
	if !ok {
		return object, nil
	}
	kept := &batch.Job{Spec: batch.JobSpec{Policies: job.Spec.Policies}}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = job.Namespace, job.Name, job.UID, job.ResourceVersion
	for i := range job.Spec.Tasks {
		kept.Spec.Tasks = append(kept.Spec.Tasks, batch.TaskSpec{Policies: job.Spec.Tasks[i].Policies})
	}
	return kept, nil
}

func (i *informed) HabitOf(namespace, name string) (workload.EvictionPolicy, bool) {
	if i.store == nil || !i.synced() {
		return workload.EvictionPolicy{}, false
	}
	stored, exists, err := i.store.GetByKey(namespace + "/" + name)
	job, ok := stored.(*batch.Job)
	if err != nil || !exists || !ok {
		return workload.EvictionPolicy{}, false
	}
	return workload.EvictionPolicyOf(job), true
}
