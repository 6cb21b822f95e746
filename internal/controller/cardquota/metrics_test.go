package cardquota

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestMetrics(t *testing.T) {
	s := newMetricsCollector()
	expect := func(when, want string) {
		t.Helper()
		err := testutil.CollectAndCompare(s, strings.NewReader(want))
		check.That(t, err == nil, "%s: %v", when, err)
	}
	both := []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 2}, {Name: "NVIDIA-H800", Quota: 1}}
	s.setCards("q", "team", both)
	check.Equal(t, "two cards have quota series", 2, testutil.CollectAndCount(s, "cardquota_quota_cards"))
	s.setCards("q", "team", both[:1])
	expect("a card that is gone has no series", `
# HELP cardquota_pending_cards Cards that the pending pods of a queue request.
# TYPE cardquota_pending_cards gauge
cardquota_pending_cards{card="NVIDIA-H200",queue="q"} 2
# HELP cardquota_quota_cards Quota of a queue for a card name, in whole cards.
# TYPE cardquota_quota_cards gauge
cardquota_quota_cards{card="NVIDIA-H200",queue="q"} 8
# HELP cardquota_used_cards Cards that the assigned pods of a queue hold.
# TYPE cardquota_used_cards gauge
cardquota_used_cards{card="NVIDIA-H200",queue="q"} 6
`)
	s.setCards("q", "heir", both[:1])
	s.forgetQuota("team")
	check.Equal(t, "the queue went to another CardQuota and has series", 1, testutil.CollectAndCount(s, "cardquota_used_cards"))
	s.forgetQuota("heir")
	expect("a CardQuota that is gone has no series", "")
}

// Whoever may create pods may name cards that there are not, others each minute.
func TestUnknownCardsAreOneSeries(t *testing.T) {
	s := newMetricsCollector()
	s.setCards("q", "team", []v1alpha1.CardStatus{
		{Name: "NVIDIA-H200", Quota: 8}, {Name: "held", Used: 1}, {Name: "there", Physical: 4, Pending: 1},
		{Name: "made-up", Pending: 3}, {Name: "made-up-too", Pending: 4},
	})
	want := `
# HELP cardquota_pending_cards Cards that the pending pods of a queue request.
# TYPE cardquota_pending_cards gauge
cardquota_pending_cards{card="NVIDIA-H200",queue="q"} 0
cardquota_pending_cards{card="held",queue="q"} 0
cardquota_pending_cards{card="there",queue="q"} 1
cardquota_pending_cards{card="unknown",queue="q"} 7
`
	check.NoError(t, testutil.CollectAndCompare(s, strings.NewReader(want), "cardquota_pending_cards"))
	check.Equal(t, "series of quota and use", 6, testutil.CollectAndCount(s, "cardquota_quota_cards", "cardquota_used_cards"))
}
