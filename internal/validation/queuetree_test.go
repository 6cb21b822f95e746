package validation

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const stopPolicy = v1alpha1.AnnotationStopPolicy

// findTreeQueue returns a queue of a tree. "tenant" is under root with a quota of 4 H200, for namespaces of team chat. Below
// it are "open", which inherits its quota, "drained" with a stop policy, and "only-parent". "below-drained" is below
// drained. The parent of "orphan" does not exist, a and b are each other's parents, and deep1, deep2 … are a chain. The
// quota is 8 of all but tenant and open.
func findTreeQueue(name string) *v1beta1.Queue {
	const (
		deserved = v1alpha1.AnnotationCardDeserved
		selector = v1alpha1.AnnotationNamespaceSelector
	)

	in := map[string]annotationMap{
		"tenant":  {selector: `{"matchLabels":{"team":"chat"}}`},
		"open":    {deserved: `{"NVIDIA-H200":2}`},
		"drained": {stopPolicy: "HoldAndDrain"}, "below-drained": nil,
		"orphan": nil, "a": nil, "b": nil,
		"only-parent": {v1alpha1.AnnotationParentOnly: "true"},
	}

	parents := map[string]string{"tenant": "root", "open": "tenant", "drained": "tenant", "below-drained": "drained", "orphan": "gone", "a": "b", "b": "a", "only-parent": "tenant"}
	annotations, known := in[name]
	parent := parents[name]
	if level := 0; !known {
		if n, err := fmt.Sscanf(name, "deep%d", &level); err != nil || n != 1 {
			return nil
		}
		if level > 1 {
			parent = fmt.Sprint("deep", level-1)
		}
	}

	b := builder.Queue(name).Quota(map[string]string{"open": `{}`, "tenant": `{"NVIDIA-H200":4}`}[name])
	if name != "open" && name != "tenant" {
		b.Quota(`{"NVIDIA-H200":8}`)
	}

	for key, value := range annotations {
		b.Annotation(key, value)
	}

	return b.Parent(parent).Obj()
}

func withTree(change func(*WorkloadInput)) func(*WorkloadInput) {
	return func(w *WorkloadInput) {
		w.Queue = findTreeQueue
		w.Tree = func(queue *v1beta1.Queue) *quota.Tree { return treeOfPath(queue, "open", "below-drained") }
		if change != nil {
			change(w)
		}
	}
}

// setNoChildren makes the queue of the workload a leaf.
func setNoChildren(w *WorkloadInput) {
	w.Tree = func(queue *v1beta1.Queue) *quota.Tree { return treeOfPath(queue) }
}

// treeOfPath returns the tree of a queue, of those above it and of some others.
func treeOfPath(queue *v1beta1.Queue, others ...string) *quota.Tree {
	var queues []*v1beta1.Queue
	// a and b are each other's parents.
	for at := queue; at != nil && len(queues) < 10; at = findTreeQueue(at.Spec.Parent) {
		queues = append(queues, at)
	}
	for _, name := range others {
		queues = append(queues, findTreeQueue(name))
	}
	return workload.TreeOf(queues, v1alpha1.UnmanagedEnforce)
}

// TestWorkloadsInATreeOfQueues: in a tree only leaves take work, and all queues of the path to root must allow it: their
// namespaces and quotas count too. The webhook refuses workloads in parents and in queues of other namespaces. It warns
// where the workload waits: for a held queue, a broken path, or more quota. A pod of a ReplicaSet gets only a warning,
// except for its namespace. findTreeQueue has the tree: parent tenant with a quota of 4 H200 for team chat. Below it are
// open, which inherits that quota, only-parent, and drained with a stop policy and the child below-drained. The parent of
// orphan does not exist, a and b name each other, deep1 to deep7 are a chain. With setNoChildren each queue is a leaf.
func TestWorkloadsInATreeOfQueues(t *testing.T) {
	newPodIn := func(queue string) runtime.Object { return newPod(annotationMap{queueName: queue}, nil) }

	for t, tc := range check.Cases(t, map[string]struct {
		object                   runtime.Object
		changeInput              func(*WorkloadInput)
		wantRefusal, wantWarning string
	}{
		"a pod in a leaf": {object: newPodIn("open")},
		"a pod in a parent: refused": {
			object:      newPodIn("tenant"),
			wantRefusal: "metadata.annotations[scheduling.volcano.sh/queue-name]: Forbidden: Queue <tenant> is the parent of other queues and takes no jobs: name one of its children",
		},
		"a vcjob of two tasks in a parent: refused once": {
			object:      newVCJob("tenant", nil, newTask(1, nil, nil), newTask(1, nil, nil)),
			wantRefusal: "spec.queue: Forbidden: Queue <tenant> is the parent",
		},
		"a PodGroup in a parent: refused": {
			object:      newPodGroup("tenant"),
			wantRefusal: "spec.queue: Forbidden: Queue <tenant> is the parent",
		},
		"a pod of a ReplicaSet in a parent: only a warning": {
			object:      newPod(annotationMap{queueName: "tenant"}, nil, setReplicaSetAsOwner),
			wantWarning: "Queue <tenant> is the parent",
		},
		"a pod in a queue that is only a parent and has no children: refused": {
			object:      newPodIn("only-parent"),
			wantRefusal: "Queue <only-parent> is the parent",
		},
		"a queue with a stop policy": {
			object:      newPodIn("drained"),
			changeInput: setNoChildren,
			wantWarning: "Queue <drained> is held by its stop policy",
		},
		"a queue below one with a stop policy": {
			object:      newPodIn("below-drained"),
			wantWarning: "Queue <below-drained> (its ancestor <drained>) is held by its stop policy",
		},
		"a queue that the operator holds": {
			object: newPodIn("drained"),
			changeInput: func(w *WorkloadInput) {
				w.Queue = func(name string) *v1beta1.Queue {
					q := findTreeQueue(name)
					q.Annotations[v1alpha1.AnnotationHoldMessage] = "CardQuota drained: no path"
					return q
				}
				setNoChildren(w)
			},
			wantWarning: "Queue <drained> is held by the operator: nothing new starts in it; CardQuota drained: no path",
		},
		"a queue whose parent does not exist": {
			object:      newPodIn("orphan"),
			wantWarning: "Queue <orphan> names parent <gone>, which does not exist",
		},
		"a queue in a cycle of parents": {
			object:      newPodIn("a"),
			wantWarning: "Queue <a> (its ancestor <b>) names parent <a>, which leads back to it",
		},
		"a queue six levels below root":   {object: newPodIn("deep6")},
		"a queue seven levels below root": {object: newPodIn("deep7"), wantWarning: "Queue <deep7> is more than 6 levels below <root>"},
		"a namespace that the queue's parent does not take: refused": {
			object:      newPodIn("open"),
			changeInput: setOtherTeam,
			wantRefusal: "Namespace <chat> may not use queue <tenant>…; it is above queue open",
		},
		"a pod of a ReplicaSet, in a namespace that the queue's parent does not take: refused": {
			object:      newPod(annotationMap{queueName: "open"}, nil, setReplicaSetAsOwner),
			changeInput: setOtherTeam,
			wantRefusal: "Namespace <chat> may not use queue <tenant>",
		},
		"the webhook does not know the namespace yet": {
			object:      newPodIn("open"),
			changeInput: func(w *WorkloadInput) { w.Namespace = nil },
			wantWarning: "Namespace <chat> is not known yet",
		},
		"4 cards, as many as the parent's quota": {
			object: newPod(annotationMap{queueName: "open", cardName: "NVIDIA-H200"}, amounts{gpu: "4"}),
		},
		"5 cards, the queue inherits the parent's quota of 4": {
			object:      newPod(annotationMap{queueName: "open", cardName: "NVIDIA-H200"}, amounts{gpu: "5"}),
			wantWarning: "requests 5 NVIDIA-H200, but the quota of queue open is 4",
		},
		"5 cards, the queue has a quota of 8, its parent of 4": {
			object: newPod(annotationMap{queueName: "drained", cardName: "NVIDIA-H200"}, amounts{gpu: "5"}),
			changeInput: func(w *WorkloadInput) { // drained without children and without its stop policy
				setNoChildren(w)
				w.Queue = findTreeQueueWithoutHold
			},
			wantWarning: "the quota of queue drained is 4",
		},
		"a vcjob of 5 cards, the queue inherits a quota of 4": {
			object:      newVCJob("open", annotationMap{cardRequest: `{"NVIDIA-H200":5}`}, newTask(5, annotationMap{cardName: "NVIDIA-H200"}, amounts{gpu: "1"})),
			wantWarning: "requests 5 NVIDIA-H200 in total, but the quota of queue open is 4",
		},
	}) {
		checkNewWorkload(t, tc.object, newInput(withTree(tc.changeInput)), tc.wantRefusal, tc.wantWarning)
	}
}

func findTreeQueueWithoutHold(name string) *v1beta1.Queue {
	q := findTreeQueue(name)
	delete(q.Annotations, stopPolicy)
	return q
}

// TestFlatQueuesHaveNoParents: while the policy says that queues are flat, the parent that a Queue names decides
// nothing. In a tree the webhook refuses a pod in each of these queues, or warns of it. While queues are flat it does
// neither. Queue tenant is a parent, and below-drained is below a held queue. The parent of orphan does not exist, a is in
// a cycle, and deep7 is too deep.
func TestFlatQueuesHaveNoParents(t *testing.T) {
	for _, queue := range []string{"tenant", "below-drained", "orphan", "a", "deep7"} {
		checkNewWorkload(t, newPod(annotationMap{queueName: queue}, nil), newInput(func(w *WorkloadInput) { w.Queue = findTreeQueue }), "", "")
	}
}

// TestQueueAnnotationsOfATreeAreValidated: users may write the amounts of a tree into Queues themselves. The webhook refuses
// what cannot be read, and warns of amounts that do not count as written.
func TestQueueAnnotationsOfATreeAreValidated(t *testing.T) {
	const (
		quota     = v1alpha1.AnnotationCardQuota
		deserved  = v1alpha1.AnnotationCardDeserved
		guarantee = v1alpha1.AnnotationCardGuarantee
	)

	for t, tc := range check.Cases(t, map[string]struct {
		annotations              annotationMap
		wantRefusal, wantWarning string
	}{
		"all annotations, and B without a quota of its own, so the parent's may allow it": {
			annotations: annotationMap{quota: `{"A":8}`, deserved: `{"A":8,"B":1}`, guarantee: `{"A":2}`, stopPolicy: "Hold", v1alpha1.AnnotationParentOnly: "true"},
		},
		"deserved is not JSON: refused": {
			annotations: annotationMap{deserved: `8`},
			wantRefusal: `metadata.annotations[volcano.sh/card.deserved]: Invalid value: "8"`,
		},
		"a negative guarantee: refused": {
			annotations: annotationMap{guarantee: `{"A":-1}`},
			wantRefusal: "metadata.annotations[volcano.sh/card.guarantee]: Invalid value",
		},
		"deserved 9 of a quota of 8": {
			annotations: annotationMap{quota: `{"A":8}`, deserved: `{"A":9}`},
			wantWarning: "metadata.annotations[volcano.sh/card.deserved]: A is 9, but volcano.sh/card.quota says 8, which counts",
		},
		"a guarantee of 4, deserved 3": {
			annotations: annotationMap{quota: `{"A":8}`, deserved: `{"A":3}`, guarantee: `{"A":4}`},
			wantWarning: "metadata.annotations[volcano.sh/card.guarantee]: A is 4, but volcano.sh/card.deserved says 3",
		},
		"an unknown stop policy: refused": {
			annotations: annotationMap{stopPolicy: "hold"},
			wantRefusal: `metadata.annotations[volcano.sh/stop-policy]: Invalid value: "hold": this stop policy is unknown, and holds the queue: write one of None, Hold, HoldAndDrain`,
		},
		`parent-only is not "true"`: {
			annotations: annotationMap{v1alpha1.AnnotationParentOnly: "yes"},
			wantWarning: `has no effect unless it is "true"`,
		},
	}) {
		checkAnswer(t, ValidateQueue(builder.Queue("q").With(func(q *v1beta1.Queue) { q.Annotations = tc.annotations }).Obj(), nil), tc.wantRefusal, tc.wantWarning)
	}
}
