package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/cluster"
)

const queues = 10

// models are the card models. Node i and gang i have the same model, so that the cards of each
// model suffice for its gangs.
var models = []string{"NVIDIA-H200", "NVIDIA-H800", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"}

// nodeProfiles spreads nodes evenly over the models.
func nodeProfiles(nodes int) (profiles []cluster.NodeProfile) {
	for i, model := range models {
		if count := (nodes - i + len(models) - 1) / len(models); count > 0 { // a profile without a count is one node
			profiles = append(profiles, harness.GangNodes(fmt.Sprintf("model-%d", i), model, count))
		}
	}
	return profiles
}

// createWorkload creates the queues, waits until Volcano's controller has opened them, and
// creates the gangs. Both schedulers get the same objects. The quotas per card are for ours,
// the capability in nvidia.com/gpu is for the stock scheduler. Neither ever limits a gang.
func createWorkload(ctx context.Context, w *harness.Env, gangs int) error {
	ample := int64(gangs * harness.GangSize)
	quota := card.Quota{}
	for _, model := range models {
		quota[card.Name(model)] = card.Count(ample)
	}

	var all, groups, pods []client.Object
	for i := range queues {
		all = append(all, builder.Queue(queueName(i)).Quota(quota.String()).Capability("100000", "1000Ti").With(func(q *v1beta1.Queue) {
			q.Spec.Capability[builder.GPU] = *resource.NewQuantity(ample, resource.DecimalSI)
		}).Obj())
	}

	for i := range gangs {
		groups = append(groups, gangPodGroup(i))
		for member := range harness.GangSize {
			pods = append(pods, gangPod(i, member))
		}
	}

	if err := w.Create(ctx, all...); err != nil {
		return err
	}

	err := w.WaitUntil(ctx, "open queues", func(ctx context.Context) (bool, error) {
		for _, queue := range all {
			live := &v1beta1.Queue{}
			err := w.Client.Get(ctx, client.ObjectKeyFromObject(queue), live)
			if err != nil || live.Status.State != v1beta1.QueueStateOpen {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}

	if err := w.Create(ctx, groups...); err != nil {
		return err
	}

	return w.Create(ctx, pods...)
}

func queueName(i int) string { return fmt.Sprintf("bench-%d", i%queues) }

func gangName(i int) string { return fmt.Sprintf("gang-%d", i) }

func gangPodGroup(i int) *v1beta1.PodGroup {
	return builder.PodGroup(harness.Namespace, gangName(i)).Queue(queueName(i)).MinMember(harness.GangSize).
		MinResource(corev1.ResourceCPU, "8").MinResource(corev1.ResourceMemory, "32Gi").MinResource(builder.GPU, "8").Obj()
}

func gangPod(gang, member int) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", gangName(gang), member)
	return harness.CardPod(harness.Trainer, gangName(gang), name, models[gang%len(models)]).PodGroup(gangName(gang)).Obj()
}
