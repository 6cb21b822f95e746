package importing

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/workload"
)

// Kueue is the objects of Kueue, in any version that has the fields of v1beta1 or v1beta2.
type Kueue struct {
	ClusterQueues, Flavors, LocalQueues []*unstructured.Unstructured
	// HidesLocalQueues reports that the user may not list all LocalQueues.
	HidesLocalQueues bool
}

// clusterQueue is what matters of a ClusterQueue.
type clusterQueue struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ResourceGroups []struct {
			Flavors []flavorQuotas `json:"flavors"`
		} `json:"resourceGroups"`
		// Cohort is the name in v1beta1, CohortName in v1beta2.
		Cohort            string                `json:"cohort"`
		CohortName        string                `json:"cohortName"`
		NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
		StopPolicy        v1alpha1.StopPolicy   `json:"stopPolicy"`
	} `json:"spec"`
}

// flavorQuotas are the quotas of a flavor.
type flavorQuotas struct {
	Name      string          `json:"name"`
	Resources []nominalQuotas `json:"resources"`
}

// nominalQuotas are the quotas of a resource.
type nominalQuotas struct {
	Name           corev1.ResourceName `json:"name"`
	NominalQuota   resource.Quantity   `json:"nominalQuota"`
	BorrowingLimit *resource.Quantity  `json:"borrowingLimit"`
	LendingLimit   *resource.Quantity  `json:"lendingLimit"`
}

// kueueSuffix is in the name of a CardQuota where a Queue has the name of its ClusterQueue.
const kueueSuffix = "-kueue"

// proposeClusterQueues proposes a CardQuota for each ClusterQueue with a quota of cards.
func (p *proposer) proposeClusterQueues() {
	for _, object := range slices.SortedFunc(slices.Values(p.Kueue.ClusterQueues), compareObjects) {
		queue := &clusterQueue{}
		name := "ClusterQueue " + object.GetName()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, queue); err != nil {
			p.leaveOut(name, "it cannot be read: "+err.Error())
			continue
		}

		if slices.ContainsFunc(p.Quotas, func(q *v1alpha1.CardQuota) bool { return q.Name == object.GetName() }) {
			p.leaveOut(name, "there is a CardQuota of its name")
			continue
		}
		p.proposeClusterQueue(queue, object)
	}
}

// proposeClusterQueue proposes the CardQuota of a ClusterQueue.
func (p *proposer) proposeClusterQueue(queue *clusterQueue, object *unstructured.Unstructured) {
	name := queue.Metadata.Name
	imported := p.newProposal(name, kueueSuffix, "ClusterQueue")
	namespaces := p.namespacesOf(&imported, queue)
	quotas := card.Quota{}
	compute := corev1.ResourceList{}
	hasCards := false
	for _, group := range queue.Spec.ResourceGroups {
		for _, flavor := range group.Flavors {
			hasCards = p.addFlavor(&imported, name, flavor, quotas, compute) || hasCards
		}
	}

	switch {
	case !hasCards:
		p.leaveOut("ClusterQueue "+name, "it has no quota of cards")
		return
	case len(quotas) == 0:
		p.leaveOut("ClusterQueue "+name, "it is not known which cards its quotas are for")
		return
	}

	p.addCards(&imported, quotas, nil, nil)
	imported.setLimits(compute, "the sum of nominalQuota of all flavors")
	switch queue.Spec.StopPolicy {
	case v1alpha1.StopPolicyHold, v1alpha1.StopPolicyHoldAndDrain:
		imported.Quota.Spec.StopPolicy = queue.Spec.StopPolicy
		imported.addComment("stopPolicy: as in the ClusterQueue.")
	}

	p.commentUse(&imported, namespaces, quotas)
	p.dropKueueFields(queue, object)
	p.addProposal(FromKueue, "ClusterQueue "+name, imported)
}

// addFlavor adds the quotas of a flavor, and reports whether it has any of cards. Those of a card that the nodes of the
// flavor do not decide are dropped.
func (p *proposer) addFlavor(imported *Import, queue string, flavor flavorQuotas, quotas card.Quota, compute corev1.ResourceList) (hasCards bool) {
	nodeLabels, exists := p.nodeLabelsOf(flavor.Name)
	for _, quota := range flavor.Resources {
		isCompute := quota.Name == corev1.ResourceCPU || quota.Name == corev1.ResourceMemory
		switch {
		case isCompute:
			sum := compute[quota.Name]
			sum.Add(quota.NominalQuota)
			compute[quota.Name] = sum
			continue
		case !p.isCardResource(quota.Name):
			p.recordDropped("ClusterQueue %s: nominalQuota %s of %s in flavor %s: a CardQuota limits cards, CPU and memory only.", queue, &quota.NominalQuota, quota.Name, flavor.Name)
			continue
		}

		hasCards = true
		name, why := p.cardOf(quota.Name, nodeLabels, "flavor "+flavor.Name)
		if !exists {
			why = "there is no ResourceFlavor " + flavor.Name + " that you may read"
		}
		if why != "" {
			p.recordDropped("ClusterQueue %s: nominalQuota %s of %s in flavor %s: %s.", queue, &quota.NominalQuota, quota.Name, flavor.Name, why)
			continue
		}

		quotas[name] = quotas[name].Add(card.NewCount(quota.NominalQuota))
		imported.addComment("cards: %s is %s by the nodes or labels of flavor %s; nominalQuota is %s.", name, quota.Name, flavor.Name, &quota.NominalQuota)
		if quota.BorrowingLimit != nil {
			p.recordDropped("ClusterQueue %s: borrowingLimit %s of %s. %s.", queue, quota.BorrowingLimit, name, treeHint)
		}
		if quota.LendingLimit != nil {
			p.recordDropped("ClusterQueue %s: lendingLimit %s of %s. %s.", queue, quota.LendingLimit, name, treeHint)
		}
	}

	return hasCards
}

// treeHint says what CardQuotas have instead of cohorts.
const treeHint = "CardQuotas lend and borrow in a tree: docs/hierarchy.md"

// nodeLabelsOf returns the labels of the nodes of a ResourceFlavor, none for all nodes, and whether it exists.
func (p *proposer) nodeLabelsOf(flavor string) (nodeLabels map[string]string, exists bool) {
	for _, object := range p.Kueue.Flavors {
		if object.GetName() == flavor {
			nodeLabels, _, _ = unstructured.NestedStringMap(object.Object, "spec", "nodeLabels")
			return nodeLabels, true
		}
	}
	return nil, false
}

// namespacesOf sets which namespaces may use a CardQuota: those with a LocalQueue of the ClusterQueue. Without one it is
// the selector of the ClusterQueue, of which Kueue reads unset as no namespace.
func (p *proposer) namespacesOf(imported *Import, queue *clusterQueue) []string {
	found := map[string]bool{}
	for _, local := range p.Kueue.LocalQueues {
		if of, _, _ := unstructured.NestedString(local.Object, "spec", "clusterQueue"); of == queue.Metadata.Name {
			found[local.GetNamespace()] = true
		}
	}

	namespaces := slices.Sorted(maps.Keys(found))
	written := queue.Spec.NamespaceSelector
	switch {
	case len(namespaces) > 0 && len(namespaces) <= maxSelected && !p.Kueue.HidesLocalQueues:
		imported.selectNamespaces(namespaces)
		imported.addComment("namespaceSelector: the namespaces with a LocalQueue of the ClusterQueue.")
		for _, namespace := range namespaces {
			if other := p.covered[namespace]; other != "" {
				imported.addComment("namespaceSelector: CardQuota %s selects namespace %s, too. Pods without a queue count for neither then.", other, namespace)
			}
		}
	case workload.ExplicitSelector(written) != nil:
		imported.Quota.Spec.NamespaceSelector = written
		imported.addComment("namespaceSelector: as in the ClusterQueue.")
	default:
		imported.addComment("namespaceSelector: it is not known which namespaces use the ClusterQueue, so all may use the queue. Write which.")
	}

	return namespaces
}

// maxSelected is how many namespaces a selector of a CardQuota can name.
const maxSelected = 256

// dropKueueFields says what of a ClusterQueue has no field in a CardQuota.
func (p *proposer) dropKueueFields(queue *clusterQueue, object *unstructured.Unstructured) {
	name := queue.Metadata.Name
	for _, cohort := range []string{queue.Spec.Cohort, queue.Spec.CohortName} {
		if cohort != "" {
			p.recordDropped("ClusterQueue %s: cohort %s. %s.", name, cohort, treeHint)
		}
	}

	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	var fields []string
	for _, field := range []string{"admissionChecks", "admissionChecksStrategy", "admissionScope", "concurrentAdmissionPolicy", "fairSharing"} {
		if _, isWritten := spec[field]; isWritten {
			fields = append(fields, field)
		}
	}

	if preemption, _ := spec["preemption"].(map[string]any); hasPreemption(preemption) {
		fields = append(fields, "preemption")
	}
	if spec["queueingStrategy"] == "StrictFIFO" { // the other one is the default
		fields = append(fields, "queueingStrategy")
	}

	if len(fields) > 0 {
		p.recordDropped("ClusterQueue %s: %s. Service types say who takes cards from whom: docs/tide.md.", name, output.JoinWords(fields, "and"))
	}
}

// hasPreemption reports whether a policy of preemption is another one than Never, the default.
func hasPreemption(policies map[string]any) bool {
	for _, policy := range policies {
		if nested, isNested := policy.(map[string]any); isNested {
			policy = nested["policy"]
		}
		if policy != nil && fmt.Sprint(policy) != "Never" {
			return true
		}
	}
	return false
}
