package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/observer"
)

// reportedWithin bounds how soon conditions must report that quotas are not enforced, counted from the
// last heartbeat of our scheduler. As shipped it is 30 s.
var reportedWithin = enforcement.StaleAfter/time.Duration(deployment.ClockFactor()) + 10*time.Second

// runHandover hands the cluster over from Volcano's own scheduler to ours and back, in steps that go on from each
// other. Conditions must say at any time whether quotas are enforced. Two schedulers never run sessions (scheduling
// cycles) at the same time, which the log of all heartbeats and leases proves.
func (p *enforcementTest) runHandover(t *testing.T) {
	step := func(name string, play func()) {
		began := time.Now()
		play()
		t.Logf("%s: %.1f s", name, time.Since(began).Seconds())
	}

	step("without a policy", p.checkWithoutPolicy)
	step("handover to ours", p.handOver)
	step("the stock scheduler in place of ours", p.replaceByStock)
	step("a configuration that another user changes", p.checkDriftCorrected)
	step("a configuration that cannot be read", p.checkUnreadableConfig)
	step("handover back", p.handBack)

	p.Expect(p.stocks).To(HaveLen(3))
	for _, stock := range p.stocks {
		p.Expect(p.sessionsBetween(stock.from, stock.until)).To(BeEmpty(), "two schedulers ran while %s did", stock.pod.Name)
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	p.Expect(p.trouble).To(BeEmpty(), "the diary was written to the end")
	p.Expect(p.sessions).NotTo(BeEmpty())
	p.Expect(p.leaseRenewals).NotTo(BeEmpty())
}

// checkWithoutPolicy: without a ServiceTypePolicy there is no configuration with our plugin. Condition Enforced is
// Unknown, and our scheduler runs without taking the leader Lease.
func (p *enforcementTest) checkWithoutPolicy() {
	p.createQuota(tenant, cardList(h200, 4))
	p.createQuota(neighbour, cardList(h200, 2))
	p.waitForCondition(api.ConditionEnforced, "Unknown/NoPolicy: ", "CardQuota/"+tenant, "CardQuota/"+neighbour)
	p.startScheduler()
	p.Eventually(p.schedulerReadyz).Should(And(HavePrefix("ok\nNotConfigured: "), ContainSubstring("NotConfigured: ConfigMap volcano-system/cardquota-scheduler-configmap does not exist")))
	p.Consistently(p.leaseHolder).Should(BeEmpty())
	p.Expect(p.deployment.Scheduler.Running()).To(BeTrue())
	p.Expect(p.volcanoConfig()).To(Equal(p.original), "it is unchanged")
}

// handOver: the policy is applied while Volcano's own scheduler runs. Ours loads its configuration and waits until
// the other one is gone: scaled to 0, and its pod deleted. Then quotas are enforced: 2 pods of before and 2 new
// ones fill the quota of 4, and one waits.
func (p *enforcementTest) handOver() {
	resume := p.observer.Excuse(observer.Reason) // the stock scheduler does not know why
	stock := p.startStock(p.stockPod("volcano-scheduler-1"))
	p.runOnModel(podSet{name: "before", queue: tenant, card: h200, count: 1, pods: 2})
	p.wantRunningAndWaiting("before", 2, 0)
	p.Expect(p.cluster.ApplyFile(p.ctx, filepath.Join(suite.root, "config/samples/policy.yaml"))).To(Succeed())
	p.waitForCondition(api.ConditionConfigSynced, "True/Synced: ", thePolicy)
	p.rendered = p.configText()

	p.Expect(p.rendered).To(And(ContainSubstring("\nactions: \"enqueue, allocate, backfill, cardreclaim\"\n"), ContainSubstring("- name: capacity-card\n"),
		Not(ContainSubstring("proportion")), Not(ContainSubstring("overcommit"))))
	p.Expect(p.volcanoConfig()).To(Equal(p.original))
	p.waitForEnforced("False/StockScheduler: .* pod volcano-system/volcano-scheduler-1$")
	p.Eventually(p.schedulerReadyz).Should(And(ContainSubstring("ConfigurationLoaded: "), ContainSubstring("ForeignScheduler: not elected: ")))
	p.Expect(p.leaseHolder()).To(BeEmpty())
	p.Eventually(p.EventMessages(p.T, stock.pod, "ForeignScheduler")).ShouldNot(BeEmpty())

	p.scaleTo0(stock)
	p.Eventually(func(g Gomega) bool {
		holder := p.leaseHolder() // read first: there must be none while the pod still runs
		pod := &corev1.Pod{}
		gone := apierrors.IsNotFound(p.Get(p.ctx, keyOf(stock.pod), pod))
		ended := gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if !ended && holder != "" {
			StopTrying("ours runs while the pod of the stock scheduler is still terminating").Now()
		}
		return gone
	}).Should(BeTrue())

	p.waitForEnforced("True/Enforced: ")
	resume()
	p.createObjects(p.deploymentOf(podSet{name: "train", queue: tenant, card: h200, count: 1, pods: 3}))
	p.wantPods(map[string]string{"before": runningAndWaiting(2, 0), "train": runningAndWaiting(2, 1)})
	p.wantReason("train", insufficientMessage(tenant, h200, 1, 4))
}

// replaceByStock: Volcano's own scheduler comes back beside ours. Ours ends at once and waits after its restart.
// The conditions name the other scheduler within the documented time after our last session. When it is gone, ours
// leads again.
func (p *enforcementTest) replaceByStock() {
	p.scaleDeployment("train", 2) // the stock scheduler would give more than the quota
	p.wantRunningAndWaiting("train", 2, 0)
	page := p.position()
	resume := p.observer.Excuse(observer.Reason)

	// A stock scheduler without a node does not schedule yet; one with a node stops ours.
	waits := deployment.StockPod("volcano-scheduler-waits", "")
	waits.Spec.SchedulerName = "none"
	p.Expect(p.Create(p.ctx, waits)).To(Succeed())
	p.waitForHeartbeat()
	p.letSchedulerEnd()
	comes := p.stockPod("volcano-scheduler-2")

	p.Eventually(p.deployment.Scheduler.Done()).Should(BeClosed())
	p.Expect(p.deployment.Scheduler.Wait()).To(MatchError("exit status 1"))
	p.Expect(p.schedulerLog()).To(ContainSubstring("another scheduler runs in pod volcano-system/volcano-scheduler-2,"))
	p.Expect(p.leaseHolder()).To(BeEmpty(), "the lease is free")
	last := check.Value(p.readHeartbeat())(p)
	p.startScheduler() // as the kubelet does: it waits
	stock := p.startStock(comes)

	p.runOnModel(podSet{name: "meanwhile", queue: neighbour, card: h200, count: 1, pods: 1})
	p.Eventually(func() int { return p.countRunning("meanwhile") }).Should(Equal(1), "the stock scheduler runs")
	p.waitForEnforced("False/StockScheduler: .* pod volcano-system/volcano-scheduler-2$")
	for _, object := range []string{thePolicy, "CardQuota/" + tenant, "CardQuota/" + neighbour} {
		changes := p.conditionsSince(page, object, api.ConditionEnforced)
		p.Expect(changes[0].Status).To(Equal(metav1.ConditionFalse))
		unproven := changes[0].LastTransitionTime.Sub(last.At)
		named := p.eventTime(object, api.EventNotEnforced, "^StockScheduler: .* volcano-system/volcano-scheduler-2$").Sub(last.At)
		p.Logf("%s: not Enforced %.1f s after the last session of ours (%s), the stock scheduler named after %.1f s; both are in whole seconds",
			object, unproven.Seconds(), changes[0].Reason, named.Seconds())
		p.Expect(max(unproven, named)).To(BeNumerically("<", reportedWithin))
	}

	p.checkNoSessions()
	p.Expect(p.leaseHolder()).To(BeEmpty())
	p.scaleTo0(stock)
	p.waitForEnforced("True/Enforced: ")
	p.Expect(p.Delete(p.ctx, waits)).To(Succeed())
	resume()
}

// checkDriftCorrected: a user removes an action or plugin that the policy needs from our configuration. The
// operator restores it, and an event names the user's tool. Quotas are enforced again.
func (p *enforcementTest) checkDriftCorrected() {
	for what, text := range map[string]string{
		"no cardreclaim":   strings.Replace(p.rendered, ", cardreclaim", "", 1),
		"no capacity-card": p.original,
	} {
		p.Expect(text).NotTo(Equal(p.rendered))
		p.editConfigMap(configurationMeta, text)
		p.Eventually(p.configText).Should(Equal(p.rendered), what)
		p.eventTime(thePolicy, api.EventConfigCorrected, "kubectl-edit wrote it")
		p.waitForEnforced("True/Enforced: ")
		p.Eventually(func() string { return p.waitForHeartbeat().ConfigHash }).Should(Equal(schedulerconfig.Hash(p.rendered)), what)
	}

	p.waitForCondition(api.ConditionConfigSynced, "True/Synced: ", thePolicy)
}

// checkUnreadableConfig: a user damages Volcano's ConfigMap, from which ours is rendered. The last rendered text
// stays, and quotas apply: the queue has 2 cards and uses 1, so 1 of 2 new pods runs.
func (p *enforcementTest) checkUnreadableConfig() {
	p.editConfigMap(baseMeta, "actions: [\n")
	p.waitForCondition(api.ConditionConfigSynced, "False/BaseInvalid: ", thePolicy)
	p.createPods(podSet{name: "goes-on", queue: neighbour, card: h200, count: 1, pods: 2})
	p.wantRunningAndWaiting("goes-on", 1, 1) // one card is used since before
	p.Expect(p.configText()).To(Equal(p.rendered), "what was rendered last stays")
	p.Expect(p.waitForHeartbeat().ConfigHash).To(Equal(schedulerconfig.Hash(p.rendered)))
	p.waitForEnforced("True/Enforced: ")
	p.editConfigMap(baseMeta, p.original)
	p.waitForCondition(api.ConditionConfigSynced, "True/Synced: ", thePolicy)
	p.waitForEnforced("True/Enforced: ")
	p.Expect(p.DeleteAllOf(p.ctx, &corev1.Pod{}, client.InNamespace(p.namespace), client.MatchingLabels{app: "goes-on"})).To(Succeed())
}

// handBack: the policy is deleted and Volcano's own scheduler takes over. What belongs to the policy is gone,
// Volcano's configuration is as it was, and no pod is lost.
func (p *enforcementTest) handBack() {
	p.scaleDeployment("train", 1) // the stock scheduler would give more than the quota
	p.wantRunningAndWaiting("train", 1, 0)
	p.Eventually(func() int { return len(p.podsOf("goes-on")) }).Should(BeZero())
	running := p.runningPods("before", "train", "meanwhile")
	p.Expect(running).To(HaveLen(4))

	policy := builder.ServiceTypePolicy().Obj()
	p.Expect(p.Delete(p.ctx, policy)).To(Succeed())
	p.Eventually(p.IsGone(p.ctx, policy)).Should(BeTrue())
	p.Expect(p.volcanoConfig()).To(Equal(p.original))
	p.Eventually(p.IsGone(p.ctx, &corev1.ConfigMap{ObjectMeta: configurationMeta})).Should(BeTrue(), "it is deleted with the policy")
	p.Eventually(func() ([]schedulingv1.PriorityClass, error) {
		var classes schedulingv1.PriorityClassList
		err := p.List(p.ctx, &classes)
		return classes.Items, err
	}).ShouldNot(ContainElement(HaveField("Name", "pc-high")), "so do the PriorityClasses")
	p.waitForCondition(api.ConditionEnforced, "Unknown/NoPolicy: ", "CardQuota/"+tenant, "CardQuota/"+neighbour)

	resume := p.observer.Excuse(observer.Reason) // the stock scheduler does not know why
	p.stopScheduler()
	stock := p.startStock(p.stockPod("volcano-scheduler-3"))
	p.runOnModel(podSet{name: "after", queue: tenant, card: h200, count: 1, pods: 1})
	p.wantRunningAndWaiting("after", 1, 0)
	p.Expect(p.countSurvivors(running)).To(Equal(4), "no pod is lost")
	p.scaleTo0(stock)
	resume() // nothing waits
}
