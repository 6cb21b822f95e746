package observer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// maxViews is how many namespaces have a LocalCardQuota of one CardQuota.
const maxViews = 50

// checkViews checks that LocalCardQuotas are where CardQuotas select namespaces explicitly and
// nowhere else, that their numbers equal a recount, and that they name no other namespace.
func (m *clusterState) checkViews(now time.Time) (open []string) {
	wrong := map[string]string{}
	if m.excused[Status] == 0 && !m.ignoresViews {
		for key, text := range m.wrongViews() {
			if object := "localcardquota/" + key.String(); m.options.Concerns(object) {
				wrong[object] = text
			}
		}
	}

	for object, text := range wrong {
		open = append(open, m.reportOverdue(m.viewErrors.recordOf(object, text, now), Status, object, text, m.options.ViewWithin, now)...)
	}
	maps.DeleteFunc(m.viewErrors, func(object string, _ *difference) bool { return wrong[object] == "" })
	return open
}

// wrongViews returns what is wrong with LocalCardQuotas that exist or should exist.
func (m *clusterState) wrongViews() map[types.NamespacedName]string {
	wrong := map[types.NamespacedName]string{}
	selected := map[types.NamespacedName]bool{}
	for _, state := range m.quotas {
		quota := state.quota
		if quota.DeletionTimestamp != nil || m.ownerOf(quota.QueueName()) != quota {
			continue
		}

		namespaces := m.viewNamespaces(quota)
		if len(namespaces) == 0 {
			continue
		}

		expected := m.expectedStatus(quota)
		for _, namespace := range namespaces {
			key := types.NamespacedName{Namespace: namespace, Name: quota.Name}
			selected[key] = true
			if view := m.views[key]; view == nil {
				wrong[key] = "it does not exist"
			} else if differences := slices.Concat(viewDifferences(view, expected), m.queueDifferences(view, quota), m.waitingDifferences(view, quota)); len(differences) > 0 {
				wrong[key] = strings.Join(differences, "; ")
			}
		}
	}

	for key := range m.views {
		if !selected[key] && m.quotaOfView(key.Name) == nil {
			wrong[key] = "no CardQuota selects its namespace"
		}
	}

	return wrong
}

// quotaOfView returns the CardQuota that is being deleted, whose views stay until it is gone.
func (m *clusterState) quotaOfView(name string) *v1alpha1.CardQuota {
	for _, state := range m.quotas {
		if state.quota.Name == name && state.quota.DeletionTimestamp != nil {
			return state.quota
		}
	}
	return nil
}

// viewNamespaces returns the namespaces that a CardQuota selects explicitly, the first maxViews by
// name.
func (m *clusterState) viewNamespaces(quota *v1alpha1.CardQuota) []string {
	if quota.Spec.NamespaceSelector == nil || quota.QueueName() == "root" {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(quota.Spec.NamespaceSelector)
	if err != nil || selector.Empty() {
		return nil
	}

	var names []string
	for name, known := range m.namespaces {
		if !m.endingNamespaces[name] && selector.Matches(labels.Set(known.current())) {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names[:min(len(names), maxViews)]
}

// queueDifferences returns how CPU, memory and state of a view differ from a recount of its queue.
func (m *clusterState) queueDifferences(view *v1alpha1.LocalCardQuota, quota *v1alpha1.CardQuota) (wrong []string) {
	limits := ptr.Deref(quota.Spec.Resources, v1alpha1.Resources{})
	cpu, memory := m.usedCPUMemory(quota.QueueName())
	for _, r := range []struct {
		name  string
		said  *v1alpha1.ResourceStatus
		want  *resource.Quantity
		limit *resource.Quantity
	}{{"cpu", view.Status.CPU, cpu, limits.CPU}, {"memory", view.Status.Memory, memory, limits.Memory}} {
		said := ptr.Deref(r.said, v1alpha1.ResourceStatus{})
		if said.Used.Cmp(*r.want) != 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %s used, a recount gives %s", r.name, said.Used.String(), r.want))
		}
		if (said.Quota == nil) != (r.limit == nil) || (r.limit != nil && said.Quota.Cmp(*r.limit) != 0) {
			wrong = append(wrong, fmt.Sprintf("the quota of %s is %s, the CardQuota has %s", r.name, said.Quota, r.limit))
		}
	}

	if queue := m.queues[quota.QueueName()]; queue != nil && !slices.Contains(m.statesOf(queue), view.Status.State) {
		wrong = append(wrong, fmt.Sprintf("its queue is %q, it can be %q", view.Status.State, m.statesOf(queue)))
	}

	return wrong
}

// statesOf returns what a view may say of the state of a queue. Volcano keeps a queue Open that a stop
// policy holds. A policy of a queue above counts only in a tree.
func (m *clusterState) statesOf(queue *v1beta1.Queue) []string {
	const (
		stopPolicy = "volcano.sh/stop-policy"
		held       = "Held"
	)

	stops := func(queue *v1beta1.Queue) bool {
		return queue.Annotations[stopPolicy] != "" && queue.Annotations[stopPolicy] != "None"
	}

	state := string(queue.Status.State)
	switch {
	case state != "Open":
		return []string{state}
	case stops(queue):
		return []string{held}
	}

	above := queue
	for range m.queues { // parents that form a cycle end here
		above = m.queues[above.Spec.Parent]
		if above == nil {
			break
		}
		if stops(above) {
			return []string{state, held}
		}
	}

	return []string{state}
}

// viewDifferences returns how the cards of a view differ from a recount of its CardQuota, and which
// other namespace it names.
func viewDifferences(view *v1alpha1.LocalCardQuota, expected expectation) (wrong []string) {
	said := expectation{}
	for _, entry := range view.Status.Cards {
		said[entry.Name] = entry
	}

	for _, name := range cardNames(expected, said) {
		if expected[name] != said[name] {
			wrong = append(wrong, fmt.Sprintf("<%s> is %s, a recount gives %s", name, formatCardStatus(said, name), formatCardStatus(expected, name)))
		}
	}

	for _, entry := range view.Status.Blocked {
		named := []string{entry.Workload.Namespace}
		for _, h := range entry.Holders {
			named = append(named, h.Workload.Namespace)
			if h.Workload.Namespace == "" && h.Queue != "" {
				wrong = append(wrong, "it names queue "+h.Queue)
			}
		}

		for _, namespace := range named {
			if namespace != "" && namespace != view.Namespace {
				wrong = append(wrong, "it names namespace "+namespace)
			}
		}
	}

	return wrong
}
