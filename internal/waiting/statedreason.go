// Package waiting says who waits and why, and who uses the cards that it waits for: from what the
// scheduler states, the quotas, and the free cards of the nodes. The operator, the scheduler and kubectl
// cardquota share these rules.
package waiting

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// StatedReason is what the scheduler states about a waiting pod or PodGroup, for programs. The zero
// value states nothing: the scheduler has not tried to place it.
type StatedReason struct {
	// Refusal is why our scheduler refuses the pod on every node, nil if it does not.
	Refusal *workload.Refusal
	// Node is where the pod gets its place as soon as its gang is complete, "" for nowhere.
	Node string
	// LacksPods reports whether pods of the gang do not exist.
	LacksPods bool
	// AwaitsRelease reports whether the pod gets a node as soon as terminating pods release it.
	AwaitsRelease bool
	// NodeRefusals are the refusals of nodes whose cards the queue cannot get more of.
	NodeRefusals []workload.Refusal
	// RefusedByNodes reports whether the scheduler tried all nodes, RefusedOtherwise whether one
	// refused for another reason than its cards and the quota.
	RefusedByNodes, RefusedOtherwise bool
	// RepeatsOther reports whether all of this is stated about another pod of the gang, which may request
	// something else.
	RepeatsOther bool
	// LacksObject reports whether the pod needs an object that does not exist, such as a
	// PersistentVolumeClaim, so that the scheduler tried no node.
	LacksObject bool
}

// shortageWords say what nodes lack. They have no numbers, because every change rewrites the pods.
var shortageWords = map[v1alpha1.BlockedReason]string{
	v1alpha1.BlockedUnknownCard: "no node has <%s>",
	v1alpha1.BlockedNoFreeCard:  "too few <%s> are free",
	v1alpha1.BlockedFragmented:  "enough <%s> are free, but not on one node",
}

// ShortageText returns what stands before Volcano's count of the nodes by reason, "" for a reason that
// this count states itself. cards are as the user writes them.
func ShortageText(reason v1alpha1.BlockedReason, cards string) string {
	words, ok := shortageWords[reason]
	if !ok {
		return ""
	}
	return fmt.Sprintf(words, cards) + ", " + allNodesWords
}

// SameAsText returns what is stated about a pod that was not tried, because another of its role was
// refused. The status says the reason of the other one.
func SameAsText(shortage, pod string) string {
	return cmp.Or(shortage, allNodesWords) + asForPodWords + pod + " of the same role"
}

// belowMinimumText returns what stands before the message of a pod whose job runs fewer pods than its
// minimum, "" for another job. The job uses cards with which it cannot work.
func belowMinimumText(running, minimum int32) string {
	if running <= 0 || running >= minimum {
		return ""
	}
	return fmt.Sprintf("runs below its minimum: %d of %d pods; ", running, minimum)
}

// compareMessages orders the messages of pods that wait for one reason. Those that repeat what is stated
// about another pod come last.
func compareMessages(a, b string) int {
	repeats := func(message string) int {
		if strings.Contains(message, originWords) || strings.Contains(message, asForPodWords) {
			return 1
		}
		return 0
	}
	return cmp.Or(repeats(a)-repeats(b), strings.Compare(a, b))
}

// IsSilent reports whether the scheduler does not say why the pod waits.
func (s *StatedReason) IsSilent() bool {
	saysSomething := s.LacksPods || s.AwaitsRelease || s.RefusedByNodes || s.LacksObject
	return s.Refusal == nil && s.Node == "" && !saysSomething
}

// FirstRefusal returns the refusal of the pod on every node, else that of the first node which refuses its cards, nil
// for none.
func (s *StatedReason) FirstRefusal() *workload.Refusal {
	if s.Refusal == nil && len(s.NodeRefusals) > 0 {
		return &s.NodeRefusals[0]
	}
	return s.Refusal
}

// refusesCard reports whether nodes with a card refuse the pod because the queue cannot get more
// of it.
func (s *StatedReason) refusesCard(name card.Name) bool {
	for i := range s.NodeRefusals {
		for _, refused := range s.NodeRefusals[i].CardNames() {
			if refused == name {
				return true
			}
		}
	}
	return false
}

// Words of Volcano 1.14: pkg/scheduler/api/unschedule_info.go and job_info.go.
const (
	originWords      = "Origin reason is"
	notReadyWords    = "pod group is not ready, "
	placeWords       = " can possibly be assigned to "
	gangWords        = ", once minAvailable is satisfied"
	releaseWords     = ", once resource is released and minAvailable is satisfied"
	nodesWords       = " nodes are unavailable: "
	allNodesWords    = "all nodes are unavailable"
	insufficientWord = "Insufficient "
	// A plugin of Kubernetes checks the pod before any node: pkg/scheduler/plugins/predicates.
	prePredicateWords = " pre-predicates failed "
)

// asForPodWords precede the pod whose reason another one repeats.
const asForPodWords = ", as for pod "

// ReadStatedReason reads a condition of a pod or PodGroup. resource is the card resource that the
// pod requests, "" for none.
//
// A PodGroup, and a pod that was not tried, repeat the reason of another pod of the gang after
// "Origin reason is".
func ReadStatedReason(reason, message string, resource corev1.ResourceName) StatedReason {
	switch reason {
	case v1beta1.NotEnoughPodsReason, v1beta1.NotEnoughPodsOfTaskReason:
		return StatedReason{LacksPods: true}
	}

	_, origin, hasOrigin := strings.Cut(message, originWords)
	if !hasOrigin {
		return readMessage(message, resource)
	}

	pod, message, _ := strings.Cut(origin, ": ")
	statedReason := readMessage(message, resource)
	statedReason.RepeatsOther = pod != "" && !statedReason.IsSilent() // "Origin reason is: " is about the job
	return statedReason
}

// readMessage reads what our scheduler and Volcano state about one pod or job: a refusal, a place that it gets later,
// why nodes refuse it, or a gang that lacks pods.
func readMessage(message string, resource corev1.ResourceName) StatedReason {
	if refusal, ok := workload.ReadRefusal(message); ok {
		return StatedReason{Refusal: &refusal}
	}

	if _, place, ok := strings.Cut(message, placeWords); ok {
		if strings.HasSuffix(place, releaseWords) {
			return StatedReason{AwaitsRelease: true}
		}
		if node, ok := strings.CutSuffix(place, gangWords); ok {
			return StatedReason{Node: node}
		}
	}

	if _, reasons, ok := strings.Cut(message, nodesWords); ok {
		return readNodeReasons(strings.TrimSuffix(reasons, "."), resource)
	}

	return StatedReason{LacksPods: lacksPods(message)}
}

// lacksPods reports whether a message says that a gang has too few pods. Volcano writes nothing else to the
// pods of such a gang.
func lacksPods(message string) bool {
	valid, least := GangCounts(message)
	return valid < least
}

// GangCounts reads the pods of a gang by their status: "pod group is not ready, 1 Pending, 2
// minAvailable; …". It returns how many can still run or have succeeded, and how many there must be, 0 if
// the message is about something else.
func GangCounts(message string) (valid, least int) {
	_, counts, isGang := strings.Cut(message, notReadyWords)
	if !isGang {
		return 0, 0
	}

	counts, _, _ = strings.Cut(counts, ";")
	// Pods that have failed, end or are lost do not run any more.
	for part := range strings.SplitSeq(counts, ", ") {
		number, status, _ := strings.Cut(part, " ")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
			return 0, 0
		case status == "minAvailable":
			least = n
		case status != "Failed" && status != "Releasing" && status != "Unknown":
			valid += n
		}
	}

	return valid, least
}

// readNodeReasons reads what Volcano says about all nodes: "3 Insufficient cpu, 2 queue <q> has …". A node that lacks
// free cards, or has others, is no other reason: what the nodes lack of the cards is counted.
func readNodeReasons(text string, resource corev1.ResourceName) StatedReason {
	out := StatedReason{RefusedByNodes: true}
	for _, reason := range splitNodeReasons(text) {
		refusal, isRefusal := workload.ReadRefusal(reason)
		lacking, isInsufficient := strings.CutPrefix(reason, insufficientWord)
		node, _ := ReadNodeReason(reason)
		switch {
		case isRefusal && refusal.Cards == "": // whatever the card of the node
			return StatedReason{Refusal: &refusal}
		case isRefusal:
			out.NodeRefusals = append(out.NodeRefusals, refusal)
		case strings.Contains(reason, prePredicateWords): // the same for all nodes
			return StatedReason{LacksObject: true}
		case isInsufficient && resource != "" && lacking == string(resource): // too few cards are free
		case node.lacksCards():
		default:
			out.RefusedOtherwise = true
		}
	}

	return out
}

// splitNodeReasons splits "3 A, 2 B" into A and B. A reason may contain commas: the next one
// begins with the number of its nodes.
func splitNodeReasons(text string) []string {
	var reasons []string
	for text != "" {
		reason := cutNumber(text)
		next := len(reason)
		for at := range reason {
			if after, ok := strings.CutPrefix(reason[at:], ", "); ok && cutNumber(after) != after {
				next = at
				break
			}
		}
		reasons = append(reasons, reason[:next])
		text = strings.TrimPrefix(reason[next:], ", ")
	}

	return reasons
}

// cutNumber cuts "12 " off a text, nothing off a text without a number in front.
func cutNumber(text string) string {
	rest := strings.TrimLeft(text, "0123456789")
	if after, ok := strings.CutPrefix(rest, " "); ok && len(rest) < len(text) {
		return after
	}
	return text
}
