// Package admission tests everything that the API server denies, warns about or defaults for
// this project, on a cluster with Volcano's own webhooks.
package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
)

const (
	webhookService = "cardquota-webhook"
	gpu            = builder.GPU
)

// newQuota returns a CardQuota of 8 H200 for training.
func newQuota(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	return framework.NewCardQuota(name, 8, change)
}

// env is a cluster with Volcano's own webhooks. The shipped operator answers its admission
// requests through its Service, with the shipped roles.
type env struct {
	cluster *cluster.Cluster
	framework.Framework
	// warnings are the warnings of Client's last requests.
	warnings *warningRecorder
	manager  *deployment.Deployment
	// port is where the operator serves its webhooks.
	port int
}

// warningRecorder records the API server's warnings.
type warningRecorder struct{ texts []string }

// HandleWarningHeader is called for every warning of a response.
func (h *warningRecorder) HandleWarningHeader(_ int, _, text string) { h.texts = append(h.texts, text) }

// record returns the warnings of a request, for use in Eventually.
func (h *warningRecorder) record(request func() error) func() (string, error) {
	return func() (string, error) {
		h.texts = nil
		err := request()
		return strings.Join(h.texts, "\n"), err
	}
}

// warningsOf returns the warnings of a dry run that creates an object, for use in Eventually.
func (w *env) warningsOf(t *testing.T, object client.Object) func() (string, error) {
	return w.warnings.record(func() error { return dryRun(t, w, object) })
}

// newEnv starts the cluster and the operator, which stop with the test.
func newEnv(t *testing.T) *env {
	g := framework.NewGomega(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Fleet: "../cluster/fleets/mixed.yaml"})
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}

	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(gomega.Succeed()) })

	w := &env{cluster: c, warnings: &warningRecorder{}}
	config := c.Config()
	config.WarningHandler = w.warnings
	w.Framework = check.Value(framework.New(config))(t)

	w.manager, w.port = w.newOperator(t, "--webhook-certificates=Self")
	g.Expect(framework.RegisterWebhooks(t.Context(), c, w.port)).To(gomega.Succeed())
	g.Expect(w.manager.StartManager(t.Context())).To(gomega.Succeed())

	w.createNamespace(t, "chat", "team", "chat")
	w.createNamespace(t, "search", "team", "search")
	return w
}

// newOperator configures an operator, one of several replicas, with a port of its own.
func (w *env) newOperator(t *testing.T, args ...string) (*deployment.Deployment, int) {
	port := check.Value(cluster.FreePort())(t)
	d := check.Value(deployment.Install(t.Context(), w.cluster, deployment.Options{
		ManagerArgs: append([]string{"--leader-elect=true", fmt.Sprintf("--webhook-port=%d", port)}, args...),
	}))(t)
	return d, port
}

// exposePort directs the Service to a port of this process.
func (w *env) exposePort(t *testing.T, port int) {
	gomega.NewWithT(check.Trail(t)).Expect(w.cluster.ExposeService(context.WithoutCancel(t.Context()), deployment.Namespace, webhookService, port)).To(gomega.Succeed())
}

func (w *env) createNamespace(t *testing.T, name string, labels ...string) {
	g := framework.NewGomega(t)
	g.Expect(w.Create(t.Context(), builder.Namespace(name, labels...))).To(gomega.Succeed())
	g.Eventually(func() error {
		return w.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(gomega.Succeed())
}

// tenantClient returns a client of a user with only Kubernetes' role edit in one namespace.
func (w *env) tenantClient(t *testing.T, namespace string) client.Client {
	g := framework.NewGomega(t)
	user := "tenant@" + namespace
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	g.Expect(client.IgnoreAlreadyExists(w.Create(t.Context(), binding))).To(gomega.Succeed())

	made := w.ClientAs(t, user)
	g.Eventually(func() error { return made.List(t.Context(), &corev1.PodList{}, client.InNamespace(namespace)) }).Should(gomega.Succeed())

	return made
}

// applyPolicy applies a ServiceTypePolicy and waits until it is in force.
func (w *env) applyPolicy(t *testing.T, admission v1alpha1.Admission) *v1alpha1.ServiceTypePolicy {
	policy := builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Admission = admission }).Obj()
	w.CreateWithCleanup(t, policy)
	return policy
}

// stopOperator stops the operator for the duration of a test.
func (w *env) stopOperator(t *testing.T) {
	g := framework.NewGomega(t)
	g.Expect(w.manager.Manager.Stop()).To(gomega.Succeed())
	t.Cleanup(func() { g.Expect(w.manager.StartManager(context.WithoutCancel(t.Context()))).To(gomega.Succeed()) })
}

// podSpecWith returns a pod spec that requests cards of a resource.
func podSpecWith(scheduler string, resourceName corev1.ResourceName, count int64) corev1.PodSpec {
	limits := corev1.ResourceList{}
	if count > 0 {
		limits[resourceName] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	return corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Limits: limits}}}}
}

// beDenied matches a denial with all of the words.
func beDenied(words ...string) types.GomegaMatcher {
	matchers := make([]types.GomegaMatcher, len(words))
	for i, word := range words {
		matchers[i] = gomega.MatchError(gomega.ContainSubstring(word))
	}
	return gomega.And(matchers...)
}

// expectAnswer expects that a request is allowed or, with words, denied with all of them.
func expectAnswer(t *testing.T, err error, words ...string) {
	if len(words) == 0 {
		gomega.NewWithT(check.Trail(t)).Expect(err).NotTo(gomega.HaveOccurred())
	} else {
		gomega.NewWithT(check.Trail(t)).Expect(err).To(beDenied(words...))
	}
}

// dryRun creates an object as a client with every admission check, and changes nothing.
func dryRun(t *testing.T, as client.Client, object client.Object) error {
	return as.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
}

// TestAdmission: the tests of package validation check the rules. This test checks on one cluster that the API server
// calls the webhooks and evaluates the admission policies. It also checks what happens when the operator does not
// answer. Each subtest is a function with its scene in its comment. They run in this order, because each changes the
// policy.
func TestAdmission(t *testing.T) {
	w := newEnv(t)
	t.Run("bypass", func(t *testing.T) { bypassTests(t, w) })
	t.Run("workloads", func(t *testing.T) { workloadTests(t, w) })
	t.Run("quotas", func(t *testing.T) { quotaTests(t, w) })
	t.Run("trees", func(t *testing.T) { treeTests(t, w) })
	t.Run("jobs", func(t *testing.T) { vcjobTests(t, w) })
	t.Run("jobs of Kubernetes", func(t *testing.T) { jobTests(t, w) })
	t.Run("without an operator", func(t *testing.T) { operatorDownTests(t, w) })
	t.Run("certificate", func(t *testing.T) { certificateTests(t, w) })
}

// podTemplate returns a pod template of a workload with label app.
func podTemplate(spec corev1.PodSpec, annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels, Annotations: annotations}, Spec: spec}
}

var selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}

// deploymentOf returns a Deployment of cards without a replica.
func deploymentOf(name string, spec corev1.PodSpec, annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32), Selector: selector, Template: podTemplate(spec, annotations)},
	}
}
