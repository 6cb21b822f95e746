package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

const (
	// flapInterval is how often the cards of the node that flaps change.
	flapInterval = 500 * time.Millisecond
	// loweringInterval is how often a quota is lowered, loweringTimeout how long it may take to its Queue.
	loweringInterval = 2 * time.Second
	loweringTimeout  = time.Minute
)

// measureLowered lowers quotas to 0 while the cards of a node change all the time, and measures when each
// is on its Queue.
func (e *env) measureLowered(ctx context.Context, r *report) error {
	flapping, stop := context.WithCancel(ctx)
	group, groupCtx := errgroup.WithContext(flapping)
	group.Go(func() error { return e.flapNode(groupCtx) })
	group.Go(func() error {
		defer stop()
		pace := time.NewTicker(loweringInterval)
		defer pace.Stop()

		for n := range e.lowerings {
			select {
			case <-groupCtx.Done():
				return context.Cause(groupCtx)
			case <-pace.C:
			}

			took, err := e.lowerQuota(groupCtx, n*e.restQuotas/e.lowerings)
			if err != nil {
				return err
			}
			r.lowered = append(r.lowered, took)
		}

		return nil
	})

	group.Go(func() error {
		return e.profileCPU(groupCtx, "lowered-cpu", loweringInterval*time.Duration(e.lowerings)/2)
	})
	return group.Wait()
}

// flapNode takes the cards of a node and gives them back, as a device plugin does that restarts again and
// again.
func (e *env) flapNode(ctx context.Context) error {
	pace := time.NewTicker(flapInterval)
	defer pace.Stop()

	for cards := 0; ; cards = gangSize - cards {
		patch := fmt.Sprintf(`{"status":{"allocatable":{%q:"%d"}}}`, builder.GPU, cards)
		_, err := e.core.CoreV1().Nodes().Patch(ctx, e.nodeName(0), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		switch {
		case ctx.Err() != nil: // the last quota was lowered
			return nil
		case err != nil:
			return fmt.Errorf("write the cards of a node: %w", err)
		}

		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
	}
}

// lowerQuota sets the quotas of a CardQuota to 0, and returns how long it takes until its Queue says so.
func (e *env) lowerQuota(ctx context.Context, i int) (time.Duration, error) {
	quota := e.cardQuota(i)
	base := quota.DeepCopy()
	for n := range quota.Spec.Cards {
		*quota.Spec.Cards[n].Quota = 0
	}

	began := time.Now()
	if err := e.client.Patch(ctx, quota, client.MergeFrom(base)); err != nil {
		return 0, fmt.Errorf("lower a quota: %w", err)
	}

	queue := builder.Queue(quota.Name).Obj()
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, loweringTimeout, true, func(ctx context.Context) (bool, error) {
		err := e.client.Get(ctx, client.ObjectKeyFromObject(queue), queue)
		return err == nil && grantsNothing(queue), err
	})
	if err != nil {
		return 0, errors.Join(errExceeded, fmt.Errorf("queue %s does not say that its quota is 0 after %s: %w", queue.Name, loweringTimeout, err))
	}

	return time.Since(began), nil
}

// grantsNothing reports whether a Queue says that each of its quotas is 0.
func grantsNothing(queue *v1beta1.Queue) bool {
	text := queue.Annotations[v1alpha1.AnnotationCardQuota]
	return text != "" && strings.Count(text, ":0") == strings.Count(text, ":")
}
