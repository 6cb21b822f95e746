package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

const webhookService = "cardquota-webhook"

// gate is a cluster with Volcano's own webhooks on which the shipped operator
// answers admission requests through its Service, under the shipped roles.
type gate struct {
	cluster *cluster.Cluster
	client.Client
	scheme *runtime.Scheme
	rest   *rest.Config
	// warnings are those of the last requests of Client.
	warnings *heardWarnings
	manager  *deployment.Deployment
	// port is where the operator serves its webhooks.
	port int
}

// heardWarnings keeps what the API server warned of.
type heardWarnings struct{ texts []string }

// HandleWarningHeader is called for every warning of an answer.
func (h *heardWarnings) HandleWarningHeader(_ int, _, text string) { h.texts = append(h.texts, text) }

// during returns the warnings that a request earns.
func (h *heardWarnings) during(request func() error) (string, error) {
	h.texts = nil
	err := request()
	return strings.Join(h.texts, "\n"), err
}

// newGate starts the cluster and the operator. Stopping the test stops both.
func newGate(t *testing.T) *gate {
	t.Helper()
	g := gomega.NewWithT(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Fleet: filepath.Join(root, "test", "cluster", "fleets", "mixed.yaml")})
	if errors.Is(err, cluster.ErrNotBuilt) {
		t.Skip(err)
	}
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(gomega.Succeed()) })
	w := &gate{cluster: c, rest: c.Config(), warnings: &heardWarnings{}}
	w.scheme, err = deployment.Scheme()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	w.rest.WarningHandler = w.warnings
	w.Client, err = client.New(w.rest, client.Options{Scheme: w.scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())

	w.manager, w.port = w.operator(t, "--webhook-certificates=Self")
	for _, file := range []string{"service.yaml", "manifests.yaml"} {
		g.Expect(c.ApplyFile(t.Context(), filepath.Join(root, "config", "webhook", file))).To(gomega.Succeed())
	}
	w.serve(t, w.port)
	g.Expect(w.manager.StartManager(t.Context())).To(gomega.Succeed())
	w.namespace(t, "chat", map[string]string{"team": "chat"})
	w.namespace(t, "search", map[string]string{"team": "search"})
	return w
}

// operator prepares an operator, one of several replicas, on a port of its own.
func (w *gate) operator(t *testing.T, args ...string) (*deployment.Deployment, int) {
	t.Helper()
	g := gomega.NewWithT(t)
	port, err := cluster.FreePort()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	d, err := deployment.Install(t.Context(), w.cluster, deployment.Options{
		ManagerArgs: append([]string{"--leader-elect=true", fmt.Sprintf("--webhook-port=%d", port)}, args...),
	})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	return d, port
}

// serve leads the Service to a port. No pod answers to its selector here: its
// endpoints are the processes.
func (w *gate) serve(t *testing.T, port int) {
	t.Helper()
	gomega.NewWithT(t).Expect(w.cluster.ExposeService(context.WithoutCancel(t.Context()), deployment.Namespace, webhookService, port)).To(gomega.Succeed())
}

func (w *gate) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(gomega.Succeed())
	g.Eventually(func() error {
		return w.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).WithTimeout(waitLong).Should(gomega.Succeed())
}

// tenant is a client of a user who may edit one namespace, by Kubernetes' own
// role, and nothing else.
func (w *gate) tenant(t *testing.T, namespace string) client.Client {
	t.Helper()
	g := gomega.NewWithT(t)
	user := "somebody@" + namespace
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	g.Expect(client.IgnoreAlreadyExists(w.Create(t.Context(), binding))).To(gomega.Succeed())
	made := w.as(t, user)
	g.Eventually(func() error { return made.List(t.Context(), &corev1.PodList{}, client.InNamespace(namespace)) }).
		WithTimeout(waitLong).Should(gomega.Succeed())
	return made
}

// as is a client of another user.
func (w *gate) as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(w.rest)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	made, err := client.New(config, client.Options{Scheme: w.scheme})
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	return made
}

// temporary makes an object and takes it away at the end of the test.
func (w *gate) temporary(t *testing.T, object client.Object) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(w.Create(t.Context(), object)).To(gomega.Succeed())
	t.Cleanup(func() { w.remove(t, object) })
}

// remove deletes an object and waits until it is gone.
func (w *gate) remove(t *testing.T, object client.Object) {
	t.Helper()
	g := gomega.NewWithT(t)
	ctx := context.WithoutCancel(t.Context())
	g.Expect(client.IgnoreNotFound(w.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(gomega.Succeed())
	g.Eventually(func() error { return w.Get(ctx, client.ObjectKeyFromObject(object), object) }).
		WithTimeout(waitLong).Should(notFound())
}

// policy puts a ServiceTypePolicy into force.
func (w *gate) policy(t *testing.T, admission v1alpha1.AdmissionSpec) *v1alpha1.ServiceTypePolicy {
	t.Helper()
	policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}, Spec: v1alpha1.ServiceTypePolicySpec{Admission: admission}}
	w.temporary(t, policy)
	return policy
}

// stopped stops the operator for the length of a test.
func (w *gate) stopped(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(w.manager.Manager.Stop()).To(gomega.Succeed())
	t.Cleanup(func() { g.Expect(w.manager.StartManager(context.WithoutCancel(t.Context()))).To(gomega.Succeed()) })
}

// restarted starts the operator again, with an empty memory.
func (w *gate) restarted(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(w.manager.Manager.Stop()).To(gomega.Succeed())
	g.Expect(w.manager.StartManager(t.Context())).To(gomega.Succeed())
}

// asking is a pod spec that asks for cards of a resource.
func asking(scheduler string, resourceName corev1.ResourceName, count int64) corev1.PodSpec {
	limits := corev1.ResourceList{}
	if count > 0 {
		limits[resourceName] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	return corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Limits: limits}}}}
}

// forbidden matches an answer that refuses with every one of the words.
func forbidden(words ...string) types.GomegaMatcher {
	return gomega.WithTransform(func(err error) string {
		if err == nil {
			return "(admitted)"
		}
		return err.Error()
	}, gomega.And(matchers(words)...))
}

func matchers(words []string) []types.GomegaMatcher {
	out := make([]types.GomegaMatcher, len(words))
	for i, word := range words {
		out[i] = gomega.ContainSubstring(word)
	}
	return out
}
