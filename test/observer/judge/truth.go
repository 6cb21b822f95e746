package judge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// What is stated, in the words of docs/troubleshooting.md. CPU is in thousandths
// of a core, memory in Mi rounded up.
var (
	statedShort = regexp.MustCompile(`[Qq]ueue <([^>]*)> has insufficient (<([^>]*)>|CPU|memory) quota: requested <(\d+)(m|Mi)?>, total would be <(\d+)(?:m|Mi)?>, but capability is <(\d+)(?:m|Mi)?>`)
	statedNone  = regexp.MustCompile(`Queue <([^>]*)> has no (cpu|memory) capability`)
	statedShut  = regexp.MustCompile(`Queue <([^>]*)> (does not exist|is [A-Z][a-z]+, not Open)`)
)

// judgePodSays checks what a pod states for the first time.
func (j *Judge) judgePodSays(pod *corev1.Pod, at time.Time) {
	if pod.Spec.SchedulerName != j.options.SchedulerName {
		return
	}
	group := j.world.groups[groupOf(pod)]
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			s := statement{object: "pod/" + pod.Namespace + "/" + pod.Name, queue: rule.QueueOf(pod, group, ""), asked: j.askedBy(pod, group)}
			j.judgeText(s, pod.UID, c.Message, at, j.Since(at))
		}
	}
}

// judgeGroupSays checks what a PodGroup states for the first time.
func (j *Judge) judgeGroupSays(group *v1beta1.PodGroup, at time.Time) {
	for _, c := range group.Status.Conditions {
		if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			s := statement{object: "podgroup/" + group.Namespace + "/" + group.Name, queue: rule.QueueOfGroup(group), asked: j.askedBy(nil, group), together: true}
			j.judgeText(s, group.UID, c.Message, at, j.Since(at))
		}
	}
}

// judgeQuotaSays checks what a CardQuota repeats of what waits in its queue. The
// words may be as old as the waiting.
func (j *Judge) judgeQuotaSays(quota *v1alpha1.CardQuota, at time.Time) {
	for _, blocked := range quota.Status.Blocked {
		s := statement{object: "cardquota/" + quota.Name, queue: quota.QueueName(), together: true}
		j.judgeText(s, quota.UID, blocked.Message, at, at.Add(-keptFor))
	}
}

// statement is who states something and what may be meant.
type statement struct {
	object, queue string
	// asked are the counts that may be called requested, nil when any may.
	asked []int64
	// together is set where a total may be that of several cards or jobs.
	together bool
}

// askedBy lists the cards that a pod or its PodGroup asks for: one pod, the
// minimum, and what the PodGroup announces.
func (j *Judge) askedBy(pod *corev1.Pod, group *v1beta1.PodGroup) []int64 {
	var asked []int64
	for _, state := range j.world.pods {
		ofGroup := pod == nil && group != nil && groupOf(state.pod) == client.ObjectKeyFromObject(group)
		if !ofGroup && (pod == nil || state.pod.UID != pod.UID) {
			continue
		}
		asked = append(asked, state.ask.Count)
		for n := int64(1); group != nil && n <= int64(group.Spec.MinMember); n++ {
			asked = append(asked, n*state.ask.Count)
		}
	}
	if group == nil {
		return asked
	}
	return j.announcedBy(group, asked)
}

// announcedBy adds what a PodGroup announces to the counts that may be meant, and
// returns nil where any may.
func (j *Judge) announcedBy(group *v1beta1.PodGroup, asked []int64) []int64 {
	totals, _ := rule.ParseTotals(group.Annotations[v1alpha1.AnnotationCardRequest])
	if len(totals) > 1 {
		return nil // each may share the minimum of its resource
	}
	for _, total := range totals {
		asked = append(asked, total.Count)
	}
	if group.Spec.MinResources != nil {
		for name, quantity := range *group.Spec.MinResources {
			if j.world.inventory.IsCard(name) {
				asked = append(asked, quantity.Value())
			}
		}
	}
	return asked
}

// judgeText judges every statement of a text that the object did not make before.
func (j *Judge) judgeText(s statement, uid types.UID, text string, at, since time.Time) {
	isNew := func(stated string) bool {
		if j.history.said[uid] == nil {
			j.history.said[uid] = map[string]bool{}
		}
		said := j.history.said[uid][stated]
		j.history.said[uid][stated] = true
		return !said
	}
	window := j.history.since(since)
	for _, m := range statedShort.FindAllStringSubmatch(text, -1) {
		if isNew(m[0]) {
			j.judgeShort(s, m, at, window)
		}
	}
	for _, m := range statedNone.FindAllStringSubmatch(text, -1) {
		held := func(now moment) bool { return m[1] == s.queue && hasNone(now.limits[m[1]], m[2]) }
		if isNew(m[0]) && !slices.ContainsFunc(window, held) {
			j.report(Truth, at, s.object, "states %q, which was not so since %s", m[0], window[0].at.Format("15:04:05.000"))
		}
	}
	for _, m := range statedShut.FindAllStringSubmatch(text, -1) {
		held := func(now moment) bool { return isShut(now, m[1], m[2]) }
		if isNew(m[0]) && !slices.ContainsFunc(window, held) {
			j.report(Truth, at, s.object, "states %q, which was not so since %s", m[0], window[0].at.Format("15:04:05.000"))
		}
	}
}

// hasNone reports whether limits allow no CPU, or no memory.
func hasNone(limits rule.Limits, resource string) bool {
	return resource == "cpu" && limits.MilliCPU == 0 || resource == "memory" && limits.Memory == 0
}

// isShut reports whether a queue was as it is said to be: not there, or not open.
func isShut(now moment, queue, how string) bool {
	limits, exists := now.limits[queue]
	if how == "does not exist" {
		return !exists
	}
	return limits.Closed != ""
}

// judgeShort checks a shortage: its queue, what was requested, the quota, that it
// was insufficient, and the total. Between a moment that the observer saw and a
// session some of what waits may have been placed, so what is in use lies between
// what is held and what is held and waited for.
func (j *Judge) judgeShort(s statement, m []string, at time.Time, window []moment) {
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	queue, names, requested, total, limit := m[1], strings.Split(m[3], "|"), number(m[4]), number(m[6]), number(m[7])
	amount := func(now moment) (quota, used, waiting int64) {
		switch m[2] {
		case "CPU":
			return now.limits[queue].MilliCPU, now.use[queue].milliCPU, now.waiting[queue].milliCPU
		case "memory":
			return mebi(now.limits[queue].Memory), now.use[queue].memory >> 20, mebi(now.waiting[queue].memory) + 1
		}
		for _, name := range names {
			quota += now.limits[queue].Cards[name]
			used += now.use[queue].cards[name]
			waiting += now.waiting[queue].cards[name]
		}
		return quota, used, waiting
	}
	held := func(now moment) bool {
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
	case queue != s.queue:
		j.report(Truth, at, s.object, "states %q, and its queue is <%s>", m[0], s.queue)
	case isCards && s.asked != nil && !slices.Contains(s.asked, requested):
		j.report(Truth, at, s.object, "states %q, and asks for %v", m[0], s.asked)
	case !slices.ContainsFunc(window, held):
		quota, used, waiting := amount(window[len(window)-1])
		j.report(Truth, at, s.object, "states %q, which was not so since %s: now the quota is %d, %d are used and %d waited for",
			m[0], window[0].at.Format("15:04:05.000"), quota, used, waiting)
	case !slices.ContainsFunc(j.history.moments, counted):
		_, used, waiting := amount(window[len(window)-1])
		j.report(Truth, at, s.object, "states %q, and the total was never that: now %d are used and %d waited for", m[0], used, waiting)
	}
}

// mebi rounds bytes up to Mi.
func mebi(n int64) int64 {
	if n < 0 {
		return n
	}
	return (n + 1<<20 - 1) >> 20
}
