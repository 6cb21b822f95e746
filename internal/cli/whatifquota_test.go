package cli

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// quotaTree is a cluster of 16 cards with a tree: chat deserves 8 of the 12 of top, free leaves deserved
// out.
func quotaTree() []client.Object {
	quota := func(name, parent string, count int64, deserved *int64) client.Object {
		return builder.CardQuota(name).Queue(name).Parent(parent).ServiceType("inference").With(func(q *v1alpha1.CardQuota) {
			q.Spec.NamespaceSelector = &metav1.LabelSelector{}
			if parent == "" {
				q.Spec.ServiceType = ""
			}
			q.Spec.Cards = []v1alpha1.Card{{Name: "NVIDIA-H200", Quota: &count, Deserved: deserved}}
		}).Obj()
	}

	queue := func(name, parent, deserved string) client.Object {
		q := builder.Queue(name).Quota(`{"NVIDIA-H200":8}`).Annotation(v1alpha1.AnnotationCardDeserved, deserved).Obj()
		q.Spec.Parent = parent
		return q
	}

	policy := builder.ServiceTypePolicy().Obj()
	policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	return []client.Object{
		policy, builder.Namespace("lab"), builder.Queue("root").Obj(), builder.Node("h200-0").GPUs("NVIDIA-H200", 16).Obj(),
		quota("top", "", 12, ptr.To(int64(12))), queue("top", "root", `{"NVIDIA-H200":12}`),
		quota("chat", "top", 8, ptr.To(int64(8))), queue("chat", "top", `{"NVIDIA-H200":8}`),
		quota("free", "top", 8, nil), queue("free", "top", `{"NVIDIA-H200":8}`),
	}
}

// TestWhatIfQuotaChangesWhatAUserWouldChange: kubectl edit raises quota alone, and admission is asked.
func TestWhatIfQuotaChangesWhatAUserWouldChange(t *testing.T) {
	noList := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, isQuotas := list.(*v1alpha1.CardQuotaList); isQuotas {
			return forbidden("list", v1alpha1.GroupVersion.WithResource("cardquotas").GroupResource())
		}
		return c.List(ctx, list, options...)
	}}

	for t, tc := range check.Cases(t, map[string]struct {
		flag                  string
		intercept             interceptor.Funcs
		queue, deserved, note string
	}{
		"deserved stays":         {"chat:NVIDIA-H200=12", interceptor.Funcs{}, "chat", `{"NVIDIA-H200":8}`, "note: CardQuota chat still deserves 8 NVIDIA-H200, because its deserved is written: above that it borrows"},
		"deserved is not given":  {"free:NVIDIA-H200=6", interceptor.Funcs{}, "free", `{"NVIDIA-H200":6}`, ""},
		"more than the parent's": {"chat:NVIDIA-H200=13", interceptor.Funcs{}, "chat", `{"NVIDIA-H200":8}`, "admission would refuse CardQuota chat with this quota: spec.cards[NVIDIA-H200].quota: Forbidden: is 13, but parent top has 12"},
		"without the right":      {"chat:NVIDIA-H200=13", noList, "chat", `{"NVIDIA-H200":8}`, "you may not list CardQuotas, so it is unknown whether admission would accept the quota"},
	}) {
		var simulated *simulation.Cluster
		runProgram(t.Context(), t, func(p *program) {
			p.connect = func() (client.WithWatch, error) { return newCluster(t, quotaTree(), tc.intercept), nil }
			p.simulate = func(_ context.Context, c *simulation.Cluster, _ []simulation.Workload, _ string, _ time.Time) (simulation.Result, error) {
				simulated = c
				return simulation.Result{IsSettled: true}, nil
			}
		}, "whatif", "--quota", tc.flag).exits(exitOK).reports(tc.note)

		check.Must(t, simulated != nil, "nothing was simulated")
		for _, queue := range simulated.Queues {
			if queue.Name == tc.queue {
				check.Equal(t, "deserved", tc.deserved, queue.Annotations[v1alpha1.AnnotationCardDeserved])
			}
		}
	}
}

// TestWhatIfQuotaIsBounded: a CardQuota has at most a million of a card.
func TestWhatIfQuotaIsBounded(t *testing.T) {
	execute(t, quotaTree(), interceptor.Funcs{}, "whatif", "--quota", "chat:NVIDIA-H200=1000001").exits(exitError).reports("from 0 to 1000000")
}
