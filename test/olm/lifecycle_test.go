package olm

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/observer"
)

// TestOLMInstallsUpgradesAndRemovesByTheDocuments: OLM, the operator of operators, installs Cardquota from a
// catalog as docs/install.md says, upgrades it, and removes it so that the cluster is as before. Deployments, Services,
// network policies and webhooks in the cluster are exactly those of the installed bundle. kwok plays the pods, so no
// program runs: TestOLMUpgradesWhileWorkloadsRun has real ones.
func TestOLMInstallsUpgradesAndRemovesByTheDocuments(t *testing.T) {
	a := newAdministrator(t)
	previous := suite.previous
	this := suite.this
	a.runStockScheduler()
	before := a.snapshot()
	project := a.copyProject()

	// The previous release, and the upgrade to this one from a catalog built by the document.
	a.addCatalog(a.publishCatalog("catalog-previous", previous))
	a.subscribeAndWait(previous)
	a.wantInstalled(previous.bundle)
	a.publishAsDocumented(project, "catalog-documented", "registry.example/cards", previous)
	a.typeCommands(project, "kubectl apply -f config/manifests/olm/catalogsource.yaml")
	a.awaitUpgrade(previous, this)
	a.wantInstalled(filepath.Join(suite.root, "bundle"))
	a.Expect(a.mustKubectl("-n", namespace, "get", "deployment", "cardquota-manager", "-o", "jsonpath={..image}")).
		To(Equal("registry.example/cards/cardquota-manager:v" + this.number))
	a.removeAsDocumented(project, this)
	a.wantAsBefore(before)

	// An installation of this release, with what the document adds to the bundle.
	documented := a.sectionCommands(install, "## With OLM")
	a.Expect(documented).To(HaveLen(4), "a catalog, the installation, who reads metrics, what is not in the bundle")
	a.typeCommands(project, documented[1])
	a.typeCommands(project, documented[2])

	_, withoutPrometheus, _ := strings.Cut(documented[3], "\n")
	a.typeCommands(project, withoutPrometheus)
	a.wantInstalled(filepath.Join(suite.root, "bundle"))
	a.Eventually(func() error { // OLM creates them after the ClusterServiceVersion has succeeded
		_, err := a.cluster.Kubectl(a.ctx, "get", "clusterrole", "cardquotas.cardquota.dev-v1alpha1-admin", "cardquotas.cardquota.dev-v1alpha1-edit",
			"cardquotas.cardquota.dev-v1alpha1-view", "servicetypepolicies.cardquota.dev-v1alpha1-admin")
		return err
	}).Should(Succeed())

	for _, kind := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		a.Expect(a.mustKubectl("get", kind, "-l", "olm.owner="+this.csvName(), "-o", "name")).NotTo(BeEmpty(), kind)
	}

	a.removeAsDocumented(project, this)
	a.typeCommands(project, strings.Replace(withoutPrometheus, "apply", "delete", 1))
	a.wantAsBefore(before)
}

// onRealNode is the Subscription's config that runs the installation's pods in containers.
var onRealNode = map[string]any{
	"nodeSelector": map[string]any{cluster.RealNodeLabel: "true"},
	"tolerations":  []any{map[string]any{"key": cluster.RealNodeLabel, "operator": "Exists"}},
}

// TestOLMUpgradesWhileWorkloadsRun: an upgrade by OLM, from the previous release to this one and to the next,
// restarts no workload and changes no quota. Quotas apply all the time: 4 pods of train, 2 of serve, 1 of
// containers. Both programs run from the shipped images in the pods that OLM creates, with the bundle's rights,
// probes and security contexts. kwok plays the previous release and Volcano's own scheduler; the test writes what
// the previous release had written.
func TestOLMUpgradesWhileWorkloadsRun(t *testing.T) {
	if suite.noRealNode != nil {
		missing.Skip(t, suite.noRealNode)
	}

	a := newAdministrator(t)
	previous := suite.previous
	this := a.withImages(suite.this)
	next := a.withImages(suite.next)
	a.runStockScheduler()
	before := a.snapshot()
	project := a.copyProject()

	// The previous release, whose scheduler placed 4 pods of job train.
	a.addCatalog(a.publishCatalog("containers-previous", previous))
	a.subscribeAndWait(previous)
	a.mustKubectl("-n", namespace, "scale", "deployment/volcano-scheduler", "--replicas=0")
	a.writeAsPrevious(previous)
	a.Eventually(func() error { // Volcano's webhook refuses jobs until it has seen their queues open
		_, err := a.cluster.Kubectl(a.ctx, "apply", "-f", "testdata/work.yaml")
		return err
	}).Should(Succeed())

	a.placeAsPrevious("train", "h200-0", 4)
	watch := check.Value(observer.Start(a.ctx, a.cluster.Config(), observer.Options{
		StatusWithin: 20 * time.Second, ReasonWithin: 30 * time.Second, PlacedWithin: 40 * time.Second,
	}))(t)
	a.Cleanup(watch.Stop)

	// No program reports usage and reasons yet.
	resume := watch.Excuse(observer.Status, observer.Reason)
	written := a.userState()
	pods := a.runningWorkers()
	queues := a.queueQuotas()

	// This release takes over, after the administrator has bound the rights to enforce.
	rights := a.sectionCommands("docs/upgrade.md", "## Bind the rights to enforce")
	a.Expect(rights).To(HaveLen(1))
	a.typeCommands(project, rights[0])
	a.addCatalog(a.publishCatalog("containers-this", previous, this))
	a.awaitUpgrade(previous, this)
	a.setSubscriptionConfig(onRealNode)
	a.wantContainers(this)
	a.wantInstalled(filepath.Join(suite.root, "bundle"))
	a.Eventually(func() error { // a container that is ready is not in the API server's sight yet
		_, err := a.cluster.Kubectl(a.ctx, "apply", "-f", "testdata/policy.yaml")
		return err
	}).Should(Succeed())
	a.wantEnforcedBy(this)
	resume()

	a.wantQuotasUsed()
	a.Eventually(a.userState).Should(Equal(written), "what people wrote, and what is made of it")
	a.Expect(a.queueQuotas()).To(Equal(queues), "the quotas of queues during the upgrade")
	for name, state := range pods {
		a.Expect(a.workloadIdentities()).To(HaveKeyWithValue(name, state), "a pod that ran before the upgrade")
	}

	a.wantWrongQuotaRefused()

	// The next release takes over.
	pods = a.workloadIdentities()
	queues = a.queueQuotas()
	a.upgradeAsDocumented(project, a.publishCatalog("containers-next", this, next))
	a.awaitUpgrade(this, next)
	a.wantContainers(next)
	a.wantEnforcedBy(next)
	a.wantQuotasUsed()
	a.Expect(a.workloadIdentities()).To(Equal(pods), "the pods of workloads during the upgrade")
	a.Expect(a.queueQuotas()).To(Equal(queues), "the quotas of queues during the upgrade")
	a.wantRaisedQuotaUsed()

	// The removal keeps workloads, and Queues with their quotas.
	watch.Check(t)
	watch.Stop()
	pods = a.workloadIdentities()
	queues = a.queueQuotas()
	a.removeAsDocumented(project, next)
	a.Expect(a.workloadIdentities()).To(Equal(pods), "the pods of workloads during the removal")
	a.Expect(a.queueQuotas()).To(Equal(queues), "deletionPolicy Retain keeps Queues with their quota")
	a.mustKubectl("delete", "namespace", "tenants")
	a.mustKubectl("delete", "queues.scheduling.volcano.sh", "research", "search")

	// The Lease has the same name as that of Volcano's own scheduler with leader election.
	a.mustKubectl("-n", namespace, "delete", "lease", "volcano")

	// Any Volcano scheduler creates these two Queues when it starts; ours is the first one
	// here.
	a.wantAsBefore(before, []string{"queues.scheduling.volcano.sh default", "queues.scheduling.volcano.sh root"}...)
}
