package validation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCardRequestsAreValidated: the webhook refuses a request that can never be satisfied as written, in pods
// and in the templates of all kinds. It warns of one that waits, or whose annotation has no effect. A pod
// that a controller creates gets only a warning. Nodes offer NVIDIA-H200, its slices mig-1g.18gb and
// NVIDIA-H800, and huawei.com/Ascend910 without a label that names the card. A wanted text has parts, with
// "…" between them.
func TestCardRequestsAreValidated(t *testing.T) {
	one := amounts{gpu: "1"}

	for t, tc := range check.Cases(t, map[string]struct {
		object                   runtime.Object
		wantRefusal, wantWarning string
	}{
		"a card by name":           {object: newPod(annotationMap{cardName: "NVIDIA-H200"}, one)},
		"two alternatives":         {object: newPod(annotationMap{cardName: "NVIDIA-H200|NVIDIA-H800"}, one)},
		"any card":                 {object: newPod(nil, one)},
		"no card":                  {object: newPod(nil, amounts{"cpu": "1"})},
		"a device that is no card": {object: newPod(nil, amounts{rdma: "1"})},
		"a card name with a space: refused": {
			object:      newPod(annotationMap{cardName: "NVIDIA H200"}, one),
			wantRefusal: `metadata.annotations[volcano.sh/card.name]: Invalid value: "NVIDIA H200": card name "NVIDIA H200"…must be a label value`,
		},
		"an invalid card name without a request: refused": {
			object:      newPod(annotationMap{cardName: "?"}, nil),
			wantRefusal: `card name "?"`,
		},
		"cards and slices in one pod: refused": {
			object:      newPod(nil, amounts{gpu: "1", slice: "1"}),
			wantRefusal: "spec.containers: Forbidden: requests two card resources, nvidia.com/gpu and nvidia.com/mig-1g.18gb…remove the other",
		},
		"the name of a card and the resource of its slices: refused": {
			object:      newPod(annotationMap{cardName: "NVIDIA-H200"}, amounts{slice: "1"}),
			wantRefusal: "names card <NVIDIA-H200>, which is requested as nvidia.com/gpu, but requests nvidia.com/mig-1g.18gb",
		},
		"more than 1,000,000 cards: refused": {
			object:      newPod(nil, amounts{gpu: "1000001"}),
			wantRefusal: "requests more than 1000000 of nvidia.com/gpu",
		},
		"more than 1,000,000 of a card without a name: refused": {
			object:      newPod(nil, amounts{ascend: "1000001"}),
			wantRefusal: "requests more than 1000000 of huawei.com/Ascend910",
		},
		"a card name without a request": {
			object:      newPod(annotationMap{cardName: "NVIDIA-H200"}, nil),
			wantWarning: "metadata.annotations[volcano.sh/card.name]: names card NVIDIA-H200, but the pod requests no card…resources.limits",
		},
		"a card that no node offers": {
			object:      newPod(annotationMap{cardName: "NVIDIA-B300"}, one),
			wantWarning: "names card NVIDIA-B300, which no node offers now: nodes offer NVIDIA-H200, ",
		},
		"a card and a resource that no node offers": {
			object:      newPod(annotationMap{cardName: "NVIDIA-B300"}, amounts{"example.com/card": "1"}),
			wantWarning: "which no node offers as a card; it waits until one does",
		},
		"a resource whose card no label names": {
			object:      newPod(nil, amounts{ascend: "1"}),
			wantWarning: "no node says which card that is…it waits",
		},
		"the total of a job on a pod": {
			object:      newPod(annotationMap{cardRequest: `{}`}, one),
			wantWarning: "metadata.annotations[volcano.sh/card.request]: is read on jobs and PodGroups only",
		},
		"a misspelt annotation": {
			object:      newPod(annotationMap{"volcano.sh/card.card": "x"}, one),
			wantWarning: "metadata.annotations[volcano.sh/card.card]: this annotation is unknown and has no effect: the known ones are volcano.sh/card.quota, ",
		},
		"a Deployment with the name of a card and the resource of its slices: refused": {
			object:      newDeployment(annotationMap{cardName: "NVIDIA-H200"}, amounts{slice: "1"}),
			wantRefusal: "spec.template.spec.containers: Forbidden: names card <NVIDIA-H200>",
		},
		"a misspelt annotation in a template": {
			object:      newDeployment(annotationMap{"volcano.sh/card.nam": "x"}, one),
			wantWarning: "spec.template.metadata.annotations[volcano.sh/card.nam]: this annotation is unknown",
		},
		"the total of a job in a template": {
			object:      newDeployment(annotationMap{cardRequest: `{}`}, one),
			wantWarning: "spec.template.metadata.annotations[volcano.sh/card.request]: has no effect here: write it in metadata.annotations",
		},
		"a Deployment with the card name beside its template: refused": {
			object:      newDeployment(nil, amounts{gpu: "2"}, func(d *appsv1.Deployment) { d.Annotations = annotationMap{cardName: "NVIDIA-H200"} }),
			wantRefusal: "metadata.annotations[volcano.sh/card.name]: Forbidden: has no effect here, so its pods, which request 2 nvidia.com/gpu each…write it in spec.template.metadata.annotations",
		},
		"a Deployment with the card name in and beside its template": {
			object: newDeployment(annotationMap{cardName: "NVIDIA-H200"}, one, func(d *appsv1.Deployment) { d.Annotations = annotationMap{cardName: "NVIDIA-H200"} }),
		},
		"a Deployment without cards and a card name beside its template": {
			object:      newDeployment(nil, nil, func(d *appsv1.Deployment) { d.Annotations = annotationMap{cardName: "NVIDIA-H200"} }),
			wantWarning: "has no effect here: write it in spec.template",
		},
		"an invalid card name in the second task of a vcjob: refused": {
			object:      newVCJob("open", nil, newTask(1, nil, one), newTask(1, annotationMap{cardName: "?"}, one)),
			wantRefusal: "spec.tasks[1].template.metadata.annotations[volcano.sh/card.name]: Invalid value: \"?\": ",
		},
		"an invalid card name in a task of Volcano's CronJob: refused": {
			object:      &vcbatch.CronJob{Spec: vcbatch.CronJobSpec{JobTemplate: vcbatch.JobTemplateSpec{Spec: newVCJob("open", nil, newTask(1, annotationMap{cardName: "?"}, one)).Spec}}},
			wantRefusal: "spec.jobTemplate.spec.tasks[0].template",
		},
		"an invalid card name in a CronJob: refused": {
			object:      &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: newTemplate(annotationMap{cardName: "?"}, one)}}}},
			wantRefusal: "spec.jobTemplate.spec.template",
		},
		"a pod of a ReplicaSet with an invalid card name: only a warning": {
			object:      newPod(annotationMap{cardName: "?"}, one, setReplicaSetAsOwner),
			wantWarning: `card name "?"`,
		},
	}) {
		checkNewWorkload(t, tc.object, newInput(nil), tc.wantRefusal, tc.wantWarning)
	}
}

// TestCardRequestsBeforeNodesAreKnown: the webhook may answer before it has read a node. Then a valid card name only
// causes a warning that no node offers it. An invalid name is refused, as it is when nodes are known.
func TestCardRequestsBeforeNodesAreKnown(t *testing.T) {
	input := newInput(func(w *WorkloadInput) { w.Inventory = card.NewInventory(nil) })

	for t, tc := range check.Cases(t, map[string]struct {
		annotations              annotationMap
		wantRefusal, wantWarning string
	}{
		"a valid name, which waits for a node": {
			annotations: annotationMap{cardName: "NVIDIA-H200"},
			wantWarning: "which no node offers as a card; it waits until one does (no node offers a card yet)",
		},
		"an invalid name: refused": {annotations: annotationMap{cardName: "NVIDIA-H200|"}, wantRefusal: "card name is empty"},
	}) {
		checkNewWorkload(t, newPod(tc.annotations, amounts{gpu: "1"}), input, tc.wantRefusal, tc.wantWarning)
	}
}

// TestUpdatesAreRefusedForNewErrorsOnly: a workload that was created before the webhook, or before a rule, can still be
// changed. Its old error becomes a warning; a new error refuses the change.
func TestUpdatesAreRefusedForNewErrorsOnly(t *testing.T) {
	bad := annotationMap{cardName: "?"}
	other := annotationMap{cardName: "|"}
	good := annotationMap{cardName: "NVIDIA-H200"}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after            annotationMap
		wantRefusal, wantWarning string
	}{
		"the same invalid name":                        {before: bad, after: bad, wantWarning: "as before: "},
		"a valid name becomes invalid: refused":        {before: good, after: bad, wantRefusal: `card name "?"`},
		"an invalid name becomes another one: refused": {before: bad, after: other, wantRefusal: "card name is empty"},
		"an invalid name becomes valid":                {before: bad, after: good},
		"a valid name becomes another one":             {before: good, after: annotationMap{cardName: "NVIDIA-H800"}},
	}) {
		before := workloadFor(t, newDeployment(tc.before, amounts{gpu: "1"}))
		after := workloadFor(t, newDeployment(tc.after, amounts{gpu: "1"}))
		checkAnswer(t, validateNow(t, after, &before, newInput(nil)), tc.wantRefusal, tc.wantWarning)
	}
}

// TestOtherKindsAreNoWorkloads: a kind without pods, such as a Service, has no request to validate.
func TestOtherKindsAreNoWorkloads(t *testing.T) {
	_, ok := WorkloadOf(&corev1.Service{})
	check.That(t, !ok, "a Service is a workload")
}

// TestWarningOfAnUnknownCardSuggestsAName: a pod whose card no node offers waits. The warning says what is likely.
// The name is misspelt and similar to an offered one, or a node withholds the card, because it has more cards than its
// labels say. Or a node's cards have no name (it is unnamed): it is new without labels, or names several models.
func TestWarningOfAnUnknownCardSuggestsAName(t *testing.T) {
	named := card.Node{Model: "NVIDIA-H200", Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: gpu, Count: 8}}}
	unnamed := card.Node{Unnamed: []corev1.ResourceName{gpu}, Anomalies: []card.Anomaly{{Reason: card.NoModelLabel, Resource: gpu, Message: "offers nvidia.com/gpu but no label names it"}}}
	twoModels := card.Node{Unnamed: []corev1.ResourceName{gpu}, Anomalies: []card.Anomaly{{Reason: card.SeveralModels, Message: "names more than one card model: NVIDIA-H20, Tesla-T4"}}}
	onlyNamed := card.NewInventory(map[string]card.Node{"h200": named})
	withNew := card.NewInventory(map[string]card.Node{"h200": named, "new": unnamed})
	withheld := card.Node{Model: "NVIDIA-A10G", Unnamed: []corev1.ResourceName{gpu}, Withheld: []card.NodeCard{{Name: "NVIDIA-A10G", Resource: gpu, Count: 10}},
		Anomalies: []card.Anomaly{{Reason: card.MoreThanLabelled, Resource: gpu, Message: "offers 10 nvidia.com/gpu"}}}

	withA10G := card.NewInventory(map[string]card.Node{"h200": named, "new": unnamed, "a10g": withheld})
	for t, tc := range check.Cases(t, map[string]struct {
		name        string
		inventory   *card.Inventory
		wantWarning string
	}{
		"a name without its vendor, in lower case": {"h200", onlyNamed, "names card h200, which no node offers now: did you mean NVIDIA-H200?"},
		"no similar name, and an unnamed node": {
			name:        "NVIDIA-B300",
			inventory:   withNew,
			wantWarning: "names card NVIDIA-B300, which no node offers now: nodes offer NVIDIA-H200; or it is not named yet (1 node: offers nvidia.com/gpu but no label names it), then it waits until the labels are there",
		},
		"a name without its vendor, and an unnamed node": {"H200", withNew, "did you mean NVIDIA-H200?; or it is not named yet (1 node"},
		"no offered name is similar": {
			name:        "NVIDIA-B300",
			inventory:   onlyNamed,
			wantWarning: "names card NVIDIA-B300, which no node offers now: nodes offer NVIDIA-H200",
		},
		"a node withholds the card": {
			name:        "NVIDIA-A10G",
			inventory:   withA10G,
			wantWarning: "names card NVIDIA-A10G, which no node offers now: 1 node withholds it, such as a10g: offers 10 nvidia.com/gpu",
		},
		"a similar name, and an unnamed node": {
			name:        "NVIDIA-H20",
			inventory:   withNew,
			wantWarning: "names card NVIDIA-H20, which no node offers now: did you mean NVIDIA-H200?; or it is not named yet",
		},
		"a label of an unnamed node has the name: only this node is suggested": {
			name:        "NVIDIA-H20",
			inventory:   card.NewInventory(map[string]card.Node{"h200": named, "a": unnamed, "b": twoModels}),
			wantWarning: "names card NVIDIA-H20, which no node offers now: it is not named yet (1 node: names more than one card model: NVIDIA-H20, Tesla-T4)",
		},
		"no node has a named card": {
			name:        "NVIDIA-H20",
			inventory:   card.NewInventory(map[string]card.Node{"new": unnamed}),
			wantWarning: "names card NVIDIA-H20, which no node offers now: it is not named yet (1 node: offers nvidia.com/gpu but no label names it), then it waits",
		},
		"the first of two alternatives is offered, the second is misspelt": {
			name:        "NVIDIA-H200|h200",
			inventory:   onlyNamed,
			wantWarning: "names card h200, which no node offers now: did you mean NVIDIA-H200?",
		},
	}) {
		checkNewWorkload(t, newPod(annotationMap{cardName: tc.name}, amounts{gpu: "1"}), newInput(func(w *WorkloadInput) { w.Inventory = tc.inventory }), "", tc.wantWarning)
	}
}
