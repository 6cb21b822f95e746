package webhook

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	rules "cardquota.dev/operator/internal/validation"
	"cardquota.dev/operator/internal/workload"
)

// livePage is how many objects are read live at a time.
const livePage = 500

// validateCardQuota decides by the cache, but reads the API server before it refuses. It reads only the API
// server where overAllocation is Deny and the grants change, because then it admits by what all CardQuotas
// grant. One kubectl apply sends its objects milliseconds apart, also to different replicas, and the cache
// may not have the first one yet.
func (h *handlers) validateCardQuota(ctx context.Context, quota, before *v1alpha1.CardQuota) (rules.Result, error) {
	validateWith := func(from client.Reader) (rules.Result, error) {
		input, err := h.cardQuotaInput(ctx, from)
		if err != nil {
			return rules.Result{}, err
		}
		return rules.ValidateCardQuota(quota, before, input), nil
	}

	if rules.NeedsAllGrants(quota, before) {
		return validateWith(h.live)
	}
	result, err := validateWith(h.cached)
	if err != nil || len(result.Errors) == 0 {
		return result, err
	}

	return validateWith(h.live)
}

// cardQuotaInput reads the input of the rules for CardQuotas, from the cache or from the API server.
func (h *handlers) cardQuotaInput(ctx context.Context, from client.Reader) (rules.CardQuotaInput, error) {
	inventory, _ := h.inventory.Inventory()
	input := rules.CardQuotaInput{Healthy: h.inventory.Healthy(), Inventory: inventory}
	read, err := getOrNil(ctx, from, "", v1alpha1.PolicyName, &v1alpha1.ServiceTypePolicy{})
	if err != nil {
		return input, err
	}

	// What is in force counts: a policy that is new or deleted is not what the Queues follow yet.
	input.Policy = h.inventory.PolicyInForce(read)

	err = listPages(ctx, from, from == h.live, func(list *v1alpha1.CardQuotaList) {
		if from == h.live { // ten thousand of them are kept without the largest part, which no rule reads
			for i := range list.Items {
				list.Items[i].Status = v1alpha1.CardQuotaStatus{}
			}
		}
		input.All = append(input.All, workload.PointersTo(list.Items)...)
	})
	if err != nil {
		return input, fmt.Errorf("list CardQuotas: %w", err)
	}

	err = listPages(ctx, from, from == h.live, func(list *v1beta1.QueueList) {
		input.Queues = append(input.Queues, workload.PointersTo(list.Items)...)
	})
	if err != nil {
		return input, fmt.Errorf("list Queues: %w", err)
	}

	return input, nil
}

// listPages calls add for each page of a list of the API server, or once for the whole list of the cache, which is not
// copied.
func listPages[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, from client.Reader, isLive bool, add func(L)) error {
	for next := ""; ; {
		options := []client.ListOption{client.UnsafeDisableDeepCopy}
		if isLive {
			options = []client.ListOption{client.Limit(livePage), client.Continue(next)}
		}

		page := L(new(T)) // add keeps the items of the last page, and decoding into it would overwrite them
		if err := from.List(ctx, page, options...); err != nil {
			return err
		}

		add(page)
		next = page.GetContinue()
		if !isLive || next == "" { // the cache sends everything, although it says that there is more
			return nil
		}
	}
}
