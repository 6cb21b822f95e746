package docs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

const install = "docs/install.md"

// TestADayOfAPlatformEngineer: the commands of the documents do what they say, in one long day beside a Volcano in
// use. The engineer installs, hands over to our scheduler, gives back, hands over again, and removes all. Then two other ways: only the image replaced, and in another namespace. Two schedulers never run at
// the same time, our scheduler exceeds no quota, Volcano's configuration stays as it was, and pods from before keep
// running. The node has 8 cards, of which Deployment before uses 2. Deployments patient and trainer request 8 and 5,
// and their quotas are 1 and 3.
func TestADayOfAPlatformEngineer(t *testing.T) {
	e := newEngineer(t)
	e.Expect(e.Create(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}})).To(Succeed())
	e.Expect(e.cluster.ImportImage(e.ctx, check.Value(e.cluster.BuildImage(e.ctx, workImage, "./test/cluster/cmd/pause"))(t))).To(Succeed())
	turns := e.watchSchedulers()

	// Volcano's own scheduler runs two pods with a card, before anything of ours is there.
	e.startStock()
	e.createDeployment("before", "default", 2, 1)
	e.Eventually(e.countRunning("before")).Should(Equal(2))
	before := e.runningPods("before")
	configuration := e.volcanoConfig()

	// The installation by the README changes nothing. Users exceed their later quotas meanwhile.
	readme := e.sectionCommands("README.md", "## On a real cluster")
	e.Expect(readme).To(HaveLen(4), "images, installation, handover, a quota")
	e.typeCommands(readme[0])
	e.pushImages()
	e.typeCommands(readme[1])
	e.Expect(e.volcanoConfig()).To(Equal(configuration), "an installation changes nothing")
	e.typeCommands(`kubectl create namespace monitoring`)
	e.typeCommands(e.sectionCommands(install, "## With kustomize")[1]) // who may read metrics
	watched := e.observeQuotas()

	e.runBeyondQuota()
	running := e.runningPods(patient)

	// The handover: running pods stay, new ones get no more than the quotas 1 and 3.
	e.typeCommands(readme[2])
	e.checkStillRunning(running)
	e.typeCommands(readme[3])
	e.typeCommands(`kubectl patch cardq llm-training --type=json -p '[{"op":"replace","path":"/spec/cards/0/quota","value":3}]'`)
	e.createDeployment(trainer, "llm-training", 5, 1)
	e.checkQuotas(turns)

	// Back to Volcano's scheduler, which knows no quota.
	takeOver := e.sectionCommands(install, "## Take over from the stock scheduler")
	giveBack := e.sectionCommands("docs/break-glass.md", "## Give back to the stock scheduler")
	e.Expect(takeOver).To(HaveLen(1))
	e.Expect(giveBack).To(HaveLen(1))
	e.typeCommands(giveBack[0])
	e.Expect(e.volcanoConfig()).To(Equal(configuration), "byte for byte")
	running = e.waitUntilNodeFull()

	// The second handover, and the removal.
	e.typeCommands(takeOver[0])
	e.checkStillRunning(running)
	e.checkQuotas(turns)
	e.checkExceededOnlyByStock(watched, turns)
	turns.checkNeverTwo(e, 2) // the stock scheduler has run twice

	running = e.runningPods(trainer)
	e.typeCommands(e.sectionCommands(install, "## Remove it")[0]) // the second is for OLM: test/olm
	e.Expect(e.volcanoConfig()).To(Equal(configuration), "byte for byte")
	e.checkNothingLeft(cluster.VolcanoNamespace)
	e.checkStillRunning(running)
	e.checkSchedulerWorks("after")
	turns.checkNeverTwo(e, 3) // and once after the removal

	// The second way: Volcano's Deployment runs our image. With two replicas one of them waits.
	image := e.sectionCommands(install, "## Only the image of Volcano's scheduler")
	e.Expect(image).To(HaveLen(2), "there and back")
	e.typeCommands(image[0])
	e.checkSchedulerWorks("image")
	turns.checkNeverTwo(e, 3)

	e.typeCommands(`kubectl -n volcano-system scale deployment volcano-scheduler --replicas=2`)
	e.checkSchedulerWorks("replicas")
	e.typeCommands(readme[3])
	e.typeCommands(image[1])
	e.Expect(e.volcanoConfig()).To(Equal(configuration), "byte for byte")
	e.checkStillRunning(running)
	e.typeCommands(`kubectl -n volcano-system scale deployment volcano-scheduler --replicas=1`)
	e.checkSchedulerWorks("stock")

	// The third way: in namespace "cards".
	elsewhere := e.sectionCommands(install, "### In another namespace")
	e.Expect(elsewhere).To(HaveLen(2), "there and back")
	e.typeCommands(elsewhere[0])
	e.typeCommands(readme[2])
	e.checkSchedulerWorks("elsewhere")
	e.typeCommands(elsewhere[1])
	e.checkNothingLeft("cards")
	e.Expect(e.volcanoConfig()).To(Equal(configuration), "byte for byte")
	e.checkSchedulerWorks("again")

	maps.Copy(running, before)
	e.checkStillRunning(running)
	turns.checkNeverTwo(e, 6) // and two replicas after the second way, one pod after the third
}

// checkNothingLeft checks that no object with our name is left, in any namespace or outside of
// namespaces. A policy's PriorityClasses and the Queues have other owners by then.
func (e *engineer) checkNothingLeft(namespace string) {
	const everywhere = "crd,clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations," +
		"validatingadmissionpolicies,validatingadmissionpolicybindings"
	const inside = "deployments,services,secrets,serviceaccounts,roles,rolebindings,networkpolicies,leases.coordination.k8s.io,configmaps"
	e.Eventually(func() ([]string, error) {
		left, err := e.runShell("kubectl get -o name " + everywhere + "; kubectl -n " + namespace + " get -o name " + inside)
		return slices.DeleteFunc(strings.Fields(left), func(name string) bool { return !strings.Contains(name, "cardquota") }), err
	}).Should(BeEmpty())
}

// checkSchedulerWorks checks that a scheduler places a pod without cards.
func (e *engineer) checkSchedulerWorks(name string) {
	e.createDeployment(name, "default", 1, 0)
	e.Eventually(e.countRunning(name)).Should(Equal(1))
}

// volcanoConfig returns the content of Volcano's ConfigMap, which no program writes.
func (e *engineer) volcanoConfig() map[string]string {
	return e.configMapData("volcano-scheduler-configmap")
}

// schedulerConfig returns the content of our scheduler's ConfigMap.
func (e *engineer) schedulerConfig() map[string]string {
	return e.configMapData("cardquota-scheduler-configmap")
}

func (e *engineer) configMapData(name string) map[string]string {
	cm := &corev1.ConfigMap{}
	e.Expect(e.Get(e.ctx, types.NamespacedName{Namespace: cluster.VolcanoNamespace, Name: name}, cm)).To(Succeed())
	return cm.Data
}
