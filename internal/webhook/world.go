package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	rules "cardquota.dev/operator/internal/admission"
)

// world is what the rules for workloads know.
func (h *handlers) world(ctx context.Context, req admission.Request) (rules.World, error) {
	inventory, _ := h.nodes.Inventory()
	world := rules.World{Inventory: inventory, User: req.UserInfo.Username}
	var err error
	if world.Policy, err = h.policy(ctx); err != nil {
		return rules.World{}, err
	}
	if world.Namespace, err = read(ctx, h.cached, "", req.Namespace, &corev1.Namespace{}); err != nil {
		return rules.World{}, err
	}
	queues := map[string]*v1beta1.Queue{} // a job asks for the same one for each of its tasks
	world.Queue = func(name string) *v1beta1.Queue {
		queue, known := queues[name]
		if !known {
			queue, _ = read(ctx, h.cached, "", name, &v1beta1.Queue{})
			queues[name] = queue
		}
		return queue
	}
	world.Group = func(name string) *v1beta1.PodGroup {
		group, _ := read(ctx, h.cached, req.Namespace, name, &v1beta1.PodGroup{})
		return group
	}
	return world, nil
}

// policy reads the ServiceTypePolicy, nil when there is none.
func (h *handlers) policy(ctx context.Context) (*v1alpha1.ServiceTypePolicy, error) {
	return read(ctx, h.cached, "", v1alpha1.PolicyName, &v1alpha1.ServiceTypePolicy{})
}

// quotas lists all CardQuotas.
func (h *handlers) quotas(ctx context.Context) ([]*v1alpha1.CardQuota, error) {
	var list v1alpha1.CardQuotaList
	if err := h.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}
	return pointers(list.Items), nil
}

// read reads an object, nil when there is none.
func read[T client.Object](ctx context.Context, from client.Reader, namespace, name string, into T) (T, error) {
	var none T
	if err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into); apierrors.IsNotFound(err) {
		return none, nil
	} else if err != nil {
		return none, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return into, nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
