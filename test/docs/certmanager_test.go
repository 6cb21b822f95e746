package docs

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// TestCertManagerRenewsWithoutARefusedWrite: an administrator who installs with cert-manager, as docs/install.md
// says, can renew the webhooks' certificate and its CA at any time. The running pod of the operator serves the new
// ones, and the API server denies no write of a CardQuota meanwhile. Without cert-manager again, the operator makes
// its own certificate, and nothing of cert-manager is left. The node has 8 cards. The images are built as under
// sudo: their files belong to the user of sudo.
func TestCertManagerRenewsWithoutARefusedWrite(t *testing.T) {
	program, err := findCertManager()
	if err != nil {
		missing.Skip(t, err)
	}

	e := newEngineer(t)
	e.startCertManager(program)
	e.typeCommands("export SUDO_UID=65534 SUDO_GID=65534\n" + e.sectionCommands("README.md", "## On a real cluster")[0]) // builds the images
	e.Expect(e.runShell(`find dist ! -uid 65534 -o ! -gid 65534`)).To(BeEmpty(), "files that do not belong to the user of sudo")
	e.pushImages()
	section := e.sectionCommands("docs/install.md", "### With cert-manager")
	e.Expect(section).To(HaveLen(3), "installation, renewal, without it again")
	e.typeCommands(section[0])

	e.Eventually(func(g Gomega) {
		g.Expect(e.caBundle()).To(Equal(e.readSecret("cardquota-webhook-tls")["ca.crt"]), "in both configurations")
	}).Should(Succeed())
	e.Eventually(func() error { return e.dryRunCardQuota(e.ctx, 1000) }).Should(MatchError(ContainSubstring("spec.cards: Forbidden: spec.overAllocation is Deny: NVIDIA-H200: 1000 granted, 8 healthy"))) // by the webhook alone
	e.Expect(e.dryRunCardQuota(e.ctx, 8)).To(Succeed())
	first := check.Value(e.servingCertificate(e.ctx))(t)
	authority := e.readSecret("cardquota-webhook-tls")["ca.crt"]
	pods := e.managerRestarts()

	// The certificate is renewed, then its CA, while a user writes CardQuotas all the time (dry runs).
	stop := e.dryRunContinuously()
	issued := e.waitUntilIssued("cardquota-webhook")
	e.typeCommands(section[1])
	e.waitUntilReissued("cardquota-webhook", issued)
	second := e.waitUntilCertificateChanged(first)
	e.typeCommands(`kubectl apply --server-side -k config/overlays/cert-manager`) // as an upgrade does
	e.Expect(e.caBundle()).To(Equal(authority), "a renewal and an upgrade keep it")

	e.renewCertificate("cardquota-webhook-ca")
	e.renewCertificate("cardquota-webhook")
	e.Eventually(func(g Gomega) {
		g.Expect(e.caBundle()).To(And(Equal(e.readSecret("cardquota-webhook-tls")["ca.crt"]), Not(Equal(authority))))
	}).Should(Succeed())

	e.waitUntilCertificateChanged(second)
	stop()
	e.Expect(e.managerRestarts()).To(Equal(pods), "nothing restarts")

	// Without cert-manager again.
	authority = check.Value(e.caBundle())(t)
	e.typeCommands(section[2])
	e.Eventually(e.caBundle).Should(And(Not(BeEmpty()), Not(Equal(authority))), "the operator's own")
	e.Eventually(func() error { return e.dryRunCardQuota(e.ctx, 8) }).Should(Succeed())
	e.Eventually(e.certManagerObjects).Should(BeEmpty(), "the garbage collector takes the requests")
	e.waitUntilCertManagerIdle()
	e.Expect(e.certManagerObjects()).To(BeEmpty(), "nothing of cert-manager is left, or came back")
	e.typeCommands(`kubectl apply -f config/samples/training.yaml`)
}

// certManagerObjects returns the objects with which cert-manager issues the webhooks' certificate.
func (e *engineer) certManagerObjects() (string, error) {
	return e.runShell(fmt.Sprintf(`kubectl -n %s get -o name issuers,certificates,certificaterequests 2>&1 | grep -v 'No resources' || true
kubectl -n %[1]s get -o name secrets --ignore-not-found cardquota-webhook-tls cardquota-webhook-ca`, cluster.VolcanoNamespace))
}

// waitUntilCertManagerIdle waits until cert-manager has issued a new Certificate: then it has handled
// earlier deletions.
func (e *engineer) waitUntilCertManagerIdle() {
	e.typeCommands(`kubectl create namespace later
kubectl apply -f - <<'EOF'
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: later, namespace: later}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: later, namespace: later}
spec: {secretName: later, commonName: later, issuerRef: {name: later}}
EOF
kubectl -n later wait certificate later --for=condition=Ready --timeout=2m`)
}

// renewCertificate does the same as cmctl renew, and waits until another certificate is issued.
func (e *engineer) renewCertificate(certificate string) {
	issued := e.waitUntilIssued(certificate)
	e.typeCommands(fmt.Sprintf(`kubectl -n %s patch certificate %s --subresource=status --type=json -p '[{"op":"add","path":"/status/conditions/-","value":
{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"Certificate re-issuance manually triggered"}}]'`,
		cluster.VolcanoNamespace, certificate))
	e.waitUntilReissued(certificate, issued)
}
