package integration

import (
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// describeForecast returns what the status of a CardQuota says of Enforce: "<waiting>, <without a queue>", each as its
// number of workloads and the name of the youngest, for use in Eventually.
func (e *treeEnv) describeForecast(t *testing.T, name string) func() (string, error) {
	describe := func(list *v1alpha1.ForecastWorkloads) string {
		if list == nil {
			return "none"
		}
		return fmt.Sprintf("%d %s", list.Total, list.Workloads[0].Workload.Name)
	}

	return framework.Read(t.Context(), e, client.ObjectKey{Name: name}, func(quota *v1alpha1.CardQuota) string {
		if quota.Status.Forecast == nil {
			return "nothing"
		}
		return describe(quota.Status.Forecast.Waiting) + ", " + describe(quota.Status.Forecast.WithoutQueue)
	})
}

// TestObserveSaysWhatEnforceWouldRefuse: two pods of 5 cards use 10 of the 8 cards of CardQuota old, so the younger one
// would wait. A pod that names no queue, and a scheduler that enforces nothing, counts for CardQuota fresh, which alone
// selects its namespace; once CardQuota third selects it as well, it counts for none. An event says it once. With Enforce the status says nothing of
// this any more.
func TestObserveSaysWhatEnforceWouldRefuse(t *testing.T) {
	e, policy, old, fresh := newObserveEnv(t)
	team := builder.Namespace("team", "team", "a")
	e.CreateWithCleanup(t, builder.Node("forecast-node").GPUs("NVIDIA-H200", 16).Obj())
	e.CreateWithCleanup(t, team)
	e.change(t, fresh.Name, func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = builder.CardQuota("").Selects("team", "a").Obj().Spec.NamespaceSelector
	})

	for _, name := range []string{"first", "second"} {
		e.CreateWithCleanup(t, builder.Pod(labNamespace, name).UID("").Queue("old").GPUs(5).Node("forecast-node").Obj())
		e.g.Eventually(e.usedCards(t, old.Name)).Should(gomega.BeNumerically(">=", 5), "before the next pod is created")
	}
	e.CreateWithCleanup(t, builder.Pod(team.Name, "own").UID("").Scheduler("default-scheduler").GPUs(1).Node("forecast-node").Obj())

	e.g.Eventually(e.describeForecast(t, old.Name)).Should(gomega.Equal("1 second, none"))
	e.g.Eventually(e.describeForecast(t, fresh.Name)).Should(gomega.Equal("none, 1 own"))
	e.g.Eventually(e.usedCards(t, fresh.Name)).Should(gomega.BeNumerically("==", 1))
	e.g.Eventually(e.Condition(t, old, "Enforced")).Should(gomega.ContainSubstring("Enforce would change: 1 workload would wait (5 cards)"))
	e.g.Eventually(func(g gomega.Gomega) {
		var events corev1.EventList
		g.Expect(e.List(t.Context(), &events)).To(gomega.Succeed())
		found := 0
		for i := range events.Items {
			if events.Items[i].Reason == v1alpha1.EventForecast && events.Items[i].InvolvedObject.Name == old.Name {
				found++
			}
		}
		g.Expect(found).To(gomega.Equal(1))
	}).Should(gomega.Succeed())

	third := newQuota("third", func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = builder.CardQuota("").Selects("team", "a").Obj().Spec.NamespaceSelector
	})
	e.g.Expect(e.Create(t.Context(), third)).To(gomega.Succeed())
	e.g.Eventually(e.describeForecast(t, fresh.Name)).Should(gomega.Equal("nothing"))
	e.g.Eventually(framework.Read(t.Context(), e, client.ObjectKeyFromObject(policy), func(p *v1alpha1.ServiceTypePolicy) string {
		if p.Status.Forecast == nil || len(p.Status.Forecast.AmbiguousNamespaces) == 0 {
			return ""
		}
		return fmt.Sprint(p.Status.Forecast.AmbiguousNamespaces)
	})).Should(gomega.Equal("[{team [fresh third]}]"))

	e.setMode(t, v1alpha1.ModeEnforce)
	e.g.Eventually(e.describeForecast(t, old.Name)).Should(gomega.Equal("nothing"))
}

// usedCards returns how many cards the status of a CardQuota says are in use, for use in Eventually.
func (e *treeEnv) usedCards(t *testing.T, name string) func() (int64, error) {
	return framework.Read(t.Context(), e, client.ObjectKey{Name: name}, func(quota *v1alpha1.CardQuota) (used int64) {
		for i := range quota.Status.Cards {
			used += quota.Status.Cards[i].Used
		}
		return used
	})
}
