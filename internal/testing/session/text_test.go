package session

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/words"
)

// TestAddDescribesACluster: each line of the text adds an object, with the values of its words, of which some
// are checked here. Words that are not written have the defaults that the comments of Add document. A queue
// of inference is not reclaimable. A job with running pods has phase Running, and one without is enqueued
// (Inqueue). running=n*2,o pending=1 are the pods j-0 and j-1 on node n, j-2 on o, and j-3 without a node.
// The tasks of job k take its two pods in turn, and a pod of no cards names no card.
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
	check.Equal(t, "slices of node m", "4", c.Nodes[0].Status.Allocatable.Name("nvidia.com/mig-1g.18gb", "").String())
	check.Equal(t, "taint of node o", "reserved", c.Nodes[2].Spec.Taints[0].Key)
	check.Equal(t, "team of the namespace", "lab", c.Namespaces[0].Labels["team"])

	check.Equal(t, "quota of the queue", `{"A":2}`, c.Queues[0].Annotations["volcano.sh/card.quota"])
	check.Equal(t, "the queue of inference is reclaimable", false, *c.Queues[0].Spec.Reclaimable)

	check.Equal(t, "phase of job j, which has running pods", v1beta1.PodGroupRunning, c.Groups[0].Status.Phase)
	check.Equal(t, "phase of job k, which has none", v1beta1.PodGroupInqueue, c.Groups[1].Status.Phase)
	check.Equal(t, "node of j-2", "o", c.Pod("j-2").Spec.NodeName)
	check.Equal(t, "phase of j-3", corev1.PodPending, c.Pod("j-3").Status.Phase)
	check.Equal(t, "kind of the owner of j-0, a vcjob", "Job", c.Pod("j-0").OwnerReferences[0].Kind)
	check.Equal(t, "task of k-1", "worker", c.Pod("k-1").Annotations["volcano.sh/task-spec"])
	_, hasCardName := c.Pod("k-0").Annotations["volcano.sh/card.name"]
	check.That(t, !hasCardName, "k-0 has no cards, and names one")
}

// TestAddRefusesWrongTexts: a mistake in a text must fail its test, else the test would check another scene. The error
// has the line and what to write.
func TestAddRefusesWrongTexts(t *testing.T) {
	const jobWith = "job j queue=q min=1 "

	for t, tc := range check.Cases(t, map[string]struct{ line, want string }{
		"an unknown verb":             {"pod p", `line 1, "pod p": "pod" is not node, queue, namespace or job`},
		"no name behind the verb":     {"node model=A", `line 1, "node model=A": write one name behind the verb`},
		"three names behind the verb": {"job j q 1", `line 1, "job j q 1": write one name behind the verb`},
		"a job without queue=":        {"job j min=1", `line 1, "job j min=1": the word queue= is missing`},
		"a job without min=":          {"job j queue=q", `line 1, "job j queue=q": the word min= is missing`},
		"a namespace without team=":   {"namespace ns", `line 1, "namespace ns": the word team= is missing`},
		"a word of jobs at a queue":   {"queue q min=1", `line 1, "queue q min=1": unknown word "min=1"`},
		"running pods without a node": {jobWith + "running=*2", `line 1, "` + jobWith + `running=*2": word "running=*2": "*2" is not NODE or NODE*N`},
		"a task without its minimum":  {jobWith + "task=ps,pods:1", `line 1, "` + jobWith + `task=ps,pods:1": word "task=ps,pods:1": write NAME,pods:N,min:N`},
		"a task with an unknown part": {jobWith + "task=ps,size:1", `line 1, "` + jobWith + `task=ps,size:1": word "task=ps,size:1": unknown part "size"`},
	}) {
		check.Equal(t, "error", tc.want, fmt.Sprint(New("").addLine(words.Lines(tc.line)[0], nil)))
	}
}
