package workload

import (
	"strconv"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// StatedRefusal is what the message of a refusal says, for programs. Volcano keeps only the
// message: in the conditions of pods, and among the reasons of nodes.
type StatedRefusal struct {
	// Reason is why the workload waits.
	Reason v1alpha1.BlockedReason
	// Queue is the queue that refuses, an ancestor if its limit is exceeded. It is "" if the
	// message names none.
	Queue string
	// Cards are the cards that the queue cannot get more of, nil for other refusals.
	Cards []card.Name
	// Requested, Total and Limit are those of quota.InsufficientQuota: the cards of the request, the
	// usage and reservations including it, and the quota. They are 0 for other refusals.
	Requested, Total, Limit int64
}

// ReadRefusal reads the message of a refusal. The first letter may be in lower case. It returns
// false for a text that is no such message. statedrefusal_test.go writes every refusal and reads
// it again.
func ReadRefusal(message string) (StatedRefusal, bool) {
	if queue, rest, ok := cutQueue(message); ok {
		return readQueueRefusal(queue, rest)
	}
	for _, known := range requestPhrases {
		if rest, ok := strings.CutPrefix(message, known.prefix); ok && strings.Contains(rest, known.contains) {
			return StatedRefusal{Reason: known.reason}, true
		}
	}
	return StatedRefusal{}, false
}

// phrase is a stable part of a message. The first that matches decides.
type phrase struct {
	prefix, contains string
	reason           v1alpha1.BlockedReason
}

// requestPhrases are those of refusals that do not begin with a queue.
var requestPhrases = []phrase{
	{"Namespace <", "> may not use queue <", v1alpha1.BlockedNamespaceNotAllowed},
	{"Namespace <", "> is not known yet", v1alpha1.BlockedNamespaceNotAllowed},
	{"Pod annotation ", "one resource request cannot mean either", v1alpha1.BlockedWrongCombination},
	{"PodGroup annotation ", "one resource request cannot mean either", v1alpha1.BlockedWrongCombination},
	{"Pod annotation ", "", v1alpha1.BlockedInvalidRequest},
	{"PodGroup annotation ", "", v1alpha1.BlockedInvalidRequest},
	{"Pod requests two card resources", "", v1alpha1.BlockedWrongCombination},
	{"Pod requests more than ", "", v1alpha1.BlockedInvalidRequest},
	{"Pod requests ", "no node says which card that is", v1alpha1.BlockedUnknownCard},
	{"Pod names card <", "which no node offers as a card", v1alpha1.BlockedUnknownCard},
	{"Pod names card <", "which is requested as ", v1alpha1.BlockedWrongCombination},
	{"Pod has ResourceClaim", " no quota limits", v1alpha1.BlockedUnmanagedClaim},
	{"Pod waits for ", ", which does not exist yet", v1alpha1.BlockedOther},
	{"Arguments of capacity-card are invalid", "", v1alpha1.BlockedSchedulerNotReady},
	{"the scheduler has just started", "", v1alpha1.BlockedSchedulerNotReady},
	{"the scheduler does not know Volcano job <", "", v1alpha1.BlockedSchedulerNotReady},
}

// queuePhrases are what follows "Queue <name>" and its ancestor.
var queuePhrases = []phrase{
	{" has insufficient CPU quota", "", v1alpha1.BlockedCPUQuotaExhausted},
	{" has insufficient memory quota", "", v1alpha1.BlockedMemoryQuotaExhausted},
	{" has no cpu capability", "", v1alpha1.BlockedCPUQuotaExhausted},
	{" has no memory capability", "", v1alpha1.BlockedMemoryQuotaExhausted},
	{" may use nothing (", "", v1alpha1.BlockedNoQuota},
	{" gets no more ", " while pods that are being deleted hold", v1alpha1.BlockedCardsTerminating},
	{" cannot borrow ", " for pods from which no other queue can reclaim", v1alpha1.BlockedNotReclaimable},
	{" cannot borrow ", " for a while", v1alpha1.BlockedRecentlyReclaimed},
	{" cannot borrow ", " that the nodes do not have", v1alpha1.BlockedNoFreeCard},
	{" waits while ", " are held for pods that reclaimed them", v1alpha1.BlockedGuaranteedToOthers},
	{" cannot use ", " that are guaranteed to other queues", v1alpha1.BlockedGuaranteedToOthers},
	{" reclaims nothing beyond what it deserves", "", v1alpha1.BlockedOther},
	{" has an invalid " + v1alpha1.AnnotationNamespaceSelector, "", v1alpha1.BlockedNamespaceNotAllowed},
	{" has an invalid ", "", v1alpha1.BlockedQueueStopped},
	{" names parent <", "", v1alpha1.BlockedQueueStopped},
	{" is more than ", " levels below <", v1alpha1.BlockedQueueStopped},
	{" is the parent of other queues", "", v1alpha1.BlockedQueueStopped},
	{" is held by ", "", v1alpha1.BlockedQueueStopped},
	{" is being deleted", "", v1alpha1.BlockedQueueStopped},
	{" has no state yet", "", v1alpha1.BlockedQueueStopped},
	{" is ", ", not Open", v1alpha1.BlockedQueueStopped},
	{" does not exist", "", v1alpha1.BlockedQueueNotFound},
}

// readQueueRefusal reads what follows the name of a queue.
func readQueueRefusal(queue, rest string) (StatedRefusal, bool) {
	rest, isAncestor := cutAncestor(rest)
	if names, ok := strings.CutPrefix(rest, " has insufficient <"); ok {
		return readInsufficientCards(queue, names, isAncestor)
	}
	for _, known := range queuePhrases {
		if after, ok := strings.CutPrefix(rest, known.prefix); ok && strings.Contains(after, known.contains) {
			return StatedRefusal{Reason: known.reason, Queue: queue, Cards: readCards(after)}, true
		}
	}
	return StatedRefusal{}, false
}

// readInsufficientCards reads "A|B> quota: requested <2>, total would be <9>, but capability is <8>".
func readInsufficientCards(queue, rest string, isAncestor bool) (StatedRefusal, bool) {
	names, rest, _ := strings.Cut(rest, ">")
	rest, limit, isWhole := strings.Cut(rest, "but capability is <")
	if !isWhole {
		return StatedRefusal{}, false
	}

	out := StatedRefusal{Reason: v1alpha1.BlockedQuotaExhausted, Queue: queue}
	switch {
	case isAncestor:
		out.Reason = v1alpha1.BlockedAncestorQuotaExhausted
	// Waiting never helps against a quota of 0, so it has a reason of its own.
	case strings.HasPrefix(limit, "0>"):
		out.Reason = v1alpha1.BlockedNoQuota
	}

	out.Cards = readCards("<" + names + ">")
	_, requested, _ := strings.Cut(rest, "requested <")
	_, total, _ := strings.Cut(rest, "total would be <")
	out.Requested = readAmount(requested)
	out.Total = readAmount(total)
	out.Limit = readAmount(limit)
	return out, true
}

// readAmount reads "9> …", 0 for other words: tenants can write the messages of their pods.
func readAmount(text string) int64 {
	number, _, _ := strings.Cut(text, ">")
	amount, err := strconv.ParseInt(number, 10, 32)
	if err != nil || amount < 0 {
		return 0
	}
	return amount
}

// readCards reads "<A|B> …", nil for other words.
func readCards(text string) []card.Name {
	inside, isCards := strings.CutPrefix(text, "<")
	names, _, isClosed := strings.Cut(inside, ">")
	if !isCards || !isClosed {
		return nil
	}
	var cards []card.Name
	for name := range strings.SplitSeq(names, "|") {
		cards = append(cards, card.Name(name))
	}
	return cards
}

// cutQueue cuts "Queue <name>" off a message.
func cutQueue(message string) (name, rest string, isQueue bool) {
	rest, isQueue = strings.CutPrefix(message, "Queue <")
	if !isQueue {
		rest, isQueue = strings.CutPrefix(message, "queue <")
	}
	if !isQueue {
		return "", "", false
	}
	return strings.Cut(rest, ">")
}

// cutAncestor cuts off the words that name an ancestor. It reports whether the message is about
// the quota of an ancestor.
func cutAncestor(rest string) (after string, isAncestor bool) {
	for _, words := range []struct {
		before, after string
		isQuota       bool
	}{{", an ancestor of <", ">,", true}, {" (its ancestor <", ">)", false}} {
		if inside, ok := strings.CutPrefix(rest, words.before); ok {
			if _, after, ok := strings.Cut(inside, words.after); ok {
				return after, words.isQuota
			}
		}
	}
	return rest, false
}
