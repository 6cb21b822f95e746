package cardquota

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"cardquota.dev/operator/api/v1alpha1"
)

func TestSeries(t *testing.T) {
	s := newSeries()
	expect := func(when, want string) {
		t.Helper()
		if err := testutil.CollectAndCompare(s, strings.NewReader(want)); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	both := []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 2}, {Name: "NVIDIA-H800", Quota: 1}}
	s.set("q", "team", both)
	if got := testutil.CollectAndCount(s, "cardquota_quota_cards"); got != 2 {
		t.Errorf("two cards have %d quota series", got)
	}
	s.set("q", "team", both[:1])
	expect("a card that is gone has no series", `
# HELP cardquota_pending_cards Cards that the waiting pods of a queue ask for.
# TYPE cardquota_pending_cards gauge
cardquota_pending_cards{card="NVIDIA-H200",queue="q"} 2
# HELP cardquota_quota_cards Quota of a queue for a card name, in whole cards.
# TYPE cardquota_quota_cards gauge
cardquota_quota_cards{card="NVIDIA-H200",queue="q"} 8
# HELP cardquota_used_cards Cards that the assigned pods of a queue hold.
# TYPE cardquota_used_cards gauge
cardquota_used_cards{card="NVIDIA-H200",queue="q"} 6
`)
	s.set("q", "heir", both[:1])
	s.forget("team")
	if got := testutil.CollectAndCount(s, "cardquota_used_cards"); got != 1 {
		t.Errorf("the queue went to another CardQuota and has %d series, want 1", got)
	}
	s.forget("heir")
	expect("a CardQuota that is gone has no series", "")
}
