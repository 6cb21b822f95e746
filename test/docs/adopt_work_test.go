package docs

import (
	"maps"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
)

// worksWithoutQuotas has the stock schedulers, Volcano's and Kubernetes' own, run
// work of every kind: in a queue without a quota with cards and without, as a
// Deployment and as a vcjob, and a card past Volcano.
func (e *engineer) worksWithoutQuotas() map[types.UID]string {
	e.Helper()
	e.Eventually(e.runningCounts(patient, trainer)).Should(Equal(map[string]int{patient: 0, trainer: 0}))
	e.Expect(e.Create(e.ctx, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: legacy}})).To(Succeed())
	e.Eventually(func() (v1beta1.QueueState, error) {
		queue := &v1beta1.Queue{}
		err := e.Get(e.ctx, client.ObjectKey{Name: legacy}, queue)
		return queue.Status.State, err
	}).Should(Equal(v1beta1.QueueStateOpen))
	e.createDeployment("cards", legacy, 2, 1)
	e.createDeployment("plain", legacy, 1, 0)
	job := builder.Pod(team, "").Label("app", "job").GPUs(1).With(inContainer)
	e.Expect(e.Create(e.ctx, builder.VCJob(team, "job").Queue(legacy).Task("work", 1, job).Obj())).To(Succeed())
	e.Expect(e.Create(e.ctx, e.podPast("past"))).To(Succeed())
	kinds := map[string]int{"cards": 2, "plain": 1, "job": 1, "past": 1, "before": 2}
	e.Eventually(e.runningCounts(slices.Collect(maps.Keys(kinds))...)).Should(Equal(kinds))
	ran := map[types.UID]string{}
	for name := range kinds {
		maps.Copy(ran, e.runningPods(name))
	}
	return ran
}

// podPast is a pod that asks for a card and is left to Kubernetes' scheduler.
func (e *engineer) podPast(name string) *corev1.Pod {
	return builder.Pod(team, name).Scheduler("").Label("app", name).GPUs(1).With(inContainer).Obj()
}

// passesBy tries to create another such pod, and why it is refused.
func (e *engineer) passesBy() error {
	return e.Create(e.ctx, e.podPast("another"), client.DryRunAll)
}
