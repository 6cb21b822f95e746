package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// findCertManager returns the path where hack/build-certmanager.sh puts cert-manager.
func findCertManager() (program string, err error) {
	program, err = filepath.Abs("../../bin/certmanager/certmanager")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", errors.Join(errors.New("cert-manager is not built, run hack/build-certmanager.sh"), err)
	}
	return program, nil
}

// startCertManager installs cert-manager's CRDs and runs its controllers as an administrator.
func (e *engineer) startCertManager(program string) {
	files := check.Value(filepath.Glob(filepath.Join(filepath.Dir(program), "crds", "*.yaml")))(e)
	e.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		e.Expect(e.cluster.ApplyFile(e.ctx, file)).To(Succeed())
	}

	e.typeCommands(`kubectl wait crd --all --for=condition=Established --timeout=1m`)
	process := check.Value(e.cluster.StartProcess(e.ctx, cluster.ProcessSpec{Name: "cert-manager", Path: program, Args: []string{e.cluster.Kubeconfig()}}))(e)
	e.Cleanup(func() {
		if !e.Failed() {
			return
		}
		e.ctx = context.WithoutCancel(e.ctx)
		out, err := e.runShell(fmt.Sprintf(`set +e
kubectl get issuers,certificates,certificaterequests -A -o wide
tail -n 40 %s`, process.LogFile()))
		e.Logf("%s\n%v", out, err)
	})
}

// readSecret returns the content of a Secret of cert-manager.
func (e *engineer) readSecret(name string) map[string][]byte {
	secret := &corev1.Secret{}
	e.Expect(e.Get(e.ctx, client.ObjectKey{Namespace: cluster.VolcanoNamespace, Name: name}, secret)).To(Succeed())
	return secret.Data
}

// managerRestarts returns the operator's pods and the restart counts of their containers.
func (e *engineer) managerRestarts() map[types.UID]int32 {
	pods := &corev1.PodList{}
	e.Expect(e.List(e.ctx, pods, client.InNamespace(cluster.VolcanoNamespace), client.MatchingLabels{"app.kubernetes.io/name": "cardquota-manager"})).To(Succeed())
	e.Expect(pods.Items).To(HaveLen(1))
	return map[types.UID]int32{pods.Items[0].UID: pods.Items[0].Status.ContainerStatuses[0].RestartCount}
}

// TestCertificateFollowsTheNamespace: an administrator sets the namespace in one place,
// config/overlays/existing-volcano, and the certificate of config/overlays/cert-manager is for the webhooks'
// Service there. Each object refers to the next: self-signed issuer, CA, issuer, certificate, and the Secret that
// the operator's pod mounts. cert-manager puts the CA into the configurations of both webhooks.
func TestCertificateFollowsTheNamespace(t *testing.T) {
	for _, namespace := range []string{cluster.VolcanoNamespace, "cards"} {
		t.Run(namespace, func(t *testing.T) {
			g := NewWithT(check.Trail(t))
			all := check.Value(cluster.Decode([]byte(renderOverlay(t, "cert-manager", "namespace: "+namespace+"\n"))))(t)

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

			g.Expect(at("Deployment", "cardquota-manager", "spec", "template", "spec", "volumes")).To(ContainElement(HaveKeyWithValue("secret",
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
