package validation

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const stopPolicy = v1alpha1.AnnotationStopPolicy

// treeQueues are a tenant with a project for each rule.
func treeQueues(name string) *v1beta1.Queue {
	const (
		deserved = v1alpha1.AnnotationCardDeserved
		selector = v1alpha1.AnnotationNamespaceSelector
	)

	in := map[string]notes{
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

func snapshotWithTree(change func(*WorkloadInput)) func(*WorkloadInput) {
	return func(w *WorkloadInput) {
		w.Queue = treeQueues
		w.HasChildren = func(name string) bool { return name == "tenant" || name == "drained" }
		if change != nil {
			change(w)
		}
	}
}

// TestQueuesOfATree: one line per rule.
func TestQueuesOfATree(t *testing.T) {
	in := func(queue string) runtime.Object { return requested(notes{inQueue: queue}, nil, nil) }

	for t, tc := range check.Cases(t, map[string]struct {
		object           runtime.Object
		scene            func(*WorkloadInput)
		refusal, warning string
	}{
		"a leaf":                     {in("open"), nil, "", ""},
		"a parent":                   {in("tenant"), nil, "metadata.annotations[scheduling.volcano.sh/queue-name]: Forbidden: Queue <tenant> is the parent of other queues and takes no jobs: name one of its children", ""},
		"a job in a parent":          {vcjobOf("tenant", nil, task(1, nil, nil), task(1, nil, nil)), nil, "spec.queue: Forbidden: Queue <tenant> is the parent", ""},
		"a PodGroup in a parent":     {groupOf("tenant"), nil, "spec.queue: Forbidden: Queue <tenant> is the parent", ""},
		"a ReplicaSet's in a parent": {requested(notes{inQueue: "tenant"}, nil, controlled), nil, "", "Queue <tenant> is the parent"},
		"a parent without children":  {in("only-parent"), nil, "Queue <only-parent> is the parent", ""},
		"a held queue":               {in("drained"), func(w *WorkloadInput) { w.HasChildren = func(string) bool { return false } }, "", "Queue <drained> is held by its stop policy"},
		"below a held queue":         {in("below-drained"), nil, "", "Queue <below-drained> (its ancestor <drained>) is held by its stop policy"},
		"held by the operator": {in("drained"), func(w *WorkloadInput) {
			w.Queue = func(name string) *v1beta1.Queue {
				q := treeQueues(name)
				q.Annotations[v1alpha1.AnnotationHoldMessage] = "CardQuota drained: no path"
				return q
			}
			w.HasChildren = func(string) bool { return false }
		}, "", "Queue <drained> is held by the operator: nothing new starts in it; CardQuota drained: no path"},
		"without its parent":         {in("orphan"), nil, "", "Queue <orphan> names parent <gone>, which does not exist"},
		"in a cycle":                 {in("a"), nil, "", "Queue <a> (its ancestor <b>) names parent <a>, which leads back to it"},
		"six levels":                 {in("deep6"), nil, "", ""},
		"seven levels":               {in("deep7"), nil, "", "Queue <deep7> is more than 6 levels below <root>"},
		"a namespace of no ancestor": {in("open"), elsewhere, "Namespace <chat> may not use queue <tenant>…; it is above queue open", ""},
		"a ReplicaSet's there":       {requested(notes{inQueue: "open"}, nil, controlled), elsewhere, "Namespace <chat> may not use queue <tenant>", ""},
		"an unknown namespace":       {in("open"), func(w *WorkloadInput) { w.Namespace = nil }, "", "Namespace <chat> is not known yet"},
		"an inherited quota":         {requested(notes{inQueue: "open", name: "NVIDIA-H200"}, amounts{gpu: "4"}, nil), nil, "", ""},
		"more than inherited":        {requested(notes{inQueue: "open", name: "NVIDIA-H200"}, amounts{gpu: "5"}, nil), nil, "", "requests 5 NVIDIA-H200, but the quota of queue open is 4"},
		"more than the ancestor's":   {requested(notes{inQueue: "drained", name: "NVIDIA-H200"}, amounts{gpu: "5"}, nil), func(w *WorkloadInput) { w.HasChildren = func(string) bool { return false }; w.Queue = withoutHold }, "", "the quota of queue drained is 4"},
		"a total above inherited":    {vcjobOf("open", notes{request: `{"NVIDIA-H200":5}`}, task(5, notes{name: "NVIDIA-H200"}, amounts{gpu: "1"})), nil, "", "requests 5 NVIDIA-H200 in total, but the quota of queue open is 4"},
	}) {
		load, _ := WorkloadOf(tc.object)
		answers(t, judged(t, load, nil, snapshotOf(snapshotWithTree(tc.scene))), tc.refusal, tc.warning)
	}
}

func withoutHold(name string) *v1beta1.Queue {
	q := treeQueues(name)
	delete(q.Annotations, stopPolicy)
	return q
}

// TestFlatQueuesHaveNoParents: while queues are flat, the parent of a queue decides nothing.
func TestFlatQueuesHaveNoParents(t *testing.T) {
	for _, queue := range []string{"tenant", "below-drained", "orphan", "a", "deep7"} {
		load, _ := WorkloadOf(requested(notes{inQueue: queue}, nil, nil))
		answers(t, judged(t, load, nil, snapshotOf(func(w *WorkloadInput) { w.Queue = treeQueues })), "", "")
	}
}

func TestQueueAnnotationsOfATree(t *testing.T) {
	const (
		quota     = v1alpha1.AnnotationCardQuota
		deserved  = v1alpha1.AnnotationCardDeserved
		guarantee = v1alpha1.AnnotationCardGuarantee
	)

	for t, tc := range check.Cases(t, map[string]struct {
		annotations      notes
		refusal, warning string
	}{
		"all of them":         {notes{quota: `{"A":8}`, deserved: `{"A":8,"B":1}`, guarantee: `{"A":2}`, stopPolicy: "Hold", v1alpha1.AnnotationParentOnly: "true"}, "", ""},
		"deserved no JSON":    {notes{deserved: `8`}, `metadata.annotations[volcano.sh/card.deserved]: Invalid value: "8"`, ""},
		"a guarantee of -1":   {notes{guarantee: `{"A":-1}`}, "metadata.annotations[volcano.sh/card.guarantee]: Invalid value", ""},
		"deserved too much":   {notes{quota: `{"A":8}`, deserved: `{"A":9}`}, "", "metadata.annotations[volcano.sh/card.deserved]: A is 9, but volcano.sh/card.quota says 8, which counts"},
		"too large guarantee": {notes{quota: `{"A":8}`, deserved: `{"A":3}`, guarantee: `{"A":4}`}, "", "metadata.annotations[volcano.sh/card.guarantee]: A is 4, but volcano.sh/card.deserved says 3"},
		"an odd stop policy":  {notes{stopPolicy: "hold"}, `metadata.annotations[volcano.sh/stop-policy]: Invalid value: "hold": this stop policy is unknown, and holds the queue: write one of None, Hold, HoldAndDrain`, ""},
		"an odd parent":       {notes{v1alpha1.AnnotationParentOnly: "yes"}, "", `has no effect unless it is "true"`},
	}) {
		answers(t, ValidateQueue(builder.Queue("q").With(func(q *v1beta1.Queue) { q.Annotations = tc.annotations }).Obj(), nil), tc.refusal, tc.warning)
	}
}
