package cardquota

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAForecastIsWhatACountFound: the operator restarts in mode Observe. Until it has counted in this mode, the status keeps
// the forecast that it has, and does not say that Enforce would refuse nothing. A count that finds nothing removes it.
func TestAForecastIsWhatACountFound(t *testing.T) {
	waits := &v1alpha1.CardQuotaForecast{Waiting: &v1alpha1.ForecastWorkloads{Total: 3, Cards: 24}}
	noForecast := &usageCount{tree: cardquota.Flat, queues: map[string]queueusage.Usage{}}

	for t, tc := range check.Cases(t, map[string]struct {
		written *v1alpha1.CardQuotaForecast
		count   *usageCount // nil: none yet
		want    *v1alpha1.CardQuotaForecast
		says    string
	}{
		"a forecast, and no count yet":    {written: waits, want: waits, says: "3 workloads would wait (24 cards)"},
		"no forecast, and no count yet":   {says: "not counted yet"},
		"the count was in mode Enforce":   {count: noForecast, says: "not counted yet"},
		"a forecast, and a count without": {written: waits, count: &usageCount{tree: cardquota.Flat, queues: noForecast.queues, observes: true}, says: "would refuse nothing now"},
		"a count with a forecast": {
			count: &usageCount{tree: cardquota.Flat, queues: noForecast.queues, observes: true, forecast: forecast.Forecast{Quotas: map[string]*v1alpha1.CardQuotaForecast{"lab": waits}}},
			want:  waits, says: "3 workloads would wait (24 cards)",
		},
	}) {
		lab := builder.CardQuota("lab").Card("A", 1).Obj()
		lab.Status.Forecast = tc.written
		if tc.written != nil {
			conditions.Set(&lab.Status.Conditions, v1alpha1.ConditionEnforced, policy.ObservingCondition(forecast.Summary(tc.written), true, nil), 1, lab.CreationTimestamp.Time)
		}

		observing := builder.ServiceTypePolicy().Obj()
		observing.Spec.Mode = v1alpha1.ModeObserve
		observing.Status.Mode = v1alpha1.ModeObserve
		r := newFakeReconciler(t, lab, observing)
		if tc.count != nil {
			r.usage.last.Store(tc.count)
		}
		r.reconcileAll(t)

		check.NoError(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(lab), lab))
		check.Equal(t, "forecast", tc.want, lab.Status.Forecast)
		check.Contains(t, "condition Enforced", conditions.Get(lab.Status.Conditions, v1alpha1.ConditionEnforced).Message, tc.says)
	}
}
