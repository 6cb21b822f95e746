package certificates

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCAOfCertManagerIsNotOverwritten: the operator writes the CA of its own certificate into the webhook
// configuration. If the configuration has the annotation of cert-manager, cert-manager's cainjector writes the CA,
// and both would overwrite each other. Then the operator leaves it and returns an error.
func TestCAOfCertManagerIsNotOverwritten(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		annotations       map[string]string
		wantCA, wantError string
	}{
		"without annotations": {wantCA: "authority"},
		"with cert-manager's annotation": {
			annotations: map[string]string{"cert-manager.io/inject-ca-from": "cards/cardquota-webhook"},
			wantError:   "cert-manager writes the CA of",
		},
	}) {
		configuration := &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName, Annotations: tc.annotations},
			Webhooks:   []admissionv1.ValidatingWebhook{{Name: "a"}, {Name: "b"}},
		}

		self := New("cards")
		self.client = fake.NewClientBuilder().WithObjects(configuration).Build()
		check.Says(t, self.injectCABundles(t.Context(), []byte("authority")), tc.wantError)
		check.NoError(t, self.client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration))
		for _, webhook := range configuration.Webhooks {
			check.Equal(t, "CA of webhook "+webhook.Name, tc.wantCA, string(webhook.ClientConfig.CABundle))
		}
	}
}
