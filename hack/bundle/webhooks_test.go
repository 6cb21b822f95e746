package main

import (
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestTheBundleHasTheWebhooksOfConfig: OLM registers webhooks from the CSV (ClusterServiceVersion). They must
// be those of config/webhook, with the same rules, policies and paths. OLM's Service has port 443 for them,
// which leads to port 9443 of the operator's Deployment. OLM supports no matchConditions, so the bundle has
// none. The test reads config/webhook without the code of the generator, whose mistakes it would repeat.
func TestTheBundleHasTheWebhooksOfConfig(t *testing.T) {
	port := intstr.FromInt32(9443)
	var want []v1alpha1.WebhookDescription
	for _, object := range configObjects(t, "webhook/manifests.yaml") {
		kind := map[any]v1alpha1.WebhookAdmissionType{
			"ValidatingWebhookConfiguration": v1alpha1.ValidatingAdmissionWebhook,
			"MutatingWebhookConfiguration":   v1alpha1.MutatingAdmissionWebhook,
		}[object["kind"]]

		// A mutating webhook has all fields that a validating one has.
		for _, w := range convertObject[admissionv1.MutatingWebhookConfiguration](t, object).Webhooks {
			want = append(want, v1alpha1.WebhookDescription{
				GenerateName:            w.Name,
				Type:                    kind,
				DeploymentName:          "cardquota-manager",
				ContainerPort:           443,
				TargetPort:              &port,
				Rules:                   w.Rules,
				FailurePolicy:           w.FailurePolicy,
				MatchPolicy:             w.MatchPolicy,
				ObjectSelector:          w.ObjectSelector,
				SideEffects:             w.SideEffects,
				TimeoutSeconds:          w.TimeoutSeconds,
				AdmissionReviewVersions: w.AdmissionReviewVersions,
				ReinvocationPolicy:      w.ReinvocationPolicy,
				WebhookPath:             w.ClientConfig.Service.Path,
			})
		}
	}

	got := loadBundle(t).CSV.Spec.WebhookDefinitions
	equal(t, "webhooks (-config +bundle)", want, got)
	expectThat(t, len(got) >= 5, "the bundle has only %d webhooks: is config/webhook read right?", len(got))
}

// TestTheBundleHasNoServiceForWebhooks: OLM creates its own Service for webhooks. The bundle has only the two
// Services by which Prometheus scrapes the programs.
func TestTheBundleHasNoServiceForWebhooks(t *testing.T) {
	names := map[string]bool{}
	for _, object := range loadBundle(t).Objects {
		if object.GetKind() == "Service" {
			names[object.GetName()] = true
		}
	}
	equal(t, "Services of the bundle (-want +got)", map[string]bool{"cardquota-manager": true, "cardquota-scheduler": true}, names)
}
