package waiting

import "strings"

// NodeCode is why the scheduler's plugin refuses a node for a pod, whatever the quota is. What the quota refuses is a
// workload.Refusal.
type NodeCode string

// The codes.
const (
	// NodeOtherCard has the cards of the pod as detail, as the user writes them, NodeUnnamedCard the resource.
	NodeOtherCard   NodeCode = "OtherCard"
	NodeUnnamedCard NodeCode = "UnnamedCard"

	NodeJobUnknown             NodeCode = "JobUnknown"
	NodeKeptForReclaimers      NodeCode = "KeptForReclaimers"
	NodeKeptForPreemptors      NodeCode = "KeptForPreemptors"
	NodeQuotaKeptForPreemptors NodeCode = "QuotaKeptForPreemptors"
	NodeAwaitedByOthers        NodeCode = "AwaitedByOthers"
	NodeCardNotDeserved        NodeCode = "CardNotDeserved"
	NodeStuckPods              NodeCode = "StuckPods"
	NodeStuckConflict          NodeCode = "StuckConflict"
	NodeProtectedConflict      NodeCode = "ProtectedConflict"
)

// nodeDetail stands for the detail in the words of a code.
const nodeDetail = "{detail}"

// nodeWords are the words of each code. They have no numbers, because every change rewrites the pods.
var nodeWords = map[NodeCode]string{
	NodeOtherCard:              "node(s) have another card than <" + nodeDetail + ">",
	NodeUnnamedCard:            "node(s) have no named card for " + nodeDetail,
	NodeJobUnknown:             "job of the pod is not in this session",
	NodeKeptForReclaimers:      "node(s) reserve cards for pods that reclaimed them",
	NodeKeptForPreemptors:      "node(s) keep cards for pods for which others were preempted",
	NodeQuotaKeptForPreemptors: "the queue keeps quota for pods for which others were preempted",
	NodeAwaitedByOthers:        "node(s) keep free cards for jobs that lack more of them",
	NodeCardNotDeserved:        "node(s) have a card that the queue would borrow, after the queues that deserve it",
	NodeStuckPods:              "node(s) have too little room beside terminating pods past their grace period",
	NodeStuckConflict:          "node(s) have terminating pods past their grace period that conflict by anti-affinity or host port",
	NodeProtectedConflict:      "node(s) have pods that conflict by anti-affinity or host port and may not be preempted",
}

// NodeReason is why a node is refused. Detail is "" for codes without one.
type NodeReason struct {
	Code   NodeCode
	Detail string
}

// Message returns the reason in words, "" without a code. Volcano counts the nodes with the same words.
func (r NodeReason) Message() string {
	return strings.Replace(nodeWords[r.Code], nodeDetail, r.Detail, 1)
}

// ReadNodeReason reads what Message returned. It returns false for any other text, such as what Volcano says.
func ReadNodeReason(message string) (reason NodeReason, isKnown bool) {
	for code, words := range nodeWords {
		before, after, hasDetail := strings.Cut(words, nodeDetail)
		rest, isBegun := strings.CutPrefix(message, before)
		detail, isEnded := strings.CutSuffix(rest, after)
		if isBegun && isEnded && hasDetail == (detail != "") { // words without a detail are the whole message
			return NodeReason{code, detail}, true
		}
	}
	return NodeReason{}, false
}

// lacksCards reports whether the node has none of the cards of the pod.
func (r NodeReason) lacksCards() bool { return r.Code == NodeOtherCard || r.Code == NodeUnnamedCard }
