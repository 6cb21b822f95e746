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

// expectRefused compares the ConfigMaps that cannot be written.
func (s *scene) expectRefused(when string, want map[string]metav1.StatusReason) {
	check.Equal(s.T, "refused "+when, want, s.k.StorageProblems().Refused)
}

var nothing = map[string]metav1.StatusReason{}

// immutable is what the API server answers to a write of an immutable ConfigMap.
func immutable(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, name, nil)
}

// TestAPartThatCannotBeWrittenIsNamed: after two minutes, and until it is written again. One that has no sums lacks
// nothing.
func TestAPartThatCannotBeWrittenIsNamed(t *testing.T) {
	s := newScene(t)
	s.k.namespace = "volcano-system"
	s.count(2)
	s.expectRefused("while all is well", nothing)
	for part := range cardseconds.Parts {
		s.store.refused[part] = immutable(cardseconds.ConfigMapName(part))
	}

	s.count(2)
	s.expectRefused("for a minute", nothing)
	s.count(1)
	named := map[string]metav1.StatusReason{"volcano-system/cardquota-card-seconds-0": metav1.StatusReasonInvalid}
	s.expectRefused("for two minutes", named)

	s.restart()
	s.k.namespace = "volcano-system"
	s.expectRefused("before the next leader has loaded the sums", nothing)
	s.count(4)
	s.expectRefused("by the next leader", named)
	clear(s.store.refused)
	s.count(1)
	s.expectRefused("after it was written", nothing)
}

// TestAConfigMapThatCannotBeReadIsNamed: the next leader loads no sums without it, and counts meanwhile.
func TestAConfigMapThatCannotBeReadIsNamed(t *testing.T) {
	for _, i := range []int{0, 5, slotNumber(3)} {
		s := newScene(t)
		s.k.namespace = "volcano-system"
		s.count(2)
		s.restart()
		s.k.namespace = "volcano-system"
		s.store.unreadable = map[int]error{i: apierrors.NewInternalError(errors.New("no key to decrypt it"))}

		s.count(2)
		s.expectRefused("for a minute", nothing)
		s.count(1)
		s.expectRefused("for two minutes", map[string]metav1.StatusReason{"volcano-system/" + cardseconds.ConfigMapName(i): metav1.StatusReasonInternalError})
		s.store.unreadable = nil
		s.count(2)
		s.expectRefused("after it was read", nothing)
	}
}

// TestASlotThatCannotBeWrittenIsNamedWhileAnEntryWaits: if another one takes the entry, nothing is lost.
func TestASlotThatCannotBeWrittenIsNamedWhileAnEntryWaits(t *testing.T) {
	s := newScene(t)
	s.at = beforeMidnight
	s.count(1)
	s.store.refused[cardseconds.Parts] = errors.New("refused")
	s.count(10)
	s.expectRefused("where the next slot took the entry", nothing)

	s.at = beforeMidnight.AddDate(0, 0, 1)
	for slot := range cardseconds.Slots {
		s.store.refused[slotNumber(slot)] = immutable("x")
	}

	s.count(5)
	refused := s.k.StorageProblems().Refused
	check.That(t, len(refused) >= 2 && refused["/cardquota-card-seconds-17"] == metav1.StatusReasonInvalid, "refused %v", refused)

	clear(s.store.refused)
	s.count(1)
	s.expectRefused("after the entries were written", nothing)
}
