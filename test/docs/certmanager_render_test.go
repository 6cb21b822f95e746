package docs

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cardquota.dev/operator/test/cluster"
)

// TestCertificateFollowsTheNamespace: what config/overlays/cert-manager makes is
// for the Service of the webhooks, wherever config/overlays/existing-volcano has
// put it, and each of its objects finds the next.
func TestCertificateFollowsTheNamespace(t *testing.T) {
	for _, namespace := range []string{cluster.VolcanoNamespace, "cards"} {
		t.Run(namespace, func(t *testing.T) {
			g := NewWithT(t)
			all, err := cluster.Decode([]byte(renderOverlay(t, "cert-manager", "namespace: "+namespace+"\n"))) // kustomize edit set namespace
			g.Expect(err).NotTo(HaveOccurred())
			objects := map[string]*unstructured.Unstructured{}
			for _, object := range all {
				objects[object.GetKind()+"/"+object.GetName()] = object
			}
			at := func(kind, name string, path ...string) any {
				object, there := objects[kind+"/"+name]
				g.Expect(there).To(BeTrue(), "%s %s", kind, name)
				value, there, err := unstructured.NestedFieldNoCopy(object.Object, path...)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(there).To(BeTrue(), "%s %s %v", kind, name, path)
				return value
			}
			chain := []string{"Issuer/cardquota-webhook-selfsigned", "Certificate/cardquota-webhook-ca", "Issuer/cardquota-webhook", "Certificate/cardquota-webhook"}
			for _, name := range append(chain, "Service/cardquota-webhook", "Deployment/cardquota-manager") {
				g.Expect(objects).To(HaveKey(name))
				g.Expect(objects[name].GetNamespace()).To(Equal(namespace), name)
			}
			g.Expect(at("Certificate", "cardquota-webhook-ca", "spec", "issuerRef", "name")).To(Equal("cardquota-webhook-selfsigned"))
			g.Expect(at("Issuer", "cardquota-webhook", "spec", "ca", "secretName")).To(Equal(at("Certificate", "cardquota-webhook-ca", "spec", "secretName")))
			g.Expect(at("Certificate", "cardquota-webhook", "spec", "issuerRef", "name")).To(Equal("cardquota-webhook"))
			service := "cardquota-webhook." + namespace + ".svc"
			g.Expect(at("Certificate", "cardquota-webhook", "spec", "dnsNames")).To(Equal([]any{service, service + ".cluster.local"}))
			volumes := at("Deployment", "cardquota-manager", "spec", "template", "spec", "volumes")
			g.Expect(volumes).To(ContainElement(HaveKeyWithValue("secret",
				HaveKeyWithValue("secretName", at("Certificate", "cardquota-webhook", "spec", "secretName")))))
			for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
				g.Expect(objects).To(HaveKey(kind + "/cardquota"))
				g.Expect(objects[kind+"/cardquota"].GetAnnotations()).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", namespace+"/cardquota-webhook"))
				g.Expect(at(kind, "cardquota", "webhooks")).To(HaveEach(
					HaveKeyWithValue("clientConfig", HaveKeyWithValue("service", HaveKeyWithValue("namespace", namespace)))))
			}
		})
	}
}
