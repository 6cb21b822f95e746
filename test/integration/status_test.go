package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/metricnames"
	"cardquota.dev/operator/test/framework"
)

func setRunning(s *corev1.PodStatus)   { s.Phase = corev1.PodRunning }
func setSucceeded(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded }
func setFailed(s *corev1.PodStatus)    { s.Phase = corev1.PodFailed }

// statusSummary returns status.summary, for use in Eventually.
func statusSummary(t *testing.T, name string) func() (string, error) {
	return func() (string, error) {
		status, err := statusOf(t, name)()
		return status.Summary, err
	}
}

// TestStatusFollowsPods: the status counts used and pending cards, CPU and memory of the queue's pods, and lists
// blocked workloads. Nodes have 8 A1 and 8 A2; the quota is 8 and 4, and 64 CPU. Pods use 3 A1 and 1 A2. One waits for
// 2 of either, and counts as pending for the first card that it names. Finished and failed pods release their cards.
// Each pod requests 2 CPU and 4Gi. The Queue's annotation card.allocated and a metric have the used cards, too.
func TestStatusFollowsPods(t *testing.T) {
	g, name := startParallelTest(t)
	newNode(t, name+"-a1", "NVIDIA-A1")
	newNode(t, name+"-a2", "NVIDIA-A2")

	quota := newQuota(name, func(q *v1alpha1.CardQuota) {
		q.Spec.Cards = []v1alpha1.Card{{Name: "NVIDIA-A1", Quota: ptr.To(int64(8))}, {Name: "NVIDIA-A2", Quota: ptr.To(int64(4))}} // of this test alone
	})
	createReady(t, quota)
	g.Expect(statusSummary(t, name)()).To(gomega.Equal("0/8 NVIDIA-A1, 0/4 NVIDIA-A2"))

	first := newPod(name+"-1", name, name+"-a1", 3)
	second := newPod(name+"-2", name, name+"-a2", 1)
	waiting := newPod(name+"-3", name, "", 2)
	for _, pod := range []*corev1.Pod{first, second, waiting} {
		pod.Annotations[v1alpha1.AnnotationCardName] = "NVIDIA-A1|NVIDIA-A2"
		admin.CreateWithCleanup(t, pod)
	}

	setPod(t, first, setRunning)
	setPod(t, waiting, func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}
	})

	g.Eventually(statusOf(t, name)).Should(gomega.SatisfyAll(
		gomega.HaveField("Summary", "3/8 NVIDIA-A1, 1/4 NVIDIA-A2"),
		gomega.HaveField("PendingSummary", "2 NVIDIA-A1"),
		gomega.HaveField("Cards", gomega.ConsistOf(
			v1alpha1.CardStatus{Name: "NVIDIA-A1", Quota: 8, Used: 3, Pending: 2, Free: 5, Physical: 8},
			v1alpha1.CardStatus{Name: "NVIDIA-A2", Quota: 4, Used: 1, Free: 3, Physical: 8},
		)),
		gomega.HaveField("CPU.Used", gomega.Satisfy(equalQuantity("4"))),
		gomega.HaveField("CPU.Quota", gomega.HaveValue(gomega.Satisfy(equalQuantity("64")))),
		gomega.HaveField("Memory.Used", gomega.Satisfy(equalQuantity("8Gi"))),
		gomega.HaveField("BlockedTotal", gomega.Equal(int32(1))),
		gomega.HaveField("Blocked", gomega.ConsistOf(v1alpha1.BlockedStatus{
			Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: waiting.Name}, Since: waiting.CreationTimestamp, Card: "NVIDIA-A1|NVIDIA-A2", Count: 2, Reason: v1alpha1.BlockedOther, Message: "no room",
		})),
	))
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.allocated")).Should(gomega.Equal(`{"NVIDIA-A1":3,"NVIDIA-A2":1}`))
	g.Eventually(metricSeries("cardquota_used_cards", "card", name)).Should(gomega.Equal(map[string]float64{"NVIDIA-A1": 3, "NVIDIA-A2": 1}))

	// A finished pod releases its cards, and so does a failed one.
	setPod(t, first, setSucceeded)
	setPod(t, second, setFailed)
	g.Eventually(statusSummary(t, name)).Should(gomega.Equal("0/8 NVIDIA-A1, 0/4 NVIDIA-A2"))
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.allocated")).Should(gomega.Equal(`{}`))

	admin.DeleteAndWait(t, waiting)
	g.Eventually(statusOf(t, name)).Should(gomega.SatisfyAll(
		gomega.HaveField("PendingSummary", "0"), gomega.HaveField("Blocked", gomega.BeEmpty())))

	admin.DeleteAndWait(t, quota)
	g.Eventually(metricSeries("cardquota_quota_cards", "card", name)).Should(gomega.BeEmpty(), "series end with the CardQuota")
}

// TestStatusIsWrittenAtMostOnceASecond: pods of a queue change all the time, and each write of a status loads the
// API server. The test creates 16 pods at a time for at least 4 seconds, and counts the writes of the CardQuota and
// its Queue. Of each there is at most one a second, and one more at either end (mostWrites). The last status counts all
// pods.
func TestStatusIsWrittenAtMostOnceASecond(t *testing.T) {
	g, name := startParallelTest(t)
	newNode(t, name, "NVIDIA-H200")
	createReady(t, newQuota(name, nil))
	quotas := countWrites(t, &v1alpha1.CardQuotaList{}, name)
	queues := countWrites(t, &v1beta1.QueueList{}, name)

	const burst = 4 * time.Second
	began := time.Now()
	pods := 0

	// There must be more changes than writes, and writes while pods change, even on a slow
	// machine.
	for time.Since(began) < burst || pods <= 3*mostWrites(began) || quotas() < 2 {
		var creations errgroup.Group
		for range 16 {
			pod := newPod(fmt.Sprintf("%s-%d", name, pods), name, name, 1)
			t.Cleanup(func() { admin.DeleteAndWait(t, pod) })
			creations.Go(func() error { return admin.Create(t.Context(), pod) })
			pods++
		}

		g.Expect(creations.Wait()).To(gomega.Succeed())
		g.Expect(time.Since(began)).To(gomega.BeNumerically("<", time.Minute), "%d pods were made", pods)
	}

	g.Eventually(statusSummary(t, name)).Should(gomega.Equal(fmt.Sprintf("%d/8 NVIDIA-H200", pods)))
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.allocated")).Should(gomega.Equal(fmt.Sprintf(`{"NVIDIA-H200":%d}`, pods)))

	most := mostWrites(began)
	t.Logf("%d pods in %s: %d writes of the CardQuota, %d of the Queue", pods, burst, quotas(), queues())
	g.Expect(quotas()).To(gomega.BeNumerically("<=", most))
	g.Expect(queues()).To(gomega.BeNumerically("<=", most))
}

// mostWrites returns how many writes are allowed since a moment: one per second, and one more
// at either end.
func mostWrites(began time.Time) int { return int(time.Since(began)/time.Second) + 2 }

// watchOn watches one object from now on. A watch without a revision starts with the API
// server's cache, which may be older than what was just read.
func watchOn(t *testing.T, list client.ObjectList, name string) watch.Interface {
	g := framework.NewGomega(t)
	one := client.MatchingFields{"metadata.name": name}
	g.Expect(admin.List(t.Context(), list, one)).To(gomega.Succeed())
	now := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watcher := check.Value(admin.Watch(t.Context(), list, one, now))(t)
	t.Cleanup(watcher.Stop)
	return watcher
}

// countWrites counts the writes of one object from now on.
func countWrites(t *testing.T, list client.ObjectList, name string) func() int {
	watcher := watchOn(t, list, name)
	writes := make(chan int, 1)
	writes <- 0

	go func() {
		for event := range watcher.ResultChan() {
			if event.Type == watch.Modified {
				writes <- <-writes + 1
			}
		}
	}()

	return func() int {
		n := <-writes
		writes <- n
		return n
	}
}

// equalQuantity compares a quantity by value.
func equalQuantity(want string) func(resource.Quantity) bool {
	return func(q resource.Quantity) bool { return q.Cmp(resource.MustParse(want)) == 0 }
}

// metricSeries returns the values of a metric of one queue, or of none, by a label, for use in
// Eventually.
func metricSeries(metric, label, queue string) func() (map[string]float64, error) {
	return func() (map[string]float64, error) {
		families, err := metrics.Gather()
		values := map[string]float64{}
		for _, family := range families {
			if family.GetName() != metric {
				continue
			}
			for _, m := range family.GetMetric() {
				if labelOf(m, "queue") == queue {
					values[labelOf(m, label)] = m.GetGauge().GetValue()
				}
			}
		}

		return values, err
	}
}

func labelOf(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// TestMetricsOfThePageAreThoseOfTheOperator: the table of docs/metrics.md has exactly the metrics that a running
// operator registers.
func TestMetricsOfThePageAreThoseOfTheOperator(t *testing.T) {
	documented := metricnames.Documented(t, "../../docs/metrics.md", metricnames.Operator)
	check.Equal(t, "metrics (-docs/metrics.md +the operator)", documented, metricnames.Registered(t, metrics))
}
