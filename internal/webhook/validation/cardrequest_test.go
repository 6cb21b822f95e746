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

// TestCardRequests: one line per rule. Words are parted by "…".
func TestCardRequests(t *testing.T) {
	one := amounts{gpu: "1"}
	for t, tc := range check.Cases(t, map[string]struct {
		object           runtime.Object
		refusal, warning string
	}{
		"a card that it names":             {requested(notes{name: "NVIDIA-H200"}, one, nil), "", ""},
		"alternatives":                     {requested(notes{name: "NVIDIA-H200|NVIDIA-H800"}, one, nil), "", ""},
		"any card":                         {requested(nil, one, nil), "", ""},
		"no card":                          {requested(nil, amounts{"cpu": "1"}, nil), "", ""},
		"another device":                   {requested(nil, amounts{rdma: "1"}, nil), "", ""},
		"no card name":                     {requested(notes{name: "NVIDIA H200"}, one, nil), `metadata.annotations[volcano.sh/card.name]: Invalid value: "NVIDIA H200": card name "NVIDIA H200"…must be a label value`, ""},
		"no card name and no card":         {requested(notes{name: "?"}, nil, nil), `card name "?"`, ""},
		"two card resources":               {requested(nil, amounts{gpu: "1", slice: "1"}, nil), "spec.containers: Forbidden: requests two card resources, nvidia.com/gpu and nvidia.com/mig-1g.18gb…remove the other", ""},
		"the resource of another card":     {requested(notes{name: "NVIDIA-H200"}, amounts{slice: "1"}, nil), "names card <NVIDIA-H200>, which is requested as nvidia.com/gpu, but requests nvidia.com/mig-1g.18gb", ""},
		"more than any quota":              {requested(nil, amounts{gpu: "1000001"}, nil), "requests more than 1000000 of nvidia.com/gpu", ""},
		"too many of an unnamed card":      {requested(nil, amounts{ascend: "1000001"}, nil), "requests more than 1000000 of huawei.com/Ascend910", ""},
		"a name without a request":         {requested(notes{name: "NVIDIA-H200"}, nil, nil), "", "metadata.annotations[volcano.sh/card.name]: names card NVIDIA-H200, but the pod requests no card…resources.limits"},
		"a card that no node offers yet":   {requested(notes{name: "NVIDIA-B300"}, one, nil), "", "names card NVIDIA-B300, which no node offers now: nodes offer NVIDIA-H200, "},
		"a resource that no node offers":   {requested(notes{name: "NVIDIA-B300"}, amounts{"example.com/card": "1"}, nil), "", "which no node offers as a card; it waits until one does"},
		"a resource that no node names":    {requested(nil, amounts{ascend: "1"}, nil), "", "no node says which card that is…it waits"},
		"a job's total on a pod":           {requested(notes{request: `{}`}, one, nil), "", "metadata.annotations[volcano.sh/card.request]: is read on jobs and PodGroups only"},
		"a misspelt annotation":            {requested(notes{"volcano.sh/card.card": "x"}, one, nil), "", "metadata.annotations[volcano.sh/card.card]: this annotation is unknown and has no effect: the known ones are volcano.sh/card.quota, "},
		"a template with limits only":      {deployment(notes{name: "NVIDIA-H200"}, amounts{slice: "1"}, nil), "spec.template.spec.containers: Forbidden: names card <NVIDIA-H200>", ""},
		"a template's misspelt annotation": {deployment(notes{"volcano.sh/card.nam": "x"}, one, nil), "", "spec.template.metadata.annotations[volcano.sh/card.nam]: this annotation is unknown"},
		"a total in the template":          {deployment(notes{request: `{}`}, one, nil), "", "spec.template.metadata.annotations[volcano.sh/card.request]: has no effect here: write it in metadata.annotations"},
		"a name beside the template":       {deployment(nil, amounts{gpu: "2"}, func(d *appsv1.Deployment) { d.Annotations = notes{name: "NVIDIA-H200"} }), "metadata.annotations[volcano.sh/card.name]: Forbidden: has no effect here, so its pods, which request 2 nvidia.com/gpu each…write it in spec.template.metadata.annotations", ""},
		"a name beside it and in it":       {deployment(notes{name: "NVIDIA-H200"}, one, func(d *appsv1.Deployment) { d.Annotations = notes{name: "NVIDIA-H200"} }), "", ""},
		"a name beside one without cards":  {deployment(nil, nil, func(d *appsv1.Deployment) { d.Annotations = notes{name: "NVIDIA-H200"} }), "", "has no effect here: write it in spec.template"},
		"the second task":                  {vcjobOf("open", nil, task(1, nil, one), task(1, notes{name: "?"}, one)), "spec.tasks[1].template.metadata.annotations[volcano.sh/card.name]: Invalid value: \"?\": ", ""},
		"a Volcano CronJob's task":         {&vcbatch.CronJob{Spec: vcbatch.CronJobSpec{JobTemplate: vcbatch.JobTemplateSpec{Spec: vcjobOf("open", nil, task(1, notes{name: "?"}, one)).Spec}}}, "spec.jobTemplate.spec.tasks[0].template", ""},
		"a CronJob's template":             {&batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: templateOf(notes{name: "?"}, one)}}}}, "spec.jobTemplate.spec.template", ""},
		"what another object made":         {requested(notes{name: "?"}, one, controlled), "", `card name "?"`},
	}) {
		load, ok := WorkloadOf(tc.object)
		check.Must(t, ok, "is no workload")

		answers(t, judged(t, load, nil, snapshotOf(nil)), tc.refusal, tc.warning)
	}
}

// TestNothingIsKnownOfNodes: before nodes were read only what is wrong by itself
// is refused.
func TestNothingIsKnownOfNodes(t *testing.T) {
	scene := snapshotOf(func(w *WorkloadInput) { w.Inventory = card.NewInventory(nil) })
	for t, tc := range check.Cases(t, map[string]struct {
		annotations      notes
		refusal, warning string
	}{
		"good": {notes{name: "NVIDIA-H200"}, "", "which no node offers as a card; it waits until one does (no node offers a card yet)"},
		"bad":  {notes{name: "NVIDIA-H200|"}, "card name is empty", ""},
	}) {
		load, _ := WorkloadOf(requested(tc.annotations, amounts{gpu: "1"}, nil))
		answers(t, judged(t, load, nil, scene), tc.refusal, tc.warning)
	}
}

// TestUpdatesAreRefusedForNewErrorsOnly.
func TestUpdatesAreRefusedForNewErrorsOnly(t *testing.T) {
	bad := notes{name: "?"}
	other := notes{name: "|"}
	good := notes{name: "NVIDIA-H200"}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after    notes
		refusal, warning string
	}{
		"still wrong":          {bad, bad, "", "as before: "},
		"newly wrong":          {good, bad, `card name "?"`, ""},
		"wrong in another way": {bad, other, "card name is empty", ""},
		"corrected":            {bad, good, "", ""},
		"right and new":        {good, notes{name: "NVIDIA-H800"}, "", ""},
	}) {
		before, _ := WorkloadOf(deployment(tc.before, amounts{gpu: "1"}, nil))
		after, _ := WorkloadOf(deployment(tc.after, amounts{gpu: "1"}, nil))
		answers(t, judged(t, after, &before, snapshotOf(nil)), tc.refusal, tc.warning)
	}
}

func TestOtherKindsAreNoWorkloads(t *testing.T) {
	_, ok := WorkloadOf(&corev1.Service{})
	check.That(t, !ok, "a Service is a workload")
}

// TestTheWarningSuggestsAName: a name without the vendor, and a card whose node has no labels yet.
func TestTheWarningSuggestsAName(t *testing.T) {
	named := card.Node{Model: "NVIDIA-H200", Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: gpu, Count: 8}}}
	unnamed := card.Node{Unnamed: []corev1.ResourceName{gpu}, Anomalies: []card.Anomaly{{Reason: card.NoModelLabel, Resource: gpu, Message: "offers nvidia.com/gpu but no label names it"}}}
	twoModels := card.Node{Unnamed: []corev1.ResourceName{gpu}, Anomalies: []card.Anomaly{{Reason: card.SeveralModels, Message: "names more than one card model: NVIDIA-H20, Tesla-T4"}}}
	all := card.NewInventory(map[string]card.Node{"h200": named})
	withNew := card.NewInventory(map[string]card.Node{"h200": named, "new": unnamed})
	withheld := card.Node{Model: "NVIDIA-A10G", Unnamed: []corev1.ResourceName{gpu}, Withheld: []card.NodeCard{{Name: "NVIDIA-A10G", Resource: gpu, Count: 10}},
		Anomalies: []card.Anomaly{{Reason: card.MoreThanLabelled, Resource: gpu, Message: "offers 10 nvidia.com/gpu"}}}

	withShares := card.NewInventory(map[string]card.Node{"h200": named, "new": unnamed, "shares": withheld})
	for t, tc := range check.Cases(t, map[string]struct {
		asked   string
		known   *card.Inventory
		warning string
	}{
		"without the vendor":                     {"h200", all, "names card h200, which no node offers now: did you mean NVIDIA-H200?"},
		"not named yet":                          {"NVIDIA-B300", withNew, "names card NVIDIA-B300, which no node offers now: nodes offer NVIDIA-H200; or it is not named yet (1 node: offers nvidia.com/gpu but no label names it), then it waits until the labels are there"},
		"one of both":                            {"H200", withNew, "did you mean NVIDIA-H200?; or it is not named yet (1 node"},
		"nothing is like it":                     {"NVIDIA-B300", all, "names card NVIDIA-B300, which no node offers now: nodes offer NVIDIA-H200"},
		"withheld":                               {"NVIDIA-A10G", withShares, "names card NVIDIA-A10G, which no node offers now: 1 node withholds it, such as shares: offers 10 nvidia.com/gpu"},
		"not named yet, and another one is near": {"NVIDIA-H20", withNew, "names card NVIDIA-H20, which no node offers now: did you mean NVIDIA-H200?; or it is not named yet"},
		"the label names it":                     {"NVIDIA-H20", card.NewInventory(map[string]card.Node{"h200": named, "a": unnamed, "b": twoModels}), "names card NVIDIA-H20, which no node offers now: it is not named yet (1 node: names more than one card model: NVIDIA-H20, Tesla-T4)"},
		"none is named yet":                      {"NVIDIA-H20", card.NewInventory(map[string]card.Node{"new": unnamed}), "names card NVIDIA-H20, which no node offers now: it is not named yet (1 node: offers nvidia.com/gpu but no label names it), then it waits"},
		"several models":                         {"NVIDIA-H20", card.NewInventory(map[string]card.Node{"h200": named, "new": twoModels}), "it is not named yet (1 node: names more than one card model"},
		"an alternative is fine":                 {"NVIDIA-H200|h200", all, "names card h200, which no node offers now: did you mean NVIDIA-H200?"},
	}) {
		load, _ := WorkloadOf(requested(notes{name: tc.asked}, amounts{gpu: "1"}, nil))
		answers(t, judged(t, load, nil, snapshotOf(func(w *WorkloadInput) { w.Inventory = tc.known })), "", tc.warning)
	}
}
