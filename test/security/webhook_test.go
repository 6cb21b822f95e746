package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	admissionreview "k8s.io/api/admission/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheOpenPortOfTheWebhooks: as installed, the port of the webhooks answers any client of the cluster, without a
// certificate. With a forged review such a client can read who has a queue, and how much is granted. It cannot
// change anything. CardQuota readable grants 8 cards to namespace neighbour (asNeighbour). Tests of cmd/manager show how
// to close the port.
func TestTheOpenPortOfTheWebhooks(t *testing.T) {
	createReadyQuota(t, newCardQuota("readable", asNeighbour))
	for t, tc := range check.Cases(t, map[string]struct {
		path, version, kind string
		object              client.Object
		wantMessage         string
	}{
		"whose queue it is": {"/validate-cardquota", "cardquota.dev/v1alpha1", "CardQuota",
			newCardQuota("made-up", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = "readable" }), "queue readable belongs to CardQuota readable of tenant team"},
		"what others were granted": {"/validate-cardquota", "cardquota.dev/v1alpha1", "CardQuota",
			newCardQuota("made-up", func(q *v1alpha1.CardQuota) {
				q.Spec.OverAllocation = v1alpha1.OverAllocationDeny
				q.Spec.Cards[0].Quota = ptr.To[int64](1_000_000)
			}), "8 by readable"},
		"which namespace may use a queue": {"/validate-workload", "v1", "Pod", newPod("made-up", "readable", nil), "Namespace <tenant> may not use queue <readable>"},
	}) {
		newGomega(t).Eventually(func() string { // when the operator has seen the queue that it wrote
			if answer := sendForgedReview(t, tc.path, tc.version, tc.kind, tc.object); !answer.Allowed {
				return answer.Result.Message
			}
			return ""
		}).Should(ContainSubstring(tc.wantMessage))
		err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(tc.object), tc.object.DeepCopyObject().(client.Object))
		check.That(t, apierrors.IsNotFound(err), "what was made up exists: %v", err)
	}

	live := &v1alpha1.CardQuota{}
	check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Name: "readable"}, live))
	check.Equal(t, "the quota that was read", ptr.To[int64](8), live.Spec.Cards[0].Quota)
}

// sendForgedReview sends a review that does not come from an API server, without a certificate, and
// returns the answer.
func sendForgedReview(t *testing.T, path, version, kind string, object client.Object) *admissionreview.AdmissionResponse {
	gvk := schema.FromAPIVersionAndKind(version, kind)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	raw := check.Value(json.Marshal(object))(t)

	review := &admissionreview.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionreview.AdmissionRequest{UID: types.UID("made-up"), Kind: metav1.GroupVersionKind(gvk), Name: object.GetName(),
			Namespace: object.GetNamespace(), Operation: admissionreview.Create, Object: runtime.RawExtension{Raw: raw}}}
	body := check.Value(json.Marshal(review))(t)

	request := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+webhookAddress(t)+path, bytes.NewReader(body)))(t)
	request.Header.Set("Content-Type", "application/json")
	code, answer, err := sendRequest(request)
	check.NoError(t, err)

	answered := &admissionreview.AdmissionReview{}
	err = json.Unmarshal(answer, answered)
	check.Must(t, err == nil && answered.Response != nil, "%d: no review: %v", code, err)
	return answered.Response
}

// webhookAddress returns the address behind the webhooks' Service.
func webhookAddress(t *testing.T) string {
	slice := &discoveryv1.EndpointSlice{}
	check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "test-process-cardquota-webhook"}, slice))
	return net.JoinHostPort(slice.Endpoints[0].Addresses[0], fmt.Sprint(*slice.Ports[0].Port))
}
