package admission

import (
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// quotaTests: a CardQuota is refused if the operator would not apply it: for a queue of another one, beyond the 8
// cards of the fleet when overAllocation is Deny (6 + 3 > 8), or with an undefined service type. A policy is
// refused when it contradicts itself or names an unknown time zone. It may drop a service type that CardQuotas use,
// with a warning.
func quotaTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	const card = "NVIDIA-GeForce-RTX-4090" // the fleet has 8
	first := newQuota("first", func(q *v1alpha1.CardQuota) {
		q.Spec.QueueName = "shared"
		q.Spec.Cards = []v1alpha1.Card{{Name: card, Quota: ptr.To(int64(3))}}
	})

	w.CreateWithCleanup(t, first)
	second := newQuota("second", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = "shared" })
	g.Eventually(func() error { return w.dryRunCreate(t, second.DeepCopy()) }).Should(beDenied("cardquotas.cardquota.dev", "queue shared belongs to CardQuota first of tenant team"))

	greedy := newQuota("greedy", func(q *v1alpha1.CardQuota) {
		q.Spec.OverAllocation = v1alpha1.OverAllocationDeny
		q.Spec.Cards = []v1alpha1.Card{{Name: card, Quota: ptr.To(int64(6))}}
	})

	w.waitUntilDenied(t, greedy, "overAllocation is Deny", "9 granted, 8 healthy, 1 too many (6 here, 3 by first)")
	greedy.Spec.Cards[0].Quota = ptr.To(int64(5))
	g.Expect(w.dryRunCreate(t, greedy)).To(gomega.Succeed())

	policy := w.applyPolicy(t, v1alpha1.Admission{})
	odd := newQuota("odd", func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "batch" })
	g.Eventually(func() error { return w.dryRunCreate(t, odd.DeepCopy()) }).Should(beDenied("does not define batch: write one of inference, training"))

	w.waitUntilPatchDenied(t, policy, `{"spec":{"serviceTypes":[{"name":"a","priority":1,"reclaimFrom":["b"]},{"name":"b","priority":2,"reclaimPolicy":"WhenNeeded"}]}}`,
		"servicetypepolicies.cardquota.dev", "cards are taken back only from queues of lower priority")
	w.waitUntilPatchDenied(t, policy, `{"spec":{"billingTimeZone":"Europe/Atlantis"}}`, "there is no such time zone: write a name of the IANA database, such as Europe/Berlin, or UTC")
	g.Expect(framework.MergePatch(t, w, policy, `{"spec":{"billingTimeZone":"Europe/Berlin","serviceTypes":[{"name":"batch","priority":1}]}}`)).To(gomega.Succeed())
	g.Eventually(func() error { return w.dryRunCreate(t, odd.DeepCopy()) }).Should(gomega.Succeed())

	w.CreateWithCleanup(t, odd)
	g.Eventually(w.warnings.record(func() error { // when the operator has seen it
		return framework.MergePatch(t, w, policy, `{"spec":{"serviceTypes":null}}`, client.DryRunAll)
	})).Should(gomega.ContainSubstring("odd (batch)"), "a type may be removed while CardQuotas are of it")
}

// vcjobTests: with vcjobEvictionPolicy RestartOnEviction a vcjob gets a rule to restart after an eviction, and 100
// retries instead of Volcano's 3, before Volcano's own webhook adds its defaults. This is for queues from which cards
// are reclaimed, here nights (training), not for days (inference).
func vcjobTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	for name, serviceType := range map[string]string{"nights": "training", "days": "inference"} {
		w.CreateWithCleanup(t, newQuota(name, func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = serviceType }))
		w.openQueue(t, name)
	}

	submitted := func(job *vcbatch.Job) vcbatch.JobSpec {
		g.Eventually(func() error { return w.dryRunCreate(t, job) }).Should(gomega.Succeed(), "when Volcano's webhook has seen the queue open")
		return job.Spec
	}
	g.Expect(submitted(trainingJob("plain", "nights", nil)).MaxRetry).To(gomega.Equal(int32(3)), "no policy asks for it")

	w.applyPolicy(t, v1alpha1.Admission{VCJobEvictionPolicy: v1alpha1.VCJobRestartOnEviction})
	g.Eventually(func() int32 { return submitted(trainingJob("tide", "nights", nil)).MaxRetry }).Should(gomega.Equal(int32(100)))

	restart := []vcbatch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}
	for t, tc := range check.Cases(t, map[string]struct {
		queue    string
		change   func(*vcbatch.Job)
		retries  int32
		policies []vcbatch.LifecyclePolicy
	}{
		"no policies in a training queue":   {"nights", nil, 100, restart},
		"7 retries in a training queue":     {"nights", func(j *vcbatch.Job) { j.Spec.MaxRetry = 7 }, 7, restart},
		"no policies in an inference queue": {"days", nil, 3, nil},
	}) {
		framework.NewGomega(t).Eventually(func(g gomega.Gomega) { // nothing is filled in when the operator does not answer in time
			job := trainingJob("x", tc.queue, tc.change)
			g.Expect(w.dryRunCreate(t, job)).To(gomega.Succeed())
			g.Expect(job.Spec.MaxRetry).To(gomega.Equal(tc.retries))
			g.Expect(job.Spec.Policies).To(gomega.Equal(tc.policies))
		}).Should(gomega.Succeed())
	}
}

// operatorDownTests: while the operator is stopped, pods and workloads are created unchecked, because tenants must
// go on. Only writes of quotas are refused, which could break limits. Its objects can still be changed otherwise
// and deleted, and its namespace is not blocked.
func operatorDownTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	quota := newQuota("orphan", nil)
	w.CreateWithCleanup(t, quota)
	w.openQueue(t, "orphan")

	completed := batchJob("completed", withRules([]batchv1.PodFailurePolicyRule{evictionRule}))
	w.CreateWithCleanup(t, completed)
	w.stopOperator(t)

	tenant := w.tenantClient(t, "chat")
	for name, object := range map[string]client.Object{
		"a pod without cards":                    podOf("chat", podSpecWith("", gpu, 0)),
		"a pod with cards":                       podOf("chat", podSpecWith("volcano", gpu, 1)),
		"a Deployment with cards":                deploymentOf("alone", podSpecWith("volcano", gpu, 1), map[string]string{v1alpha1.AnnotationCardName: "NVIDIA-H200"}),
		"a Deployment without cards":             deploymentOf("alone", podSpecWith("", gpu, 0), nil),
		"a Deployment with an invalid card name": deploymentOf("alone", podSpecWith("volcano", gpu, 1), map[string]string{v1alpha1.AnnotationCardName: "|"}),
	} {
		g.Expect(tenant.Create(t.Context(), object, client.DryRunAll)).To(gomega.Succeed(), name)
	}

	g.Expect(w.dryRunCreate(t, trainingJob("alone", "orphan", nil))).To(gomega.Succeed(), "a vcjob")
	g.Expect(w.dryRunCreate(t, batchJob("alone", nil))).To(gomega.Succeed(), "a Job")
	g.Expect(framework.MergePatch(t, w, completed, `{"spec":{"parallelism":2}}`)).To(gomega.Succeed())
	g.Expect(framework.MergePatch(t, w, completed, `{"spec":{"podFailurePolicy":null}}`)).To(beDenied("field is immutable"), "the operator does not put it back")
	g.Expect(w.dryRunCreate(t, newQuota("late", nil))).To(beDenied(`failed calling webhook "cardquotas.cardquota.dev"`))
	g.Expect(framework.MergePatch(t, w, quota, `{"spec":{"cards":[{"name":"NVIDIA-H200","quota":9}]}}`)).To(beDenied(`failed calling webhook "cardquotas.cardquota.dev"`))
	g.Expect(framework.MergePatch(t, w, quota, `{"metadata":{"labels":{"a":"b"}}}`)).To(gomega.Succeed())
	g.Expect(w.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Expect(framework.MergePatch(t, w, quota, `{"metadata":{"finalizers":null}}`)).To(gomega.Succeed())
	g.Eventually(w.IsGone(t.Context(), quota)).Should(gomega.BeTrue())
	g.Expect(framework.MergePatch(t, w, builder.Namespace("chat"), `{"metadata":{"labels":{"a":"b"}}}`)).To(gomega.Succeed())
}
