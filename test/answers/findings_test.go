package answers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
)

// expectFindings compares the findings of some rules with a golden file for each.
func (p *play) expectFindings(args []string, rules ...string) {
	for _, rule := range rules {
		compareGolden(p.T, "doctor/"+rule, func() string {
			return selectFindings(p.answer(p.T, append([]string{"doctor"}, args...)...), rule)
		})
	}
}

// selectFindings returns the paragraphs of one rule: the first line of each ends with it.
func selectFindings(report, rule string) string {
	selected := ""
	for paragraph := range strings.SplitSeq(report, "\n\n") {
		if first, _, _ := strings.Cut(paragraph, "\n"); strings.HasSuffix(first, "  "+rule) {
			selected += paragraph + "\n\n"
		}
	}
	return selected
}

// plan returns a file with CardQuotas that may be applied.
func plan(name string) string { return filepath.Join("testdata", name+".yaml") }

// beforeTheInstallation asks on a cluster with Volcano whose pods use cards already.
func beforeTheInstallation(p *play) {
	const node = "legacy-0"
	p.create(builder.Namespace("legacy"), builder.Queue("legacy").Obj(), deployment.StockPod("volcano-scheduler-0", node))
	pods := []*corev1.Pod{
		podOf("legacy", "train", 2).Node(node).Obj(), podOf("legacy", "side", 1).Scheduler("default-scheduler").Node(node).Obj(),
		builder.Pod("legacy", "cpu").Queue("legacy").CPU("1").Memory("1Gi").Node(node).Obj(),
	}

	for _, pod := range pods {
		p.create(pod)
		p.awaitRunning(pod.Namespace, pod.Name)
	}

	p.expectFindings(nil, "NotInstalled", "QueueWithoutQuota", "Bypass", "OtherScheduler")
	unlabelled := builder.Node("gpu-0").Resource("nvidia.com/gpu", "8").Obj()
	p.create(unlabelled)
	compareGolden(p.T, "doctor/NoModelLabel", func() string { return selectFindings(p.answer(p.T, "doctor"), "Anomaly") })

	p.DeleteAndWait(p.T, unlabelled)
	check.Contains(p, "top", p.answer(p.T, "top"), "QUEUE, CARD", "Cardquota is not installed")
	p.expectFindings([]string{"-f", plan("legacy")}, "QuotaExceeded", "NeverPlaced", "NoComputeLimit")
	p.expectFindings([]string{"-f", plan("refused")}, "PlannedRefused")
	for _, pod := range append(pods, deployment.StockPod("volcano-scheduler-0", node)) {
		p.DeleteAndWait(p.T, pod)
	}
}

// definition reads the definition of a kind.
func (p *play) definition(plural string) *unstructured.Unstructured {
	text := check.Value(os.ReadFile(filepath.Join(p.root, "config/crd/bases/cardquota.dev_"+plural+".yaml")))(p)
	objects := check.Value(cluster.Decode(text))(p)
	check.Must(p, len(objects) == 1, "the file of %s has %d objects", plural, len(objects))
	return objects[0]
}

// apply applies an object as kubectl does.
func (p *play) apply(object *unstructured.Unstructured) {
	check.NoError(p, p.cluster.Apply(p.Context(), check.Value(object.MarshalJSON())(p)))
}

// halfOfTheDefinitions asks when only two of our kinds exist, and neither program.
func halfOfTheDefinitions(p *play) {
	p.apply(p.definition("cardquotas"))
	p.apply(p.definition("servicetypepolicies"))
	p.expectFindings(nil, "KindMissing", "ProgramMissing", "PolicyMissing")
	check.Contains(p, "inventory", strings.Join(strings.Fields(p.answer(p.T, "inventory")), " "), "The cluster has no kind CardInventory: Cardquota is not installed, or only a part of it")
}

// definitionsOfAnotherVersion asks when the definition of CardQuotas has a field that this version
// does not know, and lacks one that it knows. The CardQuota newer is written then.
func definitionsOfAnotherVersion(p *play) {
	g := newGomega(p.T)
	p.apply(p.definition("cardinventories"))
	p.apply(p.definition("localcardquotas"))
	other := p.definition("cardquotas")
	versions, _, err := unstructured.NestedSlice(other.Object, "spec", "versions")
	g.Expect(err).NotTo(gomega.HaveOccurred())

	properties := []string{"schema", "openAPIV3Schema", "properties"}
	version := versions[0].(map[string]any)
	g.Expect(unstructured.SetNestedField(version, "string", append(properties, "spec", "properties", "cohort", "type")...)).To(gomega.Succeed())

	unstructured.RemoveNestedField(version, append(properties, "status", "properties", "blocked")...)
	g.Expect(unstructured.SetNestedSlice(other.Object, versions, "spec", "versions")).To(gomega.Succeed())
	p.apply(other)
	p.expectFindings(nil, "SchemaOutdated")

	text := string(check.Value(os.ReadFile(plan("legacy")))(p))
	newer := strings.Replace(strings.ReplaceAll(text, "legacy", "newer"), "spec:\n", "spec:\n  cohort: research\n", 1)
	g.Eventually(func() error { return p.cluster.Apply(p.Context(), []byte(newer)) }).Should(gomega.Succeed())

	p.apply(p.definition("cardquotas"))
}

// programDeployment is a Deployment of config/, whose pods no scheduler places here.
func (p *play) programDeployment(file, image string) *appsv1.Deployment {
	text := check.Value(os.ReadFile(filepath.Join(p.root, file)))(p)
	check.NoError(p, p.cluster.Apply(p.Context(), []byte(strings.ReplaceAll(string(text), "image: cardquota-manager:latest", "image: "+image))))
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "cardquota-manager"}}
}

// anOperatorWithoutAScheduler asks when the operator runs, and its Deployment and webhooks are not as
// they must be.
func anOperatorWithoutAScheduler(p *play) {
	g := newGomega(p.T)
	p.deployment = check.Value(deployment.Install(p.Context(), p.cluster, deployment.Options{SchedulePeriod: 500 * time.Millisecond}))(p)
	p.startWithOldRights()
	p.setPolicy(func(policy *api.ServiceTypePolicy) {
		policy.Spec.QueueHierarchy = api.QueueHierarchyTree
		policy.Spec.Admission = api.Admission{SchedulerBypassPolicy: api.SchedulerBypassWarn}
	})

	p.expectFindings(nil, "NotEnforced", "BypassNotGuarded", "UnknownFields")
	p.expectFindings([]string{"-f", plan("orphan")}, "ParentMissing")
	manager := p.programDeployment("config/manager/deployment.yaml", "registry.example/cardquota-manager:v0.9.0")
	p.expectFindings(nil, "ProgramNotReady", "VersionDiffers", "WebhookMissing")
	webhooks := filepath.Join(p.root, "config/webhook/manifests.yaml")
	g.Expect(p.cluster.ApplyFile(p.Context(), webhooks)).To(gomega.Succeed())

	p.expectFindings(nil, "WebhookCertificate")
	text := check.Value(os.ReadFile(webhooks))(p)
	for _, registration := range check.Value(cluster.Decode(text))(p) {
		p.DeleteAndWait(p.T, registration)
	}

	p.DeleteAndWait(p.T, manager)
	p.DeleteAndWait(p.T, &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: "newer"}})
}

// aPolicyThatObserves asks in mode Observe, while another scheduler places pods that name no queue. Those of namespace legacy
// count for CardQuota foretold, which has a quota of 2 and no room for the pod second. Two CardQuotas select namespace both, so
// its pod counts for none.
func aPolicyThatObserves(p *play) {
	const node = "legacy-0"
	setMode := func(mode api.Mode) {
		p.setPolicy(func(policy *api.ServiceTypePolicy) { policy.Spec.Mode = mode })
		newGomega(p.T).Eventually(func() (api.Mode, error) {
			policy := &api.ServiceTypePolicy{}
			err := p.Get(p.Context(), client.ObjectKey{Name: api.PolicyName}, policy)
			return policy.Status.Mode, err
		}).Should(gomega.Equal(mode))
	}

	setMode(api.ModeObserve)
	quotas := []*api.CardQuota{
		quotaOf("legacy", "foretold", "", treeCard("legacy", 2, 2, 0)),
		quotaOf("both", "foretold-a", "", treeCard("legacy", 1, 1, 0)), quotaOf("both", "foretold-b", "", treeCard("legacy", 1, 1, 0)),
	}
	p.create(builder.Namespace("both"))
	for _, quota := range quotas {
		p.create(quota)
	}

	podWithoutQueue := func(namespace, name string) *corev1.Pod {
		return builder.Pod(namespace, name).Scheduler("default-scheduler").GPUs(1).CPU("1").Memory("1Gi").GracePeriod(1).Node(node).Obj()
	}
	pods := []*corev1.Pod{podWithoutQueue("both", "either"), podWithoutQueue("legacy", "first-a"), podWithoutQueue("legacy", "first-b"), podWithoutQueue("legacy", "second")}
	for _, pod := range pods { // by age: times of creation are whole seconds
		p.create(pod)
		p.awaitNextSecond()
	}

	p.expectFindings(nil, "Forecast")
	check.Contains(p, "top", strings.Join(strings.Fields(p.answer(p.T, "top")), " "), "CARDQUOTA WOULD WAIT NO QUEUE foretold 1 3", "No CardQuota counts 1 workload with 1 card")
	check.Contains(p, "why", strings.Join(strings.Fields(p.answer(p.T, "why", "second", "-n", "legacy")), " "), "With mode Enforce Pod legacy/second with 1 NVIDIA-LEGACY would wait: ")

	for _, pod := range pods {
		p.DeleteAndWait(p.T, pod)
	}
	for _, quota := range quotas {
		p.DeleteAndWait(p.T, quota)
	}
	setMode(api.ModeEnforce)
}

// startWithOldRights starts the operator with the rights of a version that knew neither views nor the
// inventory nor card-seconds. It does the rest, says what it lacks, and begins when it has the rights.
func (p *play) startWithOldRights() {
	g := newGomega(p.T)
	early := quotaOf("legacy", "early", "", treeCard("legacy", 1, 1, 0))
	unknown := map[string]bool{"localcardquotas": true, "cardinventories": true}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cardquota-manager"}}
	g.Expect(p.Get(p.Context(), client.ObjectKeyFromObject(role), role)).To(gomega.Succeed())

	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return unknown[rule.Resources[0]] })
	g.Expect(p.Update(p.Context(), role)).To(gomega.Succeed())
	local := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "cardquota-manager"}}
	g.Expect(p.Get(p.Context(), client.ObjectKeyFromObject(local), local)).To(gomega.Succeed())

	local.Rules = slices.DeleteFunc(local.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.ResourceNames, "cardquota-card-seconds-0") || slices.Contains(rule.ResourceNames, "cardquota-policy-in-force")
	})
	g.Expect(p.Update(p.Context(), local)).To(gomega.Succeed())

	g.Expect(p.deployment.StartManager(p.Context())).To(gomega.Succeed())
	p.create(early)
	g.Eventually(p.Condition(p.T, &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, api.ConditionQueueSynced)).Should(gomega.HavePrefix("True/"))
	g.Eventually(func() (string, error) {
		log, err := os.ReadFile(p.cluster.LogFile("manager"))
		return string(log), err
	}).Should(gomega.And(gomega.ContainSubstring("this account may not list the kind"), gomega.ContainSubstring("CardInventory"), gomega.ContainSubstring("LocalCardQuota"),
		gomega.ContainSubstring("Some card-seconds cannot be stored")))

	g.Expect(p.cluster.ApplyFile(p.Context(), filepath.Join(p.root, "config/rbac/manager_role.yaml"))).To(gomega.Succeed())
	for _, object := range []client.Object{
		&api.LocalCardQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "legacy", Name: "early"}}, &api.CardInventory{ObjectMeta: metav1.ObjectMeta{Name: api.InventoryName}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "cardquota-card-seconds-0"}},
	} {
		g.Eventually(func() error { return p.Get(p.Context(), client.ObjectKeyFromObject(object), object) }).Should(gomega.Succeed(), "%T", object)
	}

	g.Expect(p.deployment.Manager.Running()).To(gomega.BeTrue(), "it never ended")
	p.DeleteAndWait(p.T, early)
}

// quotasThatAreNotAsIntended asks while the states last: a queue is stopped, another's quota is below
// its use.
func quotasThatAreNotAsIntended(p *play) {
	newGomega(p.T).Expect(p.Patch(p.Context(), &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cards":[{"name":"NVIDIA-QUOTA","quota":1,"deserved":1}]}}`)))).To(gomega.Succeed())
	p.expectFindings(nil, "QuotaNotReady", "OverQuota", "OverAllocated", "UnknownCard", "Anomaly")
	compareGolden(p.T, "doctor/NotChecked", func() string {
		out, _, code := p.ask(p.Context(), "doctor", "--as", tenant)
		newGomega(p.T).Expect(code).To(gomega.Equal(1), "he may read nothing of it")
		return selectFindings(out, "NotChecked")
	})
}

// cardSecondsThatCannotBeStored asks while pods use cards, and the ConfigMap with their card-seconds is immutable. It
// cannot be made mutable again: an administrator deletes it, and the operator writes another one.
func cardSecondsThatCannotBeStored(p *play) {
	g := newGomega(p.T)
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "cardquota-card-seconds-0"}}
	g.Eventually(func() error { return framework.MergePatch(p.T, p, stored, `{"immutable":true}`) }).Should(gomega.Succeed())
	g.Eventually(func() string { return p.answer(p.T, "doctor") }, 2*soon).Should(gomega.ContainSubstring("  BillsNotStored\n"))
	p.expectFindings(nil, "BillsNotStored")
	p.remove(stored)
	g.Eventually(func() string { return p.answer(p.T, "doctor") }, 2*soon).ShouldNot(gomega.ContainSubstring("  BillsNotStored\n"))
}

// writeConfiguration replaces the text of a scheduler's ConfigMap, and returns what it was.
func (p *play) writeConfiguration(name, text string) (before string) {
	g := newGomega(p.T)
	object := framework.Fetch[corev1.ConfigMap](p, p, client.ObjectKey{Namespace: deployment.Namespace, Name: name})
	const key = "volcano-scheduler.conf"
	before = object.Data[key]
	object.Data[key] = text
	g.Expect(p.Update(p.Context(), object)).To(gomega.Succeed())
	return before
}

// aBrokenConfiguration asks when Volcano's own configuration cannot be read.
func aBrokenConfiguration(p *play) {
	const volcanos = "volcano-scheduler-configmap"
	before := p.writeConfiguration(volcanos, "actions: [\n")
	p.expectFindings(nil, "ConfigNotSynced")
	p.writeConfiguration(volcanos, before)
	p.awaitEnforced()
}

// anUnfinishedMode asks when the policy wants to observe, and our scheduler enforces: everything stays enforced.
func anUnfinishedMode(p *play) {
	p.setPolicy(func(policy *api.ServiceTypePolicy) { policy.Spec.Mode = api.ModeObserve })
	p.expectFindings(nil, "ModeNotInForce")
	p.setPolicy(func(policy *api.ServiceTypePolicy) { policy.Spec.Mode = api.ModeEnforce })
	p.awaitEnforced()
}

// bothProgramsEnd asks when first the operator has ended, and then the scheduler too.
func bothProgramsEnd(p *play) {
	p.deployment.Manager.Kill()
	p.create(builder.CardQuota("late").Card("NVIDIA-QUOTA", 1).Obj())
	p.writeConfiguration("cardquota-scheduler-configmap", "actions: [\n")
	p.expectFindings(nil, "QuotaNotObserved", "ConfigRefused")
	p.deployment.Scheduler.Kill()
	p.expectFindings(nil, "HeartbeatStale")
}
