package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

const deviceResource = corev1.ResourceName("huawei.com/Ascend910")

// guard reads condition BypassGuarded as "Status/Reason", with the message where
// the guard could not be written.
func (w *gate) guard(t *testing.T) func() (string, error) {
	return func() (string, error) {
		policy := &v1alpha1.ServiceTypePolicy{}
		err := w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PolicyName}, policy)
		if c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionBypassGuarded); c != nil {
			if c.Reason == v1alpha1.ReasonGuardRefused {
				return c.Reason + ": " + c.Message, err
			}
			return string(c.Status) + "/" + c.Reason, err
		}
		return "", err
	}
}

func podOf(namespace string, spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"}, Spec: spec}
}

func bypassTests(t *testing.T, w *gate) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitLong)
	tenant := w.tenant(t, "chat")
	// dry runs pass every admission check and leave nothing behind.
	try := func(as client.Client, pod *corev1.Pod) error {
		return as.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)
	}
	past := podOf("chat", asking("default-scheduler", gpu, 2))

	g.Expect(try(tenant, past)).To(gomega.Succeed(), "without a policy nothing is guarded")
	policy := w.policy(t, v1alpha1.AdmissionSpec{ExemptServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "search", Name: "validator"}}})
	g.Eventually(w.guard(t)).Should(gomega.Equal("True/Denied"))
	// The API server's own view of its policies follows within seconds.
	g.Eventually(func() error { return try(tenant, past) }).Should(forbidden(
		"asks for nvidia.com/gpu and names schedulerName default-scheduler", "write schedulerName: volcano"))

	preset := asking("volcano", gpu, 1)
	preset.NodeName = "h200-0"
	sidecar := asking("", deviceResource, 0)
	sidecar.InitContainers = asking("", deviceResource, 1).Containers
	sidecar.InitContainers[0].Name = "first"
	none := asking("", gpu, 0)
	none.Containers[0].Resources.Limits = corev1.ResourceList{gpu: *quantity("0")}
	static := podOf("chat", asking("", gpu, 1))
	static.Annotations = map[string]string{"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x", "kubernetes.io/config.source": "file"}
	static.Spec.NodeName = "h200-0"
	runsAs := func(namespace string) *corev1.Pod {
		pod := podOf(namespace, asking("", gpu, 1))
		pod.Spec.ServiceAccountName = "validator"
		return pod
	}
	for _, namespace := range []string{"chat", "search"} {
		w.temporary(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "validator"}})
	}
	nodeUser := w.as(t, "system:node:h200-0", "system:nodes", "system:masters")
	validator := w.as(t, "system:serviceaccount:search:validator", "system:masters")
	// charged is a pod as it is read out of a cluster: it bears a record of its binding.
	charged := func(scheduler, node string, cards int64) *corev1.Pod {
		pod := podOf("chat", asking(scheduler, gpu, cards))
		pod.Annotations = map[string]string{v1alpha1.AnnotationChargedQueue: "search"}
		pod.Spec.NodeName = node
		return pod
	}
	exempted := charged("", "h200-0", 0)
	exempted.Namespace = "search"
	empty := charged("", "h200-0", 0)
	empty.Annotations[v1alpha1.AnnotationChargedQueue] = ""
	leaveOut := "leave the annotation out, and name the queue by scheduling.volcano.sh/queue-name"
	for name, tc := range map[string]struct {
		as   client.Client
		pod  *corev1.Pod
		want []string
	}{
		"a record, another scheduler":           {tenant, charged("", "", 0), []string{"brings the annotation cardquota.dev/charged-queue along and names schedulerName default-scheduler", "only the scheduler volcano writes it", leaveOut}},
		"a record and a node":                   {tenant, charged("", "h200-0", 0), []string{"along and spec.nodeName h200-0", leaveOut}},
		"a record and a node, our scheduler":    {tenant, charged("volcano", "h200-0", 0), []string{"along and spec.nodeName h200-0", leaveOut}},
		"a record by an administrator":          {w, charged("", "h200-0", 0), []string{leaveOut}},
		"a record by an exempt account":         {validator, exempted, nil},
		"a record of nothing":                   {tenant, empty, nil},
		"made again, with cards":                {tenant, charged("volcano", "", 2), nil},
		"made again, without cards":             {tenant, charged("volcano", "", 0), nil},
		"made again by an administrator":        {w, charged("volcano", "", 2), nil},
		"our scheduler":                         {tenant, podOf("chat", asking("volcano", gpu, 2)), nil},
		"no cards":                              {tenant, podOf("chat", asking("", gpu, 0)), nil},
		"no cards, said so":                     {tenant, podOf("chat", none), nil},
		"another resource":                      {tenant, podOf("chat", asking("", "rdma/hca", 1)), nil},
		"a node of its own":                     {tenant, podOf("chat", preset), []string{"brings spec.nodeName h200-0 along", "nodeSelector"}},
		"an init container asks":                {tenant, podOf("chat", sidecar), []string{"asks for huawei.com/Ascend910"}},
		"a slice":                               {tenant, podOf("chat", asking("", "nvidia.com/mig-1g.18gb", 1)), []string{"nvidia.com/mig-1g.18gb"}},
		"administrators are held to it as well": {w, podOf("chat", asking("", gpu, 1)), []string{"schedulerName"}},
		"a tenant's pod that says it is static": {tenant, static, []string{"schedulerName"}},
		"a kubelet's static pod":                {nodeUser, static, nil},
		"a kubelet's other pod":                 {nodeUser, podOf("chat", asking("", gpu, 1)), []string{"schedulerName"}},
		"made by an exempt account":             {validator, podOf("search", asking("", gpu, 1)), nil},
		"runs as an exempt account":             {w, runsAs("search"), nil},
		"runs as one of the same name":          {tenant, runsAs("chat"), []string{"schedulerName"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want == nil {
				gomega.NewWithT(t).Expect(try(tc.as, tc.pod)).To(gomega.Succeed())
			} else {
				gomega.NewWithT(t).Expect(try(tc.as, tc.pod)).To(forbidden(tc.want...))
			}
		})
	}
	t.Run("charge", func(t *testing.T) { chargeTests(t, w, validator) })
	t.Run("a tenant cannot take the rule away", func(t *testing.T) {
		for _, object := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}, policy.DeepCopy()} {
			if object.GetName() == "" {
				object.SetName(v1alpha1.BypassPolicyName)
			}
			gomega.NewWithT(t).Expect(tenant.Delete(t.Context(), object)).To(forbidden("cannot delete resource"))
		}
	})
	t.Run("two writers of one status come to rest", func(t *testing.T) {
		last, since := "", time.Now()
		gomega.NewWithT(t).Eventually(func() (time.Duration, error) {
			err := w.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
			if policy.ResourceVersion != last {
				last, since = policy.ResourceVersion, time.Now()
			}
			return time.Since(since), err
		}).WithTimeout(waitLong).Should(gomega.BeNumerically(">", 3*time.Second))
	})
	t.Run("what somebody changes is put back", func(t *testing.T) {
		for _, name := range []string{v1alpha1.BypassPolicyName, v1alpha1.ChargePolicyName} {
			t.Run(name, func(t *testing.T) { putBack(t, w, name) })
		}
	})
	t.Run("the list only grows", func(t *testing.T) { grows(t, w) })
	t.Run("modes", func(t *testing.T) { modes(t, w, tenant, past) })
	t.Run("without an operator", func(t *testing.T) {
		w.stopped(t)
		gomega.NewWithT(t).Expect(try(tenant, past)).To(forbidden("write schedulerName: volcano"))
		gomega.NewWithT(t).Expect(try(tenant, podOf("chat", asking("volcano", gpu, 2)))).To(gomega.Succeed())
	})
	w.remove(t, policy)
	for _, name := range []string{v1alpha1.BypassPolicyName, v1alpha1.ChargePolicyName} {
		for _, object := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
			g.Eventually(func() error { return w.Get(t.Context(), client.ObjectKey{Name: name}, object) }).Should(notFound(), name)
		}
	}
}

// putBack: drift of the objects lasts no longer than the operator needs to see it.
func putBack(t *testing.T, w *gate, name string) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitLong)
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
	g.Eventually(w.eventReasons(t)).Should(gomega.ContainElement(v1alpha1.EventGuardRestored))
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.Expect(w.Delete(t.Context(), binding)).To(gomega.Succeed())
	g.Eventually(func() error { return w.Get(t.Context(), key, binding) }).Should(gomega.Succeed())
}

// grows: a card stays one when the last node that offers it leaves.
func grows(t *testing.T, w *gate) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitLong)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "novel", Labels: map[string]string{"example.com/card.product": "Novel-1", "example.com/card.memory": "1024"}}}
	g.Expect(w.Create(t.Context(), node)).To(gomega.Succeed())
	base := node.DeepCopy()
	node.Status.Allocatable = corev1.ResourceList{"example.com/card": *quantity("1")}
	node.Status.Capacity = node.Status.Allocatable
	g.Expect(w.Status().Patch(t.Context(), node, client.MergeFrom(base))).To(gomega.Succeed())
	listed := func() (string, error) {
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		err := w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.BypassPolicyName}, policy)
		return policy.Annotations[v1alpha1.AnnotationCardResources], err
	}
	g.Eventually(listed).Should(gomega.ContainSubstring("example.com/card"))
	w.remove(t, node)
	w.restarted(t)
	g.Consistently(listed).WithTimeout(2 * time.Second).Should(gomega.ContainSubstring("example.com/card"))
}

func modes(t *testing.T, w *gate, tenant client.Client, past *corev1.Pod) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitLong)
	set := func(mode v1alpha1.BypassMode) {
		policy := &v1alpha1.ServiceTypePolicy{}
		g.Expect(w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PolicyName}, policy)).To(gomega.Succeed())
		base := policy.DeepCopy()
		policy.Spec.Admission.Bypass = mode
		g.Expect(w.Patch(t.Context(), policy, client.MergeFrom(base))).To(gomega.Succeed())
	}
	set(v1alpha1.BypassWarn)
	g.Eventually(w.guard(t)).Should(gomega.Equal("False/OnlyWarned"))
	g.Eventually(func() (string, error) {
		return w.warnings.during(func() error { return w.Create(t.Context(), past.DeepCopy(), client.DryRunAll) })
	}).Should(gomega.ContainSubstring("write schedulerName: volcano"))
	set(v1alpha1.BypassOff)
	g.Eventually(w.guard(t)).Should(gomega.Equal("False/SwitchedOff"))
	g.Eventually(func() (string, error) {
		return w.warnings.during(func() error { return w.Create(t.Context(), past.DeepCopy(), client.DryRunAll) })
	}).Should(gomega.BeEmpty())
	set(v1alpha1.BypassDeny)
	g.Eventually(func() error { return tenant.Create(t.Context(), past.DeepCopy(), client.DryRunAll) }).Should(forbidden("schedulerName"))
}

// eventReasons lists the reasons of all events.
func (w *gate) eventReasons(t *testing.T) func() ([]string, error) {
	return func() ([]string, error) {
		var list corev1.EventList
		err := w.List(t.Context(), &list)
		reasons := make([]string, len(list.Items))
		for i := range list.Items {
			reasons[i] = list.Items[i].Reason
		}
		return reasons, err
	}
}
