package e2e

import (
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/workload"
)

// Training has run for a moment only when inference comes. It goes as soon as it
// has had its time.
func nobodyGoesBeforeItsMinimumRuntime(t *tide) {
	const granted = 10 * time.Second
	t.configured(strings.Replace(t.text(), "cardUnlimitedCpuMemory: true", `cardUnlimitedCpuMemory: true
      serviceTypes:
        inference: {reclaimFrom: [training]}
        training: {reclaimable: true, minimumRuntime: 10s}`, 1))
	t.quotas(8)
	t.trains("low", 8)
	first := t.started("low")
	for _, pod := range t.podsOf("low") {
		if pod.Status.StartTime.Time.Before(first) {
			first = pod.Status.StartTime.Time
		}
	}
	t.serves("service", 1)
	for t.running("low") == 8 {
		t.Expect(time.Since(first)).To(BeNumerically("<", granted+soon), "it goes when it has had its time")
		time.Sleep(often)
	}
	t.Expect(time.Since(first)).To(BeNumerically(">=", granted))
	t.wantPods(map[string]string{"low": pods(7, 1), "service": pods(1, 0)})
}

// slow are pods that take some time to end.
func slow(template *corev1.PodTemplateSpec) {
	template.Annotations[endsAfter] = "5s"
	template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
}

// leaving counts the pods that were told to go, in whatever way.
func (t *tide) leaving() int {
	t.Helper()
	list, n := &corev1.PodList{}, 0
	t.list(list, client.InNamespace(t.namespace))
	for _, pod := range list.Items {
		if _, told := pod.Annotations[workload.AnnotationOutOfSync]; told || pod.DeletionTimestamp != nil {
			n++
		}
	}
	return n
}

// crashes kills the scheduler as soon as so many pods or more were told to go, and
// starts another.
func (t *tide) crashes(told int) {
	t.Helper()
	t.Eventually(t.leaving, soon, 5*time.Millisecond).Should(BeNumerically(">=", told))
	t.killScheduler()
	t.startScheduler()
}

// The scheduler ends as soon as the first pod of a gang was told to go. The next
// one knows of those that were told, tells the others, and takes nobody else.
func aCrashTakesNobodyElse(t *tide) {
	t.quotas(8)
	for _, name := range []string{"one", "two"} {
		job := t.trainer(name, 4)
		slow(pod(job))
		t.start(job)
	}
	all := t.alive("one", "two")
	t.serves("service", 2)
	t.crashes(1)
	t.wantRunning("service", 2, 0)
	t.Expect(t.survivors(all)).To(Equal(4))
	t.Expect(t.running("one") * t.running("two")).To(BeZero())
}

func aCrashTakesNoOtherPod(t *tide) {
	t.quotas(8)
	low := t.deploymentOf(t.work("low", t.queue("training"), 8))
	slow(&low.Spec.Template)
	t.create(low)
	t.starts("low", 8)
	all := t.alive("low")
	t.serves("service", 2)
	t.crashes(2)
	t.wantRunning("service", 2, 0)
	t.Expect(t.survivors(all)).To(Equal(6))
}
