package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
)

// bareEnv is a cluster on which Volcano was never installed. The operator runs as shipped, with its webhooks. CardQuotas
// lab and web select a namespace each. Node a has 8 H200.
type bareEnv struct {
	treeEnv
	cluster   *cluster.Cluster
	operator  *deployment.Deployment
	policy    *v1alpha1.ServiceTypePolicy
	lab, web  *v1alpha1.CardQuota
	volcanos  []string // the files of Volcano's definitions
	processID int
}

// newBareEnv starts the cluster and the operator, which stop with the test, without a policy.
func newBareEnv(t *testing.T) *bareEnv {
	requireControlPlane(t)
	server, err := cluster.Start(t.Context(), cluster.Options{APIServerOnly: true, WithoutVolcano: true})
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}

	check.NoError(t, err)
	t.Cleanup(func() { check.NoError(t, server.Stop()) })

	e := &bareEnv{treeEnv: treeEnv{Framework: check.Value(framework.New(server.Config()))(t), g: framework.NewGomega(t)}, cluster: server}
	e.volcanos = check.Value(filepath.Glob(filepath.Join(server.BinDir(), "volcano", "crds", "*.yaml")))(t)
	check.Must(t, len(e.volcanos) > 0, "no definitions of Volcano")

	for _, namespace := range []*corev1.Namespace{builder.Namespace(systemNamespace), builder.Namespace("lab", "team", "lab"), builder.Namespace("web", "team", "web")} {
		check.NoError(t, e.Create(t.Context(), namespace))
	}
	check.NoError(t, e.Create(t.Context(), builder.Node("a").GPUs("NVIDIA-H200", 8).Obj()))

	port := check.Value(cluster.FreePort())(t)
	e.operator = check.Value(deployment.Install(t.Context(), server, deployment.Options{
		Configuration: deployment.NoConfiguration,
		ManagerArgs:   []string{"--leader-elect=true", fmt.Sprintf("--webhook-port=%d", port), "--webhook-certificates=Self"},
	}))(t)
	check.NoError(t, deployment.RegisterWebhooks(t.Context(), server, port))
	check.NoError(t, e.operator.StartManager(t.Context()))
	e.processID = e.operator.Manager.Pid()

	e.policy = builder.ServiceTypePolicy().Obj()
	e.lab = builder.CardQuota("lab").Card("NVIDIA-H200", 4).Selects("team", "lab").Obj()
	e.web = builder.CardQuota("web").Card("NVIDIA-H200", 2).Selects("team", "web").Obj()
	return e
}

// expectOfQuotas expects a condition of both CardQuotas.
func (e *bareEnv) expectOfQuotas(t *testing.T, kind, want string) {
	for _, quota := range []*v1alpha1.CardQuota{e.lab, e.web} {
		e.expectCondition(t, quota, kind, want)
	}
}

// expectNothingEnforced expects that nothing of the cluster is changed: no finalizer, no configuration, no admission policy.
func (e *bareEnv) expectNothingEnforced(t *testing.T) {
	for _, quota := range []*v1alpha1.CardQuota{e.lab, e.web} {
		stored := framework.Fetch[v1alpha1.CardQuota](t, e, client.ObjectKeyFromObject(quota))
		check.Equal(t, "finalizers of "+quota.Name, 0, len(stored.Finalizers))
	}

	err := e.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: schedulerConfigMap}, &corev1.ConfigMap{})
	e.g.Expect(err).To(framework.NotFound())
	var policies admissionv1.ValidatingAdmissionPolicyList
	check.NoError(t, e.List(t.Context(), &policies))
	policies.Items = slices.DeleteFunc(policies.Items, func(p admissionv1.ValidatingAdmissionPolicy) bool {
		return !strings.HasSuffix(p.Name, ".cardquota.dev")
	})
	check.Equal(t, "admission policies", 0, len(policies.Items))
}

// expectSameProcess expects that the operator has begun so many times in the process that started it.
func (e *bareEnv) expectSameProcess(t *testing.T, begun int) {
	log := string(check.Value(os.ReadFile(e.operator.Manager.LogFile()))(t))
	check.That(t, e.operator.Manager.Running(), "the process has ended")
	check.Equal(t, "process", e.processID, e.operator.Manager.Pid())
	check.Equal(t, "times that the operator has begun", begun, strings.Count(log, `"starting"`))
}

// quotaOnQueue returns the card quota that a Queue carries, for use in Eventually.
func (e *bareEnv) quotaOnQueue(t *testing.T, name string) func() (string, error) {
	return framework.Read(t.Context(), e, client.ObjectKey{Name: name}, func(q *v1beta1.Queue) string { return q.Annotations[v1alpha1.AnnotationCardQuota] })
}

// definitionOf returns the CustomResourceDefinition of a resource of Volcano.
func definitionOf(resource string) *metav1.PartialObjectMetadata {
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: resource + ".scheduling.volcano.sh"}}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return definition
}

// TestTheOperatorRunsWithoutVolcano: the operator observes on a cluster without Volcano as with it. Where Enforce is wanted, it
// says what is missing. Volcano comes, and the operator writes Queues; Volcano goes, and the CardQuotas can be deleted. All
// this time it is the same process.
func TestTheOperatorRunsWithoutVolcano(t *testing.T) {
	e := newBareEnv(t)

	for _, step := range []struct {
		name string
		run  func(*testing.T, *bareEnv)
	}{
		{"without a policy", observeWithoutPolicy},
		{"mode Observe", observeWithoutVolcano},
		{"mode Enforce", enforceWithoutVolcano},
		{"Volcano comes", installVolcano},
		{"Volcano goes", removeVolcano},
	} {
		passed := t.Run(step.name, func(t *testing.T) {
			e.g = framework.NewGomega(t)
			step.run(t, e)
		})
		if !passed {
			return
		}
	}
}

// observeWithoutPolicy: without a policy CardQuotas are written to Queues, which do not exist here. Each CardQuota says so.
func observeWithoutPolicy(t *testing.T, e *bareEnv) {
	for _, quota := range []*v1alpha1.CardQuota{e.lab, e.web} { // the webhook answers as soon as it has the certificate
		e.g.Eventually(func() error { return e.Create(t.Context(), quota.DeepCopy()) }).Should(gomega.Succeed())
	}
	e.expectOfQuotas(t, "QueueSynced", "False/VolcanoMissing")
	e.expectOfQuotas(t, "Ready", "False/VolcanoMissing")
	e.expectNothingEnforced(t)
}

// observeWithoutVolcano: a policy observes. The CardQuotas are Ready, and the CardInventory has the cards of the node. The
// scheduler, which is installed with the operator, is ready and waits for a configuration.
func observeWithoutVolcano(t *testing.T, e *bareEnv) {
	e.policy.Spec.Mode = v1alpha1.ModeObserve
	e.g.Expect(e.Create(t.Context(), e.policy)).To(gomega.Succeed())
	e.expectOfQuotas(t, "Ready", "True/Observing")
	e.expectCondition(t, e.policy, "Ready", "True/Observing")

	for _, quota := range []*v1alpha1.CardQuota{e.lab, e.web} {
		status := framework.Fetch[v1alpha1.CardQuota](t, e, client.ObjectKeyFromObject(quota)).Status
		check.Equal(t, "mode of "+quota.Name, v1alpha1.ModeObserve, status.Mode)
	}

	e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKey{Name: v1alpha1.InventoryName}, func(i *v1alpha1.CardInventory) []v1alpha1.InventoryCard {
		return i.Status.Cards
	})).Should(gomega.ContainElement(gomega.And(gomega.HaveField("Name", "NVIDIA-H200"), gomega.HaveField("Total", gomega.BeEquivalentTo(8)), gomega.HaveField("Quota", gomega.BeEquivalentTo(6)))))
	e.expectNothingEnforced(t)

	check.NoError(t, e.operator.StartScheduler(t.Context()))
	check.NoError(t, e.operator.Scheduler.Stop())
}

// enforceWithoutVolcano: the policy wants Enforce. It and the CardQuotas name the missing kinds and what helps, and Observe
// stays in force.
func enforceWithoutVolcano(t *testing.T, e *bareEnv) {
	e.setMode(t, v1alpha1.ModeEnforce)
	e.expectCondition(t, e.policy, "Ready", "False/VolcanoMissing")
	e.expectCondition(t, e.policy, "Enforced", "False/VolcanoMissing")
	e.expectOfQuotas(t, "QueueSynced", "False/VolcanoMissing")
	e.g.Expect(e.Condition(t, e.lab, "QueueSynced")()).To(gomega.And(gomega.ContainSubstring("PodGroup, Queue"), gomega.ContainSubstring("install Volcano")))
	check.Equal(t, "mode in force", v1alpha1.ModeObserve, framework.Fetch[v1alpha1.ServiceTypePolicy](t, e, client.ObjectKeyFromObject(e.policy)).Status.Mode)
	e.expectNothingEnforced(t)
	e.expectSameProcess(t, 1)
}

// installVolcano: Volcano is installed, with its configuration. The operator begins again by itself, and writes both Queues.
func installVolcano(t *testing.T, e *bareEnv) {
	base := strings.Replace(check.Value(deployment.ShippedConfiguration())(t), "cardquota-scheduler-configmap", "volcano-scheduler-configmap", 1)
	check.NoError(t, e.cluster.Apply(t.Context(), []byte(base)))
	for _, file := range e.volcanos {
		check.NoError(t, e.cluster.ApplyFile(t.Context(), file))
	}

	e.g.Eventually(e.quotaOnQueue(t, "lab")).Should(gomega.Equal(`{"NVIDIA-H200":4}`))
	e.g.Eventually(e.quotaOnQueue(t, "web")).Should(gomega.Equal(`{"NVIDIA-H200":2}`))
	e.expectOfQuotas(t, "QueueSynced", "True/Synced")
	e.expectCondition(t, e.policy, "ConfigSynced", "True/Synced")
	e.expectSameProcess(t, 2)
}

// removeVolcano: the definitions of Volcano are deleted, and with them all Queues, while the operator enforces. The
// CardQuotas say so, and can be deleted although they have finalizers.
func removeVolcano(t *testing.T, e *bareEnv) {
	for _, resource := range []string{"queues", "podgroups"} {
		check.NoError(t, e.Delete(t.Context(), definitionOf(resource)))
	}
	e.expectOfQuotas(t, "QueueSynced", "False/VolcanoMissing")
	e.expectCondition(t, e.policy, "Ready", "False/VolcanoMissing")
	check.Equal(t, "finalizers of lab", 1, len(framework.Fetch[v1alpha1.CardQuota](t, e, client.ObjectKeyFromObject(e.lab)).Finalizers))

	for _, quota := range []*v1alpha1.CardQuota{e.lab, e.web} {
		e.DeleteAndWait(t, quota)
	}
	e.expectSameProcess(t, 3)
}
