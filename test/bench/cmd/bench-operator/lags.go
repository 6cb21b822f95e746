package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// expectMore expects the CardQuotas that only exist at rest. They use nothing.
func (c *recount) expectMore(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.quotas; i < c.restQuotas; i++ {
		c.expectQuota(now, i)
	}
}

// wrong returns, sorted, what does not say what it should say.
func (c *recount) wrong() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, all := range c.histories {
		for key, h := range all {
			if h.isWrong() {
				names = append(names, fmt.Sprintf("%s %s says %q, want %q", kindNames[k], key, h.says, h.wanted()))
			}
		}
	}
	slices.Sort(names)
	return names
}

// takeLags returns the lags of each kind since the last call, sorted. A version that is not written
// yet counts with its age.
func (c *recount) takeLags(now time.Time) (lags [kinds][]time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for k, all := range c.histories {
		for _, h := range all {
			lags[k] = append(lags[k], h.lags...)
			if late := h.lateBy(now); late > 0 {
				lags[k] = append(lags[k], late)
			}
			h.lags = nil
		}
		slices.Sort(lags[k])
	}

	return lags
}

// verify lists everything again, without any watch, and returns what differs from a recount.
func (e *env) verify(ctx context.Context) (wrong []string, err error) {
	c := newRecount(e.plan)
	list, err := e.core.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range list.Items {
		c.countPod(&list.Items[i], false)
	}

	now := time.Now()
	for i := range c.quotas {
		c.expectQuota(now, i)
	}

	c.expectInventory(now)
	var quotas v1alpha1.CardQuotaList
	var queues v1beta1.QueueList
	var views v1alpha1.LocalCardQuotaList
	var inventories v1alpha1.CardInventoryList
	for _, list := range []client.ObjectList{&quotas, &queues, &views, &inventories} {
		if err := e.client.List(ctx, list); err != nil {
			return nil, err
		}
	}

	for _, object := range slices.Concat(objectsOf(quotas.Items), objectsOf(queues.Items), objectsOf(views.Items), objectsOf(inventories.Items)) {
		k, says := c.read(object)
		c.historyOf(k, keyOf(object)).observe(now, says)
	}

	return c.wrong(), nil
}

// objectsOf returns the objects of a list.
func objectsOf[T any, P interface {
	*T
	client.Object
}](items []T) (all []client.Object) {
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}
