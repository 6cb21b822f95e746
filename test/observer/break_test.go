package observer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/observer"
)

// These tests violate every invariant on purpose, on a real control plane without scheduler and
// operator. The observer must find exactly these violations.

var shared struct {
	sync.Once
	cluster *cluster.Cluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// scene is one test's namespace and queue on the shared cluster.
type scene struct {
	*testing.T
	Gomega
	cluster *cluster.Cluster
	name    string
}

func newScene(t *testing.T, name string) *scene {
	t.Helper()
	shared.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		shared.cluster, shared.err = cluster.Start(ctx, cluster.Options{Fleet: "../cluster/fleets/mixed.yaml"})
		if shared.err == nil {
			shared.err = shared.cluster.ApplyFile(ctx, "../../config/crd/bases/cardquota.dev_cardquotas.yaml")
		}
		for _, kind := range []string{"localcardquotas", "cardinventories"} {
			if shared.err == nil {
				shared.err = shared.cluster.ApplyFile(ctx, "../../config/crd/bases/cardquota.dev_"+kind+".yaml")
			}
		}
	})

	if errors.Is(shared.err, cluster.ErrNotBuilt) {
		missing.Skip(t, shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}

	w := &scene{T: t, Gomega: NewWithT(t), cluster: shared.cluster, name: name}
	w.applyManifest(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name)
	w.createQueue(`{"NVIDIA-H200":2}`)
	w.waitUntilOpen(name)
	return w
}

// waitUntilOpen waits until Volcano's controller has opened a queue.
func (w *scene) waitUntilOpen(queue string) {
	w.Helper()
	w.Eventually(func() (string, error) {
		return w.cluster.Kubectl(w.Context(), "get", "queues.scheduling.volcano.sh", queue, "-o", "jsonpath={.status.state}")
	}, "20s", "100ms").Should(Equal("Open"))
}

func (w *scene) applyManifest(format string, args ...any) {
	w.Helper()
	w.Expect(w.cluster.Apply(w.Context(), []byte(fmt.Sprintf(format, args...)))).To(Succeed())
}

func (w *scene) createQueue(quota string) {
	w.Helper()
	w.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s, annotations: {volcano.sh/card.quota: '%s'}}, spec: {weight: 1}}`, w.name, quota)
}

func (w *scene) startObserver(options observer.Options) *observer.Observer {
	w.Helper()
	o, err := observer.Start(w.Context(), w.cluster.Config(), options)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(o.Stop)
	return o
}

// createPod creates a pod of the scene's queue that requests H200 cards.
func (w *scene) createPod(name, card, count string) {
	w.Helper()
	w.podIn(w.name, name, card, count)
}

func (w *scene) podIn(queue, name, card, count string) {
	w.Helper()
	pod := builder.Pod(w.name, name).Queue(queue).Card(card).Requests(builder.GPU, count).Obj()
	_, err := w.cluster.Client().CoreV1().Pods(w.name).Create(w.Context(), pod, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// bindPod binds a pod without any check.
func (w *scene) bindPod(name, node string) {
	w.Helper()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	w.Expect(w.cluster.Client().CoreV1().Pods(w.name).Bind(w.Context(), binding, metav1.CreateOptions{})).To(Succeed())
}

func (w *scene) deletePod(name string) {
	w.Helper()
	w.Expect(w.cluster.Client().CoreV1().Pods(w.name).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})).To(Succeed())
}

// wantExactly settles and compares the violations, as invariant and object.
func (w *scene) wantExactly(o *observer.Observer, want ...string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	w.Expect(o.Settle(ctx)).To(Succeed())
	var got []string
	for _, v := range o.Violations() {
		got = append(got, string(v.Invariant)+" "+v.Object)
	}
	w.Expect(got).To(Equal(want), "%v", o.Violations())
}

func TestABindingBeyondTheQuotaIsFound(t *testing.T) {
	w := newScene(t, "break-quota")
	o := w.startObserver(observer.Options{})
	for _, name := range []string{"first", "second", "third"} {
		w.createPod(name, "NVIDIA-H200", "1")
		w.bindPod(name, "h200-0")
	}
	w.wantExactly(o, "I1 quota pod/break-quota/third")
}

// Deletions and bindings follow each other as fast as the API server accepts them, always
// within the quota, and finally once beyond it.
func TestNoFalseAlarmWhenEveryDeletionMakesRoomForABinding(t *testing.T) {
	w := newScene(t, "break-rush")
	// No scheduler says why pods wait, and a busy machine takes long.
	o := w.startObserver(observer.Options{Interval: 50 * time.Millisecond, ReasonWithin: time.Hour})

	const rounds = 60
	for i := range rounds {
		w.createPod(fmt.Sprint("rush-", i), "NVIDIA-H200", "2")
	}

	for i := range rounds {
		if i > 0 {
			w.deletePod(fmt.Sprint("rush-", i-1))
		}
		w.bindPod(fmt.Sprint("rush-", i), "h200-0")
		w.createQueue([]string{`{"NVIDIA-H200":2}`, `{"NVIDIA-H200":1}`}[i%2])
	}

	w.wantExactly(o)
	w.createPod("beyond", "NVIDIA-H200", "1")
	w.bindPod("beyond", "h200-1")
	w.wantExactly(o, "I1 quota pod/break-rush/beyond")
}

func TestAPodOnAnotherCardIsFound(t *testing.T) {
	w := newScene(t, "break-card")
	o := w.startObserver(observer.Options{})
	w.createPod("right", "NVIDIA-GeForce-RTX-4090|NVIDIA-H200", "1")
	w.bindPod("right", "h200-0")
	w.createPod("wrong", "NVIDIA-GeForce-RTX-4090", "1")
	w.bindPod("wrong", "h200-0")
	w.wantExactly(o, "I2 card pod/break-card/wrong")
}

func TestAFalseStatusIsFound(t *testing.T) {
	w := newScene(t, "break-status")
	o := w.startObserver(observer.Options{})
	w.applyManifest(`{apiVersion: cardquota.dev/v1alpha1, kind: CardQuota, metadata: {name: break-status},
spec: {tenant: t, serviceType: training, cards: [{name: NVIDIA-H200, quota: 2}]}}`)

	status := func(used int) {
		w.Helper()
		_, err := w.cluster.Kubectl(w.Context(), "patch", "cardquota", "break-status", "--subresource=status", "--type=merge", "-p",
			fmt.Sprintf(`{"status":{"cards":[{"name":"NVIDIA-H200","quota":2,"used":%d,"pending":0,"free":%d,"physical":20}]}}`, used, 2-used))
		w.Expect(err).NotTo(HaveOccurred())
	}

	status(0)
	w.wantExactly(o)
	status(1)

	w.wantExactly(o, "I3 status cardquota/break-status")
	w.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: break-status-byhand, annotations: {volcano.sh/card.allocated: '{"NVIDIA-H200":1}'}}, spec: {weight: 1}}`)
	w.wantExactly(o, "I3 status cardquota/break-status", "I3 status queue/break-status-byhand")
	for _, object := range []string{"cardquota/break-status", "queues.scheduling.volcano.sh/break-status-byhand"} {
		_, err := w.cluster.Kubectl(w.Context(), "delete", object)
		w.Expect(err).NotTo(HaveOccurred())
	}
}

func TestAFalseInventoryIsFound(t *testing.T) {
	w := newScene(t, "break-inventory")
	w.applyManifest(`{apiVersion: cardquota.dev/v1alpha1, kind: CardInventory, metadata: {name: cluster}}`)
	o := w.startObserver(observer.Options{InventoryWithin: 2 * time.Second})
	const entry = `{"name":"NVIDIA-H200","total":20,"healthy":19,"cordoned":0,"allocated":0,"quota":2}`
	_, err := w.cluster.Kubectl(w.Context(), "patch", "cardinventory", "cluster", "--subresource=status", "--type=merge", "-p", `{"status":{"cards":[`+entry+`]}}`)

	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()

	w.Expect(o.Settle(ctx)).To(Succeed())
	w.Expect(o.Violations()).To(ContainElement(And(HaveField("Object", "cardinventory/cluster"), HaveField("Message", ContainSubstring("card NVIDIA-H200")))))
	_, err = w.cluster.Kubectl(w.Context(), "delete", "cardinventory", "cluster")
	w.Expect(err).NotTo(HaveOccurred())
}

func TestAnEvictionIsFound(t *testing.T) {
	w := newScene(t, "break-eviction")
	o := w.startObserver(observer.Options{})
	for _, name := range []string{"deleted", "evicted"} {
		w.createPod(name, "NVIDIA-H200", "1")
		w.bindPod(name, "h200-0")
	}
	w.deletePod("deleted")
	w.wantExactly(o)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: w.name}}
	w.Expect(w.cluster.Client().PolicyV1().Evictions(w.name).Evict(w.Context(), eviction)).To(Succeed())
	w.wantExactly(o, "I4 eviction pod/break-eviction/evicted")
}

func TestAProcessThatPanicsIsFound(t *testing.T) {
	w := newScene(t, "break-process")
	gate := filepath.Join(t.TempDir(), "gate")
	process, err := w.cluster.StartProcess(t.Context(), cluster.ProcessSpec{
		Name: "break-process", Path: "/bin/sh",
		Args: []string{"-c", "until [ -e " + gate + " ]; do sleep 0.1; done; echo 'panic: runtime error' >&2; exit 2"},
	})

	w.Expect(err).NotTo(HaveOccurred())
	o := w.startObserver(observer.Options{Processes: []observer.Followed{process}})
	w.wantExactly(o)
	w.Expect(os.WriteFile(gate, nil, 0o600)).To(Succeed())
	w.Eventually(process.Done(), "10s").Should(BeClosed())
	w.wantExactly(o, "I5 process break-process", "I5 process break-process")
}

func TestAPodThatWaitsWithoutAWordIsFound(t *testing.T) {
	w := newScene(t, "break-reason")
	o := w.startObserver(observer.Options{ReasonWithin: 2 * time.Second})
	w.createPod("silent", "NVIDIA-H200", "1")
	w.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup,
metadata: {name: silent-job, namespace: break-reason, annotations: {volcano.sh/card.request: '{"NVIDIA-H200":4}'}},
spec: {queue: break-reason, minMember: 4}}`)
	w.wantExactly(o, "I6 reason pod/break-reason/silent", "I6 reason podgroup/break-reason/silent-job")
	w.deletePod("silent")
	_, err := w.cluster.Kubectl(w.Context(), "delete", "podgroup", "-n", w.name, "silent-job")
	w.Expect(err).NotTo(HaveOccurred())
}
