package observer

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// allocatedState is what is remembered of a Queue whose card.allocated is
// judged by itself.
type allocatedState struct {
	used     string
	since    time.Time
	reported bool
}

// checkAllocated checks card.allocated on the Queues that judgeStatus does not
// look at: nobody has to write it there, but where it stands, such as on a
// Queue that is being drained, it must be right as well.
func (m *clusterState) checkAllocated(now time.Time) []string {
	if m.excused[Status] > 0 {
		return nil
	}
	var open []string
	for name, queue := range m.queues {
		owner := m.ownerOf(name)
		_, written := queue.Annotations[v1alpha1.AnnotationCardAllocated]
		if !written || !m.options.Concerns("queue/"+name) || owner != nil && owner.DeletionTimestamp == nil {
			delete(m.allocated, name)
			continue
		}
		state, held := m.allocated[name], m.usedCards(name).String()
		if state == nil {
			state = &allocatedState{used: held, since: now}
			m.allocated[name] = state
		}
		if touched := m.numbersChanged[name]; held != state.used || touched.After(state.since) {
			*state = allocatedState{used: held, since: touched}
		}
		wrong := m.allocatedDifference(queue)
		switch {
		case wrong == "" || state.reported:
		case now.Sub(state.since) < m.options.StatusWithin:
			open = append(open, "queue/"+name+": "+wrong)
		default:
			state.reported = true
			m.addViolation(Status, now, "queue/"+name, "since %s: %s", state.since.Format("15:04:05.000"), wrong)
		}
	}
	return open
}

// usedCards recounts the cards of a queue.
func (m *clusterState) usedCards(queue string) rule.Quota { return m.usage(queue).Cards }

// usage recounts what the pods of a queue hold.
func (m *clusterState) usage(queue string) rule.Usage {
	use := rule.Usage{Cards: rule.Quota{}}
	for _, state := range m.pods {
		if state.charge != nil && state.charge.Queue == queue {
			use.Add(*state.charge)
		}
	}
	return use
}

// usedCPUMemory recounts CPU and memory of a queue.
func (m *clusterState) usedCPUMemory(queue string) (cpu, memory *resource.Quantity) {
	use := m.usage(queue)
	return resource.NewMilliQuantity(use.MilliCPU, resource.DecimalSI), resource.NewQuantity(use.Memory, resource.BinarySI)
}

// allocatedDifference says how card.allocated of a Queue differs from a recount,
// "" when it does not. Zeros may be written or left out.
func (m *clusterState) allocatedDifference(queue *v1beta1.Queue) string {
	text := cmp.Or(queue.Annotations[v1alpha1.AnnotationCardAllocated], "{}")
	said, err := rule.ParseQuota(text)
	if err != nil {
		return fmt.Sprintf("%s of queue <%s> cannot be read: %v", v1alpha1.AnnotationCardAllocated, queue.Name, err)
	}
	maps.DeleteFunc(said, func(_ string, n int64) bool { return n == 0 })
	if held := m.usedCards(queue.Name); !maps.Equal(said, held) {
		return fmt.Sprintf("%s of queue <%s> is %s, a recount gives %s", v1alpha1.AnnotationCardAllocated, queue.Name, text, held)
	}
	return ""
}
