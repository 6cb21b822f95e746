package sessioncheck

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// unit is what starts together: the waiting pods of a PodGroup, or a PodGroup without pods.
type unit struct {
	group *v1beta1.PodGroup
	queue string
	// pods wait for a node; minPods is how many of them must start together.
	pods    []*podState
	minPods int
	// placed is how many pods of the group have a node or succeeded.
	placed int
	// announced is what the PodGroup announces, requests the most that the unit may use of its
	// queue.
	announced, requests []request
	// unsupported is why the unit is out of scope, "" when it is checked.
	unsupported string
}

// objectName returns the name of the unit in reports.
func (u *unit) objectName() string {
	if len(u.pods) > 0 && u.minPods == 1 {
		return "pod/" + u.pods[0].pod.Namespace + "/" + u.pods[0].pod.Name
	}
	return "podgroup/" + u.group.Namespace + "/" + u.group.Name
}

// waitingUnits returns all waiting units in a stable order; the caller must not change them.
func (w *clusterState) waitingUnits() []*unit {
	if w.cached.units != nil {
		return w.cached.units
	}

	of := map[types.NamespacedName][]*podState{}
	for _, state := range w.pods {
		key := groupKey(state.pod)
		of[key] = append(of[key], state)
	}

	units := []*unit{}
	for key, group := range w.groups {
		if u := w.unitOf(group, of[key]); u != nil {
			units = append(units, u)
		}
	}

	slices.SortFunc(units, func(a, b *unit) int {
		return cmp.Or(strings.Compare(a.group.Namespace, b.group.Namespace), strings.Compare(a.group.Name, b.group.Name))
	})
	w.cached.units = units

	return units
}

// unitOf returns the waiting unit of a PodGroup, or nil.
func (w *clusterState) unitOf(group *v1beta1.PodGroup, pods []*podState) *unit {
	u := &unit{group: group, queue: rule.QueueOfGroup(group)}
	all := 0
	for _, state := range pods {
		if state.pod.Status.Phase != corev1.PodFailed {
			all++
		}
		u.addPod(state, w.options.SchedulerName)
	}

	phase := cmp.Or(group.Status.Phase, v1beta1.PodGroupPending)
	waits := phase == v1beta1.PodGroupPending || phase == v1beta1.PodGroupInqueue
	if group.DeletionTimestamp != nil || (len(u.pods) == 0 && (all > 0 || !waits)) {
		return nil
	}

	u.minPods = max(1, int(group.Spec.MinMember)-u.placed)
	slices.SortFunc(u.pods, func(a, b *podState) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	u.unsupported = cmp.Or(u.unsupported, u.whyUnsupported())
	u.announced = w.announcedRequests(group)
	u.requests = u.maxRequests()
	return u
}

// addPod counts a pod as waiting or placed, or records why its unit is out of scope.
func (u *unit) addPod(state *podState, scheduler string) {
	switch {
	case rule.IsWaiting(state.pod) && state.pod.Spec.SchedulerName == scheduler:
		u.pods = append(u.pods, state)
	case state.pod.DeletionTimestamp != nil && state.pod.Status.Phase == corev1.PodSucceeded:
		u.unsupported = "has pods of its last run that are being deleted"
	case rule.IsCharged(state.pod) || state.pod.Status.Phase == corev1.PodSucceeded:
		u.placed++
	case state.pod.Status.Phase != corev1.PodFailed:
		u.unsupported = "has pods that are gated, or being deleted, or of another scheduler"
	}
}

// whyUnsupported returns why a unit is out of scope, "" when it is checked.
func (u *unit) whyUnsupported() string {
	spec := &u.group.Spec
	switch {
	case len(u.pods) > 0 && len(u.pods) < u.minPods:
		return "has too few pods"
	case len(spec.MinTaskMember) > 1 && u.minPods < len(u.pods):
		return "has tasks with minimums of their own"
	case spec.NetworkTopology != nil || len(spec.SubGroupPolicy) > 0:
		return "has a network topology"
	}

	for _, state := range u.pods {
		if why := unsupportedFeature(state.pod); why != "" {
			return why
		}
		if state.kind != u.pods[0].kind {
			return "has pods that request different things"
		}
	}

	return ""
}

// unsupportedFeature returns which feature of a pod is out of scope, "" for a plain pod.
func unsupportedFeature(pod *corev1.Pod) string {
	spec := &pod.Spec
	switch {
	case spec.Affinity != nil:
		return "has affinity"
	case len(spec.TopologySpreadConstraints) > 0:
		return "has spread constraints"
	case len(spec.ResourceClaims) > 0:
		return "has resource claims"
	case pod.Status.NominatedNodeName != "":
		return "has a nominated node"
	}

	for _, volume := range spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil || volume.CSI != nil {
			return "has volumes that are claimed"
		}
	}

	if hasHostPort(spec) {
		return "has host ports"
	}

	return ""
}

// hasHostPort reports whether a container of a pod has a port on its node.
func hasHostPort(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			for _, port := range container.Ports {
				if port.HostPort != 0 {
					return true
				}
			}
		}
	}
	return false
}

// request is what a unit requests from its queue.
type request struct {
	// cards are the alternatives, empty for no cards.
	cards            []string
	count            int64
	milliCPU, memory int64
}

// maxRequests returns the most that a unit may use of its queue: all its waiting pods, or what
// it announces.
func (u *unit) maxRequests() []request {
	ofPods := request{}
	for _, state := range u.pods {
		ofPods.cards = mergeCards(ofPods.cards, state.request.Cards)
		ofPods.count += state.request.Count
		ofPods.milliCPU += state.request.MilliCPU
		ofPods.memory += state.request.Memory
	}
	if len(u.pods) == 0 || u.group.Status.Phase == v1beta1.PodGroupPending || u.group.Status.Phase == "" {
		return append(slices.Clone(u.announced), ofPods)
	}
	return []request{ofPods}
}

func mergeCards(a, b []string) []string {
	for _, card := range b {
		if !slices.Contains(a, card) {
			a = append(slices.Clone(a), card)
		}
	}
	return a
}

// cardsOf returns the card names that nodes give to a resource.
func (w *clusterState) cardsOf(resource corev1.ResourceName) []string {
	cards, known := w.nodeCache.cards[resource]
	if !known {
		cards = w.inventory.Cards(resource)
		w.nodeCache.cards[resource] = cards
	}
	return cards
}

// announcedRequests returns what a PodGroup announces: card.request and minResources, which both
// count in full here.
func (w *clusterState) announcedRequests(group *v1beta1.PodGroup) []request {
	var all []request
	totals, err := rule.ParseTotals(group.Annotations[v1alpha1.AnnotationCardRequest])
	if err == nil {
		for _, total := range totals {
			all = append(all, request{cards: total.Cards, count: total.Count})
		}
	}

	minimum := group.Spec.MinResources
	if minimum == nil {
		return all
	}

	all = append(all, request{milliCPU: minimum.Cpu().MilliValue(), memory: minimum.Memory().Value()})
	if len(totals) == 0 {
		for name, quantity := range *minimum {
			if w.inventory.IsCard(name) {
				all = append(all, request{cards: w.cardsOf(name), count: quantity.Value()})
			}
		}
	}

	return all
}
