package importing

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// Bounds of the fields of a CardQuota, as in its schema.
const (
	maxCards  = 64
	maxCPU    = 1_000_000_000
	maxMemory = "4Ei"
	maxWeight = 65535
)

// newImport returns the CardQuota for a Queue.
func (p *planner) newImport(queue *v1beta1.Queue) Import {
	imported := Import{Quota: &v1alpha1.CardQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CardQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: queue.Name},
	}}
	// The queue default takes every workload that names no queue. So the API server accepts its CardQuota only if
	// spec.queueName names it.
	if queue.Name == workload.DefaultQueue {
		imported.Quota.Spec.QueueName = queue.Name
	}

	below := p.quotasBelow(queue.Name)
	p.setOwner(&imported, queue)
	p.setCards(&imported, queue, below)
	p.setResources(&imported, queue, below)
	setNamespaces(&imported, queue)
	setStopPolicy(&imported, queue)
	if queue.Spec.Weight > 1 && queue.Spec.Weight <= maxWeight { // 1 is the default
		imported.Quota.Spec.Weight = &queue.Spec.Weight
		imported.addComment("weight: that of the Queue.")
	}

	describeReplacedFields(&imported, queue)
	imported.Comments = append(imported.Comments, findShortages(imported.Quota, below)...)
	return imported
}

// addComment adds a comment that stands before the CardQuota.
func (i *Import) addComment(format string, args ...any) {
	i.Comments = append(i.Comments, fmt.Sprintf(format, args...))
}

// setOwner sets tenant, service type and parent. The tenant must be a valid value of a label. In a tree a parent has
// no service type, because it takes no jobs.
func (p *planner) setOwner(imported *Import, queue *v1beta1.Queue) {
	spec := &imported.Quota.Spec
	spec.Tenant = queue.Labels[p.TenantLabel]
	if p.TenantLabel == "" || spec.Tenant == "" || len(validation.IsValidLabelValue(spec.Tenant)) > 0 {
		spec.Tenant = queue.Name
		imported.addComment("tenant: write who owns the queue; here it is the name of the queue.")
	} else {
		imported.addComment("tenant: label %s of the Queue.", p.TenantLabel)
	}

	if parent := parentOf(queue); parent != "" && p.IsTree {
		spec.Parent = p.cardQuotaName(parent)
		imported.addComment("parent: that of the Queue.")
	}

	written := queue.Annotations[v1alpha1.AnnotationServiceType]
	switch {
	case p.IsTree && p.isParent(queue.Name):
		imported.addComment("The queue has queues below it, so it has no service type and takes no jobs.")
		if members := p.Usage[queue.Name].Members; members.Any() {
			imported.addComment("It has %s of its own: move new jobs to a queue below it.", members)
		}
	case servicetype.IsName(written):
		spec.ServiceType = written
		imported.addComment("serviceType: as in %s of the Queue.", v1alpha1.AnnotationServiceType)
	default:
		spec.ServiceType = p.ServiceType
		imported.addComment("serviceType: the queue names none. Jobs of training give cards back to inference.")
	}
}

// setCards sets the quotas: what the Queue says, else what its pods use, and for a parent at least
// what the queues below it have.
func (p *planner) setCards(imported *Import, queue *v1beta1.Queue, below []*v1alpha1.CardQuota) {
	text, isWritten := queue.Annotations[v1alpha1.AnnotationCardQuota]
	quotas := card.Quota{}
	var err error
	if isWritten {
		quotas, err = card.ParseQuota(text)
	}

	var deserved, guarantee card.Quota
	switch {
	case isWritten && err == nil:
		imported.addComment("cards: as in %s of the Queue.", v1alpha1.AnnotationCardQuota)
		deserved = imported.readAmounts(queue, v1alpha1.AnnotationCardDeserved)
		guarantee = imported.readAmounts(queue, v1alpha1.AnnotationCardGuarantee)
	case p.Usage == nil:
		quotas, guarantee = sumBelow(below)
		imported.addComment("cards: what the pods of the queue hold could not be counted. Write the quotas.")
	default:
		quotas, guarantee = sumBelow(below)
		for name, used := range p.usedBelow(queue.Name, map[string]bool{}) {
			quotas[name] = max(quotas[name], used)
		}

		what := "what the pods of the queue hold now"
		if len(below) > 0 {
			what = "what the queues below it have, or what pods hold now if that is more"
		}
		imported.addComment("cards: %s. Write what it may use at most.", what)
	}

	if err != nil {
		imported.addComment("%s of the Queue cannot be read: %v.", v1alpha1.AnnotationCardQuota, err)
	}

	// What pods request and use beyond these quotas is for the user to judge.
	usage := p.Usage[queue.Name]
	if pending := describeCards(usage.Pending); pending != "" {
		imported.addComment("Pending pods request %s.", pending)
	}

	p.addCards(imported, quotas, deserved, guarantee)
	for _, name := range slices.Sorted(maps.Keys(usage.Used)) {
		if used := usage.Used[name]; used > quotas[name] {
			imported.addComment("Its pods hold %d %s, more than the quota of %d. They continue to run.", used, name, quotas[name])
		}
	}
}

// addCards adds the quotas of cards, as many as a CardQuota can have. In a tree each has a deserved.
func (p *planner) addCards(imported *Import, quotas, deserved, guarantee card.Quota) {
	names := slices.Sorted(maps.Keys(quotas))
	if len(names) > maxCards {
		imported.addComment("The queue has %d cards, of which a CardQuota holds the first %d.", len(names), maxCards)
		names = names[:maxCards]
	}

	for _, name := range names {
		entry := newCard(name, quotas, deserved, guarantee)
		if p.IsTree && entry.Deserved == nil {
			// The operator refuses a card without deserved in a tree. What a flat queue deserves
			// is its quota.
			entry.Deserved = ptr.To(*entry.Quota)
			imported.addComment("deserved of %s: the whole quota, so that the queue borrows nothing.", name)
		}
		imported.Quota.Spec.Cards = append(imported.Quota.Spec.Cards, entry)
	}
}

// newCard returns the quota of a card. deserved is at most the quota, and guarantee at most
// deserved, as the API server demands.
func newCard(name card.Name, quotas, deserved, guarantee card.Quota) v1alpha1.Card {
	most := int64(min(quotas[name], card.MaxCount))
	out := v1alpha1.Card{Name: string(name), Quota: &most}
	limit := most // of the guarantee
	if count, ok := deserved[name]; ok {
		limit = min(int64(count), most)
		out.Deserved = &limit
	}

	if count, ok := guarantee[name]; ok {
		reserved := min(int64(count), limit)
		out.Guarantee = &reserved
	}

	return out
}

// readAmounts returns the amounts that an annotation of the Queue states, nil if there is none or it cannot be read.
func (i *Import) readAmounts(queue *v1beta1.Queue, key string) card.Quota {
	text, isWritten := queue.Annotations[key]
	if !isWritten {
		return nil
	}
	amounts, err := card.ParseQuota(text)
	if err != nil {
		i.addComment("%s of the Queue cannot be read: %v.", key, err)
	}
	return amounts
}

// usedBelow returns what the pods of a queue use, in a tree with those of the queues below it. seen are the queues
// that are counted already.
func (p *planner) usedBelow(name string, seen map[string]bool) card.Quota {
	used := card.Quota{}
	// The parents of Queues can form a cycle.
	if seen[name] {
		return used
	}

	seen[name] = true
	for cardName, count := range p.Usage[name].Used {
		if count > 0 {
			used[cardName] = count
		}
	}

	if !p.IsTree {
		return used
	}

	for _, child := range p.tree.Queue(name).Children {
		for cardName, count := range p.usedBelow(child, seen) {
			used[cardName] = used[cardName].Add(count)
		}
	}

	return used
}

// setResources sets the limits of CPU and memory that the Queue has. A limit that is left out is that of the parent, in
// flat queues none. So a flat CardQuota gets the limit of the queues above its Queue.
func (p *planner) setResources(imported *Import, queue *v1beta1.Queue, below []*v1alpha1.CardQuota) {
	for _, limit := range []struct {
		name  corev1.ResourceName
		below *resource.Quantity // the largest limit of the queues below
	}{
		{corev1.ResourceCPU, resource.NewMilliQuantity(largestBelow(below, quota.CPU), resource.DecimalSI)},
		{corev1.ResourceMemory, resource.NewQuantity(largestBelow(below, quota.Memory), resource.BinarySI)},
	} {
		from, found := p.capabilityOf(queue, limit.name) // from is the queue whose limit it is, "" without one
		switch {
		case found.IsZero():
			imported.addComment("resources.%s: left out, because the Queue has no limit: it is not limited.", limit.name)
			continue
		case from != queue.Name && p.IsTree && limit.below.Cmp(found) > 0: // that it is too much is said where the number is
			imported.addComment("resources.%s: the Queue has no limit; here it is that of a queue below it.", limit.name)
			found = *limit.below
		case from != queue.Name && p.IsTree:
			imported.addComment("resources.%s: left out, because the Queue has no limit: that of %s above it counts.", limit.name, from)
			continue
		case from != queue.Name:
			imported.addComment("resources.%s: the Queue has no limit; here it is that of %s above it.", limit.name, from)
		default:
			imported.addComment("resources.%s: as in spec.capability of the Queue.", limit.name)
		}

		imported.limitCompute(limit.name, found)
	}

	imported.commentOtherLimits(queue)
}

// limitCompute limits CPU or memory of a CardQuota, at most to what its schema allows.
func (i *Import) limitCompute(name corev1.ResourceName, amount resource.Quantity) {
	if i.Quota.Spec.Resources == nil {
		i.Quota.Spec.Resources = &v1alpha1.Resources{}
	}

	limit := &i.Quota.Spec.Resources.CPU
	maximum := *resource.NewQuantity(maxCPU, resource.DecimalSI)
	if name == corev1.ResourceMemory {
		limit = &i.Quota.Spec.Resources.Memory
		maximum = resource.MustParse(maxMemory)
	}

	if amount.Cmp(maximum) > 0 {
		amount = maximum
	}
	*limit = &amount
}

// commentOtherLimits says which limits of a Queue a CardQuota cannot have.
func (i *Import) commentOtherLimits(queue *v1beta1.Queue) {
	other := slices.DeleteFunc(slices.Sorted(maps.Keys(queue.Spec.Capability)), func(name corev1.ResourceName) bool {
		return name == corev1.ResourceCPU || name == corev1.ResourceMemory
	})
	if len(other) > 0 {
		i.addComment("spec.capability of the Queue also limits %s. Cardquota's scheduler counts card names instead.", card.Join(other, ", "))
	}
}

// capabilityOf returns the limit of a queue, or of the nearest queue above it that has one, and whose
// it is. 0 is no limit, as in Volcano. It takes no more steps than there are queues, because parents may form a cycle.
func (p *planner) capabilityOf(queue *v1beta1.Queue, name corev1.ResourceName) (string, resource.Quantity) {
	for range p.queues {
		if quantity := queue.Spec.Capability[name]; quantity.Sign() > 0 {
			return queue.Name, quantity
		}
		queue = p.queues[parentOf(queue)]
		if queue == nil {
			break
		}
	}
	return "", resource.Quantity{}
}

// setNamespaces sets the namespaces that may use the queue, if the Queue says which.
func setNamespaces(imported *Import, queue *v1beta1.Queue) {
	text, isWritten := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if !isWritten {
		return
	}
	if _, err := workload.ParseNamespaceSelector(text); err != nil {
		imported.addComment("%s of the Queue cannot be read, so no namespace may use the queue: %v. Without namespaceSelector every namespace may.", v1alpha1.AnnotationNamespaceSelector, err)
		return
	}

	// The text is a LabelSelector, as the check has shown.
	selector := &metav1.LabelSelector{}
	if err := yaml.Unmarshal([]byte(text), selector); err == nil {
		imported.Quota.Spec.NamespaceSelector = selector
		imported.addComment("namespaceSelector: as in %s of the Queue.", v1alpha1.AnnotationNamespaceSelector)
	}
}

// setStopPolicy sets the stop policy of the Queue, unless that is the default, None. A Queue that Volcano has closed stays
// so.
func setStopPolicy(imported *Import, queue *v1beta1.Queue) {
	switch policy := v1alpha1.StopPolicy(queue.Annotations[v1alpha1.AnnotationStopPolicy]); policy {
	case v1alpha1.StopPolicyHold, v1alpha1.StopPolicyHoldAndDrain:
		imported.Quota.Spec.StopPolicy = policy
		imported.addComment("stopPolicy: as in %s of the Queue.", v1alpha1.AnnotationStopPolicy)
	}
	if state := queue.Status.State; state != "" && state != v1beta1.QueueStateOpen {
		imported.addComment("The Queue is %s: nothing starts in it until it is opened.", state)
	}
}

// describeReplacedFields names the fields of the Queue that change when the CardQuota is applied.
func describeReplacedFields(imported *Import, queue *v1beta1.Queue) {
	if queue.Spec.Priority != 0 {
		imported.addComment("priority %d of the Queue becomes that of the service type.", queue.Spec.Priority)
	}
	if !ptr.Deref(queue.Spec.Reclaimable, true) {
		imported.addComment("reclaimable: false of the Queue becomes what the service type says.")
	}
	if len(queue.Spec.Deserved) > 0 || len(queue.Spec.Guarantee.Resource) > 0 {
		imported.addComment("deserved and guarantee of the Queue are not imported: docs/hierarchy.md has their fields of a CardQuota.")
	}
}
