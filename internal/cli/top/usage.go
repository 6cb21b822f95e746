package top

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/output"
)

// List is the document of kubectl cardquota top.
type List struct {
	output.TypeMeta `json:",inline"`
	// Tree reports whether the quotas form a tree. Then a parent comes before its children, and its
	// numbers contain theirs. Otherwise the items are sorted by tenant, project, namespace and name.
	Tree bool `json:"tree"`
	// Items are the CardQuotas.
	Items []Usage `json:"items"`
	// Forecast is what no CardQuota decides about while the policy observes, as in its status.forecast. It is only
	// set where all CardQuotas are shown.
	Forecast *v1alpha1.PolicyForecast `json:"forecast,omitempty"`
}

// Usage is one CardQuota.
type Usage struct {
	// Name is the name of the CardQuota.
	Name string `json:"name"`
	// Namespace is that of a LocalCardQuota, empty for a CardQuota. A LocalCardQuota has no tenant and
	// no conditions, and ready is true.
	Namespace string `json:"namespace,omitempty"`
	// Tenant, Project, ServiceType and Parent are fields of its spec.
	Tenant      string `json:"tenant"`
	Project     string `json:"project,omitempty"`
	ServiceType string `json:"serviceType,omitempty"`
	Parent      string `json:"parent,omitempty"`
	// Queue is the Volcano Queue that carries the quota.
	Queue string `json:"queue"`
	// Level is the number of its ancestors in the list, 0 for none.
	Level int `json:"level"`
	// Ready is condition Ready. Reason and Message say why it is not True.
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Counted reports whether the operator has counted what the queue uses. If not, cards has only
	// the quotas.
	Counted bool `json:"counted"`
	// Cards are the cards of the quota, and those that are used or pending without one.
	Cards []Card `json:"cards"`
	// Blocked is the number of workloads that wait.
	Blocked int32 `json:"blocked"`
	// Mode is Observe or Enforce, empty for a LocalCardQuota. Forecast is what Enforce would refuse in mode Observe, as in
	// status.forecast.
	Mode     v1alpha1.Mode               `json:"mode,omitempty"`
	Forecast *v1alpha1.CardQuotaForecast `json:"forecast,omitempty"`
	// isClosed reports whether the queue takes no new pods.
	isClosed bool
}

// Card is the usage of one card, in whole cards.
type Card struct {
	// Name is the card name.
	Name string `json:"name"`
	// Quota is the limit in force.
	Quota int64 `json:"quota"`
	// Deserved is what the queue takes back from borrowers, in a tree.
	Deserved int64 `json:"deserved,omitempty"`
	// Used is what its pods use.
	Used int64 `json:"used"`
	// Borrowed is what it uses of its quota beyond what it deserves, in a tree.
	Borrowed int64 `json:"borrowed,omitempty"`
	// Pending is what its pending pods request.
	Pending int64 `json:"pending"`
	// Free is quota minus used, at least 0.
	Free int64 `json:"free"`
	// Available is how many of them pods can get now: no more than each quota above it has free, and no
	// more than lie idle on nodes that take pods. It is 0 while the queue takes no pods.
	Available int64 `json:"available"`
	// OverQuotaBy is used minus quota if that is more than 0.
	OverQuotaBy int64 `json:"overQuotaBy,omitempty"`
	// Physical is the number of these cards on all nodes.
	Physical int64 `json:"physical"`
}

// NewList returns the usage of CardQuotas. With names it returns those alone, in a tree also what is
// below them. missing are names that no CardQuota has.
func NewList(quotas []*v1alpha1.CardQuota, names ...string) (list List, missing []string) {
	tree := treeOf(quotas)
	isMissing := func(name string) bool {
		return !slices.ContainsFunc(quotas, func(quota *v1alpha1.CardQuota) bool { return quota.Name == name })
	}
	for _, name := range names {
		if isMissing(name) {
			missing = append(missing, name)
		}
	}

	// Each path begins at the top level, or at the first CardQuota that is named.
	var paths [][]*v1alpha1.CardQuota
	for _, quota := range quotas {
		path := pathTo(tree, quota)
		from := slices.IndexFunc(path, func(above *v1alpha1.CardQuota) bool { return len(names) == 0 || slices.Contains(names, above.Name) })
		if from >= 0 {
			paths = append(paths, path[from:])
		}
	}

	// A path begins with that of its parent, so a parent comes before its children.
	slices.SortFunc(paths, func(a, b []*v1alpha1.CardQuota) int { return slices.CompareFunc(a, b, compareQuotas) })
	list = List{TypeMeta: output.NewTypeMeta("CardUsageList"), Tree: !tree.IsFlat(), Items: make([]Usage, len(paths))}
	for i, path := range paths {
		level := len(path) - 1
		list.Items[i] = newUsage(path[level], level)
	}

	return list, missing
}

// treeOf returns the tree of the CardQuotas, Flat if the operator treats none of them as part of a tree. Then spec.parent
// has no effect, and the operator sets no condition HierarchyValid.
func treeOf(quotas []*v1alpha1.CardQuota) *cardquota.Tree {
	isInTree := func(quota *v1alpha1.CardQuota) bool {
		return meta.FindStatusCondition(quota.Status.Conditions, v1alpha1.ConditionHierarchyValid) != nil
	}
	if !slices.ContainsFunc(quotas, isInTree) {
		return cardquota.Flat
	}
	return cardquota.NewTree(quotas, nil, v1alpha1.UnmanagedEnforce) // no Queues, so what unmanaged ones may use does not matter
}

// pathTo returns the CardQuotas above one, the highest first, and itself. A cycle has no highest one, so the path begins
// with the nearest of its members.
func pathTo(tree *cardquota.Tree, to *v1alpha1.CardQuota) []*v1alpha1.CardQuota {
	path := []*v1alpha1.CardQuota{to}
	for _, above := range tree.Ancestors(to.Name) {
		if isInCycle(tree, path[len(path)-1]) {
			break
		}
		path = append(path, above)
	}

	slices.Reverse(path)
	return path
}

// isInCycle reports whether the parents of a CardQuota lead back to it.
func isInCycle(tree *cardquota.Tree, q *v1alpha1.CardQuota) bool {
	above := tree.Ancestors(q.Name)
	return len(above) > 0 && above[len(above)-1].Spec.Parent == q.Name
}

// Objects returns the CardQuotas or LocalCardQuotas of the list.
func (l List) Objects() []metav1.PartialObjectMetadata {
	objects := make([]metav1.PartialObjectMetadata, len(l.Items))
	for i, usage := range l.Items {
		kind := "CardQuota"
		if usage.Namespace != "" {
			kind = "LocalCardQuota"
		}

		objects[i] = metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind},
			ObjectMeta: metav1.ObjectMeta{Name: usage.Name, Namespace: usage.Namespace},
		}
	}

	return objects
}

// compareQuotas orders CardQuotas by tenant, project, namespace and name.
func compareQuotas(a, b *v1alpha1.CardQuota) int {
	return cmp.Or(cmp.Compare(a.Spec.Tenant, b.Spec.Tenant), cmp.Compare(a.Spec.Project, b.Spec.Project),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// newUsage returns the usage of a CardQuota by its status. Before the operator has counted it, there are only the
// quotas of its spec.
func newUsage(quota *v1alpha1.CardQuota, level int) Usage {
	spec := quota.Spec
	status := quota.Status
	usage := Usage{
		Name: quota.Name, Namespace: quota.Namespace, Tenant: spec.Tenant, Project: spec.Project, ServiceType: spec.ServiceType, Parent: spec.Parent,
		Queue: quota.QueueName(), Level: level, Counted: status.Summary != "", Cards: []Card{}, Blocked: status.BlockedTotal,
		Mode: status.Mode, Forecast: status.Forecast, isClosed: takesNoPods(quota),
	}

	switch ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); {
	case ready == nil && quota.Namespace != "": // a LocalCardQuota has no conditions
		usage.Ready = true
	case ready == nil:
		usage.Reason = "NotObserved"
		usage.Message = "the operator has not seen this CardQuota yet: see kubectl cardquota doctor"
	case ready.Status == metav1.ConditionTrue:
		usage.Ready = true
	default:
		usage.Reason = ready.Reason
		usage.Message = ready.Message
	}

	// Zeros of a status that was never written would look like free cards.
	if !usage.Counted {
		for _, card := range spec.Cards {
			usage.Cards = append(usage.Cards, Card{Name: card.Name, Quota: writtenQuota(card)})
		}
		return usage
	}

	for _, card := range status.Cards {
		usage.Cards = append(usage.Cards, Card{
			Name: card.Name, Quota: card.Quota, Deserved: card.Deserved, Used: card.Used,
			Borrowed: max(0, card.Borrowed-card.OverQuotaBy), // cards beyond the quota are in OverQuotaBy alone
			Pending:  card.Pending, Free: card.Free, Available: card.Free, OverQuotaBy: card.OverQuotaBy, Physical: card.Physical,
		})
	}

	return usage
}

// writtenQuota returns the quota of a card that a spec states. If it states only deserved, that is the quota, as the
// operator computes it while queues are flat. In a tree it would be the quota of the parent, which is not known here.
func writtenQuota(card v1alpha1.Card) int64 {
	return ptr.Deref(card.Quota, ptr.Deref(card.Deserved, 0))
}
