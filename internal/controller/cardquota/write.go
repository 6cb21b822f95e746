package cardquota

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
)

// planner plans the Queue, given how it is.
type planner func(live *v1beta1.Queue) cardquota.Plan

// inSync tells whether the Queue is as planned. When the cache says no, the API
// server is asked: the cache may be older than what was written last, and then
// its values would look like somebody's edit.
func (p *pass) inSync(ctx context.Context, plan planner) (bool, error) {
	if plan(p.queue).InSync(p.queue) {
		return true, nil
	}
	var err error
	if p.queue, err = getQueue(ctx, p.live, p.quota.QueueName()); err != nil {
		return false, err
	}
	return plan(p.queue).InSync(p.queue), nil
}

// write applies the plan and tells at once what of others it replaced, whatever becomes
// of the status. settled means that any difference is somebody else's doing.
func (p *pass) write(ctx context.Context, plan planner, settled bool) (cardquota.Written, error) {
	want := plan(p.queue)
	replaced, err := p.apply(ctx, &want, settled)
	if err != nil {
		return cardquota.Written{}, err
	}
	if settled { // whoever goes on is put back with the next report
		p.pace.Delay(p.quota.Name)
	}
	if p.queue != nil && !cardquota.Owned(p.queue) {
		p.events.Eventf(p.quota, corev1.EventTypeNormal, v1alpha1.EventAdopted,
			"queue %s was there already and is taken over; it will not be deleted with this CardQuota", p.quota.QueueName())
	}
	if len(replaced) > 0 {
		p.events.Eventf(p.quota, corev1.EventTypeWarning, v1alpha1.ReasonForeignChangeReplaced,
			"%s on queue %s; replaced by what this CardQuota says", cardquota.Describe(replaced), p.quota.QueueName())
	}
	if p.queue == nil && settled {
		p.events.Eventf(p.quota, corev1.EventTypeWarning, v1alpha1.EventQueueRecreated, "queue %s was gone and has been made again", p.quota.QueueName())
	}
	return cardquota.Written{Replaced: replaced, WeightHeldBy: want.WeightHeldBy}, nil
}

// apply sends the plan without force first. A conflict tells who else writes:
// fields that are given way are taken out of the plan, the others are forced
// and returned.
func (p *pass) apply(ctx context.Context, want *cardquota.Plan, settled bool) ([]cardquota.Conflict, error) {
	log := logf.FromContext(ctx)
	var drift []cardquota.Conflict
	if settled && p.queue != nil {
		for _, field := range want.Drift(p.queue) {
			drift = append(drift, cardquota.Conflict{Field: field})
		}
	}
	err := p.client.Apply(ctx, want.Config, client.FieldOwner(v1alpha1.FieldManager))
	if !cardquota.IsConflict(err) {
		if err != nil {
			return nil, fmt.Errorf("apply queue %s: %w", p.quota.QueueName(), err)
		}
		log.V(1).Info("queue written", "queue", p.quota.QueueName())
		return drift, nil
	}
	replaced := slices.DeleteFunc(cardquota.Conflicts(err), want.Yield)
	log.Info("queue has other writers", "queue", p.quota.QueueName(), "replaced", cardquota.Describe(replaced), "weightLeftTo", want.WeightHeldBy)
	if err := p.client.Apply(ctx, want.Config, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply queue %s with force: %w", p.quota.QueueName(), err)
	}
	return replaced, nil
}
