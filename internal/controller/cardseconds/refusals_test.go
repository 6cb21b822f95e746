package cardseconds

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// expectRefused compares the ConfigMaps that the CardInventory reports as refused, with the reason of the API server.
func (s *scene) expectRefused(when string, want map[string]metav1.StatusReason) {
	check.Equal(s.T, "refused "+when, want, s.k.StorageProblems().Refused)
}

// nothing is the report without a refused ConfigMap.
var nothing = map[string]metav1.StatusReason{}

// immutable is what the API server answers to a write of an immutable ConfigMap.
func immutable(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, name, nil)
}

// TestAPartThatCannotBeWrittenIsReported: 16 ConfigMaps, the parts, have the sums of card-seconds that still grow, and
// only part 0 has some here. An administrator made all of them immutable. After two minutes the CardInventory reports
// part 0, until it is written again. The other parts have no sums, so nothing is missing there. The next leader
// reports it again after two minutes of its own.
func TestAPartThatCannotBeWrittenIsReported(t *testing.T) {
	s := newScene(t)
	s.k.namespace = "volcano-system"
	s.useOneCardForMinutes(2)
	s.expectRefused("while all is written", nothing)
	for part := range cardseconds.Parts {
		s.store.refused[part] = immutable(cardseconds.ConfigMapName(part))
	}

	s.useOneCardForMinutes(2) // the first write is refused after a minute
	s.expectRefused("for a minute", nothing)
	s.useOneCardForMinutes(1)
	part0 := map[string]metav1.StatusReason{"volcano-system/cardquota-card-seconds-0": metav1.StatusReasonInvalid}
	s.expectRefused("for two minutes", part0)

	s.restart()
	s.k.namespace = "volcano-system"
	s.expectRefused("before the next leader has loaded the sums", nothing)
	s.useOneCardForMinutes(2) // the first write is refused after a minute
	s.expectRefused("for a minute, by the next leader", nothing)
	s.useOneCardForMinutes(1)
	s.expectRefused("for two minutes, by the next leader", part0)

	clear(s.store.refused)
	s.useOneCardForMinutes(1)
	s.expectRefused("after it was written", nothing)
}

// TestAConfigMapThatCannotBeReadIsReported: a new leader loads no sums before it has read every ConfigMap, and only
// counts meanwhile. After two minutes it reports the one that it cannot read. That may be a part, which is for running
// sums, or a slot, which is for closed days and months.
func TestAConfigMapThatCannotBeReadIsReported(t *testing.T) {
	for t, number := range check.Cases(t, map[string]int{
		"the part with the sums": 0,
		"a part without sums":    5,
		"the fourth slot":        slotNumber(3),
	}) {
		s := newScene(t)
		s.useOneCardForMinutes(2)
		s.restart()
		s.k.namespace = "volcano-system"
		s.store.unreadable = map[int]error{number: apierrors.NewInternalError(errors.New("no key to decrypt it"))}

		s.useOneCardForMinutes(2) // the first read fails after a minute
		s.expectRefused("for a minute", nothing)
		s.useOneCardForMinutes(1)
		s.expectRefused("for two minutes", map[string]metav1.StatusReason{"volcano-system/" + cardseconds.ConfigMapName(number): metav1.StatusReasonInternalError})

		s.store.unreadable = nil
		s.useOneCardForMinutes(2)
		s.expectRefused("after it was read", nothing)
	}
}

// TestASlotThatCannotBeWrittenIsReportedWhileAnEntryWaits: the first slot, ConfigMap 16, refuses the entry of
// 29 November. The next slot takes it, so nothing is lost and nothing is reported. The next night all slots
// refuse, so the entry of 30 November waits. The leader tries three slots at a time (maxTries). At least two
// of them, ConfigMap 17 and another one, are reported until the entry is written.
func TestASlotThatCannotBeWrittenIsReportedWhileAnEntryWaits(t *testing.T) {
	s := newScene(t)
	s.at = beforeMidnight // 29 November, 23:58
	s.useOneCardForMinutes(1)
	s.store.refused[cardseconds.Parts] = errors.New("refused")
	s.useOneCardForMinutes(10) // until 0:09
	s.expectRefused("where the next slot took the entry", nothing)

	s.at = beforeMidnight.AddDate(0, 0, 1)
	for slot := range cardseconds.Slots {
		s.store.refused[slotNumber(slot)] = immutable("x")
	}
	s.useOneCardForMinutes(5) // from 23:58 on 30 November until 0:03
	refused := s.k.StorageProblems().Refused
	check.That(t, len(refused) >= 2, "refused %v, want at least two slots", refused)
	check.Equal(t, "reason of ConfigMap 17", metav1.StatusReasonInvalid, refused["/cardquota-card-seconds-17"]) // the namespace is not set

	clear(s.store.refused)
	s.useOneCardForMinutes(1)
	s.expectRefused("after the entries were written", nothing)
}
