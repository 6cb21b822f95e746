package capacitycard

import (
	"slices"
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
	var runs [][]string
	s.reclaimPolicy().Allocate(func() {
		var names []string
		for _, job := range s.Ssn.Jobs {
			if job.Name == "topology" || job.Name == "borrows" {
				names = append(names, job.Name)
			}
		}
		slices.Sort(names)
		runs = append(runs, names)
		s.Run(allocate.New())
	})
	check.Equal(t, "jobs of each run", [][]string{{"borrows", "topology"}, {"borrows"}}, runs)
}
