package certificates

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestTheAuthorityHasOneWriter: while an installation changes over to
// cert-manager, the old pod and cainjector would overwrite each other.
func TestTheAuthorityHasOneWriter(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want, error string
	}{
		"ours":           {nil, "authority", ""},
		"cert-manager's": {map[string]string{"cert-manager.io/inject-ca-from": "cards/cardquota-webhook"}, "", "is cert-manager's to write"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := &admissionv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName, Annotations: tc.annotations},
				Webhooks:   []admissionv1.ValidatingWebhook{{Name: "a"}, {Name: "b"}},
			}
			self := New("cards")
			self.client = fake.NewClientBuilder().WithObjects(configuration).Build()
			err := self.trust(t.Context(), []byte("authority"))
			if (tc.error == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.error) {
				t.Errorf("error %v, want %q", err, tc.error)
			}
			if err := self.client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration); err != nil {
				t.Fatal(err)
			}
			for _, webhook := range configuration.Webhooks {
				if got := string(webhook.ClientConfig.CABundle); got != tc.want {
					t.Errorf("webhook %s trusts %q, want %q", webhook.Name, got, tc.want)
				}
			}
		})
	}
}
