package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
)

// findMissingWebhooks finds that no webhook configuration of a kind is ours, although the operator is installed and the
// user may read both kinds.
func findMissingWebhooks(c *Cluster) []Finding {
	if !c.HasWebhooks || len(c.Operators) == 0 {
		return nil
	}

	var findings []Finding
	for kind, isMissing := range map[string]bool{"mutatingwebhookconfiguration": len(c.Mutating) == 0, "validatingwebhookconfiguration": len(c.Validating) == 0} {
		if isMissing {
			findings = append(findings, c.addInstallation(Finding{Severity: Error, Object: kind + "/cardquota",
				Problem: "It does not exist, so the API server does not ask the operator. Invalid CardQuotas and workloads are accepted when they are written."}))
		}
	}

	return sortedByObject(findings)
}

// expirySoon is how long before the end of a certificate authority it is reported. The operator and
// cert-manager renew it long before.
const expirySoon = 14 * 24 * time.Hour

// certManagerCertificate returns the certificate of cert-manager, as namespace/name, "" without one.
func (c *Cluster) certManagerCertificate() string {
	for _, configuration := range c.webhookConfigurations() {
		if name := configuration.annotations[v1alpha1.AnnotationInjectCAFrom]; name != "" {
			return name
		}
	}
	return ""
}

// webhookConfiguration is what matters of a configuration of either kind: the authorities of its
// webhooks by name.
type webhookConfiguration struct {
	object      string
	annotations map[string]string
	bundles     map[string][]byte
}

// webhookConfigurations returns our webhook configurations of both kinds.
func (c *Cluster) webhookConfigurations() []webhookConfiguration {
	var all []webhookConfiguration
	for _, object := range c.Validating {
		found := webhookConfiguration{"validatingwebhookconfiguration/" + object.Name, object.Annotations, map[string][]byte{}}
		for _, webhook := range object.Webhooks {
			found.bundles[webhook.Name] = webhook.ClientConfig.CABundle
		}
		all = append(all, found)
	}

	for _, object := range c.Mutating {
		found := webhookConfiguration{"mutatingwebhookconfiguration/" + object.Name, object.Annotations, map[string][]byte{}}
		for _, webhook := range object.Webhooks {
			found.bundles[webhook.Name] = webhook.ClientConfig.CABundle
		}
		all = append(all, found)
	}

	return all
}

// certificateCommand makes the operator renew its certificate, or shows the one of cert-manager or OLM.
func (c *Cluster) certificateCommand() string {
	if command := c.olmCommand(); command != "" {
		return command
	}
	if namespace, name, ok := strings.Cut(c.certManagerCertificate(), "/"); ok {
		return "kubectl -n " + namespace + " describe certificate " + name
	}
	return "kubectl -n " + c.Namespace + " rollout restart deployment cardquota-manager"
}

// findWebhookCertificates finds webhooks of whose certificate authorities none is valid for long.
func findWebhookCertificates(c *Cluster) []Finding {
	var findings []Finding
	for _, configuration := range c.webhookConfigurations() {
		// All webhooks of a configuration usually have one CA, so the same problem is one
		// finding.
		names := map[Finding][]string{}
		for name, bundle := range configuration.bundles {
			if finding := c.checkAuthority(bundle); finding.Problem != "" {
				finding.Object = configuration.object
				names[finding] = append(names[finding], name)
			}
		}

		for finding, names := range names {
			finding.Problem = fmt.Sprintf("Webhook %s: %s", listFirst(names), finding.Problem)
			finding.Command = c.certificateCommand()
			findings = append(findings, finding)
		}
	}

	return sortedByObject(findings)
}

// checkAuthority returns what is wrong with the certificate authorities of a webhook, without a
// problem if one of them stays valid.
func (c *Cluster) checkAuthority(bundle []byte) Finding {
	const consequence = " The API server cannot call the operator, so it refuses CardQuotas and policies, and does not check workloads."
	var last time.Time // when the last authority expires, zero if none can be read
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil && authority.NotAfter.After(last) {
			last = authority.NotAfter
		}
	}

	end := last.UTC().Format(time.DateOnly)
	switch {
	case len(bundle) == 0:
		return Finding{Severity: Error, Problem: "it has no certificate authority." + consequence}
	case last.IsZero():
		return Finding{Severity: Error, Problem: "its certificate authority cannot be read." + consequence}
	case c.Now.After(last):
		return Finding{Severity: Error, Problem: "its certificate authority expired on " + end + "." + consequence}
	case c.Now.Add(expirySoon).After(last):
		return Finding{Severity: Warning, Problem: "its certificate authority expires on " + end + ", and was not renewed."}
	default:
		return Finding{}
	}
}
