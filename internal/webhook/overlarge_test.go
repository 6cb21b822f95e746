package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

type noCards struct{}

func (noCards) Inventory() (*card.Inventory, bool) { return card.NewInventory(nil), true }

func (noCards) TrackedNodes() ([]card.TrackedNode, bool) { return nil, true }

func (noCards) Healthy() map[card.Name]card.Count { return nil }

func (noCards) PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	return read
}

// newHandlers returns handlers that know namespace lab, the policy, if any, and no cards.
func newHandlers(t *testing.T, policy *v1alpha1.ServiceTypePolicy) *handlers {
	scheme := builder.Scheme(t, corev1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, AddToScheme)

	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}}
	if policy != nil {
		policy.Name = v1alpha1.PolicyName
		objects = append(objects, policy)
	}

	scene := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &handlers{cached: scene, live: scene, inventory: noCards{}, scheme: scheme, decoder: admission.NewDecoder(scheme)}
}

// newJobJSON returns a vcjob with so many tasks. Each has two annotations that Cardquota does not know, and validation
// warns of them.
func newJobJSON(tasks int) []byte {
	return []byte(`{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"big"},"spec":{"tasks":[` +
		strings.TrimSuffix(strings.Repeat(`{"name":"t","template":{"metadata":{"annotations":{"volcano.sh/card.x":"","volcano.sh/card.y":""}}}},`, tasks), ",") + `]}}`)
}

// TestAJobTooLargeToRead: a vcjob with tens of thousands of tasks would take hundreds of MiB when it is
// decoded, so it is not read. One with more than 256 tasks is read and not validated. The webhook refuses
// both, or only warns of them: if the job was as large before, without a policy, and where the policy only
// warns. In a job of up to 256 tasks it warns of unknown annotations, and still the answer is small;
// newJobJSON gives two to each task. The webhook that sets defaults changes none of the jobs.
func TestAJobTooLargeToRead(t *testing.T) {
	deny := &v1alpha1.ServiceTypePolicy{}
	warn := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Admission: v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassWarn}}}
	for t, tc := range check.Cases(t, map[string]struct {
		policy      *v1alpha1.ServiceTypePolicy
		now, before int    // tasks after and before the change, 0 before for a new job
		wantRefusal string // "" if the job is allowed
	}{
		"81,000 tasks: refused":                    {policy: deny, now: 81_000, wantRefusal: "has too many parts"},
		"257 tasks: refused":                       {policy: deny, now: 257, wantRefusal: "has more than 256 pod templates"},
		"256 tasks: validated, with warnings":      {policy: deny, now: 256},
		"81,000 tasks as before":                   {policy: deny, now: 81_000, before: 81_000},
		"81,000 tasks instead of 1: refused":       {policy: deny, now: 81_000, before: 1, wantRefusal: "has too many parts"},
		"1 task instead of 81,000":                 {policy: deny, now: 1, before: 81_000},
		"81,000 tasks, no policy":                  {now: 81_000},
		"81,000 tasks, schedulerBypassPolicy Warn": {policy: warn, now: 81_000},
	}) {
		webhooks := newHandlers(t, tc.policy)
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "lab", Name: "big",
			Kind:   metav1.GroupVersionKind{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"},
			Object: runtime.RawExtension{Raw: newJobJSON(tc.now)},
		}}
		if tc.before > 0 {
			req.OldObject.Raw = newJobJSON(tc.before)
		}

		answer := webhooks.validateWorkload(t.Context(), req)
		check.Equal(t, "allowed", tc.wantRefusal == "", answer.Allowed)
		check.Contains(t, "message", answer.Result.Message, tc.wantRefusal)
		check.That(t, len(answer.Warnings)+len(answer.Result.Message) != 0, "neither a warning nor a message")
		text := check.Value(json.Marshal(answer))(t)
		check.That(t, len(text) <= 64<<10, "the answer has %d bytes", len(text))

		if tc.before == 0 {
			defaulted := webhooks.defaultVCJob(t.Context(), req)
			check.That(t, defaulted.Allowed, "the webhook for defaults refuses the job")
			check.Equal(t, "defaults", nil, defaulted.Patches)
		}
	}
}
