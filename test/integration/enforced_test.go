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
	"cardquota.dev/operator/internal/testing/check"
)

// expectEnforced expects a condition Enforced of the CardQuota and of the policy.
func expectEnforced(t *testing.T, name string, want types.GomegaMatcher) {
	g := requireControlPlane(t)
	g.Eventually(cardQuotaCondition(t, name, "Enforced")).Should(want, "of the CardQuota")
	g.Eventually(policyCondition(t, "Enforced")).Should(want, "of the policy")
}

// TestEnforcedIsUnknownWithoutAPolicy: without a ServiceTypePolicy the operator does not know which configuration the
// scheduler needs, so condition Enforced is Unknown. The CardQuota is ready all the same, and the metric
// cardquota_enforced has no series.
func TestEnforcedIsUnknownWithoutAPolicy(t *testing.T) {
	g, name, _ := startQuotaTest(t)
	g.Eventually(cardQuotaCondition(t, name, "Enforced")).Should(gomega.HavePrefix("Unknown/NoPolicy: "))
	g.Consistently(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready: "))
	g.Expect(metricSeries("cardquota_enforced", "reason", "")()).To(gomega.BeEmpty())
}

// TestEnforcedFollowsTheHeartbeat: the scheduler writes a heartbeat after each session (scheduling cycle), which
// proves that quotas are enforced. Then condition Enforced of the CardQuota and the policy is True, and the metric is
// 1. Steady heartbeats cause no writes of statuses. Silence ends the proof by itself, 20 to 30 seconds after the last
// session, with an event. The next session restores it. Condition Ready of the CardQuota needs the proof, too.
func TestEnforcedFollowsTheHeartbeat(t *testing.T) {
	g := requireControlPlane(t)
	name := uniqueName(t, "")
	s := startWithPolicy(t)
	quota := newQuota(name, nil)
	admin.CreateWithCleanup(t, quota)

	setState(t, name, "Open")
	expectEnforced(t, name, gomega.HavePrefix("False/NoHeartbeat: no Cardquota scheduler has ever finished a session"))
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("False/NoHeartbeat: queue " + name + " carries this quota, but"))

	stop := s.keepBeating()
	expectEnforced(t, name, gomega.HavePrefix("True/Enforced: the scheduler enforces"))
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	g.Eventually(policyCondition(t, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("Scheduler",
		&v1alpha1.SchedulerStatus{Identity: ourScheduler, Version: "v0.4.0", ConfigHash: s.report.ConfigHash}))

	enforced := metricSeries("cardquota_enforced", "reason", "")
	g.Expect(enforced()).To(gomega.Equal(map[string]float64{"Enforced": 1}))

	writes := countWrites(t, &v1alpha1.CardQuotaList{}, name)
	policyWrites := countWrites(t, &v1alpha1.ServiceTypePolicyList{}, v1alpha1.PolicyName)
	from := s.countSessions()
	g.Eventually(s.countSessions).Should(gomega.BeNumerically(">=", from+15))
	g.Expect(writes()).To(gomega.BeZero(), "writes of the CardQuota in 15 heartbeats")
	g.Expect(policyWrites()).To(gomega.BeZero(), "writes of the policy")

	stop()
	const left = 2 * time.Second
	g.Expect(s.writeHeartbeat(t.Context(), enforcement.StaleAfter-left)).To(gomega.Succeed(), "a session that was closed 18 seconds ago is the last one")
	last := s.report.At
	g.Eventually(cardQuotaCondition(t, name, "Enforced")).WithTimeout(30 * time.Second).Should(gomega.HavePrefix("False/NoHeartbeat: no Cardquota scheduler has finished a session since"))

	silence := time.Since(last)
	t.Logf("Enforced became False %s after the last session", silence.Round(time.Millisecond))
	g.Expect(silence).To(gomega.And(gomega.BeNumerically(">=", enforcement.StaleAfter), gomega.BeNumerically("<", 30*time.Second)))

	expectEnforced(t, name, gomega.HavePrefix("False/NoHeartbeat"))
	g.Expect(enforced()).To(gomega.Equal(map[string]float64{"NoHeartbeat": 0}))
	g.Eventually(admin.EventMessages(t, quota, v1alpha1.EventNotEnforced)).Should(gomega.ContainElement(gomega.HavePrefix("NoHeartbeat: no Cardquota scheduler has finished")))

	s.keepBeating()
	expectEnforced(t, name, gomega.HavePrefix("True/Enforced"))
	g.Eventually(admin.EventMessages(t, quota, v1alpha1.ReasonEnforced)).ShouldNot(gomega.BeEmpty())
}

// TestEnforcedNamesWhatPreventsEnforcement: Volcano's own scheduler enforces no quotas. Condition Enforced names it
// when it has the leader Lease, or when its pod runs, also beside ours. It also names a configuration that our
// scheduler has not loaded, and pods that another scheduler bound. Each report ends when its cause ends.
func TestEnforcedNamesWhatPreventsEnforcement(t *testing.T) {
	g := requireControlPlane(t)
	name := uniqueName(t, "")
	s := startWithPolicy(t)
	quota := newQuota(name, nil)
	admin.CreateWithCleanup(t, quota)

	setState(t, name, "Open")
	g.Expect(s.writeHeartbeat(t.Context(), enforcement.StaleAfter+time.Second)).To(gomega.Succeed(), "a heartbeat that is too old")
	expectEnforced(t, name, gomega.HavePrefix("False/NoHeartbeat"))

	writeLeaderLease(t, stockScheduler+"_0f3e", time.Minute) // elected a minute ago
	expectEnforced(t, name, gomega.And(gomega.HavePrefix("False/StockScheduler"), gomega.ContainSubstring(stockScheduler+"_0f3e has held the leader Lease")))

	// The Lease expires without a renewal, and the report of it ends.
	g.Eventually(cardQuotaCondition(t, name, "Enforced")).Should(gomega.HavePrefix("False/NoHeartbeat"))

	pod := stockPod(t)
	expectEnforced(t, name, gomega.And(gomega.HavePrefix("False/StockScheduler"), gomega.ContainSubstring("pod "+systemNamespace+"/"+stockScheduler)))
	g.Eventually(admin.EventMessages(t, quota, v1alpha1.EventNotEnforced)).Should(gomega.ContainElement(gomega.HavePrefix("StockScheduler: ")))

	// Ours starts while the other one still runs.
	s.keepBeating()
	expectEnforced(t, name, gomega.And(gomega.HavePrefix("False/SecondScheduler"), gomega.ContainSubstring(stockScheduler)))
	admin.DeleteAndWait(t, pod)
	expectEnforced(t, name, gomega.HavePrefix("True/Enforced"))

	// Ours reports that it uses another configuration, and then that another scheduler binds its pods.
	right := s.report.ConfigHash
	s.changeReport(func(r *enforcement.Report) {
		r.ConfigHash = "another"
		r.ConfigProblem = "unknown action fly"
	})

	expectEnforced(t, name, gomega.And(gomega.HavePrefix("False/ConfigNotLoaded"), gomega.ContainSubstring("unknown action fly")))
	s.changeReport(func(r *enforcement.Report) {
		r.ConfigHash = right
		r.ConfigProblem = ""
		r.SecondScheduler = []string{"lab/a", "lab/b"}
	})

	expectEnforced(t, name, gomega.And(gomega.HavePrefix("False/SecondScheduler"), gomega.ContainSubstring("pods lab/a, lab/b")))
	s.changeReport(func(r *enforcement.Report) { r.SecondScheduler = nil })
	expectEnforced(t, name, gomega.HavePrefix("True/Enforced"))
}

// TestCardsTakenWithoutTheSchedulerAreReported: a pod that names another scheduler, or that was created with a node
// name, takes 2 cards uncharged: a bypass. Condition Enforced of its queue says which pod, and what to do. Another
// queue is not affected. A pod that a scheduler bound is no bypass: its managed fields, which the API server records,
// do not have the node name.
func TestCardsTakenWithoutTheSchedulerAreReported(t *testing.T) {
	name := uniqueName(t, "")
	other := name + "-2"
	g := requireControlPlane(t)
	s := startEnforcing(t, name)
	createReady(t, newQuota(other, nil))
	newNode(t, name, "NVIDIA-H200")

	proper := newPod(name+"-proper", name, "", 1)
	admin.CreateWithCleanup(t, proper)
	bindPod(t, proper, name)
	setPod(t, proper, setRunning)
	g.Eventually(statusSummary(t, name)).Should(gomega.Equal("1/8 NVIDIA-H200"))
	g.Consistently(cardQuotaCondition(t, name, "Enforced")).Should(gomega.HavePrefix("True/Enforced"), "a pod that a scheduler bound is no bypass")

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*corev1.Pod)
		why    string
	}{
		"another scheduler": {func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName }, "schedulerName is default-scheduler"},
		"preset node name":  {func(p *corev1.Pod) { p.Spec.NodeName = name }, "nodeName was set by integration.test"}, // this test's client
	}) {
		pod := newPod(name+"-bypass", name, "", 2)
		tc.change(pod)
		admin.CreateWithCleanup(t, pod)

		if pod.Spec.NodeName == "" {
			bindPod(t, pod, name)
		}

		want := gomega.HavePrefix("False/CardBypass: 1 pod holds 2 NVIDIA-H200 that Cardquota's scheduler did not assign; delete and create again " +
			"with its schedulerName and without nodeName: " + labNamespace + "/" + pod.Name + " (2 NVIDIA-H200: " + tc.why + ")")
		expectEnforced(t, name, want)
		g.Expect(cardQuotaCondition(t, other, "Enforced")()).To(gomega.HavePrefix("True/Enforced"), "of another queue")

		// Our scheduler reports the pod as bound by a second scheduler. The bypass explains it, so the reason stays.
		s.changeReport(func(r *enforcement.Report) { r.SecondScheduler = []string{labNamespace + "/" + pod.Name} })
		g.Consistently(policyCondition(t, "Enforced")).Should(want)
		s.changeReport(func(r *enforcement.Report) { r.SecondScheduler = nil })
		admin.DeleteAndWait(t, pod)
		expectEnforced(t, name, gomega.HavePrefix("True/Enforced"))
	}
}

// TestErasingManagedFieldsHidesNoBypass: managed fields prove that the node name of a pod was preset. A user who
// removes them, or replaces them by others, does not end the report. Doing the same with a pod that was bound
// properly starts none: else each user with a pod could raise an alarm.
func TestErasingManagedFieldsHidesNoBypass(t *testing.T) {
	g := requireControlPlane(t)
	name := uniqueName(t, "")
	startEnforcing(t, name)
	newNode(t, name, "NVIDIA-H200")

	rewrite := func(pod *corev1.Pod, record []metav1.ManagedFieldsEntry) {
		g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(gomega.Succeed())
		base := pod.DeepCopy()
		pod.ManagedFields = record
		g.Expect(admin.Patch(t.Context(), pod, client.MergeFrom(base))).To(gomega.Succeed())
	}

	preset := newPod(name+"-preset", name, name, 2)
	admin.CreateWithCleanup(t, preset)
	bypassed := gomega.And(gomega.HavePrefix("False/CardBypass"), gomega.ContainSubstring("nodeName was set by integration.test"))
	expectEnforced(t, name, bypassed)

	rewrite(preset, []metav1.ManagedFieldsEntry{{}})
	rewrite(preset, []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-create", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)},
	}})

	g.Consistently(cardQuotaCondition(t, name, "Enforced")).Should(bypassed)
	admin.DeleteAndWait(t, preset)
	expectEnforced(t, name, gomega.HavePrefix("True/Enforced"))

	bound := newPod(name+"-bound", name, "", 2)
	admin.CreateWithCleanup(t, bound)
	bindPod(t, bound, name)
	setPod(t, bound, setRunning)
	g.Eventually(statusSummary(t, name)).Should(gomega.Equal("2/8 NVIDIA-H200"))

	rewrite(bound, []metav1.ManagedFieldsEntry{{}})
	g.Consistently(cardQuotaCondition(t, name, "Enforced")).Should(gomega.HavePrefix("True/Enforced"), "it was seen to be bound properly: else each user with a pod could raise an alarm")
}

// TestABaseThatMayNotBeReadIsReported: the shipped rights let the operator read Volcano's ConfigMap by its name
// alone. A policy that names another base cannot be followed, and condition Enforced says that the read is
// forbidden.
func TestABaseThatMayNotBeReadIsReported(t *testing.T) {
	g := requireControlPlane(t)
	name := uniqueName(t, "")
	admin.CreateWithCleanup(t, newQuota(name, nil))
	newPolicy(t, func(s *v1alpha1.ServiceTypePolicySpec) { s.Scheduler.BaseConfigMap.Name = "out-of-reach" })
	g.Eventually(cardQuotaCondition(t, name, "Enforced")).Should(gomega.And(gomega.HavePrefix("False/NotConfigured"), gomega.ContainSubstring("forbidden")))
	g.Eventually(policyCondition(t, "Enforced")).Should(gomega.HavePrefix("False/NotConfigured"))
}
