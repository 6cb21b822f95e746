package capacitycard

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"

	"cardquota.dev/operator/internal/testing/check"
)

// TestSecondRunTriesOnlyJobsThatBorrow: a job with subgroups that need not borrow is searched once,
// because each search of such a job tries all hypernodes. It keeps the reasons of that search.
func TestSecondRunTriesOnlyJobsThatBorrow(t *testing.T) {
	s := newTreeScene(t, `node a A 6; queue x {"A":8} training deserved={"A":2}; queue y {"A":8} training deserved={"A":4}
		borrows x 1: -*3; topology y 4: -*4 card=A; more x 1: a*2`)

	s.changePodGroups(func(g *v1beta1.PodGroup) {
		if g.Name == "topology" {
			g.Spec.SubGroupPolicy = []v1beta1.SubGroupPolicySpec{{Name: "w"}}
		}
	})
	s.openSession()

	tried := map[string]int{}
	s.reclaimPolicy().Allocate(func() {
		for _, job := range s.Ssn.Jobs {
			tried[job.Name]++
		}
		s.Run(allocate.New())
	})
	check.Equal(t, "how often each job is tried", map[string]int{"borrows": 2, "topology": 1}, tried)
}
