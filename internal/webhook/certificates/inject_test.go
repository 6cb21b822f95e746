package certificates

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTheCAHasOneWriter: while an installation changes over to
// cert-manager, the old pod and cainjector would overwrite each other.
func TestTheCAHasOneWriter(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		annotations map[string]string
		want, error string
	}{
		"ours":           {nil, "authority", ""},
		"cert-manager's": {map[string]string{"cert-manager.io/inject-ca-from": "cards/cardquota-webhook"}, "", "cert-manager writes the CA of"},
	}) {
		configuration := &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName, Annotations: tc.annotations},
			Webhooks:   []admissionv1.ValidatingWebhook{{Name: "a"}, {Name: "b"}},
		}

		self := New("cards")
		self.client = fake.NewClientBuilder().WithObjects(configuration).Build()
		check.Says(t, self.injectCABundles(t.Context(), []byte("authority")), tc.error)
		check.NoError(t, self.client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration))
		for _, webhook := range configuration.Webhooks {
			check.Equal(t, fmt.Sprintf("webhook %s trusts", webhook.Name), tc.want, string(webhook.ClientConfig.CABundle))
		}
	}
}
