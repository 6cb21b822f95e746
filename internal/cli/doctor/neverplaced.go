package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// obstacle is why pods or gangs of a queue would not be placed again. Its texts are parts of one sentence: noun is
// "pod" or "gang", because follows their number, and advice their names.
type obstacle struct{ queue, noun, because, advice string }

// placements finds the pods and gangs that would not be placed, however many cards are free.
type placements struct {
	*Cluster
	resolver   workload.Resolver
	groups     map[string]*v1beta1.PodGroup
	queues     map[string]*v1beta1.Queue
	namespaces map[string]*corev1.Namespace
	// gangs are by namespace/name of their PodGroup.
	gangs map[string]*gang
	// found has the namespace/name of all pods or PodGroups with the same obstacle.
	found map[obstacle][]string
}

// gang is the pods of a PodGroup.
type gang struct {
	queue string
	// pods counts all that have not finished. requests are those that our scheduler places.
	pods     int
	requests []quota.CardRequest
	// isReported reports whether one of its pods alone would not be placed.
	isReported bool
}

// findNeverPlaced finds pods, gangs and jobs without pods that would not start, however many cards are
// free: their queue takes none of their namespace, its quota is smaller than their request, or the
// scheduler refuses the request as it is written.
func findNeverPlaced(c *Cluster) []Finding {
	if !c.HasUsage {
		return nil
	}

	p := &placements{
		Cluster: c, resolver: workload.Resolver{Inventory: c.Cards, Schedulers: c.spec().Scheduler.Names},
		groups: map[string]*v1beta1.PodGroup{}, queues: map[string]*v1beta1.Queue{}, namespaces: map[string]*corev1.Namespace{},
		gangs: map[string]*gang{}, found: map[obstacle][]string{},
	}
	for _, group := range c.PodGroups {
		p.groups[group.Namespace+"/"+group.Name] = group
	}

	for _, queue := range c.Queues {
		p.queues[queue.Name] = queue
	}

	for _, namespace := range c.Namespaces {
		p.namespaces[namespace.Name] = namespace
	}

	for _, pod := range c.Pods {
		p.checkPod(pod)
	}

	for _, group := range c.PodGroups {
		p.checkGang(group)
	}

	return p.findings()
}

// checkPod checks a pod by itself, and adds it to its gang. A pod of another scheduler, one that is being deleted, and one
// with scheduling gates only count as pods of the gang.
func (p *placements) checkPod(pod *corev1.Pod) {
	key := pod.Namespace + "/" + workload.PodGroupName(pod)
	own := p.gangs[key]
	if own == nil {
		own = &gang{}
	}

	if workload.PodGroupName(pod) != "" { // a pod without a PodGroup is alone
		p.gangs[key] = own
	}

	own.pods++
	if !p.resolver.UsesOurScheduler(pod) || (!workload.IsAssigned(pod) && !workload.IsPending(pod)) {
		return
	}

	own.queue = p.resolver.Queue(pod, p.groups[key], p.Charges[pod.UID].Queue)
	limits, isLimited := p.plan.limits[own.queue]
	request, invalid := p.requestOf(pod)
	why := obstacle{queue: own.queue, noun: "pod"} // without an advice nothing is in its way

	why.advice = cmp.Or(p.refusalFor(own.queue, pod.Namespace), invalid)
	if why.advice == "" && isLimited {
		if text := requestBeyond(request, limits); text != "" {
			why.because = ", because one of them requests " + text
			why.advice = "Raise the quota, or change the request"
		}
	}

	if why.advice == "" {
		own.requests = append(own.requests, request)
		return
	}
	own.isReported = true
	p.found[why] = append(p.found[why], pod.Namespace+"/"+pod.Name)
}

// requestOf returns the cards that a pod requests, and why no queue could ever give them, "" if one
// could. A running pod that names none counts by the card that it uses.
func (p *placements) requestOf(pod *corev1.Pod) (cards quota.CardRequest, invalid string) {
	request := p.resolver.Request(pod)
	if request.Denied != nil {
		return quota.CardRequest{}, request.Denied.Message()
	}
	if charge := p.Charges[pod.UID]; len(request.Names) == 0 && len(charge.Cards) == 1 {
		return quota.CardRequest{Names: []card.Name{charge.Cards[0].Name}, Count: request.Count}, ""
	}
	return quota.CardRequest{Names: request.Names, Count: request.Count}, ""
}

// requestBeyond describes a request that a quota can never give, "" if it can.
func requestBeyond(request quota.CardRequest, limits card.Quota) string {
	if request.Count == 0 || len(request.Names) == 0 {
		return ""
	}
	texts := make([]string, len(request.Names))
	for i, name := range request.Names {
		if limits[name] >= request.Count {
			return ""
		}
		texts[i] = fmt.Sprintf("%d %s of a quota of %d", request.Count, name, limits[name])
	}
	return strings.Join(texts, " or ")
}

// checkGang checks the pods of a PodGroup together, or its own request if it waits without pods.
func (p *placements) checkGang(group *v1beta1.PodGroup) {
	key := group.Namespace + "/" + group.Name
	var requests []quota.CardRequest
	queue := workload.PodGroupQueue(group)

	elastic := 0 // pods that need not run
	why := obstacle{noun: "gang"}
	switch own := p.gangs[key]; {
	// A pod that never starts keeps its gang from starting, and is reported by itself.
	case own != nil && own.isReported:
		return
	case own != nil:
		requests = own.requests
		queue = own.queue
		// Volcano counts succeeded pods for the minimum, so fewer of the others must run.
		elastic = own.pods - max(0, int(group.Spec.MinMember)-int(group.Status.Succeeded))
	case !workload.IsPodGroupPending(group):
		return
	default:
		request, refusal := waiting.GroupRequest(&p.resolver, group)
		requests = request.Cards
		why.advice = p.refusalFor(queue, group.Namespace)
		if why.advice == "" && refusal != nil {
			why.advice = refusal.Message()
		}
	}

	why.queue = queue
	if limits, isLimited := p.plan.limits[queue]; why.advice == "" && isLimited {
		if text := gangBeyond(requests, max(0, elastic), limits); text != "" {
			why.because = ", because its pods run together and request " + text
			why.advice = "Raise the quota, or lower minMember"
		}
	}

	if why.advice != "" {
		p.found[why] = append(p.found[why], key)
	}
}

// maxChoices bounds the sets of alternatives of a gang that are compared with the quota, because tenants write
// them.
const maxChoices = 16

// gangBeyond describes requests that a quota can never give together, "" if it may. elastic is how many of them need not
// run. A request takes one of its alternatives. So all requests whose alternatives are within a set of cards
// share the quota of that set, and the quota is too small if the smallest of them that must run need more.
func gangBeyond(requests []quota.CardRequest, elastic int, limits card.Quota) string {
	for _, names := range choicesOf(requests) {
		var counts []card.Count
		for _, request := range requests {
			if len(request.Names) > 0 && !slices.ContainsFunc(request.Names, func(name card.Name) bool { return !slices.Contains(names, name) }) {
				counts = append(counts, request.Count)
			}
		}

		slices.Sort(counts)
		var sum, limit card.Count
		for _, count := range counts[:max(0, len(counts)-elastic)] {
			sum = sum.Add(count)
		}

		for _, name := range names {
			limit = limit.Add(limits[name])
		}

		if sum > limit {
			return fmt.Sprintf("%d %s of a quota of %d", sum, card.Join(names, " or "), limit)
		}
	}
	return ""
}

// choicesOf returns the different sets of alternatives that requests have, and the set of all their cards.
func choicesOf(requests []quota.CardRequest) [][]card.Name {
	var choices [][]card.Name
	add := func(names []card.Name) {
		if len(names) > 0 && !slices.ContainsFunc(choices, func(known []card.Name) bool { return slices.Equal(known, names) }) {
			choices = append(choices, names)
		}
	}

	all := map[card.Name]bool{}
	for _, request := range requests {
		// The set of all cards still bounds the requests whose own set is left out.
		if len(choices) < maxChoices {
			add(request.Names)
		}
		for _, name := range request.Names {
			all[name] = true
		}
	}

	add(slices.Sorted(maps.Keys(all)))
	return choices
}

// refusalFor returns why a queue takes no pods of a namespace, "" if it does. A queue that its stop
// policy holds is as its owner wants it.
func (p *placements) refusalFor(queue, namespace string) string {
	if refusal := p.findRefusal(queue, namespace); refusal != nil {
		return refusal.Message()
	}
	return ""
}

// findRefusal returns why a queue takes no pods of a namespace, nil if it does: a fault of its place in the tree, or a
// selector of namespaces. A Queue without a CardQuota has the selector itself.
func (p *placements) findRefusal(queue, namespace string) *workload.Refusal {
	owner := p.plan.owners[queue]
	if owner == nil {
		if object := p.queues[queue]; object != nil {
			selector, _ := workload.NamespaceSelectorFor(object) // one that cannot be read selects none
			return p.checkNamespace(queue, selector, namespace)
		}
		return nil
	}

	// A hold ends some day, so what waits for it is not reported as never placed.
	if fault := p.plan.tree.Fault(owner.Name); fault.Kind != quota.NoFault && fault.Kind != quota.IsHeld {
		if fault.Queue == owner.Name { // the tree names CardQuotas, and the refusal of a pod its queue
			fault.Queue = queue
		}
		return workload.RefusalForFault(queue, fault)
	}

	return p.findSelectorRefusal(queue, namespace, owner)
}

// findSelectorRefusal returns the refusal of a namespace by the CardQuota that owns a queue, or by one above it.
func (p *placements) findSelectorRefusal(queue, namespace string, owner *v1alpha1.CardQuota) *workload.Refusal {
	for _, above := range append([]*v1alpha1.CardQuota{owner}, p.plan.tree.Ancestors(owner.Name)...) {
		selector := workload.ExplicitSelector(above.Spec.NamespaceSelector)
		if selector == nil {
			continue
		}

		if refusal := p.checkNamespace(above.QueueName(), selector, namespace); refusal != nil && above != owner {
			return workload.RefusalOfAncestor(queue, refusal)
		} else if refusal != nil {
			return refusal
		}
	}

	return nil
}

// checkNamespace returns why a namespace may not use a queue. Of a namespace that the user may not
// read, nothing is known.
func (p *placements) checkNamespace(queue string, selector labels.Selector, name string) *workload.Refusal {
	if namespace := p.namespaces[name]; namespace != nil {
		return workload.CheckNamespace(queue, selector, name, namespace)
	}
	return nil
}

// findings returns a finding for each obstacle.
func (p *placements) findings() []Finding {
	commands := map[string]string{"pod": "describe pod", "gang": "describe podgroup"}
	var findings []Finding
	for why, names := range p.found {
		namespace, name, _ := strings.Cut(slices.Min(names), "/")
		findings = append(findings, Finding{Severity: Warning, Object: "queue/" + why.queue, Command: fmt.Sprintf("kubectl -n %s %s %s", namespace, commands[why.noun], name),
			Problem: fmt.Sprintf("%s would not be placed again%s: %s. %s.", conditions.CountThings(len(names), why.noun), why.because, listFirst(names), why.advice)})
	}
	return sortedByObject(findings)
}
