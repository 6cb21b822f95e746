package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	kit "cardquota.dev/operator/test/framework"
)

// The tenant's queue, and another one that must not be affected.
const (
	tenant    = "enforced"
	neighbour = "enforced-other"
)

// enforcementTest is the environment of the test of enforcement: a cluster with Volcano's
// configuration as its installer creates it.
type enforcementTest struct {
	*scene
	*conditionLog
	// original is Volcano's configuration, rendered the configuration that the policy renders
	// from it.
	original, rendered string
	stocks             []*stockScheduler
}

// stockScheduler is a running stock scheduler: its process, and a pod that represents the pod
// of its Deployment.
type stockScheduler struct {
	process     *cluster.Process
	pod         *corev1.Pod
	from, until time.Time
}

func newEnforcementTest(t *testing.T) *enforcementTest {
	text := check.Value(os.ReadFile(filepath.Join(suite.root, "internal/schedulerconfig/testdata/render/installer_1_14/base.conf")))(t)
	p := &enforcementTest{original: string(text)}
	st := startTestCluster(t, []cluster.NodeProfile{nodeProfile("h200", h200, 2, "4")}, deployment.NoConfiguration)
	p.scene = newSceneOn(t, tenant, st)
	p.editConfigMap(baseMeta, p.original) // it is the installer's already, but for a change of Volcano's
	p.startManager()
	p.conditionLog = p.startConditionLog()
	return p
}

// waitForCondition waits until a condition of objects has this form.
func (p *enforcementTest) waitForCondition(kind, form string, objects ...string) {
	for _, object := range objects {
		p.Eventually(func() string { return p.currentCondition(object, kind) }).Should(MatchRegexp("^"+form), "%s of %s", kind, object)
	}
}

// waitForEnforced waits until condition Enforced of the policy and of both CardQuotas has this
// form.
func (p *enforcementTest) waitForEnforced(form string) {
	p.waitForCondition(api.ConditionEnforced, form, thePolicy, "CardQuota/"+tenant, "CardQuota/"+neighbour)
}

// schedulerReadyz returns the readiness page of the scheduler. Only its process knows the port.
func (p *enforcementTest) schedulerReadyz() string {
	line := check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.deployment.Scheduler.Pid())))(p)
	address := regexp.MustCompile(`--healthz-address=([0-9.:]+)`).FindStringSubmatch(string(line))
	p.Expect(address).To(HaveLen(2), "%q", line)
	return string(check.Value(cluster.HTTPGet(p.ctx, "http://"+address[1]+"/readyz"))(p))
}

// stockPod creates the pod of a stock scheduler.
func (p *enforcementTest) stockPod(name string) *corev1.Pod {
	pod := deployment.StockPod(name, "h200-0")
	p.Expect(p.Create(p.ctx, pod)).To(Succeed())
	return pod
}

// startStock starts the stock scheduler of a pod. From then on ours must not schedule.
func (p *enforcementTest) startStock(pod *corev1.Pod) *stockScheduler {
	started := &stockScheduler{from: time.Now(), pod: pod}
	started.process = check.Value(p.deployment.StartStockScheduler(p.ctx))(p)
	p.stocks = append(p.stocks, started)
	return started
}

// scaleTo0 ends a stock scheduler like scaling its Deployment to 0.
func (p *enforcementTest) scaleTo0(of *stockScheduler) {
	p.Expect(of.process.Running()).To(BeTrue(), "it has run all the time")
	p.Expect(of.process.Stop()).To(Succeed())
	of.until = time.Now()
	p.Expect(p.Delete(p.ctx, of.pod)).To(Succeed())
}

// volcanoConfig returns Volcano's current configuration.
func (p *enforcementTest) volcanoConfig() string {
	return readObject(p.scene, &corev1.ConfigMap{ObjectMeta: baseMeta}).Data[configurationKey]
}

// editConfigMap changes only the text of a ConfigMap, as a user would.
func (p *enforcementTest) editConfigMap(of metav1.ObjectMeta, text string) {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, configurationKey, text)
	p.Expect(kit.MergePatch(p.T, p.Framework, &corev1.ConfigMap{ObjectMeta: of}, patch, client.FieldOwner("kubectl-edit"))).To(Succeed())
}

// eventTime returns when an event of an object first had a message of this form.
func (p *enforcementTest) eventTime(object, reason, form string) time.Time {
	kind, name, _ := strings.Cut(object, "/")
	var found []corev1.Event
	p.Eventually(func() []corev1.Event { return p.eventsOn("", kind, name, reason) }).
		Should(ContainElement(HaveField("Message", MatchRegexp(form)), &found), object)
	return found[0].FirstTimestamp.Time
}
