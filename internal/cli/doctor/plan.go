package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/validation"
)

// plan is the CardQuotas after those of --filename are applied. Without files it is what exists.
type plan struct {
	// quotas are all CardQuotas. Those that the operator refuses are as before.
	quotas []*v1alpha1.CardQuota
	// accepted are the CardQuotas of the files that change something, by name.
	accepted map[string]*v1alpha1.CardQuota
	// refusals are why the operator refuses others, by name.
	refusals map[string]field.ErrorList
	// tree has the numbers in force.
	tree *cardquota.Tree
	// owners has the CardQuota of each queue. limits has the quota of each queue that has one: of its
	// CardQuota, else of the Queue's annotation.
	owners map[string]*v1alpha1.CardQuota
	limits map[string]card.Quota
}

// newPlan replaces the specs of CardQuotas with those of the files, one after the other. Each is validated against
// those before it.
func (c *Cluster) newPlan() *plan {
	p := &plan{quotas: slices.Clone(c.Quotas), accepted: map[string]*v1alpha1.CardQuota{}, refusals: map[string]field.ErrorList{}}
	healthy := c.healthyCards()
	for _, written := range c.Planned {
		var before *v1alpha1.CardQuota
		i := slices.IndexFunc(p.quotas, func(q *v1alpha1.CardQuota) bool { return q.Name == written.Name })
		if i >= 0 {
			before = p.quotas[i]
		}

		// Validate against the files before it: kubectl apply sends them in this order.
		after := c.applyQuota(written, before)
		if before != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			continue
		}
		if refusal := c.validatePlanned(after, before, p.quotas, healthy); len(refusal) > 0 {
			p.refusals[written.Name] = refusal
			continue
		}

		p.accepted[written.Name] = after
		if before != nil {
			p.quotas[i] = after
		} else {
			p.quotas = append(p.quotas, after)
		}
	}

	p.resolve(c)
	return p
}

// healthyCards counts the cards of Ready nodes.
func (c *Cluster) healthyCards() map[card.Name]card.Count {
	healthy := map[card.Name]card.Count{}
	for _, entry := range c.inventory().Cards {
		healthy[card.Name(entry.Name)] = card.Count(entry.Healthy)
	}
	return healthy
}

// applyQuota returns a CardQuota as the API server stores it: with its defaults, and the metadata of
// the existing one.
func (c *Cluster) applyQuota(written, before *v1alpha1.CardQuota) *v1alpha1.CardQuota {
	stored := cmp.Or(before, &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(c.Now)}})
	after := written.DeepCopy()
	after.Status = v1alpha1.CardQuotaStatus{}
	after.UID = stored.UID
	after.DeletionTimestamp = stored.DeletionTimestamp
	after.CreationTimestamp = stored.CreationTimestamp

	// A file lacks the defaults of the schema. Without them an unchanged object would look
	// changed.
	after.Spec.StopPolicy = cmp.Or(after.Spec.StopPolicy, v1alpha1.StopPolicyNone)
	after.Spec.OverAllocation = cmp.Or(after.Spec.OverAllocation, v1alpha1.OverAllocationWarn)
	after.Spec.DeletionPolicy = cmp.Or(after.Spec.DeletionPolicy, v1alpha1.DeletionPolicyDelete)
	return after
}

// validatePlanned returns why the operator refuses a CardQuota. It refuses nothing because of what the
// user may not read.
func (c *Cluster) validatePlanned(after, before *v1alpha1.CardQuota, all []*v1alpha1.CardQuota, healthy map[card.Name]card.Count) field.ErrorList {
	if !c.HasQuotas || (!c.HasPolicy && !c.isMissing("ServiceTypePolicy")) {
		return nil
	}
	// Without the inventory over-allocation is unknown. Where it is only warned of, OverAllocated reports it.
	if c.Inventory == nil || after.Spec.OverAllocation == v1alpha1.OverAllocationWarn {
		after = after.DeepCopy()
		after.Spec.OverAllocation = v1alpha1.OverAllocationAllow
	}
	return validation.ValidateCardQuota(after, before, validation.CardQuotaInput{All: all, Policy: c.Policy, Queues: c.Queues, Healthy: healthy}).Truncated().Errors
}

// resolve sets the tree of the plan, and the owner and the quota of each queue.
func (p *plan) resolve(c *Cluster) {
	p.tree = cardquota.Flat
	if c.spec().QueueHierarchy == v1alpha1.QueueHierarchyTree {
		p.tree = cardquota.NewTree(p.quotas, c.Queues, c.spec().UnmanagedQueues)
	}

	p.owners = cardquota.OwnersByQueue(p.quotas)
	p.limits = map[string]card.Quota{}
	for _, queue := range c.Queues {
		if text, written := queue.Annotations[v1alpha1.AnnotationCardQuota]; written {
			p.limits[queue.Name], _ = card.ParseQuota(text) // a quota that cannot be read grants nothing
		}
	}

	for queue, owner := range p.owners {
		p.limits[queue] = p.tree.QuotaFor(owner)
	}
}

// isPlanned reports whether a CardQuota of the plan is from a file.
func (p *plan) isPlanned(q *v1alpha1.CardQuota) bool { return p.accepted[q.Name] == q }

// fileOf returns the file of a planned CardQuota.
func (c *Cluster) fileOf(name string) string { return cmp.Or(c.Files[name], "its file") }

// quotaTotals returns what all CardQuotas grant of each card after the files are applied.
func (c *Cluster) quotaTotals() *cardquota.QuotaTotals {
	tree := c.plan.tree
	return tree.QuotaTotals(c.plan.quotas, cardquota.UnownedQuotas(c.plan.quotas, tree.GrantingQueues(c.Queues)), nil)
}

// findRefusedPlans finds CardQuotas of --filename that the operator would refuse.
func findRefusedPlans(c *Cluster) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(c.plan.refusals)) {
		var texts []string
		for _, err := range c.plan.refusals[name] {
			texts = append(texts, err.Error())
		}
		findings = append(findings, Finding{Severity: Error, Object: "cardquota/" + name,
			Problem: fmt.Sprintf("The operator would refuse it: %s. Correct it in %s.", conditions.JoinFirst(texts, maxListed), c.fileOf(name))})
	}
	return findings
}

// findMissingParents finds CardQuotas of --filename without a path to the top level, because their parent or one
// above it does not exist: fault.Queue is the CardQuota on the path that names it. The operator accepts them, since the
// parent may follow. CardQuotas of the cluster that lack a parent are not ready, which another rule finds.
func findMissingParents(c *Cluster) []Finding {
	if !c.HasQuotas { // the parent may be one that the user may not read
		return nil
	}

	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(c.plan.accepted)) {
		fault := c.plan.tree.Fault(name)
		if fault.Kind != quota.ParentNotFound {
			continue
		}

		where := ""
		if c.plan.accepted[fault.Queue] != nil {
			where = " in " + c.fileOf(fault.Queue)
		}

		findings = append(findings, Finding{Severity: Warning, Object: "cardquota/" + name,
			Problem: fmt.Sprintf("CardQuota %s names parent %s, which does not exist. Before it does, nothing starts in queue %s. Create it, or correct spec.parent%s.",
				fault.Queue, fault.Parent, c.plan.accepted[name].QueueName(), where)})
	}

	return findings
}
