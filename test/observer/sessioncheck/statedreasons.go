package sessioncheck

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// The messages of docs/troubleshooting.md. CPU is in millicores, memory in Mi rounded up.
var (
	statedInsufficient = regexp.MustCompile(`[Qq]ueue <([^>]*)>(?:, an ancestor of <[^>]*>,)? has insufficient (<([^>]*)>|CPU|memory) quota: requested <(\d+)(m|Mi)?>, total would be <(\d+)(?:m|Mi)?>, but capability is <(\d+)(?:m|Mi)?>`)
	statedNoCapability = regexp.MustCompile(`Queue <([^>]*)> has no (cpu|memory) capability`)
	statedClosed       = regexp.MustCompile(`Queue <([^>]*)> (does not exist|is [A-Z][a-z]+, not Open)`)
)

// checkPodConditions checks the reasons that a pod states for the first time.
func (j *Checker) checkPodConditions(pod *corev1.Pod, at time.Time) {
	if pod.Spec.SchedulerName != j.options.SchedulerName {
		return
	}
	group := j.state.groups[groupKey(pod)]
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			s := messageSource{object: "pod/" + pod.Namespace + "/" + pod.Name, queue: rule.QueueOf(pod, group, ""), requested: j.requestedCounts(pod, group)}
			j.checkMessage(s, pod.UID, c.Message, at, j.WindowStart(at))
		}
	}
}

// checkGroupConditions checks the reasons that a PodGroup states for the first time.
func (j *Checker) checkGroupConditions(group *v1beta1.PodGroup, at time.Time) {
	for _, c := range group.Status.Conditions {
		if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			s := messageSource{object: "podgroup/" + group.Namespace + "/" + group.Name, queue: rule.QueueOfGroup(group), requested: j.requestedCounts(nil, group), together: true}
			j.checkMessage(s, group.UID, c.Message, at, j.WindowStart(at))
		}
	}
}

// checkBlocked checks the reasons that a CardQuota repeats for its waiting workloads. They
// may be as old as the wait.
func (j *Checker) checkBlocked(quota *v1alpha1.CardQuota, at time.Time) {
	for _, blocked := range quota.Status.Blocked {
		s := messageSource{object: "cardquota/" + quota.Name, queue: quota.QueueName(), together: true}
		j.checkMessage(s, quota.UID, blocked.Message, at, at.Add(-historyPeriod))
	}
}

// messageSource is the object that states a reason, and what the reason may refer to.
type messageSource struct {
	object, queue string
	// requested are the counts that a message may name, nil when any may.
	requested []int64
	// together reports whether a total may be that of several cards or jobs.
	together bool
}

// requestedCounts returns the card counts that a pod or its PodGroup may name: one pod, the
// minimum, and what the PodGroup announces.
func (j *Checker) requestedCounts(pod *corev1.Pod, group *v1beta1.PodGroup) []int64 {
	var asked []int64
	for _, state := range j.state.pods {
		ofGroup := pod == nil && group != nil && groupKey(state.pod) == client.ObjectKeyFromObject(group)
		if !ofGroup && (pod == nil || state.pod.UID != pod.UID) {
			continue
		}

		asked = append(asked, state.request.Count)
		for n := int64(1); group != nil && n <= int64(group.Spec.MinMember); n++ {
			asked = append(asked, n*state.request.Count)
		}
	}

	if group == nil {
		return asked
	}

	return j.addAnnouncedCounts(group, asked)
}

// addAnnouncedCounts adds the counts that a PodGroup announces, and returns nil where any count
// may be named.
func (j *Checker) addAnnouncedCounts(group *v1beta1.PodGroup, asked []int64) []int64 {
	totals, _ := rule.ParseTotals(group.Annotations[v1alpha1.AnnotationCardRequest])
	if len(totals) > 1 {
		return nil // each may share the minimum of its resource
	}
	if owner := metav1.GetControllerOf(group); len(asked) == 0 && owner != nil && owner.Kind == "Job" {
		return nil // the templates of a vcjob count, which nothing here reads
	}

	for _, total := range totals {
		asked = append(asked, total.Count)
	}

	if group.Spec.MinResources != nil {
		for name, quantity := range *group.Spec.MinResources {
			if j.state.inventory.IsCard(name) {
				asked = append(asked, quantity.Value())
			}
		}
	}

	return asked
}

// checkMessage checks every reason in a message that the object did not state before.
func (j *Checker) checkMessage(s messageSource, uid types.UID, text string, at, since time.Time) {
	isNew := func(stated string) bool {
		if j.history.stated[uid] == nil {
			j.history.stated[uid] = map[string]bool{}
		}
		said := j.history.stated[uid][stated]
		j.history.stated[uid][stated] = true
		return !said
	}

	window := j.history.since(since)
	for _, m := range statedInsufficient.FindAllStringSubmatch(text, -1) {
		if isNew(m[0]) {
			j.checkInsufficient(s, m, at, window)
		}
	}

	for _, m := range statedNoCapability.FindAllStringSubmatch(text, -1) {
		wasTrue := func(now moment) bool { return m[1] == s.queue && hasNoCapability(now.limits[m[1]], m[2]) }
		if isNew(m[0]) && !slices.ContainsFunc(window, wasTrue) {
			j.addViolation(Truth, at, s.object, "states %q, which was not so since %s", m[0], window[0].at.Format("15:04:05.000"))
		}
	}

	for _, m := range statedClosed.FindAllStringSubmatch(text, -1) {
		wasTrue := func(now moment) bool { return isClosed(now, m[1], m[2]) }
		if isNew(m[0]) && !slices.ContainsFunc(window, wasTrue) {
			j.addViolation(Truth, at, s.object, "states %q, which was not so since %s", m[0], window[0].at.Format("15:04:05.000"))
		}
	}
}

// hasNoCapability reports whether limits allow no CPU, or no memory.
func hasNoCapability(limits rule.Limits, resource string) bool {
	return (resource == "cpu" && limits.MilliCPU == 0) || (resource == "memory" && limits.Memory == 0)
}

// isClosed reports whether a queue was as stated: missing, or not open.
func isClosed(now moment, queue, how string) bool {
	limits, exists := now.limits[queue]
	if how == "does not exist" {
		return !exists
	}
	return limits.Closed != ""
}

// checkInsufficient checks the stated reason that quota is insufficient: queue, requested count, quota, the
// total, and that it was insufficient. Between the observed moment and the session, some
// waiting pods may have been placed. So the usage lies between what is used, and what is used
// and waited for.
func (j *Checker) checkInsufficient(s messageSource, m []string, at time.Time, window []moment) {
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	queue := m[1]
	names := strings.Split(m[3], "|")
	requested := number(m[4])
	total := number(m[6])
	limit := number(m[7])

	amount := func(now moment) (quota, used, waiting int64) {
		return now.amountsIn(queue, m[2], names)
	}

	wasTrue := func(now moment) bool {
		quota, used, waiting := amount(now)
		return quota == limit && used+max(waiting, requested) > limit
	}

	counted := func(now moment) bool {
		_, used, waiting := amount(now)
		most := used + max(waiting, requested)
		if s.together {
			most = max(most, limit+requested)
		}
		return used+requested <= total && total <= most
	}

	isCards := m[3] != ""
	switch {
	case !slices.Contains(j.state.pathOf(s.queue), queue) && !slices.Contains(j.state.pathOf(queue), s.queue): // a parent repeats what its children state
		j.addViolation(Truth, at, s.object, "states %q, and its queue is <%s>", m[0], s.queue)
	case isCards && s.requested != nil && !slices.Contains(s.requested, requested):
		j.addViolation(Truth, at, s.object, "states %q, and asks for %v", m[0], s.requested)
	case !slices.ContainsFunc(window, wasTrue):
		quota, used, waiting := amount(window[len(window)-1])
		j.addViolation(Truth, at, s.object, "states %q, which was not so since %s: now the quota is %d, %d are used and %d waited for",
			m[0], window[0].at.Format("15:04:05.000"), quota, used, waiting)
	case !slices.ContainsFunc(j.history.moments, counted):
		_, used, waiting := amount(window[len(window)-1])
		j.addViolation(Truth, at, s.object, "states %q, and the total was never that: now %d are used and %d waited for", m[0], used, waiting)
	}
}

// amountsIn returns the quota of a queue, what is used there, and what is waited for: of CPU, of
// memory in Mi, or of some cards together.
func (m *moment) amountsIn(queue, resource string, cards []string) (quota, used, waiting int64) {
	switch resource {
	case "CPU":
		return m.limits[queue].MilliCPU, m.use[queue].milliCPU, m.waiting[queue].milliCPU
	case "memory":
		return roundUpToMi(m.limits[queue].Memory), m.use[queue].memory >> 20, roundUpToMi(m.waiting[queue].memory) + 1
	}

	for _, card := range cards {
		quota += m.limits[queue].Cards[card]
		used += m.use[queue].cards[card]
		waiting += m.waiting[queue].cards[card]
	}

	return quota, used, waiting
}

// roundUpToMi rounds bytes up to Mi.
func roundUpToMi(n int64) int64 {
	if n < 0 {
		return n
	}
	return (n + 1<<20 - 1) >> 20
}
