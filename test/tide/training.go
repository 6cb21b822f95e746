package tide

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/bench/harness"
)

// FillWithTraining starts a gang for every node and waits until all of them run.
func (w *Env) FillWithTraining(ctx context.Context) error {
	gangs := make([]client.Object, w.Nodes)
	for i := range gangs {
		gangs[i] = w.trainingGang(i)
	}
	if err := w.Create(ctx, gangs...); err != nil {
		return err
	}
	return w.waitUntilAllGangsRun(ctx)
}

// trainingGang returns a training gang.
func (w *Env) trainingGang(i int) *batch.Job {
	job := gangJob(harness.Trainer, fmt.Sprintf(gangNameFormat, i), gangQueue, harness.GangSize)
	if w.Packed {
		return job
	}

	one := job.Spec.Tasks[0]
	job.Spec.Tasks = nil
	for k, nodes := range w.preferredNodes {
		task := *one.DeepCopy()
		task.Name = fmt.Sprintf("worker%d", k)
		task.Replicas = 1
		task.Template.Spec.Affinity = preferNode(fmt.Sprintf("%s-%d", nodePrefix, nodes[i]))
		job.Spec.Tasks = append(job.Spec.Tasks, task)
	}

	return job
}

func (w *Env) waitUntilAllGangsRun(ctx context.Context) error {
	return w.WaitUntil(ctx, "all gangs to run", func(context.Context) (bool, error) { return w.Pods.Usage().Gangs == w.Nodes, nil })
}

// AddWaitingSingles creates single training pods that wait for the cards that the gangs use.
func (w *Env) AddWaitingSingles(ctx context.Context) error {
	if w.Singles == 0 {
		return nil
	}
	if err := w.Create(ctx, newDeployment(harness.Single, singlesName, singleQueue, w.Singles)); err != nil {
		return err
	}
	return w.WaitUntil(ctx, "the single pods", func(context.Context) (bool, error) { return w.Pods.CountPods(harness.Single) == w.Singles, nil })
}

// Return is how training returned.
type Return struct {
	// After is how long after the end of inference the last gang ran again.
	After time.Duration
	// Stuck are the gangs that did not run again although cards were free.
	Stuck []string
}

// ReturnToTraining deletes all inference and all single pods, and waits until training uses
// all cards again. It recreates a gang that does not run again within a minute.
func (w *Env) ReturnToTraining(ctx context.Context) (*Return, error) {
	const stuck = time.Minute
	began := time.Now()
	for _, object := range []client.Object{&batch.Job{}, &appsv1.Deployment{}, &corev1.Pod{}} {
		choice := []client.DeleteAllOfOption{client.InNamespace(harness.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)}
		if _, every := object.(*appsv1.Deployment); !every {
			choice = append(choice, client.MatchingLabels{harness.RoleLabel: harness.Inference})
		}
		if err := w.Client.DeleteAllOf(ctx, object, choice...); err != nil {
			return nil, fmt.Errorf("delete inference: %w", err)
		}
	}

	r := &Return{}
	last := -1
	err := w.WaitUntil(ctx, "all gangs to run", func(context.Context) (bool, error) {
		if now := w.Pods.Usage().Gangs; now != last {
			last = now
			r.After = time.Since(began)
		}
		return last == w.Nodes || time.Since(began)-r.After > stuck, nil
	})
	if err != nil || last == w.Nodes {
		return r, err
	}

	r.Stuck = w.Pods.IncompleteGangs()
	for _, name := range r.Stuck {
		if err := w.recreateGang(ctx, name); err != nil {
			return nil, err
		}
	}

	return r, w.waitUntilAllGangsRun(ctx)
}

// recreateGang deletes a gang and creates it again.
func (w *Env) recreateGang(ctx context.Context, name string) error {
	var i int
	if _, err := fmt.Sscanf(name, gangNameFormat, &i); err != nil {
		return fmt.Errorf("gang %q: %w", name, err)
	}

	job := w.trainingGang(i)
	if err := w.Client.Delete(ctx, job.DeepCopy()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete vcjob: %w", err)
	}

	err := w.WaitUntil(ctx, "the eviction of a gang", func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(job), &batch.Job{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}

	return w.Create(ctx, job)
}

const (
	model = "NVIDIA-H200"
	// The queues of training gangs, of single training pods, and of inference.
	gangQueue      = "training"
	singleQueue    = "experiments"
	inferenceQueue = "inference"
	// nodePrefix is the prefix of the nodes' names.
	nodePrefix = "h200"
	// gangNameFormat formats the name of a training gang by its number.
	gangNameFormat = "gang-%03d"
	// singlesName is the workload of the training pods that wait beside the gangs.
	singlesName = "experiments"
)

// gangJob returns a vcjob whose pods run all or not at all, with the policies that users write.
// Its retries are counted but not limited, so that it restarts equally often under both
// actions.
func gangJob(role, name, queue string, size int) *batch.Job {
	return builder.VCJob(harness.Namespace, name).Label(harness.RoleLabel, role).Queue(queue).MinAvailable(int32(size)).
		Request(fmt.Sprintf("{%q:%d}", model, size)).Task("worker", int32(size), harness.CardPod(role, name, name, model)).
		With(func(j *batch.Job) {
			j.Spec.MaxRetry = 10000
			j.Spec.Policies = []batch.LifecyclePolicy{
				{Events: []bus.Event{bus.PodEvictedEvent, bus.PodFailedEvent}, Action: bus.RestartJobAction},
				{Event: bus.TaskCompletedEvent, Action: bus.CompleteJobAction},
			}
		}).Obj()
}

// preferNode returns a preference for a node.
func preferNode(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}},
		}},
	}}
}

// newDeployment returns a Deployment.
func newDeployment(role, name, queue string, replicas int) *appsv1.Deployment {
	d := builder.Deployment(harness.Namespace, name, int32(replicas), harness.CardPod(role, name, name, model).Queue(queue))
	d.Labels = map[string]string{harness.RoleLabel: role}
	return d
}
