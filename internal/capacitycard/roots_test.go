package capacitycard

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// TestQueuesWithoutAWayToRootStopNobody opens and closes sessions with queues
// on which Volcano itself would panic or never return. A job runs in each.
func TestQueuesWithoutAWayToRootStopNobody(t *testing.T) {
	child := func(name, parent string) *v1beta1.Queue {
		q := quotaQueue(name, `{"NVIDIA-H200":1}`)
		q.UID = types.UID("uid of " + name)
		q.Spec.Parent = parent
		return q
	}
	tests := map[string]struct {
		queues  []*v1beta1.Queue
		adopted []string
	}{
		"a parent that does not exist":  {[]*v1beta1.Queue{child("a", "gone")}, []string{"a"}},
		"its own parent":                {[]*v1beta1.Queue{child("a", "a")}, []string{"a"}},
		"a circle of two":               {[]*v1beta1.Queue{child("a", "b"), child("b", "a")}, []string{"a", "b"}},
		"a child below a circle":        {[]*v1beta1.Queue{child("a", "b"), child("b", "c"), child("c", "b")}, []string{"b", "c"}},
		"a grandchild of nobody":        {[]*v1beta1.Queue{child("a", "b"), child("b", "gone")}, []string{"b"}},
		"a good tree is left alone":     {[]*v1beta1.Queue{child("a", "b"), child("b", "root"), child("c", "")}, nil},
		"a long chain that is all good": {[]*v1beta1.Queue{child("a", "b"), child("b", "c"), child("c", "d"), child("d", "root")}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root := quotaQueue("root", "")
			root.UID = "root"
			var groups []*v1beta1.PodGroup
			var all []*corev1.Pod
			for _, queue := range tc.queues {
				groups = append(groups, group("j-"+queue.Name, queue.Name, 1, "Inqueue", "1"))
				all = append(all, pods(1, "j-"+queue.Name, "1", "NVIDIA-H200", "")...)
			}
			ssn := run(t, &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: append(tc.queues, root), PodGroups: groups, Pods: all,
			}, nil)
			var got []string
			for _, child := range process.adopted {
				want := "root"
				if child.copy.Name == "root" {
					want = ""
				}
				if child.original.Spec.Parent == child.copy.Spec.Parent || child.copy.Spec.Parent != want {
					t.Errorf("queue %s: parent %q, copy's parent %q", child.copy.Name, child.original.Spec.Parent, child.copy.Spec.Parent)
				}
				got = append(got, child.copy.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.adopted) {
				t.Errorf("adopted %v, want %v", got, tc.adopted)
			}
			for _, queue := range tc.queues {
				if got := placed(ssn, "j-"+queue.Name)["h200"]; got != 1 {
					t.Errorf("queue %s: %d pods placed, want its quota of 1", queue.Name, got)
				}
			}
		}) // closing the session is the clean-up of run
	}
}

// TestARootWithAParentStopsNobody: a pod in root makes Volcano look for it.
func TestARootWithAParentStopsNobody(t *testing.T) {
	root := quotaQueue("root", "")
	root.UID, root.Spec.Parent = "root", "nowhere"
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{root, quotaQueue("q", `{"NVIDIA-H200":1}`)},
		PodGroups: []*v1beta1.PodGroup{group("r", "root", 1, "Running", ""), group("j", "q", 1, "Inqueue", "1")},
		Pods:      concat(pods(1, "r", "0", "", "h200"), pods(1, "j", "1", "NVIDIA-H200", "")),
	}, nil)
	if got := placed(ssn, "j")["h200"]; got != 1 || ssn.Queues["root"].Queue.Spec.Parent != "" {
		t.Errorf("%d pods placed, root's parent is %q", got, ssn.Queues["root"].Queue.Spec.Parent)
	}
} // closing the session is the clean-up of run
