package security

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

// guarded waits until the API server refuses pods that pass the scheduler by.
func guarded(t *testing.T) {
	t.Helper()
	expect(t).Eventually(func() error {
		return suite.admin.Create(t.Context(), pod("guarded", "any", func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
}

// TestPassingTheSchedulerByIsRefused: who binds a pod decides whether quota is asked.
func TestPassingTheSchedulerByIsRefused(t *testing.T) {
	guarded(t)
	for what, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"another scheduler":      {func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, "write schedulerName: volcano"},
		"no scheduler named":     {func(p *corev1.Pod) { p.Spec.SchedulerName = "" }, "write schedulerName: volcano"},
		"a node of its own":      {func(p *corev1.Pod) { p.Spec.NodeName = "h200-0" }, "leave nodeName out"},
		"by an init container":   {byInitContainer, "leave nodeName out"},
		"without naming a card":  {func(p *corev1.Pod) { p.Annotations, p.Spec.SchedulerName = nil, "mine" }, "write schedulerName: volcano"},
		"as a false mirror pod":  {asMirror, "leave nodeName out"},
		"another model's slices": {bySlices, "leave nodeName out"},
	} {
		t.Run(what, func(t *testing.T) {
			err := tessClient(t).Create(t.Context(), pod("bypass", "any", tc.change), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a refusal that says: %s", err, tc.want)
			}
		})
	}
	free := pod("free", "any", func(p *corev1.Pod) {
		p.Annotations, p.Spec.SchedulerName, p.Spec.NodeName = nil, "default-scheduler", "h200-0"
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	})
	if err := tessClient(t).Create(t.Context(), free, client.DryRunAll); err != nil {
		t.Errorf("a pod without cards is none of our business: %v", err)
	}
}

func byInitContainer(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{*p.Spec.Containers[0].DeepCopy()}
	p.Spec.InitContainers[0].Name = "init"
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	p.Spec.NodeName = "h200-0"
}

func asMirror(p *corev1.Pod) {
	p.Annotations[corev1.MirrorPodAnnotationKey] = "mine"
	p.Spec.NodeName = "h200-0"
}

func bySlices(p *corev1.Pod) {
	limits := p.Spec.Containers[0].Resources.Limits
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/mig-1g.18gb": limits[gpu]}
	p.Annotations, p.Spec.NodeName = nil, "mig"
}

// TestAnExemptionIsOneAccount: a name alone is nothing; anybody can have one.
func TestAnExemptionIsOneAccount(t *testing.T) {
	guarded(t)
	past := func(p *corev1.Pod) { p.Spec.NodeName = "h200-0" }
	exempt := func(namespace string) *corev1.Pod {
		return pod("validator", "any", func(p *corev1.Pod) {
			p.Namespace, p.Spec.ServiceAccountName = namespace, validator
			past(p)
		})
	}
	for _, namespace := range []string{tenant, neighbour} {
		create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: validator}})
	}
	if err := tessClient(t).Create(t.Context(), exempt(tenant), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "leave nodeName out") {
		t.Errorf("an account of the same name in another namespace: %v", err)
	}
	if err := suite.admin.Create(t.Context(), exempt(neighbour), client.DryRunAll); err != nil {
		t.Errorf("the exempt account itself: %v", err)
	}
	if err := tessClient(t).Create(t.Context(), exempt(neighbour), client.DryRunAll); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		t.Errorf("tess in the namespace of the exempt account: %v", err)
	}
}

// TestATemplateIsRefusedWhenItIsWritten: the pods of a ReplicaSet are created by
// a controller, and what it is told nobody reads.
func TestATemplateIsRefusedWhenItIsWritten(t *testing.T) {
	guarded(t)
	template := pod("", "any", func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{v1alpha1.AnnotationCardName: h200}},
				Spec:       template.Spec,
			},
		},
	}
	err := tessClient(t).Create(t.Context(), deployment, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "schedulerName: volcano") {
		t.Errorf("got %v, want a refusal that says to write schedulerName: volcano", err)
	}
}
