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

// handlersOf know namespace lab and the policy, if any.
func handlersOf(t *testing.T, policy *v1alpha1.ServiceTypePolicy) *handlers {
	scheme := builder.Scheme(t, corev1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, AddToScheme)

	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}}
	if policy != nil {
		policy.Name = v1alpha1.PolicyName
		objects = append(objects, policy)
	}

	scene := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &handlers{cached: scene, live: scene, inventory: noCards{}, scheme: scheme, decoder: admission.NewDecoder(scheme)}
}

// jobOf is a vcjob with so many tasks.
func jobOf(tasks int) []byte {
	return []byte(`{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"big"},"spec":{"tasks":[` +
		strings.TrimSuffix(strings.Repeat(`{"name":"t","template":{"metadata":{"annotations":{"volcano.sh/card.x":"","volcano.sh/card.y":""}}}},`, tasks), ",") + `]}}`)
}

// TestAJobTooLargeToRead: it is refused without being read, and costs no
// memory.
func TestAJobTooLargeToRead(t *testing.T) {
	deny := &v1alpha1.ServiceTypePolicy{}
	warn := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Admission: v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassWarn}}}
	for t, tc := range check.Cases(t, map[string]struct {
		policy      *v1alpha1.ServiceTypePolicy
		now, before int
		refusal     string
	}{
		"large":                        {deny, 81_000, 0, "has too many parts"},
		"many tasks":                   {deny, 257, 0, "has more than 256 pod templates"},
		"as many as are looked at":     {deny, 256, 0, ""},
		"was as large":                 {deny, 81_000, 81_000, ""},
		"was small":                    {deny, 81_000, 1, "has too many parts"},
		"was large":                    {deny, 1, 81_000, "-"},
		"without a policy":             {nil, 81_000, 0, ""},
		"where nothing is refused yet": {warn, 81_000, 0, ""},
	}) {
		h := handlersOf(t, tc.policy)
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "lab", Name: "big",
			Kind: metav1.GroupVersionKind{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job"}, Object: runtime.RawExtension{Raw: jobOf(tc.now)}}}
		if tc.before > 0 {
			req.OldObject.Raw = jobOf(tc.before)
		}

		answer := h.validateWorkload(t.Context(), req)
		switch tc.refusal {
		case "-": // it has become better
			check.That(t, answer.Allowed, "refused: %s", answer.Result.Message)
			continue
		case "":
			check.That(t, answer.Allowed, "refused: %s", answer.Result.Message)
		default:
			check.That(t, !answer.Allowed && strings.Contains(answer.Result.Message, tc.refusal), "answer %+v, want %q", answer.Result, tc.refusal)
		}

		check.That(t, len(answer.Warnings)+len(answer.Result.Message) != 0, "the answer has no warning and no message")
		text, err := json.Marshal(answer)
		check.That(t, err == nil && len(text) <= 64<<10, "the answer has %d bytes (%v)", len(text), err)
		if tc.before == 0 {
			completed := h.defaultVCJob(t.Context(), req)
			check.That(t, completed.Allowed && len(completed.Patches) == 0, "the job is completed by %v", completed.Patches)
		}
	}
}
