package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serviceMonitor is the Prometheus operator's description of a scrape.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []endpoint           `json:"endpoints"`
	} `json:"spec"`
}

// endpoint is a port of the Services that a serviceMonitor selects. Any other field, such as
// jobLabel, would invalidate the tests below, and is an error.
type endpoint struct {
	Port            string         `json:"port"`
	Scheme          string         `json:"scheme"`
	BearerTokenFile string         `json:"bearerTokenFile"`
	TLSConfig       map[string]any `json:"tlsConfig"`
}

// installation is config/default with every component of config/.
type installation struct {
	deployments []appsv1.Deployment
	services    []corev1.Service
	policies    []networkingv1.NetworkPolicy
	monitors    []serviceMonitor
	rules       []unstructured.Unstructured
}

func fullInstallation(t *testing.T) installation {
	t.Helper()
	files := projectConfig(t)
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../default]\ncomponents:\n"
	for name, file := range files {
		if path.Base(name) == "kustomization.yaml" && strings.Contains(string(file.Data), "\nkind: Component\n") {
			text += "- " + strings.Replace(path.Dir(name), "config/", "../", 1) + "\n"
		}
	}

	files["config/everything/kustomization.yaml"] = &fstest.MapFile{Data: []byte(text)}
	config := value(copyToMemory(fs.FS(files), "config"))(t)
	var all installation
	for _, object := range value(buildKustomization(config, "config/everything"))(t) {
		noError(t, all.addObject(object))
	}

	requireThat(t, len(all.deployments) == 2, "there are %d Deployments, want 2", len(all.deployments))
	requireThat(t, len(all.monitors) > 0 && len(all.policies) > 0 && len(all.rules) > 0, "a component is missing: %s", text)
	return all
}

func (all *installation) addObject(object unstructured.Unstructured) error {
	switch object.GetKind() {
	case "Deployment":
		return appendTo(&all.deployments, object)
	case "Service":
		return appendTo(&all.services, object)
	case "NetworkPolicy":
		return appendTo(&all.policies, object)
	case "ServiceMonitor":
		return appendTo(&all.monitors, object)
	case "PrometheusRule":
		all.rules = append(all.rules, object)
	}

	return nil
}

// selectedDeployment returns the Deployment that a selector selects in a namespace.
func (all installation) selectedDeployment(namespace string, selector labels.Selector) (*appsv1.Deployment, error) {
	var found []*appsv1.Deployment
	for i := range all.deployments {
		if d := &all.deployments[i]; d.Namespace == namespace && selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%q in namespace %s selects %d Deployments, not one", selector, namespace, len(found))
	}
	return found[0], nil
}

// opensPort reports whether a Deployment's container has a port of that name or number.
func opensPort(deployment *appsv1.Deployment, port intstr.IntOrString) bool {
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return (port.Type == intstr.String && p.Name == port.StrVal) || (port.Type == intstr.Int && p.ContainerPort == port.IntVal)
	})
}

// TestServicesLeadToPortsThatTheirPodsOpen: with all components of config/ installed, each Service selects one
// Deployment, and leads to ports that its container opens. Otherwise webhooks or metrics could not be reached.
func TestServicesLeadToPortsThatTheirPodsOpen(t *testing.T) {
	all := fullInstallation(t)
	for _, service := range all.services {
		deployment := value(all.selectedDeployment(service.Namespace, labels.SelectorFromSet(service.Spec.Selector)))(t)
		for _, port := range service.Spec.Ports {
			expectThat(t, opensPort(deployment, port.TargetPort), "Service %s leads to port %s, which Deployment %s does not open", service.Name, port.TargetPort.String(), deployment.Name)
		}
	}
}

// scrapeTarget is a scraped Service and the pods behind it.
type scrapeTarget struct {
	endpoint   endpoint
	service    *corev1.Service
	deployment *appsv1.Deployment
}

func (all installation) scrapeTargets(t *testing.T) []scrapeTarget {
	t.Helper()
	var list []scrapeTarget
	for _, monitor := range all.monitors {
		selector := value(metav1.LabelSelectorAsSelector(&monitor.Spec.Selector))(t)
		for i := range all.services {
			service := &all.services[i]
			for _, endpoint := range monitor.Spec.Endpoints {
				named := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.Port })
				if service.Namespace != monitor.Namespace || !selector.Matches(labels.Set(service.Labels)) || !named {
					continue
				}
				deployment, err := all.selectedDeployment(service.Namespace, labels.SelectorFromSet(service.Spec.Selector))
				requireThat(t, err == nil, "ServiceMonitor %s, Service %s: %v", monitor.Name, service.Name, err)

				list = append(list, scrapeTarget{endpoint, service, deployment})
			}
		}
	}

	return list
}

// TestPrometheusScrapesBothProgramsOverTLS: each Deployment is scraped once by a ServiceMonitor, over https and
// with a token, as both programs serve their metrics only so. The programs make their certificates themselves,
// so Prometheus cannot verify them.
func TestPrometheusScrapesBothProgramsOverTLS(t *testing.T) {
	scraped := map[string]int{}
	for _, target := range fullInstallation(t).scrapeTargets(t) {
		scraped[target.deployment.Name]++
		e := target.endpoint
		expectThat(t, e.Scheme == "https" && e.BearerTokenFile != "", "Service %s is scraped without TLS or without a token: %+v", target.service.Name, e)
		expectThat(t, e.TLSConfig["insecureSkipVerify"] == true, "Service %s is scraped only with a certificate that can be verified: %+v", target.service.Name, e)

		args := strings.Join(target.deployment.Spec.Template.Spec.Containers[0].Args, "\n")
		expectThat(t, regexp.MustCompile(`(?m)^--secure-metrics(=true)?$`).MatchString(args), "Deployment %s serves its metrics in the clear", target.deployment.Name)
	}
	equal(t, "how often Deployments are scraped (-want +got)", map[string]int{"cardquota-manager": 1, "cardquota-scheduler": 1}, scraped)
}

// TestAlertsNameJobsThatPrometheusScrapes: alerts find a program by the label job, which is the name of its
// Service. An alert with another job would never have data, and would not fire. At least one alert of each
// PrometheusRule names a job.
func TestAlertsNameJobsThatPrometheusScrapes(t *testing.T) {
	all := fullInstallation(t)
	var jobs []string
	for _, target := range all.scrapeTargets(t) {
		jobs = append(jobs, target.service.Name)
	}

	for _, rule := range all.rules {
		named := regexp.MustCompile(`job=\\"([^\\]*)\\"`).FindAllStringSubmatch(string(value(rule.MarshalJSON())(t)), -1)
		for _, job := range named {
			expectThat(t, slices.Contains(jobs, job[1]), "an alert names the job %s, but %v are scraped", job[1], jobs)
		}
		expectThat(t, len(named) > 0, "no alert names a job")
	}
}

// TestNetworkPoliciesAllowExactlyThePortsBehindServices: each policy selects one Deployment, names its ports,
// and allows only ports that its container opens. Together they allow the ports to which Services lead, and no
// other.
func TestNetworkPoliciesAllowExactlyThePortsBehindServices(t *testing.T) {
	all := fullInstallation(t)
	allowed := map[string][]string{}
	wanted := map[string][]string{}

	for _, policy := range all.policies {
		selector := value(metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector))(t)
		deployment := value(all.selectedDeployment(policy.Namespace, selector))(t)
		for _, rule := range policy.Spec.Ingress {
			expectThat(t, len(rule.Ports) > 0, "NetworkPolicy %s allows all ports", policy.Name)

			for _, port := range rule.Ports {
				expectThat(t, opensPort(deployment, *port.Port), "NetworkPolicy %s allows port %s, which Deployment %s does not open", policy.Name, port.Port.String(), deployment.Name)
				allowed[deployment.Name] = append(allowed[deployment.Name], port.Port.String())
			}
		}
	}

	for _, service := range all.services {
		deployment := value(all.selectedDeployment(service.Namespace, labels.SelectorFromSet(service.Spec.Selector)))(t)
		for _, port := range service.Spec.Ports {
			wanted[deployment.Name] = append(wanted[deployment.Name], port.TargetPort.String())
		}
	}

	for _, ports := range []map[string][]string{allowed, wanted} {
		for name := range ports {
			slices.Sort(ports[name])
		}
	}

	equal(t, "ports (-behind Services +allowed)", wanted, allowed)
}
