package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// OLM creates the webhooks' Service, certificate and configurations from the
// ClusterServiceVersion. It mounts the certificate at a path of its own.
const (
	certificatesFlag = "--webhook-certificates=Files"
	certificatesDir  = "/tmp/k8s-webhook-server/serving-certs"
)

// webhook is the common part of validating and mutating webhooks.
type webhook struct {
	description       v1alpha1.WebhookDescription
	client            admissionv1.WebhookClientConfig
	namespaceSelector *metav1.LabelSelector
}

func (s *sources) allWebhooks() []webhook {
	var list []webhook
	for _, configuration := range s.validating {
		for _, w := range configuration.Webhooks {
			list = append(list, webhook{v1alpha1.WebhookDescription{
				GenerateName: w.Name, Type: v1alpha1.ValidatingAdmissionWebhook, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
				MatchPolicy: w.MatchPolicy, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
				TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
			}, w.ClientConfig, w.NamespaceSelector})
		}
	}

	for _, configuration := range s.mutating {
		for _, w := range configuration.Webhooks {
			list = append(list, webhook{v1alpha1.WebhookDescription{
				GenerateName: w.Name, Type: v1alpha1.MutatingAdmissionWebhook, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
				MatchPolicy: w.MatchPolicy, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
				TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
				ReinvocationPolicy: w.ReinvocationPolicy,
			}, w.ClientConfig, w.NamespaceSelector})
		}
	}

	return list
}

// webhookDefinitions returns the webhooks as OLM registers them. OLM does not support
// matchConditions. They are left out: they only save calls, and the handlers repeat them.
//
// Anything that would change a decision is an error: a namespaceSelector (OLM writes the
// OperatorGroup's), a Service that selects no Deployment of the installation, or a Deployment
// that does not use OLM's certificate.
func (s *sources) webhookDefinitions() ([]v1alpha1.WebhookDescription, error) {
	var list []v1alpha1.WebhookDescription
	for _, w := range s.allWebhooks() {
		name := w.description.GenerateName
		if w.namespaceSelector != nil && (len(w.namespaceSelector.MatchLabels) > 0 || len(w.namespaceSelector.MatchExpressions) > 0) {
			return nil, fmt.Errorf("webhook %s has a namespaceSelector, which OLM replaces by the OperatorGroup's", name)
		}

		deployment, port, err := s.deploymentBehind(w.client.Service)
		if err != nil {
			return nil, fmt.Errorf("webhook %s: %w", name, err)
		}
		if err := checkOLMCertificate(deployment); err != nil {
			return nil, fmt.Errorf("webhook %s: Deployment %s: %w", name, deployment.Name, err)
		}

		description := w.description
		description.DeploymentName = deployment.Name
		description.ContainerPort = 443 // the Service's, whatever OLM calls it
		description.TargetPort = &port
		description.WebhookPath = w.client.Service.Path
		list = append(list, description)
	}

	return list, nil
}

// deploymentBehind returns the Deployment that a webhook's Service selects, and the port of its
// pods.
func (s *sources) deploymentBehind(reference *admissionv1.ServiceReference) (*appsv1.Deployment, intstr.IntOrString, error) {
	none := intstr.IntOrString{}
	if reference == nil {
		return nil, none, fmt.Errorf("it names no Service")
	}

	at := slices.IndexFunc(s.services, func(service corev1.Service) bool { return service.Name == reference.Name })
	if at < 0 {
		return nil, none, fmt.Errorf("its Service %s is none of the installation", reference.Name)
	}

	service := &s.services[at]
	wanted := int32(443)
	if reference.Port != nil {
		wanted = *reference.Port
	}

	ports := service.Spec.Ports
	found := slices.IndexFunc(ports, func(port corev1.ServicePort) bool { return port.Port == wanted })
	if found < 0 {
		return nil, none, fmt.Errorf("its Service %s has no port %d", service.Name, wanted)
	}

	selector := labels.SelectorFromSet(service.Spec.Selector)
	for i := range s.deployments {
		if selector.Matches(labels.Set(s.deployments[i].Spec.Template.Labels)) {
			return &s.deployments[i], containerPort(&s.deployments[i], ports[found].TargetPort), nil
		}
	}

	return nil, none, fmt.Errorf("its Service %s selects no Deployment of the installation", service.Name)
}

// containerPort returns the number of a port that may be given by name.
func containerPort(deployment *appsv1.Deployment, port intstr.IntOrString) intstr.IntOrString {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, p := range container.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal {
				return intstr.FromInt32(p.ContainerPort)
			}
		}
	}
	return port
}

// checkOLMCertificate checks that a Deployment serves webhooks with the files that OLM mounts,
// and that nothing else is mounted there.
func checkOLMCertificate(deployment *appsv1.Deployment) error {
	hasFlag := false
	for _, container := range deployment.Spec.Template.Spec.Containers {
		hasFlag = hasFlag || slices.Contains(container.Args, certificatesFlag)
		if n := len(slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool {
			return !strings.HasPrefix(arg, "--webhook-certificates=")
		})); n > 1 {
			return fmt.Errorf("container %s says %d times where its certificate comes from", container.Name, n)
		}

		for _, mount := range container.VolumeMounts {
			if mount.MountPath == certificatesDir {
				return fmt.Errorf("volume %s is mounted at %s, where OLM mounts its certificate", mount.Name, certificatesDir)
			}
		}
	}

	if !hasFlag {
		return fmt.Errorf("%s is missing, so that OLM's certificate would not be used", certificatesFlag)
	}

	return nil
}

// servesWebhooks reports whether a Service serves webhooks.
func (s *sources) servesWebhooks(service *corev1.Service) bool {
	return slices.ContainsFunc(s.allWebhooks(), func(w webhook) bool {
		return w.client.Service != nil && w.client.Service.Name == service.Name
	})
}
