package handbook

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
			objects := rendered(t, namespace)
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

// rendered are the objects of config/overlays/cert-manager by kind and name, with
// the namespace set as docs/install.md tells.
func rendered(t *testing.T, namespace string) map[string]*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	root, err := cluster.ModuleRoot()
	g.Expect(err).NotTo(HaveOccurred())
	config := t.TempDir()
	g.Expect(os.CopyFS(config, os.DirFS(filepath.Join(root, "config")))).To(Succeed())
	file := filepath.Join(config, "overlays", "existing-volcano", "kustomization.yaml")
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(file, append(text, "namespace: "+namespace+"\n"...), 0o600)).To(Succeed()) // kustomize edit set namespace
	command := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "controlplane", "kubectl"), "kustomize", filepath.Join(config, "overlays", "cert-manager"))
	var problems bytes.Buffer
	command.Stderr = &problems
	text, err = command.Output()
	g.Expect(err).NotTo(HaveOccurred(), problems.String())
	all, err := cluster.Decode(text)
	g.Expect(err).NotTo(HaveOccurred())
	objects := map[string]*unstructured.Unstructured{}
	for _, object := range all {
		objects[object.GetKind()+"/"+object.GetName()] = object
	}
	return objects
}
