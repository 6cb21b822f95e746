package observer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/decision"
)

// answersFor is how long after an eviction a broken gang is its doing.
const answersFor = time.Minute

// judgeGangs checks that no job runs on below minAvailable of which cardreclaim
// took a pod. Volcano's own reclaim takes pods one by one and leaves the rest
// to the policies of the job.
func (m *machine) judgeGangs(now time.Time) []string {
	if m.excused[Eviction] > 0 {
		return nil
	}
	taken := map[types.NamespacedName]bool{}
	for _, e := range m.evictions {
		if e.by == cardReclaim && now.Sub(e.seen) < answersFor && m.options.Concerns(e.victim) {
			taken[e.group] = true
		}
	}
	var open []string
	for key, state := range m.groups {
		running := 0
		if taken[key] {
			running = m.runningOf(key)
		}
		state.below.set(running > 0 && running < int(state.group.Spec.MinMember), now)
		switch {
		case state.below.since.IsZero() || state.below.reported:
		case now.Sub(state.below.since) < m.options.ReasonWithin:
			open = append(open, "podgroup/"+key.String()+" runs below minAvailable after an eviction")
		default:
			state.below.reported = true
			m.report(Eviction, now, "podgroup/"+key.String(), "was left running with %d of %d pods by an eviction (%s) since %s",
				running, state.group.Spec.MinMember, cardReclaim, state.below.since.Format("15:04:05.000"))
		}
	}
	return open
}

// runningOf counts the pods of a PodGroup that have a place.
func (m *machine) runningOf(key types.NamespacedName) int {
	n := 0
	for _, state := range m.pods {
		if state.pod.Namespace == key.Namespace && decision.PodGroupName(state.pod) == key.Name && decision.Counted(state.pod) {
			n++
		}
	}
	return n
}
