package importing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/workload"
)

// Source is where CardQuotas come from.
type Source string

// The sources. Pods of a Volcano Queue count for it alone. The other cards of a namespace are proposed once: by the first
// of the other sources that says something about them.
const (
	FromQueues         Source = "queues"
	FromKueue          Source = "kueue"
	FromResourceQuotas Source = "resourcequotas"
	FromNamespaces     Source = "namespaces"
)

// Sources are all sources, the first one first.
var Sources = []Source{FromQueues, FromKueue, FromResourceQuotas, FromNamespaces}

// titles are the sources as prose.
var titles = map[Source]string{
	FromQueues: "the Queues of the cluster", FromKueue: "Kueue's ClusterQueues", FromResourceQuotas: "ResourceQuotas", FromNamespaces: "what the pods of namespaces use now",
}

// namespaceSuffix is in the name of a CardQuota where another one, or a Queue, has the name of its namespace.
const namespaceSuffix = "-namespace"

// Propose adds to the plan the CardQuotas that do not come from Queues.
func (p *Plan) Propose(in Input) {
	proposer := &proposer{planner: planner{Input: in}, plan: p, taken: map[string]bool{workload.DefaultQueue: true, workload.RootQueue: true}, covered: map[string]string{}}
	for _, queue := range in.Queues {
		proposer.taken[queue.Name] = true
	}

	for _, quota := range in.Quotas {
		proposer.taken[quota.Name] = true
		if selector := workload.ExplicitSelector(quota.Spec.NamespaceSelector); selector != nil {
			proposer.recordCoverage(quota.Name, selector)
		}
	}

	p.CoversAll = p.CoversAll && len(in.From) == 0 && in.ByNamespace != nil
	for _, imported := range p.Imports {
		proposer.taken[imported.Quota.Name] = true
	}

	if in.wantsSource(FromKueue) {
		proposer.proposeClusterQueues()
	}
	if in.wantsSource(FromResourceQuotas) {
		proposer.proposeResourceQuotas()
	}
	if in.wantsSource(FromNamespaces) {
		proposer.proposeNamespaces()
	}
}

// setSources sets the sources that the user chose. Queues that he names are their own choice.
func (in *Input) setSources(names []string) error {
	for _, name := range names {
		if !slices.Contains(Sources, Source(name)) {
			return fmt.Errorf("--from %s: write %s", name, output.JoinWords(Sources, "or"))
		}
		in.From = append(in.From, Source(name))
	}
	if len(in.Only) > 0 && len(names) > 0 {
		return errors.New("--from chooses sources, and the arguments choose Queues: leave out one of both")
	}
	return nil
}

// requiresSource reports whether the user asked for a source by name, so that it must be there.
func (in *Input) requiresSource(source Source) bool {
	return slices.Contains(in.From, source) || (source == FromQueues && len(in.Only) > 0)
}

// wantsSource reports whether the user wants CardQuotas from a source. Without a choice he wants all, and where he names Queues
// only those.
func (in *Input) wantsSource(source Source) bool {
	switch {
	case len(in.Only) > 0:
		return source == FromQueues
	default:
		return len(in.From) == 0 || slices.Contains(in.From, source)
	}
}

// proposer makes CardQuotas of what is no Queue.
type proposer struct {
	planner
	plan *Plan
	// taken are the names that a CardQuota cannot have, because a Queue or another CardQuota has them.
	taken map[string]bool
	// covered says for namespaces what limits their cards: the name of a CardQuota.
	covered map[string]string
}

// recordCoverage records which namespaces a CardQuota selects.
func (p *proposer) recordCoverage(quota string, selector labels.Selector) {
	for name, written := range p.NamespaceLabels {
		if selector.Matches(labels.Set(written)) && p.covered[name] == "" {
			p.covered[name] = quota
		}
	}
}

// leaveOut records why something gets no CardQuota.
func (p *proposer) leaveOut(object, why string) {
	p.plan.CoversAll = false
	p.plan.LeftOut = append(p.plan.LeftOut, LeftOut{object, why})
}

// isCovered reports whether a CardQuota selects a namespace, and records then that something of it gets none.
func (p *proposer) isCovered(namespace, object string) bool {
	quota := p.covered[namespace]
	if quota != "" {
		p.plan.LeftOut = append(p.plan.LeftOut, LeftOut{object, "CardQuota " + quota + " selects it"})
	}
	return quota != ""
}

// recordDropped records what could not be carried over.
func (p *proposer) recordDropped(format string, args ...any) {
	p.plan.CoversAll = false
	p.plan.Dropped = append(p.plan.Dropped, fmt.Sprintf(format, args...))
}

// newProposal returns a CardQuota without cards. Its tenant is the name of what it is for, which is a DNS name and so a
// valid value of a label, if it is short enough.
func (p *proposer) newProposal(name, suffix, kind string) Import {
	imported := Import{Quota: &v1alpha1.CardQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CardQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CardQuotaSpec{Tenant: name, ServiceType: p.ServiceType},
	}}
	if p.taken[name] {
		imported.Quota.Name = name + suffix
		imported.addComment("The name has %s at its end, because a Queue or another CardQuota has the name %s.", suffix, name)
	}

	imported.addComment("tenant: write who owns the %s; here it is its name.", kind)
	imported.addComment("serviceType: nothing says which. Jobs of training give cards back to inference.")
	return imported
}

// addProposal adds a CardQuota to the plan, or says why not: its name is too long, or taken also with the suffix.
func (p *proposer) addProposal(source Source, object string, imported Import) {
	name := imported.Quota.Name
	switch {
	case p.taken[name]:
		p.leaveOut(object, "Queues or CardQuotas have the names that it could have; write a CardQuota of another name")
	case len(name) > validation.LabelValueMaxLength:
		p.leaveOut(object, fmt.Sprintf("the name of a CardQuota has at most %d characters; write one yourself", validation.LabelValueMaxLength))
	default:
		p.taken[name] = true
		if selector := workload.ExplicitSelector(imported.Quota.Spec.NamespaceSelector); selector != nil {
			p.recordCoverage(name, selector)
		}

		imported.Source = source
		p.plan.Imports = append(p.plan.Imports, imported)
	}
}

// selectNamespaces lets a CardQuota count the pods of some namespaces alone, by the label that Kubernetes gives each.
func (i *Import) selectNamespaces(names []string) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: names[0]}}
	if len(names) > 1 {
		selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	i.Quota.Spec.NamespaceSelector = selector
}

// setLimits sets the limits of CPU and memory, each with its reason. One that nothing states is left out.
func (i *Import) setLimits(limits corev1.ResourceList, origin string) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		stated, isStated := limits[name]
		if !isStated {
			i.addComment("resources.%s: left out, because nothing limits it: it is not limited.", name)
			continue
		}

		i.addComment("resources.%s: %s.", name, origin)
		i.limitCompute(name, stated)
	}
}

// isCardResource reports whether a resource is a card of a node, or looks like one.
func (p *proposer) isCardResource(name corev1.ResourceName) bool {
	return p.Fleet.Inventory.IsCard(name) || card.LooksLikeCard(name)
}

// cardOf returns the card that a resource is on the nodes with some labels, or why they do not decide it. where names
// these nodes.
func (p *proposer) cardOf(name corev1.ResourceName, nodeLabels map[string]string, where string) (found card.Name, why string) {
	if p.HidesNodes {
		return "", hiddenNodes
	}

	all, hasNodes := p.cardsOn(name, labels.SelectorFromSet(nodeLabels))
	switch labelled := card.Name(nodeLabels[string(name)+card.ProductSuffix]); {
	case len(all) == 1 && nodecards.IsNamed(all[0]):
		return all[0], ""
	case !hasNodes && labelled != "" && nodecards.IsNamed(labelled): // the nodes may come when they are needed
		return labelled, ""
	case len(all) == 0:
		return "", "no node of " + where + " has it"
	case len(all) == 1:
		return "", "no label of a node of " + where + " names the card"
	default:
		return "", fmt.Sprintf("nodes of %s have %s: write how many of each", where, output.JoinWords(all, "and"))
	}
}

// cardsOn returns which cards a resource is on the nodes that a selector selects, sorted, and whether there are any such
// nodes.
func (p *proposer) cardsOn(name corev1.ResourceName, selector labels.Selector) (all []card.Name, hasNodes bool) {
	names := map[card.Name]bool{}
	for _, node := range p.Fleet.Nodes {
		if !selector.Matches(labels.Set(node.Object.Labels)) {
			continue
		}

		hasNodes = true
		for _, offered := range node.Cards {
			if offered.Resource == name {
				names[offered.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), hasNodes
}

// hiddenNodes is why the card of a resource is not known to a user who may not list nodes.
const hiddenNodes = "only nodes say which card it is, and you may not list them"

// commentUse says what pods of the namespaces use beyond the quota, and what they request.
func (p *proposer) commentUse(i *Import, namespaces []string, quotas card.Quota) {
	used := map[card.Name]card.Count{}
	pending := map[card.Name]card.Count{}
	for _, namespace := range namespaces {
		usage := p.ByNamespace[namespace]
		for name, count := range usage.CardsInUse() {
			used[name] = used[name].Add(count)
		}
		for name, count := range usage.Pending {
			pending[name] = pending[name].Add(count)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(used)) {
		if limit, isWritten := quotas[name]; used[name] > limit {
			limitText := fmt.Sprintf("more than the quota of %d", limit)
			if !isWritten {
				limitText = "and it has no quota for them"
			}
			i.addComment("Its pods hold %d %s, %s. They continue to run.", used[name], name, limitText)
		}
	}

	if text := describeCards(pending); text != "" {
		i.addComment("Pending pods request %s.", text)
	}
}

// proposeNamespaces proposes a CardQuota for each namespace whose pods use or request cards outside of Queues.
func (p *proposer) proposeNamespaces() {
	for _, namespace := range slices.Sorted(maps.Keys(p.ByNamespace)) {
		usage := p.ByNamespace[namespace]
		used := usage.CardsInUse()
		if !hasCards(used) && !hasCards(usage.Pending) {
			continue
		}

		object := "namespace " + namespace
		switch quotas := p.namedCards(namespace, used); {
		case p.isCovered(namespace, object):
		case len(used) == 0:
			p.leaveOut(object, "its pods wait for cards, and hold none from which a quota could be made")
		case len(quotas) == 0:
			p.leaveOut(object, "it is not known which cards its pods hold")
		default:
			imported := p.newNamespaceProposal(namespace)
			imported.addComment("cards: what the pods of the namespace hold now. Write what it may use at most.")
			p.addCards(&imported, quotas, nil, nil)
			imported.setLimits(nil, "")
			p.commentUse(&imported, []string{namespace}, quotas)
			p.addProposal(FromNamespaces, object, imported)
		}
	}
}

// namedCards returns the cards that pods of a namespace use and of which the name is known. It drops the others, unless
// a CardQuota selects the namespace already.
func (p *proposer) namedCards(namespace string, used map[card.Name]card.Count) card.Quota {
	why := "no label of a node names the card"
	if p.HidesNodes {
		why = hiddenNodes
	}

	quotas := card.Quota{}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		switch {
		case nodecards.IsNamed(name):
			quotas[name] = used[name]
		case p.covered[namespace] == "":
			p.recordDropped("Namespace %s: its pods hold %d %s: %s.", namespace, used[name], name, why)
		}
	}

	return quotas
}

// newNamespaceProposal returns a CardQuota for the pods of a namespace alone, without cards.
func (p *proposer) newNamespaceProposal(namespace string) Import {
	imported := p.newProposal(namespace, namespaceSuffix, "namespace")
	imported.addComment("namespaceSelector: it counts the pods of this namespace alone.")
	imported.selectNamespaces([]string{namespace})
	return imported
}

// compareObjects orders objects by namespace and name.
func compareObjects[T metav1.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
