package session

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/words"
)

func TestAddDescribesACluster(t *testing.T) {
	c := New(`
		# one node with slices, two with whole cards
		node m model=A mig=1g.18gb cards=4
		node n,o model=B taint=reserved
		queue q quota={"A":2} priority=9 serviceType=inference
		namespace ns team=lab
		job j queue=q min=2 running=n*2,o pending=1 cards=2 card=A|B minCards=4 owner=vcjob age=1h
		job k queue=q min=1 task=ps,pods:1,min:1,cards:0 task=worker,pods:1,min:0 pending=2`)
	check.Equal(t, "nodes", 3, len(c.Nodes))
	check.Equal(t, "slices", "4", c.Nodes[0].Status.Allocatable.Name("nvidia.com/mig-1g.18gb", "").String())
	check.Equal(t, "taint", "reserved", c.Nodes[2].Spec.Taints[0].Key)
	check.Equal(t, "team", "lab", c.Namespaces[0].Labels["team"])

	check.Equal(t, "quota", `{"A":2}`, c.Queues[0].Annotations["volcano.sh/card.quota"])
	check.That(t, !*c.Queues[0].Spec.Reclaimable, "a queue of inference is reclaimable")

	check.Equal(t, "phase", v1beta1.PodGroupRunning, c.Groups[0].Status.Phase)
	check.Equal(t, "phase of a job that waits", v1beta1.PodGroupInqueue, c.Groups[1].Status.Phase)
	check.Equal(t, "node of j-2", "o", c.Pod("j-2").Spec.NodeName)
	check.Equal(t, "phase of j-3", corev1.PodPending, c.Pod("j-3").Status.Phase)
	check.Equal(t, "owner", "Job", c.Pod("j-0").OwnerReferences[0].Kind)
	check.Equal(t, "task", "worker", c.Pod("k-1").Annotations["volcano.sh/task-spec"])
	_, hasCard := c.Pod("k-0").Annotations["volcano.sh/card.name"]
	check.That(t, !hasCard, "a task without cards names one")
}

func TestAddRefusesWrongTexts(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"an unknown verb":            {"pod p", `line 1, "pod p": "pod" is not node, queue, namespace or job`},
		"no name":                    {"node model=A", `line 1, "node model=A": write one name behind the verb`},
		"the old form":               {"job j q 1", `line 1, "job j q 1": write one name behind the verb`},
		"no queue":                   {"job j min=1", `line 1, "job j min=1": the word queue= is missing`},
		"no minimum":                 {"job j queue=q", `line 1, "job j queue=q": the word min= is missing`},
		"no team":                    {"namespace ns", `line 1, "namespace ns": the word team= is missing`},
		"a word of another object":   {"queue q min=1", `line 1, "queue q min=1": unknown word "min=1"`},
		"pods without a node":        {"job j queue=q min=1 running=*2", `line 1, "job j queue=q min=1 running=*2": word "running=*2": "*2" is not NODE or NODE*N`},
		"a task without its numbers": {"job j queue=q min=1 task=ps,pods:1", `line 1, "job j queue=q min=1 task=ps,pods:1": word "task=ps,pods:1": write NAME,pods:N,min:N`},
		"an unknown part of a task":  {"job j queue=q min=1 task=ps,size:1", `line 1, "job j queue=q min=1 task=ps,size:1": word "task=ps,size:1": unknown part "size"`},
	}) {
		err := New("").addLine(words.Lines(tc.text)[0], nil)

		check.That(t, err != nil && err.Error() == tc.want, "error %v, want %q", err, tc.want)
	}
}
