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
	"cardquota.dev/operator/internal/schedulerconf"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/observer"
)

// within is how soon it must be said that quotas are not enforced any more,
// counted from the last sign of life of our scheduler. As shipped it is 30 s.
var within = enforcement.StaleAfter/time.Duration(deployment.ClockFactor()) + 10*time.Second

// play takes the cluster from Volcano's own scheduler to ours and back.
func (p *proof) play(t *testing.T) {
	step := func(name string, play func()) {
		began := time.Now()
		play()
		t.Logf("%s: %.1f s", name, time.Since(began).Seconds())
	}
	step("without a policy", p.withoutAPolicy)
	step("handover to ours", p.handsOver)
	step("the stock scheduler in place of ours", p.stockInPlaceOfOurs)
	step("a configuration changed by somebody else", p.tampered)
	step("a configuration that cannot be read", p.unreadable)
	step("handover back", p.handsBack)

	p.Expect(p.stocks).To(HaveLen(3))
	for _, stock := range p.stocks {
		p.Expect(p.signs(stock.from, stock.until)).To(BeEmpty(), "two schedulers were at work while %s was", stock.pod.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Expect(p.trouble).To(BeEmpty(), "the diary was written to the end")
	p.Expect(p.sessions).NotTo(BeEmpty())
	p.Expect(p.leads).NotTo(BeEmpty())
}

// Nothing names capacity-card: our scheduler is up and stays unelected.
func (p *proof) withoutAPolicy() {
	p.quota(tenant, cards(h200, 4))
	p.quota(neighbour, cards(h200, 2))
	p.says(api.ConditionEnforced, "Unknown/NoPolicy: ", "CardQuota/"+tenant, "CardQuota/"+neighbour)
	p.startScheduler()
	p.Eventually(p.readyz).Should(And(HavePrefix("ok\nNotConfigured: "), ContainSubstring("NotConfigured: ConfigMap volcano-system/cardquota-scheduler-configmap does not exist")))
	p.Consistently(p.holder).Should(BeEmpty())
	p.Expect(p.deployment.Scheduler.Running()).To(BeTrue())
	p.Expect(p.base()).To(Equal(p.original), "nobody touched it")
}

func (p *proof) handsOver() {
	resume := p.observer.Excuse(observer.Reason) // the stock scheduler does not know why
	stock := p.startStock(p.stockPod("volcano-scheduler-1"))
	p.runOnModel(work{name: "before", queue: tenant, card: h200, count: 1, pods: 2})
	p.wantRunning("before", 2, 0)
	p.Expect(p.cluster.ApplyFile(p.ctx, filepath.Join(suite.root, "config/samples/policy.yaml"))).To(Succeed())
	p.says(api.ConditionConfigSynced, "True/Synced: ", thePolicy)
	p.rendered = p.text()
	p.Expect(p.rendered).To(And(ContainSubstring("\nactions: \"enqueue, allocate, backfill, cardreclaim\"\n"), ContainSubstring("- name: capacity-card\n"),
		Not(ContainSubstring("proportion")), Not(ContainSubstring("overcommit"))))
	p.Expect(p.base()).To(Equal(p.original))
	p.enforced("False/StockScheduler: .* pod volcano-system/volcano-scheduler-1$")
	p.Eventually(p.readyz).Should(And(ContainSubstring("ConfigurationLoaded: "), ContainSubstring("ForeignScheduler: not elected: ")))
	p.Expect(p.holder()).To(BeEmpty())
	p.Eventually(p.EventMessages(p.T, stock.pod, "ForeignScheduler")).ShouldNot(BeEmpty())

	p.scaleTo0(stock)
	p.Eventually(func(g Gomega) bool {
		holder := p.holder() // read first: it must be nobody while the pod still runs
		pod := &corev1.Pod{}
		gone := apierrors.IsNotFound(p.Get(p.ctx, keyOf(stock.pod), pod))
		ended := gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if !ended && holder != "" {
			StopTrying("ours is at work while the pod of the stock scheduler still ends").Now()
		}
		return gone
	}).Should(BeTrue())
	p.enforced("True/Enforced: ")
	resume()
	p.create(p.deploymentOf(work{name: "train", queue: tenant, card: h200, count: 1, pods: 3}))
	p.wantPods(map[string]string{"before": pods(2, 0), "train": pods(2, 1)})
	p.wantSaid("train", insufficient(tenant, h200, 1, 4))
}

func (p *proof) stockInPlaceOfOurs() {
	p.scale("train", 2) // the stock scheduler would give more than the quota
	p.wantRunning("train", 2, 0)
	page := p.page()
	resume := p.observer.Excuse(observer.Reason)
	// A stock scheduler that waits for a node is not at work yet; one that has a node ends ours.
	waits := deployment.StockPod("volcano-scheduler-waits", "")
	waits.Spec.SchedulerName = "nobody"
	p.Expect(p.Create(p.ctx, waits)).To(Succeed())
	p.beats()
	p.letSchedulerEnd()
	comes := p.stockPod("volcano-scheduler-2")
	p.Eventually(p.deployment.Scheduler.Done()).Should(BeClosed())
	p.Expect(p.deployment.Scheduler.Wait()).To(MatchError("exit status 1"))
	p.Expect(p.log()).To(ContainSubstring("another scheduler runs in pod volcano-system/volcano-scheduler-2,"))
	p.Expect(p.holder()).To(BeEmpty(), "the lease is free")
	last, err := p.heartbeat()
	p.Expect(err).NotTo(HaveOccurred())
	p.startScheduler() // as the kubelet does: it waits
	stock := p.startStock(comes)
	p.runOnModel(work{name: "meanwhile", queue: neighbour, card: h200, count: 1, pods: 1})
	p.Eventually(func() int { return p.running("meanwhile") }).Should(Equal(1), "the stock scheduler is at work")
	p.enforced("False/StockScheduler: .* pod volcano-system/volcano-scheduler-2$")
	for _, object := range []string{thePolicy, "CardQuota/" + tenant, "CardQuota/" + neighbour} {
		changes := p.since(page, object, api.ConditionEnforced)
		p.Expect(changes[0].Status).To(Equal(metav1.ConditionFalse))
		unproven := changes[0].LastTransitionTime.Sub(last.At)
		named := p.toldAt(object, api.EventNotEnforced, "^StockScheduler: .* volcano-system/volcano-scheduler-2$").Sub(last.At)
		p.Logf("%s: not Enforced %.1f s after the last session of ours (%s), the stock scheduler named after %.1f s; both are told in whole seconds",
			object, unproven.Seconds(), changes[0].Reason, named.Seconds())
		p.Expect(max(unproven, named)).To(BeNumerically("<", within))
	}
	p.silent()
	p.Expect(p.holder()).To(BeEmpty())
	p.scaleTo0(stock)
	p.enforced("True/Enforced: ")
	p.Expect(p.Delete(p.ctx, waits)).To(Succeed())
	resume()
}

// Somebody takes away what the policy needs: that is put right, and said.
func (p *proof) tampered() {
	for what, text := range map[string]string{
		"no cardreclaim":   strings.Replace(p.rendered, ", cardreclaim", "", 1),
		"no capacity-card": p.original,
	} {
		p.Expect(text).NotTo(Equal(p.rendered))
		p.edit(configurationMeta, text)
		p.Eventually(p.text).Should(Equal(p.rendered), what)
		p.toldAt(thePolicy, api.EventConfigCorrected, "kubectl-edit wrote it")
		p.enforced("True/Enforced: ")
		p.Eventually(func() string { return p.beats().ConfigHash }).Should(Equal(schedulerconf.Hash(p.rendered)), what)
	}
	p.says(api.ConditionConfigSynced, "True/Synced: ", thePolicy)
}

// What cannot be laid over takes no quota away.
func (p *proof) unreadable() {
	p.edit(baseMeta, "actions: [\n")
	p.says(api.ConditionConfigSynced, "False/BaseInvalid: ", thePolicy)
	p.run(work{name: "goes-on", queue: neighbour, card: h200, count: 1, pods: 2})
	p.wantRunning("goes-on", 1, 1) // one card is held since before
	p.Expect(p.text()).To(Equal(p.rendered), "what was rendered last stays")
	p.Expect(p.beats().ConfigHash).To(Equal(schedulerconf.Hash(p.rendered)))
	p.enforced("True/Enforced: ")
	p.edit(baseMeta, p.original)
	p.says(api.ConditionConfigSynced, "True/Synced: ", thePolicy)
	p.enforced("True/Enforced: ")
	p.Expect(p.DeleteAllOf(p.ctx, &corev1.Pod{}, client.InNamespace(p.namespace), client.MatchingLabels{app: "goes-on"})).To(Succeed())
}

func (p *proof) handsBack() {
	p.scale("train", 1) // the stock scheduler would give more than the quota
	p.wantRunning("train", 1, 0)
	p.Eventually(func() int { return len(p.podsOf("goes-on")) }).Should(BeZero())
	held := p.alive("before", "train", "meanwhile")
	p.Expect(held).To(HaveLen(4))
	policy := builder.ServiceTypePolicy().Obj()
	p.Expect(p.Delete(p.ctx, policy)).To(Succeed())
	p.Eventually(p.IsGone(p.ctx, policy)).Should(BeTrue())
	p.Expect(p.base()).To(Equal(p.original))
	p.Eventually(p.IsGone(p.ctx, &corev1.ConfigMap{ObjectMeta: configurationMeta})).Should(BeTrue(), "it goes with the policy")
	p.Eventually(func() ([]schedulingv1.PriorityClass, error) {
		var classes schedulingv1.PriorityClassList
		err := p.List(p.ctx, &classes)
		return classes.Items, err
	}).ShouldNot(ContainElement(HaveField("Name", "pc-high")), "so do the PriorityClasses")
	p.says(api.ConditionEnforced, "Unknown/NoPolicy: ", "CardQuota/"+tenant, "CardQuota/"+neighbour)

	p.observer.Excuse(observer.Reason)
	p.stopScheduler()
	stock := p.startStock(p.stockPod("volcano-scheduler-3"))
	p.runOnModel(work{name: "after", queue: tenant, card: h200, count: 1, pods: 1})
	p.wantRunning("after", 1, 0)
	p.Expect(p.survivors(held)).To(Equal(4), "no pod is lost")
	p.scaleTo0(stock)
}
