package importing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Input is what the CardQuotas are made from.
type Input struct {
	// Queues are all Queues of the cluster, and Quotas all CardQuotas.
	Queues []*v1beta1.Queue
	Quotas []*v1alpha1.CardQuota
	// Usage is what the pods of each queue use and request. It is nil if it could not be counted.
	Usage map[string]queueusage.Usage
	// ServiceType is the service type of a queue that names none.
	ServiceType string
	// TenantLabel is the label of a Queue that names its tenant, "" for none.
	TenantLabel string
	// Only are the queues to import, all of which exist, empty for all.
	Only []string
	// IsTree reports whether the CardQuotas are for a tree: queueHierarchy of the ServiceTypePolicy.
	IsTree bool
	// From are the sources that the user chose, none for all.
	From []Source

	// Fleet has the cards of the nodes. HidesNodes reports that the user may not list nodes.
	Fleet      nodecards.Fleet
	HidesNodes bool
	// ByNamespace is what the pods of each namespace use and request that are in no Queue, nil if it is not known.
	ByNamespace map[string]queueusage.Usage
	// NamespaceLabels are the labels of the namespaces that other fields name.
	NamespaceLabels map[string]map[string]string
	// ResourceQuotas and Kueue are what else limits cards.
	ResourceQuotas []*corev1.ResourceQuota
	Kueue          Kueue
}

// Import is one CardQuota.
type Import struct {
	Quota *v1alpha1.CardQuota
	// Source is what it comes from, "" for a Queue.
	Source Source
	// Comments say where its numbers come from, and what to check before it is applied.
	Comments []string
}

// LeftOut is a Queue without a CardQuota in the result, and why. For other things Queue has the kind and the name.
type LeftOut struct {
	Queue, Why string
}

// Plan is the result.
type Plan struct {
	// Imports are sorted: a parent comes before its children.
	Imports []Import
	LeftOut []LeftOut
	// Dropped says what could not be carried over, apart from what comments say.
	Dropped []string
	// DropsParents reports whether a Queue has a parent and its CardQuota has none, because queues are
	// flat.
	DropsParents bool
	// CoversAll reports whether every Queue and namespace that uses cards has a CardQuota, in the cluster or here. It is
	// false if that is not known.
	CoversAll bool
}

// NewPlan returns the CardQuotas for all Queues that have none and use cards. In a tree it also has
// those for the Queues above them. A Queue without cards is left out: a CardQuota would limit its CPU and memory.
func NewPlan(in Input) Plan {
	p := planner{Input: in, queues: map[string]*v1beta1.Queue{}, owners: map[string]string{}, wanted: map[string]bool{}, imports: map[string]Import{}}
	for queue, quota := range cardquota.OwnersByQueue(in.Quotas) {
		p.owners[queue] = quota.Name
		p.imports[queue] = Import{Quota: quota}
	}

	written := map[string]quota.TreeQueue{}
	for _, queue := range in.Queues {
		p.queues[queue.Name] = queue
		written[queue.Name] = quota.TreeQueue{Parent: parentOf(queue)}
	}

	p.tree = quota.ResolveTree(written)
	var plan Plan
	for _, name := range slices.Sorted(maps.Keys(p.queues)) {
		if len(p.Only) > 0 && !slices.Contains(p.Only, name) {
			continue
		}

		why := p.leaveOut(name)
		switch {
		case why != "":
			plan.LeftOut = append(plan.LeftOut, LeftOut{name, why})
		case p.IsTree:
			p.addWithAncestors(name)
		default:
			p.wanted[name] = true
		}
	}

	for _, name := range p.inOrder() {
		plan.DropsParents = plan.DropsParents || (!p.IsTree && parentOf(p.queues[name]) != "")
		plan.Imports = append(plan.Imports, p.importOf(name))
	}

	// A parent that has a CardQuota already is not printed, so a comment of a queue below it says what it
	// lacks.
	p.commentOwnedParents(plan.Imports)
	plan.CoversAll = p.coversAll(plan)

	// A queue that is left out by itself can still be wanted as the parent of another one.
	plan.LeftOut = slices.DeleteFunc(plan.LeftOut, func(l LeftOut) bool { return p.wanted[l.Queue] })
	return plan
}

// planner has the state of one plan. All maps are by the name of a queue.
type planner struct {
	Input
	queues  map[string]*v1beta1.Queue
	tree    *quota.Tree       // where Queues are, also while CardQuotas are flat
	owners  map[string]string // the name of the CardQuota that a queue has in the cluster
	wanted  map[string]bool   // the queues that get a CardQuota
	imports map[string]Import // the CardQuotas of queues, also those that exist
}

// leaveOut returns why a queue needs no CardQuota, "" if it needs one.
func (p *planner) leaveOut(name string) string {
	queue := p.queues[name]

	switch {
	case name == workload.RootQueue:
		return "the queue of Volcano itself"
	case p.owners[name] != "":
		return "CardQuota " + p.owners[name] + " has the queue"
	case queue.DeletionTimestamp != nil:
		return "being deleted"
	case len(name) > validation.LabelValueMaxLength:
		return fmt.Sprintf("the name of a CardQuota has at most %d characters; write one that names the queue in spec.queueName", validation.LabelValueMaxLength)
	case slices.Contains(p.Only, name):
		return "" // the user wants it
	case !p.usesCards(name) && p.isFlatParent(name):
		return "queues are below it, and queueHierarchy of the ServiceTypePolicy is Flat"
	case p.isWritten(name) || p.usesCards(name):
		return ""
	case p.Usage == nil:
		return "no annotation " + v1alpha1.AnnotationCardQuota + ", and pods could not be counted"
	default:
		return "no cards are held or requested"
	}
}

// isWritten reports whether a Queue has a quota of cards in its annotation.
func (p *planner) isWritten(name string) bool {
	_, isWritten := p.queues[name].Annotations[v1alpha1.AnnotationCardQuota]
	return isWritten
}

// usesCards reports whether pods of a queue use or request cards.
func (p *planner) usesCards(name string) bool {
	return hasCards(p.Usage[name].Used) || hasCards(p.Usage[name].Pending)
}

// coversAll reports whether every Queue that uses cards is known to have a CardQuota, in the cluster or in the plan.
func (p *planner) coversAll(plan Plan) bool {
	return len(p.Only) == 0 && p.Usage != nil && !slices.ContainsFunc(plan.LeftOut, func(l LeftOut) bool {
		return p.owners[l.Queue] == "" && (p.isWritten(l.Queue) || p.usesCards(l.Queue))
	})
}

// hasCards reports whether a count has a card.
func hasCards(counts map[card.Name]card.Count) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(counts)), func(count card.Count) bool { return count > 0 })
}

// addWithAncestors adds a queue and the queues above it, up to the first one that is added already or has a CardQuota:
// those above that one are added or exist, too. So it also ends in a cycle.
func (p *planner) addWithAncestors(name string) {
	for _, queue := range append([]string{name}, p.tree.WrittenAncestors(name)...) {
		if p.wanted[queue] || p.owners[queue] != "" {
			return
		}
		p.wanted[queue] = true
	}
}

// inOrder returns the wanted queues, a parent before its children, then by name.
func (p *planner) inOrder() []string {
	return slices.SortedFunc(maps.Keys(p.wanted), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.depthOf(a), p.depthOf(b)), cmp.Compare(a, b))
	})
}

// depthOf returns how many queues are above a queue.
func (p *planner) depthOf(name string) int { return len(p.tree.WrittenAncestors(name)) }

// parentOf returns the queue above a queue, "" for root.
func parentOf(queue *v1beta1.Queue) string {
	if queue.Spec.Parent == workload.RootQueue {
		return ""
	}
	return queue.Spec.Parent
}

// isParent reports whether a queue has other queues below it: one that names itself as its parent has not.
func (p *planner) isParent(name string) bool {
	return slices.ContainsFunc(p.tree.Queue(name).Children, func(child string) bool { return child != name })
}

// isFlatParent reports whether a queue has other queues below it, and CardQuotas have no parents.
func (p *planner) isFlatParent(name string) bool { return !p.IsTree && p.isParent(name) }

// cardQuotaName returns the CardQuota of a queue, also one that is imported now.
func (p *planner) cardQuotaName(queue string) string { return cmp.Or(p.owners[queue], queue) }

// describeCards returns cards and their number in one line, sorted by name.
func describeCards(counts map[card.Name]card.Count) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", counts[name], name))
		}
	}
	return strings.Join(texts, ", ")
}
