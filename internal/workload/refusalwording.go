package workload

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// sentence is what refusals of one code say.
type sentence struct {
	code Code
	// reason is that of events and conditions, and blocked what the refusal means to a workload. It is "" for
	// a sentence that nothing reads.
	reason  string
	blocked v1alpha1.BlockedReason
	// text has names of fields in braces. What comes before decidedMark is enough to recognise it: a status
	// truncates long messages, and an older or newer scheduler may end the sentence in another way.
	text string
}

// wording is a sentence in parts, of which the first ones decide.
type wording struct {
	sentence
	parts   []part
	decided int
}

// part is a part of a sentence: a text, or a field.
type part struct {
	text  string
	field *field
}

// decidedMark ends what is enough to recognise a sentence.
const decidedMark = "¦"

// quotaAmounts is what refusals for a quota say, treeAmounts what most of those of a tree do.
const (
	quotaAmounts = "requested <{requested}>, total would be <{total}>, but capability is <{limit}>"
	treeAmounts  = "requested <{requested}>, total would be <{total}>{in}, but "
)

// noQuotaLimits ends the sentences about ResourceClaims for cards.
const noQuotaLimits = " no quota limits¦ (unmanagedQueues: {policy}): request cards as resources of a device plugin, or ask an administrator for unmanagedQueues: " +
	string(v1alpha1.UnmanagedIgnore)

// sentences are those of all codes. A message is read as the first one that begins like it. Users and their
// tools know the texts: a change breaks them.
var sentences = []sentence{
	{CodeCardQuota, ReasonInsufficientScalarQuota, v1alpha1.BlockedQuotaExhausted, "Queue <{queue}>{ancestorOf} has insufficient <{cards}> quota: " + quotaAmounts + "¦{more}"},
	{CodeCPUQuota, ReasonInsufficientCPUQuota, v1alpha1.BlockedCPUQuotaExhausted, "Queue <{queue}>{ancestorOf} has insufficient CPU quota¦: " + quotaAmounts + "{more}"},
	{CodeMemoryQuota, ReasonInsufficientMemoryQuota, v1alpha1.BlockedMemoryQuotaExhausted, "Queue <{queue}>{ancestorOf} has insufficient memory quota¦: " + quotaAmounts + "{more}"},
	{CodeNoCPU, ReasonEmptyQueueCapability, v1alpha1.BlockedCPUQuotaExhausted, "Queue <{queue}> has no cpu capability¦ and may use none: set spec.capability.cpu (spec.resources.cpu of its CardQuota){more}"},
	{CodeNoMemory, ReasonEmptyQueueCapability, v1alpha1.BlockedMemoryQuotaExhausted, "Queue <{queue}> has no memory capability¦ and may use none: set spec.capability.memory (spec.resources.memory of its CardQuota){more}"},
	{CodeTerminating, ReasonCardsEnding, v1alpha1.BlockedCardsTerminating, "Queue <{queue}>{ancestorOf} gets no more <{cards}> while pods that are being deleted hold¦ more than its quota: terminating <{total}>, but quota is <{limit}>; they end within {seconds} s, sooner with a shorter terminationGracePeriodSeconds{more}"},
	{CodeNotReclaimable, ReasonCannotBorrow, v1alpha1.BlockedNotReclaimable, "Queue <{waiting}> cannot borrow {resource} for pods from which no other queue can reclaim¦: requested <{requested}>, such pods would use <{total}>{in}, but deserved is <{limit}>; let the pods be preemptable, or raise what the queue deserves{more}"},
	{CodeRecentlyReclaimed, ReasonCannotBorrow, v1alpha1.BlockedRecentlyReclaimed, "Queue <{waiting}> cannot borrow {resource} for a while¦, because another queue has just reclaimed them: " + treeAmounts + "deserved is <{limit}>{more}"},
	{CodeKeptForReclaimers, ReasonInsufficientScalarQuota, v1alpha1.BlockedGuaranteedToOthers, "Queue <{waiting}> waits while {resource} are held for pods that reclaimed them¦: " + treeAmounts + "capability is <{limit}>{more}"},
	{CodeGuaranteed, ReasonGuaranteed, v1alpha1.BlockedGuaranteedToOthers, "Queue <{waiting}> cannot use {resource} that are guaranteed to other queues¦: requested <{requested}>, total with unused guarantees would be <{total}>, but {owner} is <{limit}>{more}"},
	{CodeBeyondInventory, ReasonCannotBorrow, v1alpha1.BlockedNoFreeCard, "Queue <{queue}> cannot borrow {resource} that the nodes do not have¦: requested <{requested}>, total with usage and reservations of all queues would be <{total}>, but the inventory is <{limit}>{more}"},
	{CodeBeyondDeserved, ReasonCannotBorrow, v1alpha1.BlockedOther, "Queue <{queue}> reclaims nothing beyond what it deserves¦: requested <{requested}> of {resource}, total would be <{total}>, but deserved is <{limit}>{more}"},
	{CodeRootDenied, ReasonInsufficientScalarQuota, v1alpha1.BlockedNoQuota, "Queue <{queue}> may use nothing (¦unmanagedQueues: " + string(v1alpha1.UnmanagedDeny) + "): submit to a queue that has a CardQuota{more}"},

	{CodeQueueNotFound, ReasonQueueNotFound, v1alpha1.BlockedQueueNotFound, "Queue <{queue}> does not exist"},
	{CodeInvalidSelector, ReasonInvalidNamespaceSelector, v1alpha1.BlockedNamespaceNotAllowed, "Queue <{queue}> has an invalid " + v1alpha1.AnnotationNamespaceSelector + "¦, so no namespace may use it: {detail}"},
	{CodeInvalidQuota, ReasonInvalidQuota, v1alpha1.BlockedQueueStopped, "Queue <{queue}> has an invalid ¦{object}: {detail}"},
	{CodeParentNotFound, ReasonParentNotFound, v1alpha1.BlockedQueueStopped, "Queue <{waiting}>{itsAncestor} names parent <{object}>, which does not exist¦: nothing new starts in it; create the parent, or name an existing one"},
	{CodeParentCycle, ReasonParentCycle, v1alpha1.BlockedQueueStopped, "Queue <{waiting}>{itsAncestor} names parent <¦{object}>, which leads back to it: nothing new starts in it; set spec.parent to a queue that leads to <" + RootQueue + ">"},
	{CodeTooDeep, ReasonTreeTooDeep, v1alpha1.BlockedQueueStopped, "Queue <{queue}> is more than ¦" + strconv.Itoa(quota.MaxDepth) + " levels below <" + RootQueue + ">: nothing new starts in it; move it up"},
	{CodeIsParent, ReasonQueueParent, v1alpha1.BlockedQueueStopped, "Queue <{queue}> is the parent of other queues¦ and takes no jobs: name one of its children"},
	{CodeHeldByOperator, ReasonQueueHeld, v1alpha1.BlockedQueueStopped, "Queue <{waiting}>{itsAncestor} is held by the operator¦: nothing new starts in it; {detail}"},
	{CodeHeldByStopPolicy, ReasonQueueHeld, v1alpha1.BlockedQueueStopped, "Queue <{waiting}>{itsAncestor} is held by ¦its stop policy: nothing new starts in it; set stopPolicy to None to go on"},
	{CodeQueueDeleted, ReasonQueueNotOpen, v1alpha1.BlockedQueueStopped, "Queue <{queue}> is being deleted¦: nothing new starts in it"},
	{CodeQueueWithoutState, ReasonQueueNotOpen, v1alpha1.BlockedQueueStopped, "Queue <{queue}> has no state yet¦: Volcano's controller opens it"},
	{CodeQueueNotOpen, ReasonQueueNotOpen, v1alpha1.BlockedQueueStopped, "Queue <{queue}> is {object}, not Open¦: nothing new starts in it"},
	{CodeNamespaceUnknown, ReasonNamespaceNotAllowed, v1alpha1.BlockedNamespaceNotAllowed, "Namespace <{object}> is not known yet¦, and queue <{queue}> is only for certain namespaces: wait, or name another queue{binds}"},
	{CodeNamespaceNotAllowed, ReasonNamespaceNotAllowed, v1alpha1.BlockedNamespaceNotAllowed, "Namespace <{object}> may not use queue <¦{queue}>: ask an administrator to allow it, or name another queue{binds}"},

	{CodeInvalidArguments, ReasonNotReady, v1alpha1.BlockedSchedulerNotReady, "Arguments of capacity-card are invalid¦: {detail}"},
	{CodeNotSynced, ReasonNotReady, v1alpha1.BlockedSchedulerNotReady, "the scheduler has just started¦ and has not seen every node and pod yet"},
	{CodeVCJobUnknown, ReasonNotReady, v1alpha1.BlockedSchedulerNotReady, "the scheduler does not know Volcano job <¦{object}>, which decides what the PodGroup requests"},

	{CodeMixedPod, ReasonGetTaskRequestFailed, v1alpha1.BlockedWrongCombination, "Pod annotation " + v1alpha1.AnnotationCardName + ": {mixed}"},
	{CodeInvalidPod, ReasonGetTaskRequestFailed, v1alpha1.BlockedInvalidRequest, "Pod annotation ¦" + v1alpha1.AnnotationCardName + ": {detail}"},
	{CodeMixedPodGroup, ReasonGetTaskRequestFailed, v1alpha1.BlockedWrongCombination, "PodGroup annotation " + v1alpha1.AnnotationCardRequest + ": {mixed}"},
	{CodeInvalidPodGroup, ReasonGetTaskRequestFailed, v1alpha1.BlockedInvalidRequest, "PodGroup annotation ¦" + v1alpha1.AnnotationCardRequest + ": {detail}"},
	{CodeTwoResources, ReasonGetTaskRequestFailed, v1alpha1.BlockedWrongCombination, "Pod requests two card resources¦, {object} and {other}: a pod may request only one card resource, remove the other"},
	{CodeTooManyCards, ReasonGetTaskRequestFailed, v1alpha1.BlockedInvalidRequest, "Pod requests more than ¦" + strconv.Itoa(int(card.MaxCount)) + " of {object}, which is more than any quota can give"},
	{CodeUnnamedCards, ReasonGetTaskRequestFailed, v1alpha1.BlockedUnknownCard, "Pod requests {object}, but no node says which card that is¦: nodes need the labels <vendor>/<type>.product and .memory"},
	{CodeNotACard, ReasonGetTaskRequestFailed, v1alpha1.BlockedUnknownCard, "Pod names card <{object}> but requests {other}, which no node offers as a card"},
	{CodeOtherResource, ReasonGetTaskRequestFailed, v1alpha1.BlockedWrongCombination, "Pod names card <{object}>, which is requested as ¦{other}, but requests {detail}"},
	{CodeClaimsUnreadable, ReasonUnmanagedClaim, v1alpha1.BlockedUnmanagedClaim, "Pod has ResourceClaims, which the scheduler cannot read in a cluster without resource.k8s.io/v1, and which may be for cards that" + noQuotaLimits},
	{CodeClaimForCards, ReasonUnmanagedClaim, v1alpha1.BlockedUnmanagedClaim, "Pod has ResourceClaim <{object}> for devices of driver <{detail}>, which are cards that" + noQuotaLimits},
	{CodeClaimForAny, ReasonUnmanagedClaim, v1alpha1.BlockedUnmanagedClaim, "Pod has ResourceClaim <{object}> of DeviceClass <{other}>, whose selectors do not compare device.driver with a name, so it may get cards of driver <{detail}>, which" + noQuotaLimits},
	{CodeClaimNotFound, ReasonUnmanagedClaim, v1alpha1.BlockedOther, "Pod waits for {object}, which does not exist yet"},
	{CodePodGroupNotFound, string(v1alpha1.BlockedPodGroupNotFound), v1alpha1.BlockedPodGroupNotFound, "PodGroup <{object}>, which the pod names in {other}, does not exist¦, so the scheduler never tries the pod: delete the pod, its controller creates another one"},

	{code: CodeMayNotReclaim, text: "pods of service type \"{object}\" may not reclaim cards"},
	{code: CodeCardNotAllowed, text: "pod {object} may not run on the card of node {other}"},
}

// wordings are the sentences in parts.
var wordings = compileWordings()

// wordingByCode finds the wording of a code.
var wordingByCode = func() map[Code]*wording {
	byCode := map[Code]*wording{}
	for i := range wordings {
		byCode[wordings[i].code] = &wordings[i]
	}
	return byCode
}()

// wordingFor returns the wording of a code, an empty one for an unknown code.
func wordingFor(code Code) *wording {
	if known := wordingByCode[code]; known != nil {
		return known
	}
	return &wording{}
}

// compileWordings splits sentences into parts. Those before decidedMark are enough to recognise a sentence.
func compileWordings() []wording {
	var all []wording
	for _, s := range sentences {
		before, after, _ := strings.Cut(s.text, decidedMark)
		parts := splitSentence(before)
		all = append(all, wording{s, append(parts, splitSentence(after)...), len(parts)})
	}
	return all
}

// splitSentence splits a sentence into texts, and the fields whose names stand in braces between them.
func splitSentence(text string) []part {
	var parts []part
	for text != "" {
		before, rest, hasField := strings.Cut(text, "{")
		if before != "" {
			parts = append(parts, part{text: before})
		}

		if hasField {
			var name string
			name, rest, _ = strings.Cut(rest, "}")
			parts = append(parts, part{field: fields[name]})
		}
		text = rest
	}

	return parts
}

// Message words the refusal for people. Cards are whole numbers, CPU is in Kubernetes millicores (500m), memory
// in Mi.
func (r *Refusal) Message() string {
	var out strings.Builder
	wordingFor(r.Code).write(r, &out)
	return out.String()
}

// write writes a refusal of this wording.
func (w *wording) write(r *Refusal, out *strings.Builder) {
	for _, part := range w.parts {
		out.WriteString(part.text)
		if part.field != nil {
			part.field.write(r, out)
		}
	}
}

// PodMessage is the message without the pod as its subject, for a text that names the pod itself.
func (r *Refusal) PodMessage() string { return strings.TrimPrefix(r.Message(), "Pod ") }

// NodeMessage is the message as one of the reasons of a node, which begin with a small letter.
func (r *Refusal) NodeMessage() string {
	message := r.Message()
	return strings.ToLower(message[:1]) + message[1:]
}

// ReadRefusal reads the message of a refusal, or its beginning. The first letter may be in lower case. It returns
// false for a text that is no such message. Tenants can write such texts into the conditions of their pods.
func ReadRefusal(message string) (refusal Refusal, isRefusal bool) {
	for i := range wordings {
		// Nothing reads the sentences without a blocked reason.
		if wordings[i].blocked != "" && wordings[i].readMessage(message, &refusal) {
			return refusal, true
		}
	}
	return Refusal{}, false
}

// readMessage reads a message of this wording into r, and reports whether the message is one. If it is not, r
// has no meaning. The first letter may be a capital or a small one.
func (w *wording) readMessage(message string, r *Refusal) bool {
	first := w.parts[0].text // each sentence begins with a text
	if len(message) < len(first) || lowerLetter(message) != lowerLetter(first) || message[1:len(first)] != first[1:] {
		return false
	}

	*r = Refusal{Code: w.code}
	rest := message[len(first):]
	for i := 1; i < len(w.parts); i++ {
		part := &w.parts[i]
		isRead := false
		if part.field == nil {
			rest, isRead = strings.CutPrefix(rest, part.text)
		} else {
			rest, isRead = part.field.read(r, rest, w.textAfter(i))
		}

		if !isRead { // the message may be truncated behind the parts that decide
			return i >= w.decided
		}
	}

	return true
}

// lowerLetter returns the first letter of a text as a small one. In ASCII the two differ in one bit.
func lowerLetter(text string) byte { return text[0] | ('a' - 'A') }

// textAfter returns what ends a field: the text behind it, or ">" for one in brackets. It is "" at the end.
func (w *wording) textAfter(i int) string {
	if i+1 == len(w.parts) {
		return ""
	}
	text := w.parts[i+1].text
	if strings.HasPrefix(text, ">") {
		return ">"
	}
	return text
}

// field writes a part of a refusal into a sentence, and reads it from there. It returns what follows. end is the
// text behind the field, "" for none.
type field struct {
	write func(r *Refusal, out *strings.Builder)
	read  func(r *Refusal, text, end string) (rest string, isRead bool)
}

// queueField is the queue that refuses. In a sentence about the queue of the workload, ancestorField replaces it
// where an ancestor refuses.
var queueField = textField(func(r *Refusal) *string { return &r.Queue })

// fields are what a sentence can say.
var fields = map[string]*field{
	"queue":       queueField,
	"cards":       textField(func(r *Refusal) *string { return &r.Cards }),
	"object":      textField(func(r *Refusal) *string { return &r.Object }),
	"other":       textField(func(r *Refusal) *string { return &r.Other }),
	"detail":      textField(func(r *Refusal) *string { return &r.Detail }),
	"policy":      textField(func(r *Refusal) *string { return (*string)(&r.Policy) }),
	"requested":   amountField(func(r *Refusal) *int64 { return &r.Requested }),
	"total":       amountField(func(r *Refusal) *int64 { return &r.Total }),
	"limit":       amountField(func(r *Refusal) *int64 { return &r.Limit }),
	"ancestorOf":  requesterField(", an ancestor of <", ">,"),
	"binds":       requesterField("; it binds queue <", "> below it"),
	"in":          ancestorField(" in its ancestor <", ">"),
	"itsAncestor": ancestorField(" (its ancestor <", ">)"),
	"waiting":     {write: func(r *Refusal, out *strings.Builder) { out.WriteString(r.waitingQueue()) }, read: queueField.read},
	"resource":    {write: writeResource, read: readResource},
	"owner":       {write: writeOwner, read: readOwner},
	"seconds":     {write: writeSeconds, read: readSeconds},
	"mixed":       {write: func(r *Refusal, out *strings.Builder) { out.WriteString(r.Detail) }, read: readMixed},
	"more":        {write: writeMore, read: readMore},
}

// textField is a text up to what follows it.
func textField(of func(*Refusal) *string) *field {
	return &field{
		write: func(r *Refusal, out *strings.Builder) { out.WriteString(*of(r)) },
		read: func(r *Refusal, text, end string) (rest string, isRead bool) {
			value, rest, isRead := cutBefore(text, end)
			if isRead {
				*of(r) = value
			}
			return rest, isRead
		},
	}
}

// cutBefore cuts a text before what follows, all of it if that is "".
func cutBefore(text, end string) (value, rest string, isFound bool) {
	if end == "" {
		return text, "", true
	}
	at := strings.Index(text, end)
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at:], true
}

// phraseField is a phrase with one name, which is left out if the name is "".
func phraseField(before, after string, name func(*Refusal) string, set func(*Refusal, string)) *field {
	return &field{
		write: func(r *Refusal, out *strings.Builder) {
			if name(r) != "" {
				out.WriteString(before + name(r) + after)
			}
		},
		read: func(r *Refusal, text, _ string) (rest string, isRead bool) {
			inside, isThere := strings.CutPrefix(text, before)
			value, rest, isClosed := strings.Cut(inside, after)
			if !isThere || !isClosed { // write left the phrase out
				return text, true
			}

			set(r, value)
			return rest, true
		},
	}
}

// requesterField names the queue of the workload in a sentence about an ancestor.
func requesterField(before, after string) *field {
	return phraseField(before, after, func(r *Refusal) string { return r.Requester }, func(r *Refusal, name string) { r.Requester = name })
}

// ancestorField names the ancestor that refuses in a sentence about the queue of the workload.
func ancestorField(before, after string) *field {
	return phraseField(before, after, func(r *Refusal) string {
		if r.Requester == "" {
			return ""
		}
		return r.Queue
	}, setAncestor)
}

// setAncestor makes an ancestor the queue that refuses. The one read before is that of the workload.
func setAncestor(r *Refusal, ancestor string) {
	r.Requester = r.Queue
	r.Queue = ancestor
}

// writeResource writes what is limited: "<A|B>", "cpu" or "memory".
func writeResource(r *Refusal, out *strings.Builder) {
	if r.Resource.IsCard() {
		out.WriteString("<" + r.Cards + ">")
		return
	}
	out.WriteString(r.Resource.String())
}

// readResource reads what writeResource writes.
func readResource(r *Refusal, text, _ string) (rest string, isRead bool) {
	if inside, isCards := strings.CutPrefix(text, "<"); isCards {
		r.Cards, rest, isRead = strings.Cut(inside, ">")
		return rest, isRead
	}
	for _, resource := range []quota.Resource{quota.CPU, quota.Memory} {
		if rest, isRead := strings.CutPrefix(text, resource.String()); isRead {
			r.Resource = resource
			return rest, true
		}
	}
	return text, false
}

const (
	milliUnit = "m"
	mebiUnit  = "Mi"
	// mebibyte is the unit of memory in bytes.
	mebibyte = 1 << 20
)

// amountField is an amount of cards, CPU or memory. An amount that cannot be read counts as 0.
func amountField(of func(*Refusal) *int64) *field {
	return &field{
		write: func(r *Refusal, out *strings.Builder) { out.WriteString(formatAmount(r.Resource, *of(r))) },
		read: func(r *Refusal, text, end string) (rest string, isRead bool) {
			amount, rest, isRead := cutBefore(text, end)
			if isRead {
				*of(r) = r.parseAmount(amount)
			}
			return rest, isRead
		},
	}
}

// formatAmount formats cards as whole numbers, CPU in millicores and memory in Mi, rounded up so that an
// insufficient amount never shows as 0.
func formatAmount(resource quota.Resource, n int64) string {
	switch resource {
	case quota.CPU:
		return strconv.FormatInt(n, 10) + milliUnit
	case quota.Memory:
		return strconv.FormatInt((n+mebibyte-1)/mebibyte, 10) + mebiUnit
	}
	return strconv.FormatInt(n, 10)
}

// parseAmount parses an amount, 0 if it cannot be read. Its unit says of which resource it is, and
// parseAmount writes that to the refusal.
func (r *Refusal) parseAmount(text string) int64 {
	digits := strings.TrimRight(text, "Mim") // without the unit, m or Mi
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxQuantity {
		return 0
	}

	switch text[len(digits):] {
	case milliUnit:
		r.Resource = quota.CPU
	case mebiUnit:
		r.Resource = quota.Memory
		return min(n, maxQuantity/mebibyte) * mebibyte
	}

	return n
}

// writeOwner writes whose cards, CPU or memory the pod cannot get because other queues are guaranteed the rest: those of
// an ancestor, or, without one, those of all nodes.
func writeOwner(r *Refusal, out *strings.Builder) {
	if r.Queue == "" {
		out.WriteString("the inventory")
		return
	}
	out.WriteString("capability of <" + r.Queue + ">")
}

// readOwner reads what writeOwner writes. The sentence has named the queue of the workload before, so any
// other owner is an ancestor of it.
func readOwner(r *Refusal, text, _ string) (rest string, isRead bool) {
	if rest, isInventory := strings.CutPrefix(text, "the inventory"); isInventory {
		setAncestor(r, "") // that of no queue
		return rest, true
	}

	inside, isQueue := strings.CutPrefix(text, "capability of <")
	owner, rest, isClosed := strings.Cut(inside, ">")
	if !isQueue || !isClosed {
		return text, false
	}
	if owner != r.Queue {
		setAncestor(r, owner)
	}
	return rest, true
}

// writeSeconds writes the grace period in whole seconds.
func writeSeconds(r *Refusal, out *strings.Builder) {
	out.WriteString(strconv.FormatInt(int64(r.GracePeriod/time.Second), 10))
}

// readSeconds reads what writeSeconds writes.
func readSeconds(r *Refusal, text, end string) (rest string, isRead bool) {
	seconds, rest, isRead := cutBefore(text, end)
	n, err := strconv.ParseInt(seconds, 10, 32)
	if err != nil {
		return text, false
	}
	r.GracePeriod = time.Duration(n) * time.Second
	return rest, isRead
}

// readMixed reads the rest of a message about cards that no single request can mean.
func readMixed(r *Refusal, text, _ string) (rest string, isRead bool) {
	r.Detail = text
	return "", isMixed(text)
}

// invalidPodAnnotation returns the refusal for a card.name that cannot be parsed. One that mixes cards of different
// resources has a code of its own: it waits for another reason.
func invalidPodAnnotation(detail string) Refusal {
	if isMixed(detail) {
		return Refusal{Code: CodeMixedPod, Detail: detail}
	}
	return Refusal{Code: CodeInvalidPod, Detail: detail}
}

// invalidPodGroupAnnotation returns the refusal for a card.request that cannot be parsed, as invalidPodAnnotation does.
func invalidPodGroupAnnotation(detail string) *Refusal {
	if isMixed(detail) {
		return &Refusal{Code: CodeMixedPodGroup, Detail: detail}
	}
	return &Refusal{Code: CodeInvalidPodGroup, Detail: detail}
}

// isMixed reports whether what is wrong with an annotation is that it names cards of different resources.
func isMixed(detail string) bool { return strings.Contains(detail, card.MixedResources) }

// The words of what may follow a refusal because of a limit.
const (
	oneOtherCard    = "; the other card it may use has no more room"
	beforeOthers    = "; none of the "
	afterOthers     = " other cards it may use has more room"
	deniedWords     = "; it has no card quota, and such queues are denied (unmanagedQueues: " + string(v1alpha1.UnmanagedDeny) + "): submit to a queue that has a CardQuota, or create one for this queue"
	keptWords       = "; preempt freed quota for other pods, which come first"
	beforeAllCards  = " (" + v1alpha1.AnnotationCardRequest + " requests "
	afterAllCards   = " cards in all, the job's minimum is "
	afterTotalCards = ")"
)

// writeMore writes what may follow: how many more cards of the request are insufficient, why the queue has no
// quota, what is kept, and what the whole job requests.
func writeMore(r *Refusal, out *strings.Builder) {
	switch {
	case r.OtherCards == 1:
		out.WriteString(oneOtherCard)
	case r.OtherCards > 1:
		out.WriteString(beforeOthers + strconv.Itoa(r.OtherCards) + afterOthers)
	}

	if r.IsDenied {
		out.WriteString(deniedWords)
	}
	if r.IsKept {
		out.WriteString(keptWords)
	}

	if r.AllCards > 0 {
		fmt.Fprintf(out, "%s%d%s%d%s", beforeAllCards, r.AllCards, afterAllCards, r.MinimumCards, afterTotalCards)
	}
}

// readMore reads what writeMore writes. Each part may be missing, and what is unknown is left out.
func readMore(r *Refusal, text, _ string) (rest string, isRead bool) {
	text, isOne := strings.CutPrefix(text, oneOtherCard)
	if isOne {
		r.OtherCards = 1
	}

	if number, rest, isThere := cutBetween(text, beforeOthers, afterOthers); isThere {
		r.OtherCards = int(r.parseAmount(number))
		text = rest
	}

	text, r.IsDenied = strings.CutPrefix(text, deniedWords)
	text, r.IsKept = strings.CutPrefix(text, keptWords)
	if number, rest, isThere := cutBetween(text, beforeAllCards, afterAllCards); isThere {
		minimum, rest, _ := strings.Cut(rest, afterTotalCards)
		r.AllCards = r.parseAmount(number)
		r.MinimumCards = r.parseAmount(minimum)
		text = rest
	}

	return text, true
}

// cutBetween cuts "before inside after" off the beginning of a text.
func cutBetween(text, before, after string) (inside, rest string, isThere bool) {
	rest, isThere = strings.CutPrefix(text, before)
	if !isThere {
		return "", text, false
	}
	return strings.Cut(rest, after)
}
