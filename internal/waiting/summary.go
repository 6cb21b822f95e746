package waiting

import (
	"cmp"
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// MaxBlocked is the most entries of a status, as in its schema.
const MaxBlocked = 10

// Summary is what waits in a queue.
type Summary struct {
	// Blocked lists what is pending and why, the longest wait first, at most MaxBlocked
	// entries. A workload has one for each card and reason. BlockedTotal counts the workloads.
	Blocked      []v1alpha1.BlockedStatus
	BlockedTotal int
	// BlockedCards is for how many cards all that is blocked waits, by reason; nil for none. It is that of
	// the queue alone.
	BlockedCards map[v1alpha1.BlockedReason]card.Count
	// OldestWithinQuota is when the oldest pending pod, or job without pods, was created that requests cards and
	// waits although the queue has quota for them; zero if none does.
	OldestWithinQuota metav1.Time
	// Local is what waits in each namespace, of a queue in LocalQueues.
	Local map[string]Entries
}

// Entries are what waits in a namespace.
type Entries struct {
	// Blocked are the entries that have waited longest, Total counts all workloads.
	Blocked []v1alpha1.BlockedStatus
	Total   int
}

// Equal reports whether the same waits, since when and why.
func (s *Summary) Equal(o *Summary) bool {
	return s.BlockedTotal == o.BlockedTotal && s.OldestWithinQuota.Equal(&o.OldestWithinQuota) && maps.Equal(s.BlockedCards, o.BlockedCards) &&
		slices.EqualFunc(s.Blocked, o.Blocked, equalBlocked) && maps.EqualFunc(s.Local, o.Local, Entries.equal)
}

// equal reports whether the same waits in a namespace.
func (e Entries) equal(o Entries) bool {
	return e.Total == o.Total && slices.EqualFunc(e.Blocked, o.Blocked, equalBlocked)
}

// equalBlocked reports whether two entries are equal.
func equalBlocked(a, b v1alpha1.BlockedStatus) bool {
	return CompareBlocked(a, b) == 0 && a.Count == b.Count && a.Message == b.Message && slices.Equal(a.Holders, b.Holders)
}

// AddSubtree adds what waits in a queue below, and if isShown also what waits in each namespace. Local must not be nil
// then. It does not change the lists of either.
func (s *Summary) AddSubtree(below *Summary, isShown bool) {
	s.BlockedTotal = min(s.BlockedTotal+below.BlockedTotal, math.MaxInt32)
	s.Blocked = mergeBlocked(s.Blocked, below.Blocked)
	if !isShown {
		return
	}

	for namespace, more := range below.Local {
		had := s.Local[namespace]
		s.Local[namespace] = Entries{Blocked: mergeBlocked(had.Blocked, more.Blocked), Total: had.Total + more.Total}
	}
}

// mergeBlocked returns the entries of two lists that have waited longest. Both lists are sorted.
// It does not change them, and may return one of them.
func mergeBlocked(a, b []v1alpha1.BlockedStatus) []v1alpha1.BlockedStatus {
	if len(b) == 0 || (len(a) >= MaxBlocked && CompareBlocked(a[len(a)-1], b[0]) <= 0) {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortFunc(all, CompareBlocked)
	return all[:min(len(all), MaxBlocked)]
}

// CompareBlocked orders blocked workloads: those that wait longest come first. Pods that wait for others
// of their gang come behind these.
func CompareBlocked(a, b v1alpha1.BlockedStatus) int {
	waitsForGang := func(entry v1alpha1.BlockedStatus) int {
		if entry.Reason == v1alpha1.BlockedGangIncomplete {
			return 1
		}
		return 0
	}
	return cmp.Or(a.Since.Compare(b.Since.Time), CompareWorkloads(&a.Workload, &b.Workload), waitsForGang(a)-waitsForGang(b), cmp.Compare(a.Card, b.Card), cmp.Compare(a.Reason, b.Reason))
}

// ReasonIn returns why a pod waits, from the entries of its workload, and the message to show. message is
// what the scheduler states about the pod, "" for nothing. The entry with the same message decides. If there
// is none, the message says whether the pod waits for its gang. Then the first entry of the same kind
// decides, else the first of all. Without entries the reason is "".
func ReasonIn(entries []v1alpha1.BlockedStatus, message string) (reason v1alpha1.BlockedReason, stated string) {
	for _, entry := range entries {
		if entry.Message == message {
			return entry.Reason, entry.Message
		}
	}

	if len(entries) == 0 {
		return "", message
	}

	statedReason := ReadStatedReason("", message, "")
	waitsForGang := statedReason.Node != "" || statedReason.LacksPods
	for _, entry := range entries {
		if (entry.Reason == v1alpha1.BlockedGangIncomplete) == waitsForGang {
			return entry.Reason, cmp.Or(message, entry.Message)
		}
	}

	return entries[0].Reason, cmp.Or(message, entries[0].Message)
}
