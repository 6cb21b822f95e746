package observer

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// contribution is what a pod or PodGroup adds to the numbers of a queue.
type contribution struct {
	queue string
	what  string
}

func (m *clusterState) podContribution(state *podState) contribution {
	switch {
	case state.charge != nil:
		return contribution{queue: state.charge.Queue, what: fmt.Sprint("uses ", *state.charge)}
	case rule.IsWaiting(state.pod):
		request := rule.RequestOf(state.pod, m.inventory)
		return contribution{
			queue: rule.QueueOf(state.pod, m.groupOf(state.pod), ""),
			what:  fmt.Sprint("waits for ", request.Count, request.Cards),
		}
	}
	return contribution{}
}

func (m *clusterState) groupContribution(group *v1beta1.PodGroup) contribution {
	if !isGroupWaiting(group) {
		return contribution{}
	}
	return contribution{queue: rule.QueueOfGroup(group), what: fmt.Sprint("waits for ", m.announcedRequests(group))}
}

// recordContribution records which queues' numbers a change may have changed. Comparing the
// expected numbers of two checks is not enough: numbers may change and change back in between.
// Then a status that is on its way would look as if it had never been right.
func (m *clusterState) recordContribution(before *contribution, now contribution) {
	if *before == now {
		return
	}
	m.numbersChanged[before.queue] = m.lastChange
	m.numbersChanged[now.queue] = m.lastChange
	*before = now
}

// expectation is the expected status of each card.
type expectation map[string]v1alpha1.CardStatus

// checkStatus compares the status of CardQuotas and their Queues with a recount.
func (m *clusterState) checkStatus(now time.Time) []string {
	if m.excused[Status] > 0 {
		return nil
	}

	var open []string
	for _, state := range m.quotas {
		quota := state.quota
		if !m.options.Concerns("cardquota/"+quota.Name) || quota.DeletionTimestamp != nil || m.ownerOf(quota.QueueName()) != quota {
			state.expected = nil
			state.reported = false
			continue
		}

		expected := m.expectedStatus(quota)
		if state.expected == nil || !maps.Equal(expected, state.expected) {
			state.expected = expected
			state.since = m.lastChange
			state.reported = false
		}

		if touched := m.touchedSince(quota.QueueName(), state.since); touched.After(state.since) {
			state.since = touched
			state.reported = false // the numbers may have moved and come back
		}

		if wrong := m.statusDifference(quota, expected); wrong != "" {
			open = append(open, m.reportOverdue(&state.waitState, Status, "cardquota/"+quota.Name, wrong, m.options.StatusWithin, now)...)
		}
	}

	return open
}

// ownerOf returns the CardQuota that owns a queue: the oldest that names it.
func (m *clusterState) ownerOf(queue string) *v1alpha1.CardQuota {
	var owner *v1alpha1.CardQuota
	for _, state := range m.quotas {
		rival := state.quota
		if rival.QueueName() != queue {
			continue
		}
		if owner == nil || cmp.Or(rival.CreationTimestamp.Compare(owner.CreationTimestamp.Time), strings.Compare(rival.Name, owner.Name)) < 0 {
			owner = rival
		}
	}
	return owner
}

// expectedStatus recounts the status of a CardQuota.
func (m *clusterState) expectedStatus(quota *v1alpha1.CardQuota) expectation {
	out := expectation{}
	granted := map[string]int64{}
	for _, c := range quota.Spec.Cards {
		if quota.Spec.ServiceType != "" { // flat, a parent grants nothing itself
			granted[c.Name] = ptr.Deref(c.Quota, ptr.Deref(c.Deserved, 0))
		}
		out[c.Name] = v1alpha1.CardStatus{}
	}

	queues := m.subtreeOf(quota.QueueName())
	for name, count := range m.usageOf(queues).Cards {
		entry := out[name]
		entry.Used = count
		out[name] = entry
	}

	for _, queue := range queues {
		granted := m.grantedIn(queue, granted)
		m.forEachWaiting(queue, func(names []string, count int64) {
			if len(names) == 0 || count == 0 {
				return
			}
			// Counted under the first alternative that the queue has quota for.
			i := max(0, slices.IndexFunc(names, func(n string) bool { return granted[n] > 0 }))
			entry := out[names[i]]
			entry.Pending += count
			out[names[i]] = entry
		})
	}

	physical := m.inventory.Totals()
	for name, entry := range out {
		entry.Name = name
		entry.Quota = granted[name]
		m.expectTreeValues(quota.QueueName(), &entry)
		entry.Free = max(0, entry.Quota-entry.Used)
		entry.OverQuotaBy = max(0, entry.Used-entry.Quota)
		entry.Physical = physical[name]
		out[name] = entry
	}

	return out
}

// forEachWaiting calls wait for everything that waits in a queue: pods, and PodGroups without
// pods.
func (m *clusterState) forEachWaiting(queue string, wait func([]string, int64)) {
	for _, state := range m.pods {
		if m.isWaitingIn(state, queue) {
			request := rule.RequestOf(state.pod, m.inventory)
			wait(request.Cards, request.Count)
		}
	}

	peopled := m.groupsWithPods()
	for key, state := range m.groups {
		named := rule.QueueOfGroup(state.group)
		if named != queue || peopled[key] || !isGroupWaiting(state.group) || !m.isShownIn(queue, key.Namespace) {
			continue
		}
		for _, a := range m.announcedRequests(state.group) {
			wait(a.names, a.count)
		}
	}
}

// isShownIn reports whether what waits in a queue is shown there: the selectors of its CardQuota and,
// in a tree, of those above take its namespace. Without a CardQuota everything is.
func (m *clusterState) isShownIn(queue, namespace string) bool {
	for level := 0; queue != "" && queue != "root" && level < maxShownLevels; level++ {
		if m.ownerOf(queue) != nil && !m.allowsNamespace(queue, namespace) {
			return false
		}
		if !m.options.Tree || m.queues[queue] == nil {
			return true
		}
		queue = m.queues[queue].Spec.Parent
	}
	return true
}

// maxShownLevels ends a walk up a cycle of parents.
const maxShownLevels = 10

// announcedRequests returns what the job of a PodGroup will request: for each card resource the
// larger of card.request and minResources. A Deployment has no card.request. A card.request
// that cannot be parsed keeps the job out of its queue.
func (m *clusterState) announcedRequests(group *v1beta1.PodGroup) []announcedRequest {
	totals, ok, err := cardRequestOf(group)
	if err != nil {
		return nil
	}

	var out []announcedRequest
	sums := map[corev1.ResourceName]int64{}
	for _, total := range totals {
		sums[m.resourceOf(total.Cards)] += total.Count
	}

	least := func(resource corev1.ResourceName) int64 {
		if group.Spec.MinResources == nil || !m.inventory.IsCard(resource) {
			return 0
		}
		quantity := (*group.Spec.MinResources)[resource]
		return quantity.Value()
	}

	for _, total := range totals {
		count := total.Count
		resource := m.resourceOf(total.Cards)
		if sum := sums[resource]; least(resource) > sum && sum > 0 {
			count = (least(resource)*count + sum - 1) / sum
		}
		out = append(out, announcedRequest{names: total.Cards, count: count})
	}

	for _, resource := range slices.Sorted(maps.Keys(ptr.Deref(group.Spec.MinResources, nil))) {
		if sums[resource] == 0 && least(resource) > 0 {
			out = append(out, announcedRequest{names: m.inventory.Cards(resource), count: least(resource)})
		}
	}

	if ok {
		return out
	}

	return m.withStated(group, out)
}

// cardRequestOf returns the card.request of a PodGroup, and whether it has one that counts.
func cardRequestOf(group *v1beta1.PodGroup) (totals []rule.Total, ok bool, err error) {
	text, ok := group.Annotations[v1alpha1.AnnotationCardRequest]
	for _, owner := range group.OwnerReferences {
		ok = ok && owner.Kind != "ReplicaSet"
	}
	if ok {
		totals, err = rule.ParseTotals(text)
	}
	return totals, ok, err
}

// statedRequest is a refusal of cards: the cards, how many the job requests, and the quota.
var statedRequest = regexp.MustCompile(`[Qq]ueue <[^>]*>(?:, an ancestor of <[^>]*>,)? has insufficient <([^>]*)> quota: requested <(\d+)>, total would be <\d+>, but capability is <(\d+)>`)

// withStated returns the requests of a PodGroup without card.request. minResources names no card, and
// that of a vcjob counts no limits. So what the scheduler states of a request of these cards counts, or
// of one that only the templates of a vcjob have. Of cards without quota it names one of many.
func (m *clusterState) withStated(group *v1beta1.PodGroup, announced []announcedRequest) []announcedRequest {
	message := ""
	for _, c := range group.Status.Conditions {
		if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			message = c.Message
		}
	}

	stated := statedRequest.FindStringSubmatch(message)
	if stated == nil {
		return announced
	}

	count, _ := strconv.ParseInt(stated[2], 10, 64)
	refused := announcedRequest{names: strings.Split(stated[1], "|"), count: count}
	for i, a := range announced {
		isPart := !slices.ContainsFunc(refused.names, func(name string) bool { return !slices.Contains(a.names, name) })
		if !isPart {
			continue
		}

		if stated[3] == "0" {
			refused.names = a.names
		}

		rest := announcedRequest{names: a.names, count: a.count - refused.count}
		announced = slices.Replace(slices.Clone(announced), i, i+1, refused)
		if rest.count > 0 {
			announced = slices.Insert(announced, i+1, rest)
		}

		return announced
	}

	if owner := metav1.GetControllerOf(group); owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/") {
		return append(announced, refused)
	}

	return announced
}

// resourceOf returns the resource of the first card that some node has.
func (m *clusterState) resourceOf(names []string) corev1.ResourceName {
	for _, name := range names {
		if resources := m.inventory.ResourcesOf(name); len(resources) > 0 {
			return resources[0]
		}
	}
	return ""
}

// statusDifference returns how a CardQuota and its Queue differ from the expected status, or
// "".
func (m *clusterState) statusDifference(quota *v1alpha1.CardQuota, expected expectation) string {
	said := expectation{}
	for _, entry := range quota.Status.Cards {
		said[entry.Name] = entry
	}

	var wrong []string
	for _, name := range cardNames(expected, said) {
		if withoutPhysical(expected[name]) != withoutPhysical(said[name]) {
			wrong = append(wrong, fmt.Sprintf("status of <%s> is %s, a recount gives %s", name, formatCardStatus(said, name), formatCardStatus(expected, name)))
		}
	}

	cpu, memory := m.usedCPUMemory(quota.QueueName())
	for _, r := range []struct {
		name string
		said *v1alpha1.ResourceStatus
		want *resource.Quantity
	}{{"cpu", quota.Status.CPU, cpu}, {"memory", quota.Status.Memory, memory}} {
		if said := cmp.Or(r.said, &v1alpha1.ResourceStatus{}).Used; said.Cmp(*r.want) != 0 {
			wrong = append(wrong, fmt.Sprintf("status of %s is %s used, a recount gives %s", r.name, said.String(), r.want))
		}
	}

	if queue, ok := m.queues[quota.QueueName()]; !ok {
		wrong = append(wrong, "queue <"+quota.QueueName()+"> does not exist")
	} else if difference := m.allocatedDifference(queue); difference != "" {
		wrong = append(wrong, difference)
	}

	return strings.Join(wrong, "; ")
}

// withoutPhysical leaves of the number of cards on nodes only whether there are any: a status follows no
// other change of it.
func withoutPhysical(entry v1alpha1.CardStatus) v1alpha1.CardStatus {
	entry.Physical = min(entry.Physical, 1)
	return entry
}

func cardNames(a, b expectation) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func formatCardStatus(e expectation, name string) string {
	c, ok := e[name]
	if !ok {
		return "missing"
	}
	return fmt.Sprintf("quota %d used %d pending %d free %d overQuotaBy %d physical %d", c.Quota, c.Used, c.Pending, c.Free, c.OverQuotaBy, c.Physical)
}

// allocatedState is the record of a Queue whose card.allocated is checked without a CardQuota.
type allocatedState struct {
	used string
	waitState
}

// checkAllocated checks card.allocated on the Queues that checkStatus skips. It may be missing
// there, but where it is present, such as on a draining Queue, it must be right.
func (m *clusterState) checkAllocated(now time.Time) []string {
	if m.excused[Status] > 0 {
		return nil
	}

	var open []string
	for name, queue := range m.queues {
		owner := m.ownerOf(name)
		_, written := queue.Annotations[v1alpha1.AnnotationCardAllocated]
		if !written || !m.options.Concerns("queue/"+name) || (owner != nil && owner.DeletionTimestamp == nil) {
			delete(m.allocated, name)
			continue
		}

		state := m.updateAllocated(name, now)
		if wrong := m.allocatedDifference(queue); wrong != "" {
			open = append(open, m.reportOverdue(&state.waitState, Status, "queue/"+name, wrong, m.options.StatusWithin, now)...)
		}
	}

	return open
}

// updateAllocated returns the record of a Queue. It replaces the record when what the pods use may
// have changed.
func (m *clusterState) updateAllocated(queue string, now time.Time) *allocatedState {
	state := m.allocated[queue]
	used := m.usageOf(m.subtreeOf(queue)).Cards.String()
	if state == nil {
		state = &allocatedState{used, waitState{since: now}}
		m.allocated[queue] = state
	}

	if touched := m.touchedSince(queue, state.since); used != state.used || touched.After(state.since) {
		*state = allocatedState{used, waitState{since: touched}}
	}

	return state
}

// usage recounts what the pods of a queue use.
func (m *clusterState) usage(queue string) rule.Usage { return m.usageOf([]string{queue}) }

// usageOf recounts what the pods of some queues use.
func (m *clusterState) usageOf(queues []string) rule.Usage {
	use := rule.Usage{Cards: rule.Quota{}}
	for _, state := range m.pods {
		if state.charge != nil && slices.Contains(queues, state.charge.Queue) {
			use.Add(*state.charge)
		}
	}
	return use
}

// usedCPUMemory recounts the CPU and memory of a queue.
func (m *clusterState) usedCPUMemory(queue string) (cpu, memory *resource.Quantity) {
	use := m.usageOf(m.subtreeOf(queue))
	return resource.NewMilliQuantity(use.MilliCPU, resource.DecimalSI), resource.NewQuantity(use.Memory, resource.BinarySI)
}

// allocatedDifference returns how card.allocated of a Queue differs from a recount, or "".
// Zeros may be written or omitted.
func (m *clusterState) allocatedDifference(queue *v1beta1.Queue) string {
	text := cmp.Or(queue.Annotations[v1alpha1.AnnotationCardAllocated], "{}")
	said, err := rule.ParseQuota(text)
	if err != nil {
		return fmt.Sprintf("%s of queue <%s> cannot be read: %v", v1alpha1.AnnotationCardAllocated, queue.Name, err)
	}
	maps.DeleteFunc(said, func(_ string, n int64) bool { return n == 0 })
	if used := m.usageOf(m.subtreeOf(queue.Name)).Cards; !maps.Equal(said, used) {
		return fmt.Sprintf("%s of queue <%s> is %s, a recount gives %s", v1alpha1.AnnotationCardAllocated, queue.Name, text, used)
	}
	return ""
}
