package olm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// wantInstalled waits until the installed programs and Services are exactly those of a bundle.
// A Deployment, Service, policy or webhook of another version must be replaced or removed.
func (a *administrator) wantInstalled(bundle string) {
	a.Eventually(a.installedObjects).Should(Equal(a.bundleObjects(bundle)))
}

// bundleObjects returns the objects of a bundle, one line each.
func (a *administrator) bundleObjects(bundle string) []string {
	files := check.Value(filepath.Glob(filepath.Join(bundle, "manifests", "*.yaml")))(a)

	var lines []string
	for _, file := range files {
		content := check.Value(os.ReadFile(file))(a)
		var kind metav1.PartialObjectMetadata
		a.Expect(yaml.Unmarshal(content, &kind)).To(Succeed())
		switch kind.Kind {
		case "ClusterServiceVersion":
			lines = append(lines, a.csvObjects(content)...)
		case "Service":
			var service corev1.Service
			a.Expect(yaml.Unmarshal(content, &service)).To(Succeed())
			lines = append(lines, serviceLine(&service))
		case "NetworkPolicy":
			lines = append(lines, "NetworkPolicy "+kind.Name)
		}
	}

	slices.Sort(lines)
	return lines
}

func (a *administrator) csvObjects(content []byte) []string {
	var csv struct {
		Spec struct {
			Install struct {
				Spec struct {
					Deployments []struct {
						Name string
						Spec appsv1.DeploymentSpec
					}
				}
			}
			WebhookDefinitions []struct{ GenerateName, DeploymentName string }
		}
	}
	a.Expect(yaml.Unmarshal(content, &csv)).To(Succeed())

	var lines []string
	for _, deployment := range csv.Spec.Install.Spec.Deployments {
		lines = append(lines, deploymentLine(deployment.Name, &deployment.Spec))
	}

	for _, webhook := range csv.Spec.WebhookDefinitions {
		lines = append(lines, "Webhook "+webhook.GenerateName)
		// OLM creates one Service for all webhooks of a Deployment.
		if service := fmt.Sprintf("Service %s-service: 443", webhook.DeploymentName); !slices.Contains(lines, service) {
			lines = append(lines, service)
		}
	}

	return lines
}

// installedObjects returns the objects of the cluster in the same form.
func (a *administrator) installedObjects() ([]string, error) {
	client := a.cluster.Client()
	all := metav1.ListOptions{}
	deployments, errDeployments := client.AppsV1().Deployments(namespace).List(a.ctx, all)
	services, errServices := client.CoreV1().Services(namespace).List(a.ctx, all)
	policies, errPolicies := client.NetworkingV1().NetworkPolicies(namespace).List(a.ctx, all)
	lines, errWebhooks := a.installedWebhooks()
	if err := errors.Join(errDeployments, errServices, errPolicies, errWebhooks); err != nil {
		return nil, err
	}

	for i := range deployments.Items {
		lines = append(lines, deploymentLine(deployments.Items[i].Name, &deployments.Items[i].Spec))
	}

	for i := range services.Items {
		lines = append(lines, serviceLine(&services.Items[i]))
	}

	for _, policy := range policies.Items {
		lines = append(lines, "NetworkPolicy "+policy.Name)
	}

	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "cardquota") }) // Volcano's own
	slices.Sort(lines)
	return lines, nil
}

// installedWebhooks returns the webhooks of the cluster in the same form.
func (a *administrator) installedWebhooks() ([]string, error) {
	client := a.cluster.Client().AdmissionregistrationV1()
	validating, errValidating := client.ValidatingWebhookConfigurations().List(a.ctx, metav1.ListOptions{})
	mutating, errMutating := client.MutatingWebhookConfigurations().List(a.ctx, metav1.ListOptions{})
	if err := errors.Join(errValidating, errMutating); err != nil {
		return nil, err
	}

	var lines []string
	for _, configuration := range validating.Items {
		for _, webhook := range configuration.Webhooks {
			lines = append(lines, "Webhook "+webhook.Name)
		}
	}

	for _, configuration := range mutating.Items {
		for _, webhook := range configuration.Webhooks {
			lines = append(lines, "Webhook "+webhook.Name)
		}
	}

	return lines, nil
}

func deploymentLine(name string, spec *appsv1.DeploymentSpec) string {
	container := spec.Template.Spec.Containers[0]
	line := fmt.Sprintf("Deployment %s: %d of %s", name, *spec.Replicas, strings.Join(container.Args, " "))
	for _, port := range container.Ports {
		line += fmt.Sprintf(", %s %d", port.Name, port.ContainerPort)
	}
	return line
}

func serviceLine(service *corev1.Service) string {
	line := fmt.Sprintf("Service %s:", service.Name)
	for _, port := range service.Spec.Ports {
		line += fmt.Sprintf(" %d", port.Port)
	}
	return strings.Join(append([]string{line}, slices.Sorted(maps.Keys(service.Annotations))...), " ")
}
