package loss

import (
	"fmt"
	"math"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func hoursAgo(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }

// drawnPod is a pod of a drawn job, with what a naive sum needs.
type drawnPod struct {
	state             State
	job               string // "" without a Kubernetes Job
	cards             int
	started, finished int // hours ago; started is 0 before the start
}

func (d *drawnPod) pod(i int) Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i)), Finalizers: []string{batchv1.JobTrackingFinalizer}}}
	if d.job != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: d.job, UID: types.UID(d.job), Controller: ptr.To(true)}}
	}

	if d.started > 0 {
		pod.Status.StartTime = ptr.To(metav1.NewTime(hoursAgo(d.started)))
	}

	if d.state == Succeeded {
		ended := &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(hoursAgo(d.finished))}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{}, {State: corev1.ContainerState{Terminated: ended}}}
	}

	return Pod{Pod: pod, State: d.state, Cards: int64(d.cards)}
}

func countPods(pods []drawnPod, job string, state State) (count int) {
	for _, pod := range pods {
		if pod.job == job && pod.state == state {
			count++
		}
	}
	return count
}

// naivePrice is what evictions cost by counting hours one by one.
func naivePrice(pods []drawnPod, saved int, limits map[string]int) (whole int64, left int, fails bool) {
	left = math.MaxInt
	failing := map[string]bool{}
	for job, limit := range limits {
		mayGo := max(0, limit-countPods(pods, job, Ended))
		failing[job] = countPods(pods, job, Placed) > mayGo
		if failing[job] {
			fails = true
			left = min(left, mayGo)
		}
	}

	for _, pod := range pods {
		for hour := 1; hour <= pod.started; hour++ { // the hour that began so long ago
			isLost := pod.state == Placed && (hour <= saved || failing[pod.job])
			isLost = isLost || (pod.state == Succeeded && failing[pod.job] && hour > pod.finished)
			if isLost {
				whole += int64(pod.cards) * 3600
			}
		}
	}

	return whole, left, fails
}

// TestAPriceIsWhatIsLost: the price of evicting all pods of a job is the work that is lost. Random pods
// belong to Kubernetes Job a, to Job b, or to no Job. naivePrice counts their hours one by one, and the price
// must agree with that count.
//
// A running pod (Placed) loses the hours since its start, but none before the last checkpoint, "saved" hours
// ago. A Kubernetes Job fails if more of its pods run than it may lose: its backoffLimit, less its pods that
// were evicted or failed (Ended). If it fails, all hours of its running and succeeded pods are lost. The test
// also compares whether a Job fails, and how many evictions come before the first Job fails. The price of a
// running pod alone is that of its hours since the checkpoint.
func TestAPriceIsWhatIsLost(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		saved := rapid.IntRange(0, 6).Draw(t, "saved") // hours ago
		limits := map[string]int{"a": rapid.IntRange(0, 4).Draw(t, "limit of a"), "b": rapid.IntRange(0, 4).Draw(t, "limit of b")}

		var drawn []drawnPod
		var pods []Pod
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			d := drawnPod{
				state:   rapid.SampledFrom([]State{Placed, Placed, Ended, Succeeded}).Draw(t, "state"),
				job:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "job"),
				cards:   rapid.IntRange(0, 3).Draw(t, "cards"),
				started: rapid.IntRange(0, 6).Draw(t, "started"),
			}

			d.finished = rapid.IntRange(0, d.started).Draw(t, "finished")
			drawn = append(drawn, d)
			pods = append(pods, d.pod(i))
		}

		known := func(_, name string, _ types.UID) (workload.FailureLimit, bool) {
			return workload.FailureLimitFor(&batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(limits[name]))}}), true
		}

		price := PriceOf("ns", pods, hoursAgo(saved), now, known)
		whole, left, fails := naivePrice(drawn, saved, limits)
		check.Equal(t, "price of all pods", whole, price.Whole())
		check.Equal(t, "evictions before the first Job fails", left, price.EvictionsLeft)
		check.Equal(t, "a Job fails", fails, price.Fails)
		for i, d := range drawn {
			single, _, _ := naivePrice([]drawnPod{d}, saved, nil)
			check.Equal(t, fmt.Sprintf("price of pod %d alone", i), single, price.Pods[i])
		}
	})
}

// TestAnUnknownJobFailsByAnyEviction: a pod belongs to Kubernetes Job a, whose backoffLimit the scheduler does not
// know. The scheduler may not read Jobs, or has not read this one yet. So it assumes that the Job survives no
// eviction (Fails), and that an eviction loses all its work, although a checkpoint was just saved: the pod has
// used 2 cards for 3 hours. Once a pod of the Job has ended by an eviction, the Job fails already (IsFailing).
func TestAnUnknownJobFailsByAnyEviction(t *testing.T) {
	running := (&drawnPod{state: Placed, job: "a", cards: 2, started: 3}).pod(0)
	ended := (&drawnPod{state: Ended, job: "a"}).pod(1)
	unknown := func(string, string, types.UID) (workload.FailureLimit, bool) { return workload.FailureLimit{}, false }

	for t, limits := range check.Cases(t, map[string]FailureLimits{
		"the scheduler reads no Jobs":         nil,
		"the scheduler has not read this Job": unknown,
	}) {
		price := PriceOf("ns", []Pod{running}, now, now, limits)
		check.That(t, price.Fails && !price.IsFailing, "before an eviction: Fails is %v, IsFailing is %v", price.Fails, price.IsFailing)
		check.Equal(t, "evictions that the Job survives", 0, price.EvictionsLeft)
		check.Equal(t, "loss in card-seconds", 2*3*3600, price.Whole())

		price = PriceOf("ns", []Pod{running, ended}, now, now, limits)
		check.That(t, price.IsFailing, "the Job does not fail after an eviction: %+v", price)
	}
}

// TestLossIsInCardSecondsOrCoreSeconds: the loss of a pod is its cards × the time since its start, here an hour or 3600
// seconds without a checkpoint. For a pod without cards, its CPU cores count instead. If the policy does not reclaim CPU
// and memory, the pod is passed with MilliCPU 0.
func TestLossIsInCardSecondsOrCoreSeconds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ cards, milliCPU, want int64 }{
		"2 cards, and CPU is not reclaimed: card-seconds": {2, 0, 2 * 3600},
		"2 cards and 4 cores: card-seconds":               {2, 4000, 2 * 3600},
		"no cards, 4 cores: core-seconds":                 {0, 4000, 4 * 3600},
		"no cards, and CPU is not reclaimed: no loss":     {0, 0, 0},
	}) {
		pod := (&drawnPod{started: 1}).pod(0)
		pod.Cards = tc.cards
		pod.MilliCPU = tc.milliCPU

		check.Equal(t, "loss", tc.want, PriceOf("ns", []Pod{pod}, time.Time{}, now, nil).Pods[0])
	}
}

// TestTheLatestOfAllCheckpointsCounts: a PodGroup and its pods may each have an annotation with the time of the last
// checkpoint. The latest of these times counts. Missing annotations and texts that are no time do not count.
func TestTheLatestOfAllCheckpointsCounts(t *testing.T) {
	at := func(text string) map[string]string { return map[string]string{v1alpha1.AnnotationCheckpointTime: text} }
	latest := LatestCheckpoint(nil, at("2026-11-23T10:00:00Z"), at("2026-11-23T11:00:00Z"), at("tomorrow"))
	check.Equal(t, "latest checkpoint", time.Date(2026, 11, 23, 11, 0, 0, 0, time.UTC), latest)
	check.That(t, LatestCheckpoint(at("")).IsZero(), "an annotation without a time counts as a checkpoint")
}
