package observer

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestBlockedReasonsAreThoseOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../api/v1alpha1/blocked_types.go")
	check.NoError(t, err)

	var want, got []string
	for _, match := range regexp.MustCompile(`BlockedReason = "(\w+)"`).FindAllSubmatch(text, -1) {
		want = append(want, string(match[1]))
	}

	for _, reason := range blockedReasons {
		got = append(got, string(reason))
	}

	slices.Sort(want)
	slices.Sort(got)
	check.Equal(t, "reasons", want, got)
}

// TestBlockedCardsAreThoseOfTheStatus: two cards wait by one reason.
func TestBlockedCardsAreThoseOfTheStatus(t *testing.T) {
	const waits = `write pod a cards=2 says=x created=7; write quota q pending=2 blocked=a:H200:2:NodesUnsuitable:x::7`
	const pending = `operator+cardquota_pending_cards{queue="q",card="NVIDIA-H200"} 2; operator+cardquota_oldest_pending_timestamp_seconds{queue="q"} 1735689607;`

	for t, tc := range check.Cases(t, map[string]struct{ pages, want string }{
		"right":          {`operator+cardquota_blocked_cards{queue="q",reason="NodesUnsuitable"} 2`, ""},
		"not served":     {"", "metrics"},
		"another reason": {`operator+cardquota_blocked_cards{queue="q",reason="NoFreeCard"} 2`, "metrics metrics"},
		"another count":  {`operator+cardquota_blocked_cards{queue="q",reason="NodesUnsuitable"} 1`, "metrics"},
	}) {
		w := newMeasuredWorld().playScript(waits)
		w.servePages(t, 1, pending, tc.pages)
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
	}
}

func TestAnomaliesAreThoseOfTheInventory(t *testing.T) {
	none := `operator+cardquota_anomalies{reason="SeveralModels"} 0; operator+cardquota_anomalies{reason="AmbiguousResource"} 0;
		operator+cardquota_anomalies{reason="InvalidLabel"} 0; operator+cardquota_anomalies{reason="MoreThanLabelled"} 0; operator+cardquota_anomalies{reason="UnmappedResource"} 0;
		operator+cardquota_anomalies{reason="CardsOutsideQueues"} 0; operator+cardquota_anomalies{reason="ResourceClaimCards"} 0;
		operator+cardquota_anomalies{reason="CardsUnhealthy"} 0;
		operator+cardquota_anomalies{reason="BillsNotStored"} 0; operator+cardquota_anomalies{reason="ModelChanged"} 0; operator+cardquota_anomalies{reason="BillDaysDropped"} 0`

	for t, tc := range check.Cases(t, map[string]struct{ pages, want string }{
		"right":         {`operator+cardquota_anomalies{reason="NoModelLabel"} 1`, ""},
		"not served":    {"", "metrics"},
		"another count": {`operator+cardquota_anomalies{reason="NoModelLabel"} 2`, "metrics"},
	}) {
		w := newMeasuredWorld()
		w.applyObject(inventoryOf(func(s *v1alpha1.CardInventoryStatus) {}), false)
		w.servePages(t, 1, none, tc.pages)
		w.playScript(`judge; wait 21s`).expectViolations(t, tc.want)
	}
}
