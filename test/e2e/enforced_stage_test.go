package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// The tenant's queue and another one, beside which nothing may change.
const tenant, neighbour = "enforced", "enforced-other"

// proof is the stage of the test that enforcement is proven: a cluster of its
// own, with Volcano's configuration as its installer makes it.
type proof struct {
	*scene
	*diary
	// original is the configuration before the policy, merged what the policy
	// makes of it.
	original, merged string
	stocks           []*stock
}

// stock is a stock scheduler at work: its process, and a pod that stands for the
// one of its Deployment.
type stock struct {
	process     *cluster.Process
	pod         *corev1.Pod
	from, until time.Time
}

func newProof(t *testing.T) *proof {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(suite.root, "internal/schedulerconf/testdata/merge/installer_1_14/before.conf"))
	g.Expect(err).NotTo(HaveOccurred())
	p := &proof{original: string(text)}
	st := startStage(t, cluster.Options{Nodes: []cluster.NodeProfile{node("h200", h200, 2, "4")}})
	options := programs
	manifest, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: configurationName.Namespace, Name: configurationName.Name},
		Data:       map[string]string{configurationKey: p.original},
	})
	g.Expect(err).NotTo(HaveOccurred())
	options.Configuration = string(manifest)
	st.install(t, options)
	g.Expect(st.deployment.StartManager(t.Context())).To(Succeed())
	p.scene = newSceneOn(t, tenant, st)
	p.diary = p.keepDiary()
	return p
}

// complete checks that the diary was written to the end, and that both of the
// scheduler's Leases are in it.
func (p *proof) complete() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Expect(p.trouble).To(BeEmpty())
	p.Expect(p.sessions).NotTo(BeEmpty())
	p.Expect(p.leads).NotTo(BeEmpty())
}

// says waits until a condition of objects says something of this form.
func (p *proof) says(kind, form string, objects ...string) {
	p.Helper()
	for _, object := range objects {
		p.Eventually(func() string { return p.now(object, kind) }).Should(MatchRegexp("^"+form), "%s of %s", kind, object)
	}
}

// enforced waits until condition Enforced of the policy and of both CardQuotas
// says something of this form.
func (p *proof) enforced(form string) {
	p.Helper()
	p.says(api.ConditionEnforced, form, thePolicy, "CardQuota/"+tenant, "CardQuota/"+neighbour)
}

// readyz is the readiness page of the scheduler. Only its process knows the port.
func (p *proof) readyz() string {
	p.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.deployment.Scheduler.Pid()))
	p.Expect(err).NotTo(HaveOccurred())
	address := regexp.MustCompile(`--healthz-address=([0-9.:]+)`).FindStringSubmatch(string(line))
	p.Expect(address).To(HaveLen(2), "%q", line)
	request, err := http.NewRequestWithContext(p.ctx, http.MethodGet, "http://"+address[1]+"/readyz", nil)
	p.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	p.Expect(err).NotTo(HaveOccurred())
	body, err := io.ReadAll(response.Body)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(response.Body.Close()).To(Succeed())
	p.Expect(response.StatusCode).To(Equal(http.StatusOK))
	return string(body)
}

// startStock starts a stock scheduler as its Deployment does.
func (p *proof) startStock(name string) *stock {
	p.Helper()
	return p.startStockOf(p.stockPod(name))
}

// stockPod makes the pod of a stock scheduler.
func (p *proof) stockPod(name string) *corev1.Pod {
	p.Helper()
	pod := deployment.StockPod(name, "h200-0")
	p.Expect(p.Create(p.ctx, pod)).To(Succeed())
	return pod
}

// startStockOf starts the stock scheduler of a pod. From then on ours must not work.
func (p *proof) startStockOf(pod *corev1.Pod) *stock {
	p.Helper()
	started := &stock{from: time.Now(), pod: pod}
	var err error
	started.process, err = p.deployment.StartStockScheduler(p.ctx)
	p.Expect(err).NotTo(HaveOccurred())
	p.stocks = append(p.stocks, started)
	return started
}

// scaleTo0 ends a stock scheduler as scaling its Deployment does.
func (p *proof) scaleTo0(of *stock) {
	p.Helper()
	p.Expect(of.process.Running()).To(BeTrue(), "it has run all the time")
	p.Expect(of.process.Stop()).To(Succeed())
	of.until = time.Now()
	p.Expect(p.Delete(p.ctx, of.pod)).To(Succeed())
}

// stopOurs ends our scheduler in order.
func (p *proof) stopOurs() {
	p.Helper()
	p.letSchedulerEnd()
	p.Expect(p.deployment.Scheduler.Stop()).To(Succeed())
	p.Expect(p.deployment.Scheduler.Wait()).To(Succeed())
}

// edit writes the configuration's text as a person does who leaves everything
// else of the ConfigMap alone.
func (p *proof) edit(text string) {
	p.Helper()
	live := p.configuration()
	before := live.DeepCopy()
	live.Data[configurationKey] = text
	p.Expect(p.Patch(p.ctx, live, client.MergeFrom(before), client.FieldOwner("kubectl-edit"))).To(Succeed())
}

// text is the configuration now.
func (p *proof) text() string { return p.configuration().Data[configurationKey] }

// toldAt is when an event of an object had a message of this form for the first
// time.
func (p *proof) toldAt(object, reason, form string) time.Time {
	p.Helper()
	var at time.Time
	kind, name, _ := strings.Cut(object, "/")
	is := regexp.MustCompile(form)
	p.Eventually(func() error {
		events := &corev1.EventList{}
		if err := p.List(p.ctx, events); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name && event.Reason == reason && is.MatchString(event.Message) {
				at = event.FirstTimestamp.Time
				return nil
			}
		}
		return fmt.Errorf("no event %s on %s says %s", reason, object, form)
	}).Should(Succeed())
	return at
}

// all are the pods of the scene that run, by UID.
func (p *proof) all() map[types.UID]string {
	p.Helper()
	list := &corev1.PodList{}
	p.list(list, client.InNamespace(p.namespace))
	out := map[types.UID]string{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			out[pod.UID] = pod.Name
		}
	}
	return out
}
