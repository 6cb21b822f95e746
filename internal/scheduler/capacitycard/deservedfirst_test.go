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
	s := newTreeScene(t, `node a model=A cards=6; queue x quota={"A":8} serviceType=training deserved={"A":2}; queue y quota={"A":8} serviceType=training deserved={"A":4}
		job borrows queue=x min=1 pending=3; job topology queue=y min=4 pending=4 card=A; job more queue=x min=1 running=a*2`)

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
