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
	"cardquota.dev/operator/internal/testing/check"
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
	check.Main(m, "observer", func(s *check.SetUp) {
		s.Cleanup(func() error {
			if shared.cluster == nil {
				return nil
			}
			return shared.cluster.Stop()
		})
	})
}

// scene is a namespace and a queue of the same name on the shared cluster, of one test.
type scene struct {
	*testing.T
	Gomega
	cluster *cluster.Cluster
	name    string
}

// newSceneOnCluster creates a namespace, and a queue with a quota of 2 H200. The cluster has no scheduler and no operator.
// Its nodes h200-0 and h200-1 have 8 H200 each.
func newSceneOnCluster(t *testing.T, name string) *scene {
	shared.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		shared.cluster, shared.err = cluster.Start(ctx, cluster.Options{Fleet: "../cluster/fleets/mixed.yaml"})
		for _, kind := range []string{"cardquotas", "localcardquotas", "cardinventories"} {
			if shared.err == nil {
				shared.err = shared.cluster.ApplyFile(ctx, "../../config/crd/bases/cardquota.dev_"+kind+".yaml")
			}
		}
	})

	if errors.Is(shared.err, cluster.ErrNotBuilt) {
		missing.Skip(t, shared.err)
	}
	check.NoError(t, shared.err)

	s := &scene{T: t, Gomega: NewWithT(check.Trail(t)), cluster: shared.cluster, name: name}
	s.applyManifest(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name)
	s.writeQuota(`{"NVIDIA-H200":2}`)
	s.waitUntilOpen(name)
	return s
}

// waitUntilOpen waits until Volcano's controller has opened a queue.
func (s *scene) waitUntilOpen(queue string) {
	s.Eventually(func() (string, error) {
		return s.cluster.Kubectl(s.Context(), "get", "queues.scheduling.volcano.sh", queue, "-o", "jsonpath={.status.state}")
	}, "20s", "100ms").Should(Equal("Open"))
}

func (s *scene) applyManifest(format string, args ...any) {
	s.Expect(s.cluster.Apply(s.Context(), []byte(fmt.Sprintf(format, args...)))).To(Succeed())
}

// writeQuota creates the queue, or changes its quota.
func (s *scene) writeQuota(quota string) {
	s.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s, annotations: {volcano.sh/card.quota: '%s'}}, spec: {weight: 1}}`, s.name, quota)
}

func (s *scene) startObserver(options observer.Options) *observer.Observer {
	o, err := observer.Start(s.Context(), s.cluster.Config(), options)
	s.Expect(err).NotTo(HaveOccurred())
	s.Cleanup(o.Stop)
	return o
}

// createPod creates a pod of the scene's queue that requests cards.
func (s *scene) createPod(name, card, count string) {
	s.createPodIn(s.name, name, card, count)
}

// createPodIn creates a pod of a queue.
func (s *scene) createPodIn(queue, name, card, count string) {
	pod := builder.Pod(s.name, name).Queue(queue).Card(card).Requests(builder.GPU, count).Obj()
	s.Expect(s.cluster.Client().CoreV1().Pods(s.name).Create(s.Context(), pod, metav1.CreateOptions{})).Error().NotTo(HaveOccurred())
}

// bindPod binds a pod without any check.
func (s *scene) bindPod(name, node string) {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	s.Expect(s.cluster.Client().CoreV1().Pods(s.name).Bind(s.Context(), binding, metav1.CreateOptions{})).To(Succeed())
}

func (s *scene) deletePod(name string) {
	s.Expect(s.cluster.Client().CoreV1().Pods(s.name).Delete(s.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})).To(Succeed())
}

// settleAndExpect waits until the observer has checked all changes, and compares the violations, as invariant and
// object.
func (s *scene) settleAndExpect(o *observer.Observer, want ...string) {
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	s.Expect(o.Settle(ctx)).To(Succeed())
	var got []string
	for _, v := range o.Violations() {
		got = append(got, string(v.Invariant)+" "+v.Object)
	}
	s.Expect(got).To(Equal(want), "%v", o.Violations())
}

// TestABindingBeyondTheQuotaIsFound: the queue has a quota of 2 H200, and three pods with one each are bound.
// So the third binding violates invariant I1.
func TestABindingBeyondTheQuotaIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-quota")
	o := s.startObserver(observer.Options{})
	for _, name := range []string{"first", "second", "third"} {
		s.createPod(name, "NVIDIA-H200", "1")
		s.bindPod(name, "h200-0")
	}
	s.settleAndExpect(o, "I1 quota pod/break-quota/third")
}

// TestNoFalseAlarmWhenEachPodIsDeletedBeforeTheNextIsBound: deletions, bindings and changes of the quota follow each
// other as fast as the API server accepts them, 60 times. The quota alternates between 2 and 1. Each pod uses 2 H200,
// which is within the largest quota of the last 10 s. The watches deliver these changes in any order, and the
// observer must not be wrong. Finally one card more is a violation.
func TestNoFalseAlarmWhenEachPodIsDeletedBeforeTheNextIsBound(t *testing.T) {
	s := newSceneOnCluster(t, "break-rush")
	// No scheduler says why pods wait, and a busy machine takes long.
	o := s.startObserver(observer.Options{Interval: 50 * time.Millisecond, ReasonWithin: time.Hour})

	const pods = 60
	for i := range pods {
		s.createPod(fmt.Sprint("rush-", i), "NVIDIA-H200", "2")
	}

	for i := range pods {
		if i > 0 {
			s.deletePod(fmt.Sprint("rush-", i-1))
		}
		s.bindPod(fmt.Sprint("rush-", i), "h200-0")
		s.writeQuota([]string{`{"NVIDIA-H200":2}`, `{"NVIDIA-H200":1}`}[i%2])
	}

	s.settleAndExpect(o)
	s.createPod("beyond", "NVIDIA-H200", "1")
	s.bindPod("beyond", "h200-1")
	s.settleAndExpect(o, "I1 quota pod/break-rush/beyond")
}

// TestAPodOnAnotherCardIsFound: a pod may run only on a card that it names. One names RTX 4090 or H200, another
// one RTX 4090 only, and both are bound to a node with H200. The second one violates invariant I2.
func TestAPodOnAnotherCardIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-card")
	o := s.startObserver(observer.Options{})
	s.createPod("right", "NVIDIA-GeForce-RTX-4090|NVIDIA-H200", "1")
	s.bindPod("right", "h200-0")
	s.createPod("wrong", "NVIDIA-GeForce-RTX-4090", "1")
	s.bindPod("wrong", "h200-0")
	s.settleAndExpect(o, "I2 card pod/break-card/wrong")
}

// TestAWrongStatusIsFound: no pod uses a card; the cluster has 20 H200. A status of 0 used is right, one of 1 violates
// invariant I3. So does the annotation card.allocated of a Queue that a user wrote by hand.
func TestAWrongStatusIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-status")
	o := s.startObserver(observer.Options{})
	s.applyManifest(`{apiVersion: cardquota.dev/v1alpha1, kind: CardQuota, metadata: {name: break-status},
spec: {tenant: t, serviceType: training, cards: [{name: NVIDIA-H200, quota: 2}]}}`)

	writeUsed := func(used int) {
		_, err := s.cluster.Kubectl(s.Context(), "patch", "cardquota", "break-status", "--subresource=status", "--type=merge", "-p",
			fmt.Sprintf(`{"status":{"cards":[{"name":"NVIDIA-H200","quota":2,"used":%d,"pending":0,"free":%d,"physical":20}]}}`, used, 2-used))
		s.Expect(err).NotTo(HaveOccurred())
	}

	writeUsed(0)
	s.settleAndExpect(o)

	writeUsed(1)
	s.settleAndExpect(o, "I3 status cardquota/break-status")
	s.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: break-status-byhand, annotations: {volcano.sh/card.allocated: '{"NVIDIA-H200":1}'}}, spec: {weight: 1}}`)
	s.settleAndExpect(o, "I3 status cardquota/break-status", "I3 status queue/break-status-byhand")
	for _, object := range []string{"cardquota/break-status", "queues.scheduling.volcano.sh/break-status-byhand"} {
		s.Expect(s.cluster.Kubectl(s.Context(), "delete", object)).Error().NotTo(HaveOccurred())
	}
}

// TestAWrongInventoryIsFound: the cluster has 20 healthy H200, and the status of the CardInventory reads 19.
// That is a violation which names the card.
func TestAWrongInventoryIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-inventory")
	s.applyManifest(`{apiVersion: cardquota.dev/v1alpha1, kind: CardInventory, metadata: {name: cluster}}`)
	o := s.startObserver(observer.Options{InventoryWithin: 2 * time.Second})
	const entry = `{"name":"NVIDIA-H200","total":20,"healthy":19,"cordoned":0,"allocated":0,"quota":2}`
	s.Expect(s.cluster.Kubectl(s.Context(), "patch", "cardinventory", "cluster", "--subresource=status", "--type=merge", "-p", `{"status":{"cards":[`+entry+`]}}`)).Error().NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()

	s.Expect(o.Settle(ctx)).To(Succeed())
	s.Expect(o.Violations()).To(ContainElement(And(HaveField("Object", "cardinventory/cluster"), HaveField("Message", ContainSubstring("card NVIDIA-H200")))))
	s.Expect(s.cluster.Kubectl(s.Context(), "delete", "cardinventory", "cluster")).Error().NotTo(HaveOccurred())
}

// TestAnEvictionByTheAPIIsFound: a pod that is only deleted is no violation. An eviction by the API, which is
// not an action of the scheduler, violates invariant I4.
func TestAnEvictionByTheAPIIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-eviction")
	o := s.startObserver(observer.Options{})
	for _, name := range []string{"deleted", "evicted"} {
		s.createPod(name, "NVIDIA-H200", "1")
		s.bindPod(name, "h200-0")
	}
	s.deletePod("deleted")
	s.settleAndExpect(o)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: s.name}}
	s.Expect(s.cluster.Client().PolicyV1().Evictions(s.name).Evict(s.Context(), eviction)).To(Succeed())
	s.settleAndExpect(o, "I4 eviction pod/break-eviction/evicted")
}

// TestAProcessThatPanicsIsFoundOnTheCluster: a process waits for a file, and then writes a panic and ends. Both
// violate invariant I5: no program of the project panics or ends by itself. Nothing violates it before.
func TestAProcessThatPanicsIsFoundOnTheCluster(t *testing.T) {
	s := newSceneOnCluster(t, "break-process")
	goOn := filepath.Join(t.TempDir(), "go-on")
	process, err := s.cluster.StartProcess(t.Context(), cluster.ProcessSpec{
		Name: "break-process", Path: "/bin/sh",
		Args: []string{"-c", "until [ -e " + goOn + " ]; do sleep 0.1; done; echo 'panic: runtime error' >&2; exit 2"},
	})

	s.Expect(err).NotTo(HaveOccurred())
	o := s.startObserver(observer.Options{Processes: []observer.Followed{process}})
	s.settleAndExpect(o)
	s.Expect(os.WriteFile(goOn, nil, 0o600)).To(Succeed())
	s.Eventually(process.Done(), "10s").Should(BeClosed())
	s.settleAndExpect(o, "I5 process break-process", "I5 process break-process")
}

// TestAWorkloadThatWaitsWithoutAReasonIsFound: no scheduler runs, so neither a pod nor a PodGroup without pods
// says why it waits. After 2 s each violates invariant I6.
func TestAWorkloadThatWaitsWithoutAReasonIsFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-reason")
	o := s.startObserver(observer.Options{ReasonWithin: 2 * time.Second})
	s.createPod("silent", "NVIDIA-H200", "1")
	s.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup,
metadata: {name: silent-job, namespace: break-reason, annotations: {volcano.sh/card.request: '{"NVIDIA-H200":4}'}},
spec: {queue: break-reason, minMember: 4}}`)
	s.settleAndExpect(o, "I6 reason pod/break-reason/silent", "I6 reason podgroup/break-reason/silent-job")
	s.deletePod("silent")
	s.Expect(s.cluster.Kubectl(s.Context(), "delete", "podgroup", "-n", s.name, "silent-job")).Error().NotTo(HaveOccurred())
}
