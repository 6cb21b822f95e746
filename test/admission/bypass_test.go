package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

const deviceResource = corev1.ResourceName("huawei.com/Ascend910")

// bypassGuarded returns condition BypassGuarded.
func (w *env) bypassGuarded(t *testing.T) func() (string, error) {
	return w.Condition(t, builder.ServiceTypePolicy().Obj(), v1alpha1.ConditionBypassGuarded)
}

func podOf(namespace string, spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"}, Spec: spec}
}

// bypassTests: a pod that requests cards under another scheduler, or that sets its own node, would take them
// uncharged. With a ServiceTypePolicy the API server refuses such pods by an admission policy, which needs no
// running operator. Exempt are kubelets' static pods and one service account, search/validator, but no administrator
// (w). A pod with cards has at most 512 containers. A pod may also not carry a record of the queue that was charged,
// which only our scheduler writes when it places the pod. A copy of a pod for our scheduler, without a node, may. The
// admission policies are deleted with the ServiceTypePolicy.
func bypassTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	tenant := w.tenantClient(t, "chat")
	bypassing := podOf("chat", podSpecWith("default-scheduler", gpu, 2))

	g.Expect(dryRun(t, tenant, bypassing)).To(gomega.Succeed(), "without a policy nothing is guarded")
	policy := w.applyPolicy(t, v1alpha1.Admission{ExemptServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "search", Name: "validator"}}})
	g.Eventually(w.bypassGuarded(t)).Should(gomega.HavePrefix("True/Denied:"))

	// The API server's own view of its policies follows within seconds.
	g.Eventually(func() error { return dryRun(t, tenant, bypassing) }).Should(beDenied(
		"requests nvidia.com/gpu and names schedulerName default-scheduler", "write schedulerName: volcano"))

	preset := podSpecWith("volcano", gpu, 1)
	preset.NodeName = "h200-0"
	sidecar := podSpecWith("", deviceResource, 0)
	sidecar.InitContainers = podSpecWith("", deviceResource, 1).Containers
	sidecar.InitContainers[0].Name = "first"

	none := podSpecWith("", gpu, 0)
	none.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("0")}
	static := podOf("chat", podSpecWith("", gpu, 1))
	static.Annotations = map[string]string{"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x", "kubernetes.io/config.source": "file"}
	static.Spec.NodeName = "h200-0"

	onNode := podOf("chat", podSpecWith("default-scheduler", gpu, 0))
	onNode.Spec.NodeName = "h200-0"
	runsAs := func(namespace string) *corev1.Pod {
		pod := podOf(namespace, podSpecWith("", gpu, 1))
		pod.Spec.ServiceAccountName = "validator"
		return pod
	}

	for _, namespace := range []string{"chat", "search"} {
		w.CreateWithCleanup(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "validator"}})
	}
	nodeUser := w.ClientAs(t, "system:node:h200-0", "system:nodes", "system:masters")
	validator := w.ClientAs(t, "system:serviceaccount:search:validator", "system:masters")

	// charged returns a pod as read from a cluster, with a record of its binding.
	charged := func(scheduler, node string, cards int64) *corev1.Pod {
		pod := podOf("chat", podSpecWith(scheduler, gpu, cards))
		pod.Annotations = map[string]string{v1alpha1.AnnotationChargedQueue: "search"}
		pod.Spec.NodeName = node
		return pod
	}

	exempted := charged("", "h200-0", 0)
	exempted.Namespace = "search"
	empty := charged("", "h200-0", 0)
	empty.Annotations[v1alpha1.AnnotationChargedQueue] = ""

	leaveOut := "leave the annotation out, and name the queue by scheduling.volcano.sh/queue-name"
	ofContainers := func(count int, cards int64) *corev1.Pod {
		pod := podOf("chat", podSpecWith("volcano", gpu, cards))
		for len(pod.Spec.Containers) < count {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", len(pod.Spec.Containers)), Image: "i"})
		}
		return pod
	}

	for t, tc := range check.Cases(t, map[string]struct {
		as   client.Client
		pod  *corev1.Pod
		want []string
	}{
		"512 containers with cards":                                              {tenant, ofContainers(512, 1), nil},
		"513 containers with cards":                                              {tenant, ofContainers(513, 1), []string{"requests nvidia.com/gpu and has 513 containers", "at most 512"}},
		"513 containers without cards":                                           {tenant, ofContainers(513, 0), nil},
		"a record of the charge, another scheduler":                              {tenant, charged("", "", 0), []string{"has the annotation cardquota.dev/charged-queue and names schedulerName default-scheduler", "only the scheduler volcano writes it", leaveOut}},
		"a record of the charge, another scheduler, and a node":                  {tenant, charged("", "h200-0", 0), []string{"and sets spec.nodeName h200-0", leaveOut}},
		"a record of the charge, a node, and our scheduler":                      {tenant, charged("volcano", "h200-0", 0), []string{"and sets spec.nodeName h200-0", leaveOut}},
		"a record of the charge, by an administrator":                            {w, charged("", "h200-0", 0), []string{leaveOut}},
		"a record of the charge, by an exempt account":                           {validator, exempted, nil},
		"an empty record of the charge":                                          {tenant, empty, nil},
		"created again from a copy with a record, with cards":                    {tenant, charged("volcano", "", 2), nil},
		"created again from a copy with a record, without cards":                 {tenant, charged("volcano", "", 0), nil},
		"created again from a copy by an administrator":                          {w, charged("volcano", "", 2), nil},
		"our scheduler and cards":                                                {tenant, podOf("chat", podSpecWith("volcano", gpu, 2)), nil},
		"no cards":                                                               {tenant, podOf("chat", podSpecWith("", gpu, 0)), nil},
		"no cards, and its own node":                                             {tenant, onNode, nil},
		"a limit of 0 cards":                                                     {tenant, podOf("chat", none), nil},
		"another resource":                                                       {tenant, podOf("chat", podSpecWith("", "rdma/hca", 1)), nil},
		"cards and its own node":                                                 {tenant, podOf("chat", preset), []string{"sets spec.nodeName h200-0", "nodeSelector"}},
		"an init container requests cards":                                       {tenant, podOf("chat", sidecar), []string{"requests huawei.com/Ascend910"}},
		"a MIG slice of a card":                                                  {tenant, podOf("chat", podSpecWith("", "nvidia.com/mig-1g.18gb", 1)), []string{"nvidia.com/mig-1g.18gb"}},
		"cards without our scheduler, by an administrator":                       {w, podOf("chat", podSpecWith("", gpu, 1)), []string{"schedulerName"}},
		"a static pod, by a tenant":                                              {tenant, static, []string{"schedulerName"}},
		"a static pod, by a kubelet":                                             {nodeUser, static, nil},
		"another pod, by a kubelet":                                              {nodeUser, podOf("chat", podSpecWith("", gpu, 1)), []string{"schedulerName"}},
		"cards without our scheduler, by the exempt account":                     {validator, podOf("search", podSpecWith("", gpu, 1)), nil},
		"cards without our scheduler, run as the exempt account":                 {w, runsAs("search"), nil},
		"run as an account of the same name in another namespace":                {tenant, runsAs("chat"), []string{"schedulerName"}},
		"a tenant of another namespace creates it in that of the exempt account": {tenant, runsAs("search"), []string{"cannot create resource"}},
	}) {
		expectAnswer(t, dryRun(t, tc.as, tc.pod), tc.want...)
	}

	t.Run("charge", func(t *testing.T) { chargeTests(t, w, validator) })
	// Two controllers write conditions into the status of the ServiceTypePolicy. It must stay the same for 3 seconds.
	t.Run("two writers of one status come to rest", func(t *testing.T) {
		last := ""
		since := time.Now()
		framework.NewGomega(t).Eventually(func() (time.Duration, error) {
			err := w.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
			if policy.ResourceVersion != last {
				last = policy.ResourceVersion
				since = time.Now()
			}
			return time.Since(since), err
		}).Should(gomega.BeNumerically(">", 3*time.Second))
	})

	t.Run("drift is reverted", func(t *testing.T) {
		for _, name := range []string{admissionpolicy.BypassPolicyName, admissionpolicy.ChargePolicyName} {
			t.Run(name, func(t *testing.T) { checkDriftReverted(t, w, policy, name) })
		}
	})

	t.Run("the list only grows", func(t *testing.T) { checkCardResourceStays(t, w) })
	t.Run("modes", func(t *testing.T) { checkBypassModes(t, w, tenant, bypassing) })
	t.Run("without an operator", func(t *testing.T) {
		w.stopOperator(t)
		gomega.NewWithT(check.Trail(t)).Expect(dryRun(t, tenant, bypassing)).To(beDenied("write schedulerName: volcano"))
		gomega.NewWithT(check.Trail(t)).Expect(dryRun(t, tenant, podOf("chat", podSpecWith("volcano", gpu, 2)))).To(gomega.Succeed())
	})

	w.DeleteAndWait(t, policy)
	for _, name := range []string{admissionpolicy.BypassPolicyName, admissionpolicy.ChargePolicyName} {
		meta := metav1.ObjectMeta{Name: name}
		g.Eventually(w.IsGone(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta})).Should(gomega.BeTrue(), name)
		g.Eventually(w.IsGone(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta})).Should(gomega.BeTrue(), name)
	}
}

// checkDriftReverted: an administrator, or an attacker with such rights, replaces the rules of an admission policy,
// and deletes its binding. The operator restores both, and an event says so.
func checkDriftReverted(t *testing.T, w *env, owner client.Object, name string) {
	g := framework.NewGomega(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	key := client.ObjectKey{Name: name}
	var want admissionv1.ValidatingAdmissionPolicySpec

	// The API server writes the status meanwhile.
	g.Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.Get(t.Context(), key, policy); err != nil {
			return err
		}
		want = policy.DeepCopy().Spec
		policy.Spec.Validations = policy.Spec.Validations[:1]
		policy.Spec.Validations[0].Expression = "true"
		return w.Update(t.Context(), policy)
	})).To(gomega.Succeed())
	g.Expect(policy.Status.TypeChecking).To(gomega.Or(gomega.BeNil(), gomega.HaveField("ExpressionWarnings", gomega.BeEmpty())))

	g.Eventually(func() (admissionv1.ValidatingAdmissionPolicySpec, error) {
		return policy.Spec, w.Get(t.Context(), key, policy)
	}).Should(gomega.Equal(want))
	g.Eventually(w.EventMessages(t, owner, v1alpha1.EventGuardRestored)).ShouldNot(gomega.BeEmpty())

	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.Expect(w.Delete(t.Context(), binding)).To(gomega.Succeed())
	g.Eventually(func() error { return w.Get(t.Context(), key, binding) }).Should(gomega.Succeed())
}

// checkCardResourceStays: the admission policy lists the resources that are cards. A resource stays one when the
// last node that offers it leaves, also over a restart of the operator: a node may come back, and then its cards
// must be guarded.
func checkCardResourceStays(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	node := builder.Node("novel").Label("example.com/card.product", "Novel-1").Label("example.com/card.memory", "1024").
		Resource("example.com/card", "1").Obj()
	g.Expect(w.Create(t.Context(), node)).To(gomega.Succeed())

	listed := framework.Read(t.Context(), w, client.ObjectKey{Name: admissionpolicy.BypassPolicyName}, func(policy *admissionv1.ValidatingAdmissionPolicy) string {
		return policy.Annotations[v1alpha1.AnnotationCardResources]
	})
	g.Eventually(listed).Should(gomega.ContainSubstring("example.com/card"))

	w.DeleteAndWait(t, node)
	g.Expect(w.manager.Manager.Stop()).To(gomega.Succeed())
	g.Expect(w.manager.StartManager(t.Context())).To(gomega.Succeed())
	g.Consistently(listed).WithTimeout(2 * time.Second).Should(gomega.ContainSubstring("example.com/card"))
}

// checkBypassModes: with schedulerBypassPolicy Warn the pod is created with a warning, with Allow silently, and
// with Deny it is refused. Condition BypassGuarded says which.
func checkBypassModes(t *testing.T, w *env, tenant client.Client, bypassing *corev1.Pod) {
	g := framework.NewGomega(t)
	set := func(mode v1alpha1.SchedulerBypassPolicy) {
		policy := framework.Fetch[v1alpha1.ServiceTypePolicy](t, w, client.ObjectKey{Name: v1alpha1.PolicyName})
		base := policy.DeepCopy()
		policy.Spec.Admission.SchedulerBypassPolicy = mode
		g.Expect(w.Patch(t.Context(), policy, client.MergeFrom(base))).To(gomega.Succeed())
	}

	set(v1alpha1.SchedulerBypassWarn)
	g.Eventually(w.bypassGuarded(t)).Should(gomega.HavePrefix("False/OnlyWarned:"))
	g.Eventually(w.warningsOf(t, bypassing)).Should(gomega.ContainSubstring("write schedulerName: volcano"))

	set(v1alpha1.SchedulerBypassAllow)
	g.Eventually(w.bypassGuarded(t)).Should(gomega.HavePrefix("False/SwitchedOff:"))
	g.Eventually(w.warningsOf(t, bypassing)).Should(gomega.BeEmpty())

	set(v1alpha1.SchedulerBypassDeny)
	g.Eventually(func() error { return dryRun(t, tenant, bypassing) }).Should(beDenied("schedulerName"))
}
