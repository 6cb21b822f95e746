package cli

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// counted is a CardQuota with a status.
func counted(name, tenant, serviceType string, cards ...v1alpha1.CardStatus) *builder.CardQuotaBuilder {
	b := builder.CardQuota(name).Tenant(tenant).ServiceType(serviceType)
	return b.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "ok").With(func(q *v1alpha1.CardQuota) {
		for _, card := range cards {
			quota := card.Quota
			q.Spec.Cards = append(q.Spec.Cards, v1alpha1.Card{Name: card.Name, Quota: &quota})
		}
		q.Status.Cards = cards
		q.Status.Summary = "counted"
		q.Status.Queue = &v1alpha1.QueueStatus{Name: name, State: "Open"}
	})
}

func inTree(b *builder.CardQuotaBuilder, parent string) *builder.CardQuotaBuilder {
	return b.Condition(v1alpha1.ConditionHierarchyValid, metav1.ConditionTrue, v1alpha1.ReasonHierarchyValid, "ok").
		Parent(parent)
}

// flatQuotas are the CardQuotas of the demo, and some in which something is wrong.
func flatQuotas() []client.Object {
	h200 := v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 4, Free: 2, Physical: 16}
	mig := v1alpha1.CardStatus{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Quota: 3, Used: 3, Physical: 14}
	over := v1alpha1.CardStatus{Name: "Ascend-910B", Quota: 4, Used: 6, OverQuotaBy: 2, Physical: 8}
	return []client.Object{
		counted("llm-training", "llm", "training", h200, mig).Obj(),
		counted("llm-chat", "llm", "inference", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 16}).Obj(),
		counted("ads", "ads", "training", over).
			Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeld, "stopPolicy Hold").Obj(),
		builder.CardQuota("new").Tenant("vision").Card("NVIDIA-H800", 2).Obj(),
	}
}

func treeQuotas() []client.Object {
	h800 := func(quota, deserved, used, borrowed int64) v1alpha1.CardStatus {
		return v1alpha1.CardStatus{Name: "NVIDIA-H800", Quota: quota, Deserved: deserved, Used: used, Borrowed: borrowed, Free: quota - used, Physical: 8}
	}
	return []client.Object{
		inTree(counted("institute", "science", "", h800(8, 8, 8, 0)), "").Obj(),
		inTree(counted("astronomy", "science", "training", h800(8, 4, 6, 2)), "institute").Obj(),
		inTree(counted("biology", "science", "inference", h800(8, 4, 2, 0)), "institute").Obj(),
	}
}

func TestTop(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		args    []string
	}{
		"flat":       {flatQuotas(), nil},
		"flat-wide":  {flatQuotas(), []string{"-o", "wide"}},
		"flat-json":  {flatQuotas(), []string{"llm-training", "-o", "json"}},
		"flat-yaml":  {flatQuotas(), []string{"new", "-o", "yaml"}},
		"one":        {flatQuotas(), []string{"llm-chat"}},
		"tree":       {treeQuotas(), nil},
		"subtree":    {treeQuotas(), []string{"institute"}},
		"no-objects": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, interceptor.Funcs{}, append([]string{"top"}, tc.args...)...).exits(exitOK).silently().matchesGolden("top-" + name)

			if !strings.Contains(name, "wide") && !strings.Contains(name, "yaml") {
				checkColumns(t, r.out)
			}
		})
	}
}

// checkColumns reports each line that is longer than a terminal. An error that no terminal shows is one
// line.
func checkColumns(t *testing.T, text string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "See '") {
			continue
		}
		columns := output.Width(strings.TrimRight(line, "\n"))
		check.That(t, columns <= output.Columns, "%d columns: %s", columns, line)
	}
}

func TestTopOfAMissingNameShowsTheOthers(t *testing.T) {
	execute(t, flatQuotas(), interceptor.Funcs{}, "top", "ads", "adds").exits(exitError).prints("Ascend-910B").reports("no CardQuota has the name adds")
}

func TestTopWithoutTheRightToListGetsByName(t *testing.T) {
	list := &v1alpha1.CardQuotaList{}
	execute(t, flatQuotas(), forbid(cardQuotas, list), "top", "llm-chat").exits(exitOK).prints("llm-chat")
}

// localQuota is the view of a tenant whose workloads wait, also in other namespaces.
func localQuota() *v1alpha1.LocalCardQuota {
	local := &v1alpha1.LocalCardQuota{Status: v1alpha1.LocalCardQuotaStatus{
		Queue: "llm", State: "Open", ServiceType: "training", Summary: "3/4 NVIDIA-H200", PendingSummary: "2 NVIDIA-H200", BlockedTotal: 1, BlockedElsewhere: 2,
		Cards: []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 4, Used: 3, Pending: 2, Free: 1, Physical: 8}},
	}}
	local.Namespace = "lab"
	local.Name = "llm"
	return local
}

func TestATenantSeesHisLocalCardQuotas(t *testing.T) {
	objects := append(flatQuotas(), localQuota())
	for name, args := range map[string][]string{"local": {"top", "-n", "lab"}, "local-json": {"top", "llm", "-n", "lab", "-o", "json"}} {
		execute(t, objects, forbidCluster("lab"), args...).exits(exitOK).silently().matchesGolden("top-" + name)
	}
}

// TestTopWithoutAViewSaysWhatHelps: a forgotten -n, a namespace that no CardQuota selects, and a user
// without rights look alike.
func TestTopWithoutAViewSaysWhatHelps(t *testing.T) {
	objects := append(flatQuotas(), localQuota())
	for name, tc := range map[string]struct {
		mayRead string
		args    []string
		want    []string
	}{
		"no view":          {"other", nil, []string{"namespace other has no LocalCardQuota", "Check -n", "spec.namespaceSelector", "cardquota-viewer"}},
		"no view, by name": {"other", []string{"llm"}, []string{"namespace other has no LocalCardQuota", "Check -n"}},
		"no view, watched": {"other", []string{"--watch"}, []string{"namespace other has no LocalCardQuota", "Check -n"}},
		"no rights":        {"lab", nil, []string{"no LocalCardQuotas in namespace other either", "Check -n", "the role view", "cardquota-viewer"}},
	} {
		r := execute(t, objects, forbidCluster(tc.mayRead), append([]string{"top", "-n", "other"}, tc.args...)...).exits(exitError).printsNothing()
		check.Contains(t, name, strings.Join(strings.Fields(r.errOut), " "), append(tc.want, `user "tina" may not list cardquotas.cardquota.dev`)...)
		checkColumns(t, r.errOut)
	}

	old := notInstalled(&v1alpha1.LocalCardQuotaList{}) // an older installation has no such kind
	withoutViews := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if sameKind(c, list, &v1alpha1.CardQuotaList{}) {
			return forbidden("list", cardQuotas)
		}
		return old.List(ctx, c, list, options...)
	}}

	r := execute(t, objects, withoutViews, "top", "-n", "other")
	check.That(t, r.code == exitError && !strings.Contains(r.errOut, "LocalCardQuota"), "exit code %d: %s", r.code, r.errOut)
}

func TestWhatKeepsACommandFromReadingIsExplained(t *testing.T) {
	fail := func(err error) interceptor.Funcs {
		return interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err }}
	}

	refused := &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/apis", Err: syscall.ECONNREFUSED}
	nowhere := &url.Error{Op: "Get", URL: "http://localhost:8080/api", Err: syscall.ECONNREFUSED}
	for t, tc := range check.Cases(t, map[string]struct {
		intercept interceptor.Funcs
		want      []string
	}{
		"rights":         {forbid(cardQuotas, &v1alpha1.CardQuotaList{}), []string{`user "tina" may not list cardquotas.cardquota.dev`, "cardquota-viewer"}},
		"no CRD":         {notInstalled(&v1alpha1.CardQuotaList{}), []string{"no kind CardQuota of cardquota.dev", "docs/install.md"}},
		"no server":      {fail(refused), []string{"https://10.0.0.1:6443 does not answer: connection refused"}},
		"no kubeconfig":  {fail(nowhere), []string{"no cluster is configured", "KUBECONFIG"}},
		"too slow":       {fail(context.DeadlineExceeded), []string{"in time"}},
		"escape":         {fail(errors.New("a \x1b[31mred\x1b[0m\nline")), []string{"a ?[31mred?[0m line"}},
		"something else": {fail(errors.New("the disk is full")), []string{"error: the disk is full"}},
	}) {
		execute(t, flatQuotas(), tc.intercept, "top").exits(exitError).printsNothing().reports(tc.want...).fits()
	}
}

// inventoryWith is the CardInventory with one card.
func inventoryWith(card v1alpha1.InventoryCard) *v1alpha1.CardInventory {
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Summary: "counted", Cards: []v1alpha1.InventoryCard{card}}}
	inventory.Name = v1alpha1.InventoryName
	return inventory
}

// TestFreeCardsAreThoseThatPodsCanGet: a quota is no promise while the quota above it is used up, other
// queues hold the cards, or the queue is held.
func TestFreeCardsAreThoseThatPodsCanGet(t *testing.T) {
	free := func(r result) map[string]string {
		found := map[string]string{}
		name := ""
		for line := range strings.Lines(r.out) {
			switch fields := strings.Fields(line); {
			case len(fields) == 0 || fields[0] == "CARDQUOTA,":
			case strings.HasPrefix(fields[0], "NVIDIA") || strings.HasPrefix(fields[0], "Ascend"):
				found[name+" "+fields[0]] = fields[len(fields)-2]
			default:
				name = fields[0]
			}
		}

		return found
	}

	h800Nodes := []client.Object{
		builder.Node("a").GPUs("NVIDIA-H800", 8).Obj(), builder.Node("b").GPUs("NVIDIA-H800", 8).Cordoned().Obj(),
		builder.Pod("lab", "train").Queue("astronomy").Running("b").Card("NVIDIA-H800").GPUs(6).Obj(),
		builder.Pod("lab", "chat").Queue("biology").Running("a").Card("NVIDIA-H800").GPUs(2).Obj(),
	}

	roomy := treeQuotas()
	for _, object := range roomy {
		quota := object.(*v1alpha1.CardQuota)
		quota.Status.Cards[0].Quota += 16
		quota.Status.Cards[0].Free += 16
	}

	held := flatQuotas()
	held[1].(*v1alpha1.CardQuota).Status.Conditions[0].Status = metav1.ConditionFalse
	held[1].(*v1alpha1.CardQuota).Status.Conditions[0].Reason = v1alpha1.ReasonHeld

	for name, tc := range map[string]struct {
		objects []client.Object
		args    []string
		want    map[string]string
	}{
		"the quota above is used up": {treeQuotas(), nil, map[string]string{"institute NVIDIA-H800": "0", "astronomy NVIDIA-H800": "0", "biology NVIDIA-H800": "0"}},
		"also if it is not shown":    {treeQuotas(), []string{"biology"}, map[string]string{"biology NVIDIA-H800": "0"}},
		"others hold the cards": {append(flatQuotas(), inventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H200", Total: 16, Healthy: 16, Allocated: 13})), []string{"llm-chat", "llm-training"},
			map[string]string{"llm-chat NVIDIA-H200": "3", "llm-training NVIDIA-H200": "2", "llm-training NVIDIA-H200/mig-1g.18gb-mixed": "0"}},
		"cards of cordoned nodes are not free, and those that pods hold there count once": {
			append(append(roomy, inventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H800", Total: 16, Healthy: 16, Cordoned: 8, Allocated: 8})), h800Nodes...), []string{"biology"},
			map[string]string{"biology NVIDIA-H800": "6"}},
		"the queue is held": {held, []string{"llm-chat"}, map[string]string{"llm-chat NVIDIA-H200": "0"}},
	} {
		r := execute(t, tc.objects, interceptor.Funcs{}, append([]string{"top"}, tc.args...)...).exits(exitOK)
		check.Equal(t, name, tc.want, free(r))
	}
}

// TestCardsBeyondTheQuotaAreNotBorrowed: after a quota was lowered its queue uses more, and owes nothing.
func TestCardsBeyondTheQuotaAreNotBorrowed(t *testing.T) {
	lowered := inTree(counted("llm-training", "llm", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 6, Deserved: 4, Used: 12, Borrowed: 8, OverQuotaBy: 6}), "").Obj()
	execute(t, []client.Object{lowered}, interceptor.Funcs{}, "top", "-o", "json").prints(`"borrowed": 2,`).prints(`"overQuotaBy": 6,`)
}
