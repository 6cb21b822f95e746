package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	volcano "volcano.sh/apis/pkg/client/clientset/versioned"
	scheduling "volcano.sh/apis/pkg/client/clientset/versioned/typed/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/test/cluster"
)

const (
	namespace = metav1.NamespaceDefault
	gangSize  = 8
	queues    = 10
	// queuePrefix and gangLabel tell the benchmark's objects from others.
	queuePrefix = "bench-"
	gangLabel   = "gang"
	gpu         = corev1.ResourceName("nvidia.com/gpu")
	// writers is how many objects are created at a time.
	writers = 32
)

// models are the card models; node and gang number i have the same one, so
// that the cards of each model are enough for the gangs that ask for it.
var models = []struct{ name, memory string }{
	{"NVIDIA-H200", "143771"}, {"NVIDIA-H800", "81559"}, {"NVIDIA-A100-SXM4-80GB", "81920"}, {"NVIDIA-L40S", "46068"},
}

func list(cpu, memory string, cards int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		gpu: *resource.NewQuantity(cards, resource.DecimalSI),
	}
}

// fleet is so many nodes, spread evenly over the models.
func fleet(nodes int) []cluster.NodeProfile {
	var profiles []cluster.NodeProfile
	for i, model := range models {
		count := (nodes - i + len(models) - 1) / len(models)
		if count < 1 {
			continue // a profile without a count is one node
		}
		profiles = append(profiles, cluster.NodeProfile{
			Name: fmt.Sprintf("model-%d", i), Count: count,
			Labels:      map[string]string{"nvidia.com/gpu.product": model.name, "nvidia.com/gpu.memory": model.memory},
			Allocatable: list("64", "512Gi", gangSize),
		})
	}
	return profiles
}

// fill creates the queues and gangs. Both schedulers get the same objects: the
// quotas per card are for ours, the capability in nvidia.com/gpu is for the
// stock scheduler, and neither ever holds a gang up.
func fill(ctx context.Context, config *rest.Config, gangs int) error {
	client, err := volcano.NewForConfig(config)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := openQueues(ctx, client.SchedulingV1beta1().Queues(), int64(gangs*gangSize)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range gangs {
		group.Go(func() error {
			create := func(ctx context.Context) (bool, error) {
				_, err := client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, podGroup(i), metav1.CreateOptions{})
				if cluster.Unseen(err) {
					return false, nil
				}
				return err == nil, err
			}
			if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, create); err != nil {
				return fmt.Errorf("create PodGroup: %w", err)
			}
			for member := range gangSize {
				if _, err := kube.CoreV1().Pods(namespace).Create(ctx, pod(i, member), metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("create pod: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// openQueues creates the queues and waits until Volcano's controller has opened
// them; before, they refuse PodGroups.
func openQueues(ctx context.Context, client scheduling.QueueInterface, ample int64) error {
	quota := card.Quota{}
	for _, model := range models {
		quota[card.Name(model.name)] = card.Count(ample)
	}
	for i := range queues {
		queue := &v1beta1.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: queueName(i), Annotations: map[string]string{v1alpha1.AnnotationCardQuota: quota.String()}},
			Spec:       v1beta1.QueueSpec{Weight: 1, Capability: list("100000", "1000Ti", ample)},
		}
		if _, err := client.Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create queue: %w", err)
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		all, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		open := 0
		for _, queue := range all.Items {
			if queue.Status.State == v1beta1.QueueStateOpen && strings.HasPrefix(queue.Name, queuePrefix) {
				open++
			}
		}
		return open == queues, nil
	})
	if err != nil {
		return fmt.Errorf("wait for open queues: %w", err)
	}
	return nil
}

func queueName(i int) string { return fmt.Sprintf("%s%d", queuePrefix, i%queues) }

func gangName(i int) string { return fmt.Sprintf("gang-%d", i) }

func podGroup(i int) *v1beta1.PodGroup {
	least := list("8", "32Gi", gangSize)
	return &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: gangName(i)},
		Spec:       v1beta1.PodGroupSpec{Queue: queueName(i), MinMember: gangSize, MinResources: &least},
	}
}

func pod(gang, member int) *corev1.Pod {
	requests := list("1", "4Gi", 1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("%s-%d", gangName(gang), member),
			Labels: map[string]string{gangLabel: gangName(gang)},
			Annotations: map[string]string{
				v1alpha1.AnnotationPodGroup: gangName(gang),
				v1alpha1.AnnotationCardName: models[gang%len(models)].name,
			},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "volcano",
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
		},
	}
}
