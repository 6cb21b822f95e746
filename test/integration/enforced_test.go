package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
)

// both expects the condition Enforced of the CardQuota and of the policy.
func both(t *testing.T, name string, want types.GomegaMatcher) {
	t.Helper()
	g := need(t)
	g.Eventually(condition(t, name, "Enforced")).Should(want, "of the CardQuota")
	g.Eventually(policyCondition(t, "Enforced")).Should(want, "of the policy")
}

// TestEnforcedWithoutAPolicy: nothing is known, and that makes nobody unready.
func TestEnforcedWithoutAPolicy(t *testing.T) {
	g, name, _ := begin(t)
	g.Eventually(condition(t, name, "Enforced")).Should(gomega.HavePrefix("Unknown/NoPolicy: "))
	g.Consistently(condition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready: "))
	g.Expect(series(t, "cardquota_enforced", "reason", "")()).To(gomega.BeEmpty())
}

// TestEnforcedFollowsTheHeartbeat: a steady heartbeat is proof and costs no
// write; silence ends the proof by itself, 20 to 30 seconds after the last
// session; the next session brings it back.
func TestEnforcedFollowsTheHeartbeat(t *testing.T) {
	g := need(t)
	name := unique(t, "")
	s := inForce(t)
	quota := newQuota(name, nil)
	admin.CreateWithCleanup(t, quota)
	setState(t, name, "Open")
	both(t, name, gomega.HavePrefix("False/NoHeartbeat: no scheduler of Cardquota has ever finished a session"))
	g.Eventually(condition(t, name, "Ready")).Should(gomega.HavePrefix("False/NoHeartbeat: queue " + name + " carries this quota, but"))

	stop := s.keepBeating()
	both(t, name, gomega.HavePrefix("True/Enforced: the scheduler enforces"))
	g.Eventually(condition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	g.Eventually(policyCondition(t, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("Scheduler",
		&v1alpha1.SchedulerStatus{Identity: ourScheduler, Version: "v0.4.0", ConfigHash: s.report.ConfigHash}))
	enforced := series(t, "cardquota_enforced", "reason", "")
	g.Expect(enforced()).To(gomega.Equal(map[string]float64{"Enforced": 1}))

	writes, policyWrites := count(t, &v1alpha1.CardQuotaList{}, name), count(t, &v1alpha1.ServiceTypePolicyList{}, v1alpha1.PolicyName)
	from := s.sessions()
	g.Eventually(s.sessions).Should(gomega.BeNumerically(">=", from+15))
	g.Expect(writes()).To(gomega.BeZero(), "writes of the CardQuota in 15 heartbeats")
	g.Expect(policyWrites()).To(gomega.BeZero(), "writes of the policy")

	stop()
	const left = 2 * time.Second
	g.Expect(s.beat(t.Context(), enforcement.StaleAfter-left)).To(gomega.Succeed(), "a session that was closed 18 seconds ago is the last one")
	last := s.report.At
	g.Eventually(condition(t, name, "Enforced")).WithTimeout(30 * time.Second).Should(gomega.HavePrefix("False/NoHeartbeat: no scheduler of Cardquota has finished a session since"))
	silence := time.Since(last)
	t.Logf("Enforced became False %s after the last session", silence.Round(time.Millisecond))
	g.Expect(silence).To(gomega.And(gomega.BeNumerically(">=", enforcement.StaleAfter), gomega.BeNumerically("<", 30*time.Second)))
	both(t, name, gomega.HavePrefix("False/NoHeartbeat"))
	g.Expect(enforced()).To(gomega.Equal(map[string]float64{"NoHeartbeat": 0}))
	g.Eventually(admin.EventMessages(t, quota, v1alpha1.EventNotEnforced)).Should(gomega.ContainElement(gomega.HavePrefix("NoHeartbeat: no scheduler of Cardquota has finished")))

	s.keepBeating()
	both(t, name, gomega.HavePrefix("True/Enforced"))
	g.Eventually(admin.EventMessages(t, quota, v1alpha1.ReasonEnforced)).ShouldNot(gomega.BeEmpty())
}

// TestStockSchedulerInPlaceOfOurs plays a handover to the stock scheduler and
// back, with and without leader election.
func TestStockSchedulerInPlaceOfOurs(t *testing.T) {
	g := need(t)
	name := unique(t, "")
	s := inForce(t)
	quota := newQuota(name, nil)
	admin.CreateWithCleanup(t, quota)
	setState(t, name, "Open")
	g.Expect(s.beat(t.Context(), enforcement.StaleAfter+time.Second)).To(gomega.Succeed())
	both(t, name, gomega.HavePrefix("False/NoHeartbeat"))

	lead(t, stockScheduler+"_0f3e", time.Minute)
	both(t, name, gomega.And(gomega.HavePrefix("False/StockScheduler"), gomega.ContainSubstring(stockScheduler+"_0f3e has held the leader Lease")))
	// Without a renewal it ends by itself.
	g.Eventually(condition(t, name, "Enforced")).Should(gomega.HavePrefix("False/NoHeartbeat"))

	pod := stockPod(t)
	both(t, name, gomega.And(gomega.HavePrefix("False/StockScheduler"), gomega.ContainSubstring("pod "+systemNamespace+"/"+stockScheduler)))
	g.Eventually(admin.EventMessages(t, quota, v1alpha1.EventNotEnforced)).Should(gomega.ContainElement(gomega.HavePrefix("StockScheduler: ")))

	// Ours begins while the other one is still there.
	s.keepBeating()
	both(t, name, gomega.And(gomega.HavePrefix("False/SecondScheduler"), gomega.ContainSubstring(stockScheduler)))
	admin.DeleteAndWait(t, pod)
	both(t, name, gomega.HavePrefix("True/Enforced"))

	// Ours reports that it works by another text, and that somebody else binds its pods.
	right := s.report.ConfigHash
	s.says(func(r *enforcement.Report) { r.ConfigHash, r.ConfigProblem = "another", "unknown action fly" })
	both(t, name, gomega.And(gomega.HavePrefix("False/ConfigNotLoaded"), gomega.ContainSubstring("unknown action fly")))
	s.says(func(r *enforcement.Report) {
		r.ConfigHash, r.ConfigProblem, r.SecondScheduler = right, "", []string{"lab/a", "lab/b"}
	})
	both(t, name, gomega.And(gomega.HavePrefix("False/SecondScheduler"), gomega.ContainSubstring("pods lab/a, lab/b")))
	s.says(func(r *enforcement.Report) { r.SecondScheduler = nil })
	both(t, name, gomega.HavePrefix("True/Enforced"))
}

// TestCardsHeldPastTheScheduler: what the API server keeps of a binding and of a
// preset node name tells the two apart, with the operator's own cache.
func TestCardsHeldPastTheScheduler(t *testing.T) {
	name := unique(t, "")
	other := name + "-2"
	g := need(t)
	s := enforcing(t, name)
	ready(t, newQuota(other, nil))
	newNode(t, name, "NVIDIA-H200")

	proper := newPod(name+"-proper", name, "", 1)
	admin.CreateWithCleanup(t, proper)
	bind(t, proper, name)
	setPod(t, proper, running)
	g.Eventually(summary(t, name)).Should(gomega.Equal("1/8 NVIDIA-H200"))
	g.Consistently(condition(t, name, "Enforced")).Should(gomega.HavePrefix("True/Enforced"), "a pod that was bound came by our gates")

	cases := map[string]struct {
		change func(*corev1.Pod)
		why    string
	}{
		"another scheduler": {func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName }, "schedulerName is default-scheduler"},
		"preset node name":  {func(p *corev1.Pod) { p.Spec.NodeName = name }, "nodeName was set by integration.test"},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			pod := newPod(name+"-past", name, "", 2)
			tc.change(pod)
			admin.CreateWithCleanup(t, pod)
			if pod.Spec.NodeName == "" {
				bind(t, pod, name)
			}
			want := gomega.HavePrefix("False/CardBypass: 1 pod holds 2 NVIDIA-H200 past Cardquota's scheduler; delete and create again " +
				"with its schedulerName and without nodeName: " + labNamespace + "/" + pod.Name + " (2 NVIDIA-H200: " + tc.why + ")")
			both(t, name, want)
			g.Expect(condition(t, other, "Enforced")()).To(gomega.HavePrefix("True/Enforced"), "of another queue")
			// Our scheduler sees that somebody else placed the pod; this is why.
			s.says(func(r *enforcement.Report) { r.SecondScheduler = []string{labNamespace + "/" + pod.Name} })
			g.Consistently(policyCondition(t, "Enforced")).Should(want)
			s.says(func(r *enforcement.Report) { r.SecondScheduler = nil })
			admin.DeleteAndWait(t, pod)
			both(t, name, gomega.HavePrefix("True/Enforced"))
		})
	}
}

// TestErasedRecord: who takes managedFields away, or rewrites them as if the node
// name had never been theirs, does not get past the rule, and who does so with a
// pod that was bound raises no alarm.
func TestErasedRecord(t *testing.T) {
	g := need(t)
	name := unique(t, "")
	enforcing(t, name)
	newNode(t, name, "NVIDIA-H200")
	rewrite := func(pod *corev1.Pod, record []metav1.ManagedFieldsEntry) {
		g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(gomega.Succeed())
		base := pod.DeepCopy()
		pod.ManagedFields = record
		g.Expect(admin.Patch(t.Context(), pod, client.MergeFrom(base))).To(gomega.Succeed())
	}
	preset := newPod(name+"-preset", name, name, 2)
	admin.CreateWithCleanup(t, preset)
	past := gomega.And(gomega.HavePrefix("False/CardBypass"), gomega.ContainSubstring("nodeName was set by integration.test"))
	both(t, name, past)
	rewrite(preset, []metav1.ManagedFieldsEntry{{}})
	rewrite(preset, []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-create", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)},
	}})
	g.Consistently(condition(t, name, "Enforced")).Should(past)
	admin.DeleteAndWait(t, preset)
	both(t, name, gomega.HavePrefix("True/Enforced"))

	bound := newPod(name+"-bound", name, "", 2)
	admin.CreateWithCleanup(t, bound)
	bind(t, bound, name)
	setPod(t, bound, running)
	g.Eventually(summary(t, name)).Should(gomega.Equal("2/8 NVIDIA-H200"))
	rewrite(bound, []metav1.ManagedFieldsEntry{{}})
	g.Consistently(condition(t, name, "Enforced")).Should(gomega.HavePrefix("True/Enforced"), "it was seen to be bound properly: whoever has a pod could raise an alarm")
}

// TestABaseOutOfReach: the shipped rights are for one name. A policy that points elsewhere is
// answered all the same.
func TestABaseOutOfReach(t *testing.T) {
	g := need(t)
	name := unique(t, "")
	admin.CreateWithCleanup(t, newQuota(name, nil))
	newPolicy(t, func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.BaseConfigMap.Name = "out-of-reach" })
	g.Eventually(condition(t, name, "Enforced")).Should(gomega.And(gomega.HavePrefix("False/NotConfigured"), gomega.ContainSubstring("forbidden")))
	g.Eventually(policyCondition(t, "Enforced")).Should(gomega.HavePrefix("False/NotConfigured"))
}
