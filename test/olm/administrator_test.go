package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// namespace is the namespace of Volcano and of Cardquota.
const namespace = "volcano-system"

// Timeouts: OLM works in steps that wait for each other.
const (
	soon  = 60 * time.Second
	often = 100 * time.Millisecond
)

// administrator does what docs/install.md describes for an administrator.
type administrator struct {
	*testing.T
	Gomega
	ctx     context.Context
	cluster *cluster.Cluster
}

func newAdministrator(t *testing.T) *administrator {
	a := &administrator{T: t, Gomega: NewWithT(check.Trail(t)), ctx: t.Context(), cluster: suite.cluster}
	a.SetDefaultEventuallyTimeout(soon)
	a.SetDefaultEventuallyPollingInterval(often)
	t.Cleanup(a.leaveTraces)
	return a
}

// mustKubectl runs a command that must succeed.
func (a *administrator) mustKubectl(args ...string) string {
	return check.Value(a.cluster.Kubectl(a.ctx, args...))(a)
}

// applyManifest applies a manifest of config/manifests/olm with the changes for this cluster.
func (a *administrator) applyManifest(name string, change func(object *unstructured.Unstructured)) {
	content := check.Value(os.ReadFile(filepath.Join(suite.root, "config", "manifests", "olm", name)))(a)
	var object unstructured.Unstructured
	a.Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
	change(&object)
	content = check.Value(yaml.Marshal(object.Object))(a)
	file := filepath.Join(a.TempDir(), name)
	a.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	a.mustKubectl("apply", "-f", file)
}

func unchanged(*unstructured.Unstructured) {}

// addCatalog adds a catalog to OLM.
func (a *administrator) addCatalog(address string) {
	a.applyManifest("catalogsource.yaml", a.setCatalogSource(address))
}

// setCatalogSource makes a CatalogSource refer to a process instead of an image.
func (a *administrator) setCatalogSource(address string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		for _, field := range []string{"image", "updateStrategy"} {
			unstructured.RemoveNestedField(object.Object, "spec", field)
		}
		a.Expect(unstructured.SetNestedField(object.Object, address, "spec", "address")).To(Succeed())
	}
}

// subscribeAndWait lets OLM install the newest version of the channel, and waits for it.
func (a *administrator) subscribeAndWait(v version) {
	a.applyManifest("operatorgroup.yaml", unchanged)
	a.applyManifest("subscription.yaml", unchanged)
	a.awaitVersion(v)
}

// setSubscriptionConfig makes OLM place the pods of the installation elsewhere.
func (a *administrator) setSubscriptionConfig(config map[string]any) {
	a.applyManifest("subscription.yaml", func(object *unstructured.Unstructured) {
		a.Expect(unstructured.SetNestedMap(object.Object, config, "spec", "config")).To(Succeed())
	})
}

// awaitVersion waits until a version is installed and works.
func (a *administrator) awaitVersion(v version) {
	a.mustKubectl("-n", namespace, "wait", "subscription.operators.coreos.com/cardquota", "--timeout=2m",
		"--for=jsonpath={.status.installedCSV}="+v.csvName())
	a.mustKubectl("-n", namespace, "wait", "clusterserviceversion/"+v.csvName(), "--timeout=2m",
		"--for=jsonpath={.status.phase}=Succeeded")
}

// awaitUpgrade waits until OLM has finished replacing a version. The certificate is removed
// with its version, so OLM creates another one and restarts the operator. Until then webhooks
// may not answer.
func (a *administrator) awaitUpgrade(from, to version) {
	a.awaitVersion(to)
	a.mustKubectl("-n", namespace, "wait", "clusterserviceversion/"+from.csvName(), "--for=delete", "--timeout=2m")

	a.Eventually(func() string {
		owners, err := a.cluster.Kubectl(a.ctx, "-n", namespace, "get", "secret", "cardquota-manager-service-cert",
			"-o", "jsonpath={.metadata.ownerReferences[*].name}")
		if err != nil {
			return err.Error()
		}
		return owners
	}).Should(Equal(to.csvName()))
	a.awaitVersion(to)
}

// awaitRest waits until OLM has nothing left to do. OLM continues with a plan after its content
// works, and with a version after it has succeeded. It recreates what is deleted meanwhile.
func (a *administrator) awaitRest() {
	const quiet = 2 * time.Second
	a.mustKubectl("-n", namespace, "wait", "installplans.operators.coreos.com", "--all", "--timeout=2m", "--for=condition=Installed")
	plans := strings.Fields(a.mustKubectl("-n", namespace, "get", "installplans.operators.coreos.com", "-o", "jsonpath={.items[*].metadata.name}"))
	last := ""

	since := time.Now()
	a.Eventually(func() error {
		said := a.processLog("catalog-operator")
		for _, plan := range plans {
			if !regexp.MustCompile(`msg=syncing id=\S+ ip=` + plan + ` namespace=\S+ phase=Complete`).MatchString(said) {
				return fmt.Errorf("OLM has not looked again at plan %s since it was complete", plan)
			}
		}

		said += a.processLog("olm-operator")
		if said != last {
			last = said
			since = time.Now()
		}

		if time.Since(since) < quiet {
			return errors.New("OLM has not finished")
		}

		return nil
	}).Should(Succeed())
}

// processLog returns the log of a process of OLM.
func (a *administrator) processLog(process string) string {
	return string(check.Value(os.ReadFile(a.cluster.LogFile(process)))(a))
}

// snapshot returns the current state of the cluster.
func (a *administrator) snapshot() clusterSnapshot {
	return check.Value(takeSnapshot(a.ctx, a.cluster))(a)
}

// wantAsBefore waits until the cluster is as in an earlier snapshot, except for the given
// objects.
func (a *administrator) wantAsBefore(before clusterSnapshot, made ...string) {
	a.Eventually(func() error {
		now, err := takeSnapshot(a.ctx, a.cluster)
		if err != nil {
			return err
		}
		return before.diff(now.withoutPrefixes(made...))
	}).Should(Succeed())
}
