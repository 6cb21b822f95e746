// Package explanation says why a workload waits: kubectl cardquota why. It is pure. The reason and the
// holders of cards are those of status.blocked, by the same rules.
package explanation

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/waiting"
)

// Input is what an explanation is made from. What the user may not read is nil, and Gaps names it.
type Input struct {
	// Now is the clock of the user's machine.
	Now time.Time
	// Workload is the workload that the user asks for.
	Workload v1alpha1.WorkloadReference
	// Others are further workloads with pods in the PodGroup that the user asks for.
	Others []v1alpha1.WorkloadReference
	// Pending, Placed and Gated count its pods: without a node, with one, and with scheduling gates.
	Pending, Placed, Gated int
	// Created is when the oldest pod without a node was created, zero if that is unknown.
	Created time.Time
	// OtherScheduler is the schedulerName of its pods if that is none of ours.
	OtherScheduler string
	// Queue is the queue that it names. HasQueue reports whether the Queue exists, nil if that is
	// unknown.
	Queue    string
	HasQueue *bool
	// QueueState is status.state of the Queue, and QueueStop its stop policy, if no CardQuota has it.
	QueueState, QueueStop string
	// Request is what one of its pods requests, or the job without pods.
	Request Request
	// Entries are its entries in status.blocked, or what they would be.
	Entries []v1alpha1.BlockedStatus
	// WaitLonger is how many other workloads of the queue are known to wait longer, -1 if that is unknown.
	WaitLonger int
	// Ahead are all workloads of the queue that the scheduler tries first, nil if they are unknown.
	Ahead *Ahead
	// Path is the CardQuota of the queue and, in a tree, those above it.
	Path []*v1alpha1.CardQuota
	// PodGroup is the name of the PodGroup of its pods, "" if they have none.
	PodGroup string
	// Gang counts the pods of the PodGroup. The zero value is unknown.
	Gang Gang
	// Scale is how many pods its controller creates, nil if that is unknown.
	Scale *Scale
	// Orphans are the names of its pods that name a PodGroup that does not exist, OrphanGroups the names of
	// these PodGroups.
	Orphans, OrphanGroups []string
	// Creation says that its controller lacks pods, nil if it lacks none, or if that is unknown.
	Creation *Creation
	// Rollout is the rollout of a Deployment whose new pods wait beside old ones, nil for none.
	Rollout *Rollout
	// Reservations are enqueued jobs that wait for cards which the request may use, the largest first.
	Reservations []Reservation
	// Evictions are the events of its evictions, the last one first.
	Evictions []Eviction
	// HidesQuota reports whether the user may not read which CardQuota the queue has.
	HidesQuota bool
	// Namespace are the labels of its namespace, nil if they are unknown.
	Namespace map[string]string
	// Forecasts are those of the CardQuotas that the user may read, while the policy observes: that of its own queue
	// first.
	Forecasts []*v1alpha1.CardQuotaForecast
	// Policy is the ServiceTypePolicy, nil for none.
	Policy *v1alpha1.ServiceTypePolicy
	// Inventory is the status of the CardInventory.
	Inventory *v1alpha1.CardInventoryStatus
	// NamesOthers reports whether the user may list the workloads of other namespaces.
	NamesOthers bool
	// ChangesQuotas and ChangesNodes report whether the user may change CardQuotas and nodes.
	ChangesQuotas, ChangesNodes bool
	// Nodes are the cards of each node.
	Nodes []nodecards.Node
	// NodeRefusals are why nodes refuse the pod, whatever cards they have, by node, from the scheduler. It is
	// nil if that is unknown.
	NodeRefusals map[string]simulation.NodeRefusal
	// Running are the holders of cards as far as their pods may be read.
	Running map[v1alpha1.WorkloadReference]Running
	// Gaps say what could not be read, and why.
	Gaps []string
}

// Ahead counts the workloads of a queue that wait and that the scheduler tries before another one.
type Ahead struct {
	// Higher have a higher priority. Of those with the same one, the minimum of Incomplete does not run
	// yet, while that of the other one does, and Older have an older PodGroup.
	Higher, Incomplete, Older int
}

// Request is what a pod requests.
type Request struct {
	// Names are the cards that it may run on, in the order in which the user names them.
	Names []card.Name
	// Resource is the card resource that a pod requests, "" if that is unknown.
	Resource string
	// Count is how many cards of one name it requests. IsJob reports whether that is for a whole job,
	// which has no pods yet, so that several nodes may have them.
	Count card.Count
	IsJob bool
	// IsAnyCard reports whether the user names no card, so that it may be any of its resource.
	IsAnyCard bool
	// GangCount is how many cards its whole gang requests, if the quota must have all of them at once.
	GangCount card.Count
	// MinimumCount is how many cards the pods without which the gang does not start request, at most, 0
	// for a gang that the scheduler has admitted.
	MinimumCount card.Count
	// MilliCPU and Memory are what it, or its gang, requests beside cards.
	MilliCPU, Memory int64
	// Priority is the value of its PriorityClass, and PriorityClass its name.
	Priority      int32
	PriorityClass string
	// TakesNone reports whether the pod says preemptionPolicy: Never.
	TakesNone bool
}

// quotaCount returns how many cards a quota must have left for a start.
func (r Request) quotaCount() int64 { return int64(max(r.Count, r.GangCount)) }

// nodesCount returns how many cards nodes must have free for a start. A quota may have to have more: the
// user may request all cards of a job whose minimum needs less.
func (r Request) nodesCount() int64 {
	return max(int64(r.Count), min(r.quotaCount(), int64(r.MinimumCount)))
}

// awaitsEnqueue reports whether the scheduler has not enqueued the job yet.
func (r Request) awaitsEnqueue() bool { return r.IsJob || r.GangCount > 0 }

// Running is a workload that uses cards.
type Running struct {
	// Since is the start of its oldest pod.
	Since time.Time
	// IsProtected reports whether one of its pods may not be evicted for others.
	IsProtected bool
}

// Document is the document of kubectl cardquota why.
type Document struct {
	output.TypeMeta `json:",inline"`
	// Workload is the workload that waits.
	Workload v1alpha1.WorkloadReference `json:"workload"`
	// Queue is the queue that it names.
	Queue string `json:"queue,omitempty"`
	// Waits reports whether some of it waits.
	Waits bool `json:"waits"`
	// Reason is that of status.blocked. It is empty if the scheduler has stated none yet.
	Reason v1alpha1.BlockedReason `json:"reason,omitempty"`
	// Summary says in one paragraph what it waits for, since when, and why.
	Summary string `json:"summary"`
	// Message is what the scheduler says.
	Message string `json:"message,omitempty"`
	// Gates are what a pod must pass, with the answer of each.
	Gates []Gate `json:"gates"`
	// Holders are the three workloads that use most of the cards. Those of them that are in other
	// namespaces have no name, and are summed up by service type, unless the user may list them.
	Holders []v1alpha1.CardHolder `json:"holders"`
	// Advice is what would help.
	Advice []string `json:"advice"`
	// Forecast says what mode Enforce would do with the workload while the policy observes.
	Forecast []string `json:"forecast,omitempty"`
	// Unread says what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// Gate is one thing that a pod must pass.
type Gate struct {
	// Name says what is asked, such as "quota of llm".
	Name string `json:"name"`
	// Answer is Yes, No or Unknown.
	Answer Answer `json:"answer"`
	// Detail has the numbers.
	Detail string `json:"detail"`
}

// Answer is the answer of a gate.
type Answer string

// The answers.
const (
	Yes     Answer = "Yes"
	No      Answer = "No"
	Unknown Answer = "Unknown"
)

// Explain returns why a workload waits. What events, its controller and the forecast say is added last, because it also
// concerns a workload that does not wait for the scheduler.
func Explain(in Input) Document {
	in.dropCardsWithoutQuota()
	d := in.explainWorkload()
	in.addEvictions(&d)
	in.addCreation(&d)
	d.Forecast = in.foretell()
	if len(in.Others) > 0 {
		names := make([]string, 0, len(in.Others))
		for _, other := range in.Others {
			names = append(names, output.DescribeWorkload(other))
		}
		d.Summary += " Other workloads of the PodGroup: " + conditions.JoinFirst(names, maxOthers) + "."
	}

	return d
}

// maxOthers is how many other workloads of a PodGroup are named.
const maxOthers = 5

// explainWorkload returns what the gates, the scheduler and the holders of cards say of the workload.
func (in *Input) explainWorkload() Document {
	d := Document{
		TypeMeta: output.NewTypeMeta("Explanation"), Workload: in.Workload, Queue: in.Queue, Waits: in.Pending+in.Gated > 0 || len(in.Entries) > 0,
		Gates: []Gate{}, Holders: []v1alpha1.CardHolder{}, Advice: []string{}, Unread: in.Gaps,
	}

	// In these cases no pod of it waits for our scheduler, so there are no gates.
	what := output.DescribeWorkload(in.Workload)
	switch {
	case in.lacksAllPods():
		d.Waits = in.Creation.Missing > 0 && !in.Creation.IsSuspended
		d.Summary = in.Creation.describe(what)
		return d
	case !d.Waits:
		d.Summary = fmt.Sprintf("%s does not wait: %s.", what, placedPods(in.Placed))
		return d
	case in.OtherScheduler != "":
		d.Summary = fmt.Sprintf("%s names scheduler %s, which knows no card quotas. Cardquota says nothing about it.", what, in.OtherScheduler)
		d.Advice = append(d.Advice, "Write spec.schedulerName: "+strings.Join(in.Schedulers(), " or ")+" in the pod template.")
		return d
	case in.Pending == 0 && in.Gated > 0:
		d.Summary = fmt.Sprintf("%s has %s with scheduling gates. The scheduler does not look at them until their gates are removed.", what, conditions.CountThings(in.Gated, "pod"))
		d.Advice = append(d.Advice, "Find who removes spec.schedulingGates of the pods.")
		return d
	}

	d.Gates = gateCheck{in}.allGates()
	if len(in.Entries) == 0 {
		d.Summary = fmt.Sprintf("%s waits for %s in queue %s. The scheduler has not said why yet.", what, in.describeRequest(), in.Queue)
		d.Advice = append(d.Advice, adviser{in}.adviseSilence())
		return d
	}

	entry := in.Entries[0]
	d.Gates = append(d.Gates, gateCheck{in}.statedGates(entry.Reason, d.Gates)...)
	d.Reason = entry.Reason
	d.Message = entry.Message
	d.Holders = append(d.Holders, in.visibleHolders(entry)...)
	d.Summary = in.summarize(what, entry)
	d.Advice = append(d.Advice, adviser{in}.adviseEntry(entry)...)
	return d
}

// visibleHolders returns the holders of an entry as the user may see them.
func (in *Input) visibleHolders(entry v1alpha1.BlockedStatus) []v1alpha1.CardHolder {
	if in.NamesOthers {
		return entry.Holders
	}
	return waiting.HideOthers(entry.Holders, in.Workload.Namespace)
}

// summarize returns what waits for what, since when, and why.
func (in *Input) summarize(what string, entry v1alpha1.BlockedStatus) string {
	wants := "to start"
	if entry.Count > 0 {
		wants = fmt.Sprintf("for %d %s", entry.Count, strings.ReplaceAll(entry.Card, "|", " or "))
	}

	since := ""
	if !entry.Since.IsZero() {
		since = " for " + duration.HumanDuration(max(0, in.Now.Sub(entry.Since.Time))) // the user's clock may be slow
	}

	text := fmt.Sprintf("%s waits %s in queue %s%s (%s)", what, wants, in.Queue, since, entry.Reason)
	if meaning := in.describeReason(entry.Reason); meaning != "" {
		text += ": " + meaning
	}

	text += "."
	if in.awaitsOldPods(entry.Reason) {
		text += " Its rollout waits for its own old pods."
	}

	if in.Placed > 0 {
		text += " " + strings.ToUpper(placedPods(in.Placed)[:1]) + placedPods(in.Placed)[1:] + "."
	}

	if more := len(in.Entries) - 1; more > 0 {
		reasons := make([]string, 0, more)
		for _, other := range in.Entries[1:] {
			reasons = append(reasons, string(other.Reason))
		}
		text += " Others of its pods wait for other reasons: " + strings.Join(reasons, ", ") + "."
	}

	return text
}

// describeRequest returns what a pod requests, or the job without pods. A pod without cards needs a node
// only.
func (in *Input) describeRequest() string {
	if in.Request.Count == 0 {
		return "a node"
	}
	text := fmt.Sprintf("%d %s", in.Request.Count, card.Join(in.Request.Names, " or "))
	if in.Request.IsJob {
		return text
	}
	return text + " for each pod"
}

// Schedulers returns the names by which pods choose our scheduler.
func (in *Input) Schedulers() []string {
	return policy.Effective(ptr.Deref(in.Policy, v1alpha1.ServiceTypePolicy{}).Spec).Scheduler.Names
}

// placedPods says how many pods have their place.
func placedPods(n int) string {
	switch n {
	case 0:
		return "no pod of it waits"
	case 1:
		return "1 pod has its place"
	default:
		return fmt.Sprintf("%d pods have their place", n)
	}
}
