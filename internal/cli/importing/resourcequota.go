package importing

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
)

// proposeResourceQuotas proposes a CardQuota for each namespace with a ResourceQuota of cards. The smallest of several
// limits counts, as in Kubernetes.
func (p *proposer) proposeResourceQuotas() {
	byNamespace := map[string][]*corev1.ResourceQuota{}
	limitsCards := map[string]bool{}
	for _, object := range slices.SortedFunc(slices.Values(p.ResourceQuotas), compareObjects) {
		byNamespace[object.Namespace] = append(byNamespace[object.Namespace], object)
		if cards, _ := p.cardKeys(object); len(cards) > 0 {
			limitsCards[object.Namespace] = true
		}
	}

	for _, namespace := range slices.Sorted(maps.Keys(limitsCards)) {
		limits := namespaceLimits{quotas: card.Quota{}, reasons: map[card.Name]string{}, compute: corev1.ResourceList{}}
		for _, object := range byNamespace[namespace] {
			p.readResourceQuota(object, &limits)
		}
		if len(limits.quotas) > 0 {
			p.proposeNamespaceLimits(namespace, &limits)
		}
	}
}

// namespaceLimits is what the ResourceQuotas of a namespace say.
type namespaceLimits struct {
	quotas card.Quota
	// reasons say where the quota of each card comes from.
	reasons map[card.Name]string
	// compute are the limits of CPU and memory.
	compute corev1.ResourceList
}

// computeKeys are the keys of a ResourceQuota that limit what pods request of CPU and memory.
var computeKeys = map[corev1.ResourceName]corev1.ResourceName{
	corev1.ResourceCPU: corev1.ResourceCPU, corev1.ResourceRequestsCPU: corev1.ResourceCPU,
	corev1.ResourceMemory: corev1.ResourceMemory, corev1.ResourceRequestsMemory: corev1.ResourceMemory,
}

// readResourceQuota adds the limits of a ResourceQuota. One of cards is dropped if the nodes do not decide which card it
// is, or if it counts a part of the pods only.
func (p *proposer) readResourceQuota(object *corev1.ResourceQuota, limits *namespaceLimits) {
	key := object.Namespace + "/" + object.Name
	if len(object.Spec.Scopes) > 0 || object.Spec.ScopeSelector != nil {
		p.recordDropped("ResourceQuota %s: it has scopes, so it counts a part of the pods only.", key)
		return
	}

	cards, others := p.cardKeys(object)

	for _, name := range cards {
		hard := object.Spec.Hard[name]
		resource := corev1.ResourceName(strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
		found, why := p.cardOf(resource, nil, "the cluster")
		if why != "" {
			p.recordDropped("ResourceQuota %s: %s %s: %s.", key, name, hard.String(), why)
			continue
		}

		count := card.NewCount(hard)
		if before, isStated := limits.quotas[found]; !isStated || count < before {
			limits.quotas[found] = count
			limits.reasons[found] = fmt.Sprintf("%s is %s of ResourceQuota %s; all nodes with this resource have this card", found, name, key)
		}
	}

	var dropped []corev1.ResourceName
	for _, name := range others {
		compute, isCompute := computeKeys[name]
		if !isCompute {
			dropped = append(dropped, name)
			continue
		}
		hard := object.Spec.Hard[name]
		if before, isStated := limits.compute[compute]; !isStated || hard.Cmp(before) < 0 {
			limits.compute[compute] = hard
		}
	}

	if len(dropped) > 0 {
		p.recordDropped("ResourceQuota %s: %s. A CardQuota limits cards, CPU and memory only, and the ResourceQuota stays in force.", key, output.JoinWords(dropped, "and"))
	}
}

// cardKeys returns the keys of a ResourceQuota that limit cards, and the others, both sorted. Kubernetes limits extended
// resources by what pods request.
func (p *proposer) cardKeys(object *corev1.ResourceQuota) (cards, others []corev1.ResourceName) {
	for name := range object.Spec.Hard {
		resource, isRequest := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
		if isRequest && p.isCardResource(corev1.ResourceName(resource)) {
			cards = append(cards, name)
		} else {
			others = append(others, name)
		}
	}

	slices.Sort(cards)
	slices.Sort(others)
	return cards, others
}

// proposeNamespaceLimits proposes the CardQuota of a namespace with ResourceQuotas of cards.
func (p *proposer) proposeNamespaceLimits(namespace string, limits *namespaceLimits) {
	object := "ResourceQuotas of namespace " + namespace
	if p.isCovered(namespace, object) {
		return
	}

	imported := p.newNamespaceProposal(namespace)
	for _, name := range slices.Sorted(maps.Keys(limits.reasons)) {
		imported.addComment("cards: %s.", limits.reasons[name])
	}

	p.addCards(&imported, limits.quotas, nil, nil)
	imported.setLimits(limits.compute, "as in the ResourceQuotas of the namespace")
	p.commentUse(&imported, []string{namespace}, limits.quotas)
	p.addProposal(FromResourceQuotas, object, imported)
}
