package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/scene"
)

const (
	webhookService = "cardquota-webhook"
	gpu            = builder.GPU
)

// newQuota makes a CardQuota of 8 H200 for training.
func newQuota(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	return scene.NewCardQuota(name, 8, change)
}

// gate is a cluster with Volcano's own webhooks on which the shipped operator
// answers admission requests through its Service, under the shipped roles.
type gate struct {
	cluster *cluster.Cluster
	scene.Framework
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
	g := scene.NewGomega(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Fleet: "../cluster/fleets/mixed.yaml"})
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(gomega.Succeed()) })
	w := &gate{cluster: c, warnings: &heardWarnings{}}
	config := c.Config()
	config.WarningHandler = w.warnings
	w.Framework, err = scene.New(config)
	g.Expect(err).NotTo(gomega.HaveOccurred())

	w.manager, w.port = w.operator(t, "--webhook-certificates=Self")
	g.Expect(scene.RegisterWebhooks(t.Context(), c, w.port)).To(gomega.Succeed())
	g.Expect(w.manager.StartManager(t.Context())).To(gomega.Succeed())
	w.namespace(t, "chat", "team", "chat")
	w.namespace(t, "search", "team", "search")
	return w
}

// operator prepares an operator, one of several replicas, on a port of its own.
func (w *gate) operator(t *testing.T, args ...string) (*deployment.Deployment, int) {
	t.Helper()
	g := scene.NewGomega(t)
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

func (w *gate) namespace(t *testing.T, name string, labels ...string) {
	t.Helper()
	g := scene.NewGomega(t)
	g.Expect(w.Create(t.Context(), builder.Namespace(name, labels...))).To(gomega.Succeed())
	g.Eventually(func() error {
		return w.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(gomega.Succeed())
}

// tenant is a client of a user who may edit one namespace, by Kubernetes' own
// role, and nothing else.
func (w *gate) tenant(t *testing.T, namespace string) client.Client {
	t.Helper()
	g := scene.NewGomega(t)
	user := "somebody@" + namespace
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

// policy puts a ServiceTypePolicy into force.
func (w *gate) policy(t *testing.T, admission v1alpha1.Admission) *v1alpha1.ServiceTypePolicy {
	t.Helper()
	policy := builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Admission = admission }).Obj()
	w.CreateWithCleanup(t, policy)
	return policy
}

// stopped stops the operator for the length of a test.
func (w *gate) stopped(t *testing.T) {
	t.Helper()
	g := scene.NewGomega(t)
	g.Expect(w.manager.Manager.Stop()).To(gomega.Succeed())
	t.Cleanup(func() { g.Expect(w.manager.StartManager(context.WithoutCancel(t.Context()))).To(gomega.Succeed()) })
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
	matchers := make([]types.GomegaMatcher, len(words))
	for i, word := range words {
		matchers[i] = gomega.MatchError(gomega.ContainSubstring(word))
	}
	return gomega.And(matchers...)
}

// answers expects that a request is admitted or, with words, refused with all of them.
func answers(t *testing.T, err error, words ...string) {
	t.Helper()
	if len(words) == 0 {
		gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	} else {
		gomega.NewWithT(t).Expect(err).To(forbidden(words...))
	}
}

// dryRun creates an object as somebody: every admission check, and nothing stays.
func dryRun(t *testing.T, as client.Client, object client.Object) error {
	t.Helper()
	return as.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
}
