package whatif

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// quotaTree is a cluster of 16 H200 with a tree of queues: top has a quota of 12, and its children chat and free have
// 8 each. Chat deserves 8. The spec of free leaves deserved out, so that it deserves its quota.
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

// TestWhatIfQuotaChangesWhatAUserWouldChange: --quota simulates that a user edits the quota of a CardQuota. That does
// not change deserved where the spec has it, such as 8 in chat. The spec of free leaves it out, so free deserves its
// quota. Both have parent top with a quota of 12. If admission would refuse the new quota, or if the user may not
// read enough to know, a note says so.
func TestWhatIfQuotaChangesWhatAUserWouldChange(t *testing.T) {
	noList := kubectl.Forbid(kubectl.CardQuotas, &v1alpha1.CardQuotaList{})

	for t, tc := range check.Cases(t, map[string]struct {
		intercept    interceptor.Funcs
		quota        string
		queue        string
		wantDeserved string // in the simulation
		wantNote     string
	}{
		"chat gets 12, and still deserves the 8 that are written": {
			kubectl.MayReadAll, "chat:NVIDIA-H200=12", "chat", `{"NVIDIA-H200":8}`,
			"note: CardQuota chat still deserves 8 NVIDIA-H200, because its deserved is written: above that it borrows",
		},
		"free gets 6, and deserves its quota: no note": {kubectl.MayReadAll, "free:NVIDIA-H200=6", "free", `{"NVIDIA-H200":6}`, ""},
		"chat gets 13, more than the 12 of its parent": {
			kubectl.MayReadAll, "chat:NVIDIA-H200=13", "chat", `{"NVIDIA-H200":8}`,
			"admission would refuse CardQuota chat with this quota: spec.cards[NVIDIA-H200].quota: Forbidden: is 13, but parent top has 12",
		},
		"chat gets 13, and the user may not list CardQuotas": {
			noList, "chat:NVIDIA-H200=13", "chat", `{"NVIDIA-H200":8}`,
			"you may not list CardQuotas, so it is unknown whether admission would accept the quota",
		},
	}) {
		var simulated *simulation.Cluster
		r := plugin.Run(t.Context(), t, func(p *program.Program) {
			p.Connect = func() (client.WithWatch, error) { return kubectl.NewCluster(t, quotaTree(), tc.intercept), nil }
			p.Simulate = func(_ context.Context, c *simulation.Cluster, _ []simulation.Workload, _ string, _ time.Time) (simulation.Result, error) {
				simulated = c
				return simulation.Result{IsSettled: true}, nil
			}
		}, "whatif", "--quota", tc.quota).Exits(program.ExitOK).Reports(tc.wantNote)

		check.Equal(t, "has a note about CardQuotas", tc.wantNote != "", strings.Contains(r.ErrOut, "CardQuota"))
		check.Must(t, simulated != nil, "nothing was simulated")
		at := slices.IndexFunc(simulated.Queues, func(q *v1beta1.Queue) bool { return q.Name == tc.queue })
		check.Equal(t, "deserved", tc.wantDeserved, simulated.Queues[at].Annotations[v1alpha1.AnnotationCardDeserved])
	}
}

// TestWhatIfQuotaIsBounded: a CardQuota has at most a million of a card, so whatif refuses one more.
func TestWhatIfQuotaIsBounded(t *testing.T) {
	execute(t, quotaTree(), kubectl.MayReadAll, "whatif --quota chat:NVIDIA-H200=1000001").Exits(program.ExitError).Reports("from 0 to 1000000")
}
