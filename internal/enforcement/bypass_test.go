package enforcement

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// The records as the API server writes them: of a pod that was bound, and of
// one that was created with a node name.
const (
	boundText  = `{"f:metadata":{"f:labels":{".":{},"f:nodeName":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{}}},"f:schedulerName":{}}}`
	presetText = `{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{}}},"f:nodeName":{},"f:schedulerName":{}}}`
	statusText = `{"f:status":{"f:phase":{}}}`
)

func entry(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestProvenance(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		record []metav1.ManagedFieldsEntry
		want   Provenance
	}{
		"bound":                        {[]metav1.ManagedFieldsEntry{entry("kubectl", boundText), entry("kubelet", statusText)}, Provenance{}},
		"created with a node name":     {[]metav1.ManagedFieldsEntry{entry("kubelet", statusText), entry("kubectl-create", presetText)}, Provenance{NodeNameSetByCreator: true, Manager: "kubectl-create"}},
		"record taken away":            {nil, Provenance{ManagedFieldsRemoved: true}},
		"record taken away, then more": {[]metav1.ManagedFieldsEntry{entry("kubelet", statusText), {Manager: "x"}}, Provenance{ManagedFieldsRemoved: true}},
		"record that cannot be read":   {[]metav1.ManagedFieldsEntry{entry("x", `{"f:spec":{"f:containers":`)}, Provenance{ManagedFieldsRemoved: true}},
	}) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.record}}
		check.Equal(t, "of the whole record", tc.want, ProvenanceOf(pod))

		// Twice: a cache may hand an object to its transform again.
		for range 2 {
			pod.ManagedFields = ReducedManagedFields(pod)
			check.Equal(t, "of the reduced record", tc.want, ProvenanceOf(pod))
		}

		// What was stored and read again has lost its pointers.
		check.Equal(t, "of a copy of the reduced record", tc.want, ProvenanceOf(pod.DeepCopy()))
	}
}

func TestFindBypasses(t *testing.T) {
	inv := card.NewInventory(map[string]card.Node{
		"h200":    {Model: "NVIDIA-H200", Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: "nvidia.com/gpu", Count: 8}}},
		"unnamed": {Unnamed: []corev1.ResourceName{"huawei.com/Ascend910"}},
	})

	// A pod of ours that was bound to a node and holds two cards, as the charge says.
	proper := func() *corev1.Pod {
		pod := builder.Pod("lab", "a").UID("a").GPUs(2).Running("h200").Obj()
		pod.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", boundText)}
		return pod
	}

	held := quota.Charge{Queue: "team", Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 2}}}
	record := map[string]string{"cardquota.dev/charged-queue": "team"} // of the binding
	elsewhere := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
	preset := func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl-create", presetText)}
	}
	erased := func(p *corev1.Pod) { p.ManagedFields = nil }
	recorded := func(p *corev1.Pod) { p.Annotations = record }

	requests := func(name corev1.ResourceName) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse("2")}
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		changes []func(*corev1.Pod)
		charge  quota.Charge
		// want is the reason, "" when the pod passed our gates.
		want  string
		cards []card.Amount
	}{
		"bound by our scheduler":   {charge: held},
		"another scheduler's":      {[]func(*corev1.Pod){elsewhere}, held, "schedulerName is default-scheduler", held.Cards},
		"node name of its own":     {[]func(*corev1.Pod){preset}, held, "nodeName was set by kubectl-create", held.Cards},
		"both":                     {[]func(*corev1.Pod){preset, elsewhere}, held, "schedulerName is default-scheduler", held.Cards},
		"our second name":          {[]func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano-batch" }}, held, "", nil},
		"record taken away":        {[]func(*corev1.Pod){erased}, held, "managedFields were removed, so it is unknown who placed it", held.Cards},
		"record taken away, bound": {[]func(*corev1.Pod){erased, recorded}, held, "", nil},
		"a record of writers beats that of the binding": {[]func(*corev1.Pod){preset, recorded}, held, "nodeName was set by kubectl-create", held.Cards},
		"another scheduler's with a record":             {[]func(*corev1.Pod){elsewhere, erased, recorded}, held, "schedulerName is default-scheduler", held.Cards},
		"without cards":                                 {[]func(*corev1.Pod){elsewhere, requests("cpu")}, quota.Charge{Queue: "team"}, "", nil},
		"not placed yet":                                {[]func(*corev1.Pod){elsewhere, func(p *corev1.Pod) { p.Spec.NodeName = "" }}, quota.Charge{}, "", nil},
		"finished":                                      {[]func(*corev1.Pod){elsewhere, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }}, quota.Charge{}, "", nil},
		"being deleted":                                 {[]func(*corev1.Pod){elsewhere, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }}, quota.Charge{}, "", nil},
		"of no queue":                                   {[]func(*corev1.Pod){elsewhere}, quota.Charge{Cards: held.Cards}, "schedulerName is default-scheduler", held.Cards},
		"on a node that names no card":                  {[]func(*corev1.Pod){elsewhere, requests("huawei.com/Ascend910")}, quota.Charge{Queue: "team"}, "schedulerName is default-scheduler", []card.Amount{{Name: "huawei.com/Ascend910", Count: 2}}},
		"in an init container": {[]func(*corev1.Pod){elsewhere, func(p *corev1.Pod) {
			p.Spec.InitContainers = p.Spec.Containers
			p.Spec.Containers = []corev1.Container{{}}
		}}, quota.Charge{Queue: "team"}, "schedulerName is default-scheduler", []card.Amount{{Name: "nvidia.com/gpu", Count: 2}}},
		"known as a card by its charge alone": {[]func(*corev1.Pod){elsewhere, requests("example.com/npu")}, held, "schedulerName is default-scheduler", held.Cards},
	}) {
		pod := proper()
		for _, change := range tc.changes {
			change(pod)
		}

		var want []Bypass
		if tc.want != "" {
			want = []Bypass{{Pod: "lab/a", Queue: tc.charge.Queue, Cards: tc.cards, Reason: tc.want}}
		}

		got := FindBypasses([]*corev1.Pod{pod}, map[types.UID]quota.Charge{"a": tc.charge}, inv, []string{"volcano", "volcano-batch"}, FirstProvenance{})
		check.Equal(t, "bypasses", want, got)
	}
}

func TestBypassesAreSorted(t *testing.T) {
	inv := card.NewInventory(nil, "nvidia.com/gpu")
	var pods []*corev1.Pod
	charges := map[types.UID]quota.Charge{}
	for _, name := range []string{"c", "a", "b"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n"}})
		charges[types.UID(name)] = quota.Charge{Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}}
	}

	var names string
	for _, b := range FindBypasses(pods, charges, inv, []string{"volcano"}, FirstProvenance{}) {
		names += b.Pod + " "
	}

	check.Equal(t, "order", "lab/a lab/b lab/c ", names)
}

// TestANodeNameSetByItsCreatorIsRemembered although the record is rewritten as if it never was.
func TestANodeNameSetByItsCreatorIsRemembered(t *testing.T) {
	inv := card.NewInventory(nil, "nvidia.com/gpu")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "a", UID: "a", ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl-create", presetText)}},
		Spec: corev1.PodSpec{NodeName: "n", SchedulerName: "volcano"}}
	charges := map[types.UID]quota.Charge{"a": {Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}}}
	seen := FirstProvenance{}
	look := func(pods ...*corev1.Pod) int { return len(FindBypasses(pods, charges, inv, []string{"volcano"}, seen)) }
	check.Equal(t, "a pod with a node name of its own passes", 1, look(pod))

	pod.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl-create", boundText)}
	check.Equal(t, "a pod whose record was rewritten passes", 1, look(pod))
	look()
	check.That(t, len(seen) == 0, "a pod that is gone is remembered")
	check.Equal(t, "another pod is judged by what is gone", 0, look(pod))
}

// TestTheFirstProvenanceDecides: a user who may patch a pod can rewrite its record, and
// neither hides a node name nor raises an alarm by it.
func TestTheFirstProvenanceDecides(t *testing.T) {
	const (
		bound  = "bound"
		preset = "preset"
		erased = "erased"
	)

	records := map[string][]metav1.ManagedFieldsEntry{
		bound:  {entry("kubectl-create", boundText)},
		preset: {entry("kubectl-create", presetText)},
		erased: {{}}, // kubectl patch --type=merge -p '{"metadata":{"managedFields":[{}]}}'
	}

	whys := map[string]string{
		bound: "", preset: "nodeName was set by kubectl-create",
		erased: "managedFields were removed, so it is unknown who placed it",
	}

	inv := card.NewInventory(nil, "nvidia.com/gpu")
	charges := map[types.UID]quota.Charge{"a": {Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}}}
	for _, tc := range []struct{ first, then, want string }{
		{bound, erased, bound}, {bound, preset, bound},
		{preset, erased, preset}, {preset, bound, preset},
		{erased, bound, erased}, {erased, preset, preset},
		{bound, bound, bound}, {erased, erased, erased},
	} {
		t.Run(tc.first+" then "+tc.then, func(t *testing.T) {
			seen := FirstProvenance{}
			look := func(record string, placed bool) string {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "a", UID: "a", ManagedFields: records[record]},
					Spec: corev1.PodSpec{SchedulerName: "volcano"}}
				pod.ManagedFields = ReducedManagedFields(pod)
				if placed {
					pod.Spec.NodeName = "n"
				}
				for _, b := range FindBypasses([]*corev1.Pod{pod}, charges, inv, []string{"volcano"}, seen) {
					return b.Reason
				}
				return ""
			}

			look(tc.first, tc.first == preset) // what waits is seen as well
			for range 2 {
				check.Equal(t, fmt.Sprintf("a pod whose record was %s and is %s", tc.first, tc.then), whys[tc.want], look(tc.then, true))
			}
		})
	}
}

// TestManyBypassesAreCompared: a schedulerName that an administrator forgot makes bypasses of all running
// pods. Each count compares them with those of the count before.
func TestManyBypassesAreCompared(t *testing.T) {
	all := make([]Bypass, 10_000)
	for i := range all {
		all[i] = Bypass{Pod: fmt.Sprintf("lab/pod-%05d", i), Queue: fmt.Sprint("q", i%20), Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}, Reason: "schedulerName is volcano-prod"}
	}
	before := GroupByQueue(all)
	check.Equal(t, "changed queues", 0, len(ChangedQueues(before, GroupByQueue(slices.Clone(all)))))

	last := slices.Clone(all)
	last[9_999].Reason = "another"
	check.Equal(t, "changed queues", []string{"q19"}, ChangedQueues(before, GroupByQueue(last)))
}
