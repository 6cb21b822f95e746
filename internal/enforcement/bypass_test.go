package enforcement

import (
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

// The managed fields as the API server writes them: of a pod that a scheduler bound, of one that was created with a
// node name, and of a status.
const (
	boundText  = `{"f:metadata":{"f:labels":{".":{},"f:nodeName":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{}}},"f:schedulerName":{}}}`
	presetText = `{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{}}},"f:nodeName":{},"f:schedulerName":{}}}`
	statusText = `{"f:status":{"f:phase":{}}}`
)

func entry(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

// TestProvenanceIsReadFromManagedFields: the API server records which client has set which field of a pod. A
// scheduler binds a pod by another request, which leaves no record, so a record of nodeName means that its creator
// chose the node. A record that lacks the pod's spec, or cannot be read, counts as removed. The operator keeps only a
// reduced record, which must say the same.
func TestProvenanceIsReadFromManagedFields(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		record []metav1.ManagedFieldsEntry
		want   Provenance
	}{
		"bound by a scheduler": {
			record: []metav1.ManagedFieldsEntry{entry("kubectl", boundText), entry("kubelet", statusText)},
			want:   Provenance{},
		},
		"created with a node name": {
			record: []metav1.ManagedFieldsEntry{entry("kubelet", statusText), entry("kubectl-create", presetText)},
			want:   Provenance{NodeNameSetByCreator: true, Manager: "kubectl-create"},
		},
		"the record was removed": {nil, Provenance{ManagedFieldsRemoved: true}},
		"the record was removed, then a status was written": {
			record: []metav1.ManagedFieldsEntry{entry("kubelet", statusText), {Manager: "x"}},
			want:   Provenance{ManagedFieldsRemoved: true},
		},
		"a record that cannot be read": {
			record: []metav1.ManagedFieldsEntry{entry("x", `{"f:spec":{"f:containers":`)},
			want:   Provenance{ManagedFieldsRemoved: true},
		},
	}) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.record}}
		check.Equal(t, "provenance of the whole record", tc.want, ProvenanceOf(pod))

		// Twice: a cache may hand an object to its transform again.
		for range 2 {
			pod.ManagedFields = ReducedManagedFields(pod)
			check.Equal(t, "provenance of the reduced record", tc.want, ProvenanceOf(pod))
		}

		// All pods share the reduced records, by which they are recognised. A copy has to be read.
		check.Equal(t, "provenance of a copy of the reduced record", tc.want, ProvenanceOf(pod.DeepCopy()))
	}
}

// TestPodsWithCardsThatOurSchedulerDidNotPlaceAreBypasses: such pods use cards without a check of quotas. A pod is
// one if it names another scheduler, or if its creator chose its node, by its record (managedFields). A pod whose
// record was removed is one, too, unless it has the annotation of our scheduler with the charged queue. Only pods
// that run and are not terminating count, and only with cards. The bypass has the cards of the charge, or the
// requested resource where the charge has none. Our scheduler has two names, volcano and volcano-batch. In each row
// pod a requests 2 nvidia.com/gpu, runs on node h200 and was bound by volcano, unless the row says otherwise.
func TestPodsWithCardsThatOurSchedulerDidNotPlaceAreBypasses(t *testing.T) {
	inv := card.NewInventory(map[string]card.Node{
		"h200":    {Model: "NVIDIA-H200", Cards: []card.NodeCard{{Name: "NVIDIA-H200", Resource: "nvidia.com/gpu", Count: 8}}},
		"unnamed": {Unnamed: []corev1.ResourceName{"huawei.com/Ascend910"}},
	})

	chargeOf2 := quota.Charge{Queue: "team", Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 2}}}
	chargedQueue := map[string]string{"cardquota.dev/charged-queue": "team"} // of the binding
	setOtherScheduler := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
	setNodeByCreator := func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl-create", presetText)}
	}
	removeRecord := func(p *corev1.Pod) { p.ManagedFields = nil }
	setChargedQueue := func(p *corev1.Pod) { p.Annotations = chargedQueue }

	requestInstead := func(name corev1.ResourceName) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse("2")}
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		changes []func(*corev1.Pod)
		charge  quota.Charge
		want    string // the reason, "" if the pod is no bypass
		cards   []card.Amount
	}{
		"bound by our scheduler": {charge: chargeOf2},
		"another scheduler": {
			changes: []func(*corev1.Pod){setOtherScheduler},
			charge:  chargeOf2,
			want:    "schedulerName is default-scheduler",
			cards:   chargeOf2.Cards,
		},
		"its creator chose the node": {
			changes: []func(*corev1.Pod){setNodeByCreator},
			charge:  chargeOf2,
			want:    "nodeName was set by kubectl-create",
			cards:   chargeOf2.Cards,
		},
		"its creator chose the node, and another scheduler: the latter is the reason": {
			changes: []func(*corev1.Pod){setNodeByCreator, setOtherScheduler},
			charge:  chargeOf2,
			want:    "schedulerName is default-scheduler",
			cards:   chargeOf2.Cards,
		},
		"the second name of our scheduler": {
			changes: []func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano-batch" }},
			charge:  chargeOf2,
		},
		"the record was removed": {
			changes: []func(*corev1.Pod){removeRecord},
			charge:  chargeOf2,
			want:    "managedFields were removed, so it is unknown who placed it",
			cards:   chargeOf2.Cards,
		},
		"the record was removed, and our scheduler left its annotation": {
			changes: []func(*corev1.Pod){removeRecord, setChargedQueue},
			charge:  chargeOf2,
		},
		"its creator chose the node, and the pod has the annotation of our scheduler": {
			changes: []func(*corev1.Pod){setNodeByCreator, setChargedQueue},
			charge:  chargeOf2,
			want:    "nodeName was set by kubectl-create",
			cards:   chargeOf2.Cards,
		},
		"another scheduler, and the pod has the annotation of ours": {
			changes: []func(*corev1.Pod){setOtherScheduler, removeRecord, setChargedQueue},
			charge:  chargeOf2,
			want:    "schedulerName is default-scheduler",
			cards:   chargeOf2.Cards,
		},
		"another scheduler, no cards": {
			changes: []func(*corev1.Pod){setOtherScheduler, requestInstead("cpu")},
			charge:  quota.Charge{Queue: "team"},
		},
		"another scheduler, not placed yet": {
			changes: []func(*corev1.Pod){setOtherScheduler, func(p *corev1.Pod) { p.Spec.NodeName = "" }},
			charge:  quota.Charge{},
		},
		"another scheduler, finished": {
			changes: []func(*corev1.Pod){setOtherScheduler, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
			charge:  quota.Charge{},
		},
		"another scheduler, terminating": {
			changes: []func(*corev1.Pod){setOtherScheduler, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }},
			charge:  quota.Charge{},
		},
		"another scheduler, charged to no queue": {
			changes: []func(*corev1.Pod){setOtherScheduler},
			charge:  quota.Charge{Cards: chargeOf2.Cards},
			want:    "schedulerName is default-scheduler",
			cards:   chargeOf2.Cards,
		},
		"another scheduler, requests cards that no label names: the resource stands for the card": {
			changes: []func(*corev1.Pod){setOtherScheduler, requestInstead("huawei.com/Ascend910")},
			charge:  quota.Charge{Queue: "team"},
			want:    "schedulerName is default-scheduler",
			cards:   []card.Amount{{Name: "huawei.com/Ascend910", Count: 2}},
		},
		"another scheduler, only an init container requests cards, the charge has none: the resource": {
			changes: []func(*corev1.Pod){setOtherScheduler, func(p *corev1.Pod) {
				p.Spec.InitContainers = p.Spec.Containers
				p.Spec.Containers = []corev1.Container{{}}
			}},
			charge: quota.Charge{Queue: "team"},
			want:   "schedulerName is default-scheduler",
			cards:  []card.Amount{{Name: "nvidia.com/gpu", Count: 2}},
		},
		"another scheduler, only the charge says that the resource is a card": {
			changes: []func(*corev1.Pod){setOtherScheduler, requestInstead("example.com/npu")},
			charge:  chargeOf2,
			want:    "schedulerName is default-scheduler",
			cards:   chargeOf2.Cards,
		},
	}) {
		pod := builder.Pod("lab", "a").UID("a").GPUs(2).Running("h200").Obj()
		pod.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", boundText)}
		for _, change := range tc.changes {
			change(pod)
		}

		var want []Bypass
		if tc.want != "" {
			want = []Bypass{{Pod: "lab/a", Queue: tc.charge.Queue, Cards: tc.cards, Reason: tc.want}}
		}

		got := FindBypasses([]*corev1.Pod{pod}, map[types.UID]quota.Charge{"a": tc.charge}, inv,
			[]string{"volcano", "volcano-batch"}, FirstProvenance{})
		check.Equal(t, "bypasses", want, got)
	}
}

// TestBypassesAreSortedByPod: conditions name the first pods, so the order must not change from one evaluation to the
// next. Pods c, a and b name no scheduler, so they are bypasses.
func TestBypassesAreSortedByPod(t *testing.T) {
	inv := card.NewInventory(nil, "nvidia.com/gpu")
	var pods []*corev1.Pod
	charges := map[types.UID]quota.Charge{}
	for _, name := range []string{"c", "a", "b"} {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{NodeName: "n"},
		})
		charges[types.UID(name)] = quota.Charge{Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}}
	}

	var names []string
	for _, b := range FindBypasses(pods, charges, inv, []string{"volcano"}, FirstProvenance{}) {
		names = append(names, b.Pod)
	}

	check.Equal(t, "order", []string{"lab/a", "lab/b", "lab/c"}, names)
}

// TestNodeNameSetByItsCreatorIsRemembered: a user who may patch the pod can rewrite the record as if a scheduler had
// bound it. The operator remembers which record it read first, so the pod stays a bypass. It forgets a pod that is
// gone: another pod with the same name is judged by its own record.
func TestNodeNameSetByItsCreatorIsRemembered(t *testing.T) {
	inv := card.NewInventory(nil, "nvidia.com/gpu")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab", Name: "a", UID: "a", ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl-create", presetText)},
		},
		Spec: corev1.PodSpec{NodeName: "n", SchedulerName: "volcano"},
	}
	charges := map[types.UID]quota.Charge{"a": {Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}}}
	seen := FirstProvenance{}
	countBypasses := func(pods ...*corev1.Pod) int { return len(FindBypasses(pods, charges, inv, []string{"volcano"}, seen)) }
	check.Equal(t, "bypasses", 1, countBypasses(pod))

	pod.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl-create", boundText)}
	check.Equal(t, "bypasses, the record was rewritten", 1, countBypasses(pod))
	check.Equal(t, "bypasses, the pod is gone", 0, countBypasses())
	check.Equal(t, "remembered pods", 0, len(seen))
	check.Equal(t, "bypasses, a new pod with the rewritten record", 0, countBypasses(pod))
}

// TestTheFirstProvenanceDecides: the record of a pod (managedFields) says who chose its node: a scheduler that binds
// it (bound), or its creator (preset). A user who may patch the pod can rewrite or remove the record (erased). The
// record that the operator read first counts. So a user can neither hide a chosen node afterwards, nor make a bypass
// of a pod that a scheduler bound. If the first record was erased already, the pod counts as a bypass, because these
// pods have no annotation charged-queue that would prove a binding; a later record of a chosen node replaces it. Each
// row reads two records in turn; want is the one that counts.
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

	reasons := map[string]string{
		bound:  "", // no bypass
		preset: "nodeName was set by kubectl-create",
		erased: "managedFields were removed, so it is unknown who placed it",
	}

	inv := card.NewInventory(nil, "nvidia.com/gpu")
	charges := map[types.UID]quota.Charge{"a": {Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}}}
	for _, tc := range []struct{ first, then, want string }{
		{first: bound, then: erased, want: bound},
		{first: bound, then: preset, want: bound},
		{first: preset, then: erased, want: preset},
		{first: preset, then: bound, want: preset},
		{first: erased, then: bound, want: erased},
		{first: erased, then: preset, want: preset},
		{first: bound, then: bound, want: bound},
		{first: erased, then: erased, want: erased},
	} {
		t.Run(tc.first+" then "+tc.then, func(t *testing.T) {
			seen := FirstProvenance{}
			findReason := func(record string, isPlaced bool) string {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "a", UID: "a", ManagedFields: records[record]},
					Spec: corev1.PodSpec{SchedulerName: "volcano"}}
				pod.ManagedFields = ReducedManagedFields(pod)

				if isPlaced {
					pod.Spec.NodeName = "n"
				}
				for _, b := range FindBypasses([]*corev1.Pod{pod}, charges, inv, []string{"volcano"}, seen) {
					return b.Reason
				}
				return ""
			}

			findReason(tc.first, tc.first == preset) // a pod whose creator chose no node is pending at first
			for range 2 {                            // the second evaluation must not remember the changed record
				check.Equal(t, "reason", reasons[tc.want], findReason(tc.then, true))
			}
		})
	}
}
