package cli

import (
	"context"
	"errors"
	neturl "net/url"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// countedQuota is a CardQuota with a status.
func countedQuota(name, tenant, serviceType string, cards ...v1alpha1.CardStatus) *builder.CardQuotaBuilder {
	b := builder.CardQuota(name).Tenant(tenant).ServiceType(serviceType)
	return b.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "ok").With(func(q *v1alpha1.CardQuota) {
		for _, card := range cards {
			q.Spec.Cards = append(q.Spec.Cards, v1alpha1.Card{Name: card.Name, Quota: ptr.To(card.Quota)})
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

// flatQuotas are four CardQuotas. llm-training uses 6 of 8 H200 and all of 3 slices, and llm-chat none of 8 H200. ads
// uses 6 of 4 Ascend-910B and is held. new is not observed yet.
func flatQuotas() []client.Object {
	h200 := v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Used: 6, Pending: 4, Free: 2, Physical: 16}
	mig := v1alpha1.CardStatus{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Quota: 3, Used: 3, Physical: 14}
	over := v1alpha1.CardStatus{Name: "Ascend-910B", Quota: 4, Used: 6, OverQuotaBy: 2, Physical: 8}
	return []client.Object{
		countedQuota("llm-training", "llm", "training", h200, mig).Obj(),
		countedQuota("llm-chat", "llm", "inference", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 16}).Obj(),
		countedQuota("ads", "ads", "training", over).
			Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeld, "stopPolicy Hold").Obj(),
		builder.CardQuota("new").Tenant("vision").Card("NVIDIA-H800", 2).Obj(),
	}
}

// treeQuotas are CardQuota institute, which has used all of its 8 H800, and its children: astronomy uses 6, of which 2 are
// borrowed, and biology uses 2. All have a quota of 8.
func treeQuotas() []client.Object {
	h800 := func(quota, deserved, used, borrowed int64) v1alpha1.CardStatus {
		return v1alpha1.CardStatus{Name: "NVIDIA-H800", Quota: quota, Deserved: deserved, Used: used, Borrowed: borrowed, Free: quota - used, Physical: 8}
	}
	return []client.Object{
		inTree(countedQuota("institute", "science", "", h800(8, 8, 8, 0)), "").Obj(),
		inTree(countedQuota("astronomy", "science", "training", h800(8, 4, 6, 2)), "institute").Obj(),
		inTree(countedQuota("biology", "science", "inference", h800(8, 4, 2, 0)), "institute").Obj(),
	}
}

// TestTopShowsTheUseOfCardQuotas: the golden files have all CardQuotas or the named ones, of flat queues or of a tree. In a
// tree a parent is shown with its children. Tables fit a terminal, except with -o wide.
func TestTopShowsTheUseOfCardQuotas(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		command string
	}{
		"flat":       {flatQuotas(), "top"},
		"flat-wide":  {flatQuotas(), "top -o wide"},
		"flat-json":  {flatQuotas(), "top llm-training -o json"},
		"flat-yaml":  {flatQuotas(), "top new -o yaml"},
		"one":        {flatQuotas(), "top llm-chat"},
		"tree":       {treeQuotas(), "top"},
		"subtree":    {treeQuotas(), "top institute"},
		"no-objects": {nil, "top"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, mayReadAll, tc.command).exits(exitOK).reportsNothing().matchesGolden("top-" + name)

			if !strings.HasSuffix(tc.command, "wide") && !strings.HasSuffix(tc.command, "yaml") {
				r.fitsTerminal()
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

// TestTopOfAMissingNameShowsTheOthers: the user names CardQuota ads, and adds, which does not exist. As kubectl get does, top
// shows ads and ends with an error about adds.
func TestTopOfAMissingNameShowsTheOthers(t *testing.T) {
	execute(t, flatQuotas(), mayReadAll, "top ads adds").exits(exitError).prints("Ascend-910B").reports("no CardQuota has the name adds")
}

// TestTopWithoutTheRightToListGetsByName: a user may get CardQuotas by their names, but not list them. So top gets the
// CardQuota that the user names.
func TestTopWithoutTheRightToListGetsByName(t *testing.T) {
	execute(t, flatQuotas(), forbid(cardQuotas, &v1alpha1.CardQuotaList{}), "top llm-chat").exits(exitOK).prints("llm-chat")
}

// localQuota is LocalCardQuota lab/llm, the view of a tenant on queue llm: 3 of 4 H200 are used, and 2 are requested by workloads
// that wait.
func localQuota() *v1alpha1.LocalCardQuota {
	local := &v1alpha1.LocalCardQuota{Status: v1alpha1.LocalCardQuotaStatus{
		Queue: "llm", State: "Open", ServiceType: "training", Summary: "3/4 NVIDIA-H200", PendingSummary: "2 NVIDIA-H200",
		BlockedTotal: 1, BlockedElsewhere: 2,
		Cards: []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Quota: 4, Used: 3, Pending: 2, Free: 1, Physical: 8}},
	}}
	local.Namespace = "lab"
	local.Name = "llm"
	return local
}

// TestATenantSeesItsLocalCardQuotas: a user of namespace lab alone may not list CardQuotas. Top shows the LocalCardQuotas of the
// namespace instead.
func TestATenantSeesItsLocalCardQuotas(t *testing.T) {
	objects := append(flatQuotas(), localQuota())
	for name, command := range map[string]string{"local": "top -n lab", "local-json": "top llm -n lab -o json"} {
		execute(t, objects, forbidCluster("lab"), command).exits(exitOK).reportsNothing().matchesGolden("top-" + name)
	}
}

// TestTopWithoutAViewSaysWhatHelps: namespace other has no LocalCardQuota. The user may have forgotten -n, no CardQuota may select
// the namespace, or the user has no rights. These cases look alike, so the error names all that helps.
func TestTopWithoutAViewSaysWhatHelps(t *testing.T) {
	objects := append(flatQuotas(), localQuota())

	for t, tc := range check.Cases(t, map[string]struct {
		namespaceOfUser string
		command         string
		want            []string
	}{
		"the user may read namespace other": {"other", "top -n other", []string{
			"namespace other has no LocalCardQuota", "Check -n", "spec.namespaceSelector", "cardquota-viewer",
		}},
		"the user may read namespace other, and names llm": {"other", "top -n other llm", []string{"namespace other has no LocalCardQuota", "Check -n"}},
		"the user may read namespace other, and watches":   {"other", "top -n other --watch", []string{"namespace other has no LocalCardQuota", "Check -n"}},
		"the user may read only namespace lab": {"lab", "top -n other", []string{
			"no LocalCardQuotas in namespace other either", "Check -n", "the role view", "cardquota-viewer",
		}},
	}) {
		execute(t, objects, forbidCluster(tc.namespaceOfUser), tc.command).exits(exitError).printsNothing().
			reports(`user "tina" may not list cardquotas.cardquota.dev`).reports(tc.want...).fitsTerminal()
	}
}

// TestTopOfAnOldInstallationNamesNoView: an older installation has no kind LocalCardQuota, so the error does not name it.
func TestTopOfAnOldInstallationNamesNoView(t *testing.T) {
	noLocalQuotas := notInstalled(&v1alpha1.LocalCardQuotaList{})
	noQuotas := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if sameKind(c, list, &v1alpha1.CardQuotaList{}) {
			return forbidden("list", cardQuotas)
		}
		return noLocalQuotas.List(ctx, c, list, options...)
	}}
	execute(t, flatQuotas(), noQuotas, "top -n other").exits(exitError).lacks("LocalCardQuota")
}

// TestWhatKeepsACommandFromReadingIsExplained: a user reads what to do, not the error of a library. Control characters of an error
// do not reach the terminal.
func TestWhatKeepsACommandFromReadingIsExplained(t *testing.T) {
	failWith := func(err error) interceptor.Funcs {
		return interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err }}
	}
	refusedAt := func(url string) interceptor.Funcs {
		return failWith(&neturl.Error{Op: "Get", URL: url, Err: syscall.ECONNREFUSED})
	}

	for t, tc := range check.Cases(t, map[string]struct {
		intercept interceptor.Funcs
		want      []string
	}{
		"the user may not list CardQuotas": {
			forbid(cardQuotas, &v1alpha1.CardQuotaList{}), []string{`user "tina" may not list cardquotas.cardquota.dev`, "cardquota-viewer"},
		},
		"the kind is not installed": {
			notInstalled(&v1alpha1.CardQuotaList{}), []string{"no kind CardQuota of cardquota.dev", "docs/install.md"},
		},
		"the server refuses the connection": {
			refusedAt("https://10.0.0.1:6443/apis"), []string{"https://10.0.0.1:6443 does not answer: connection refused"},
		},
		"no server is configured: kubectl then takes localhost:8080": {
			refusedAt("http://localhost:8080/api"), []string{"no cluster is configured", "KUBECONFIG"},
		},
		"the server is too slow":              {failWith(context.DeadlineExceeded), []string{"in time"}},
		"the error has escape sequences":      {failWith(errors.New("a \x1b[31mred\x1b[0m\nline")), []string{"a ?[31mred?[0m line"}},
		"the error is of none of these kinds": {failWith(errors.New("the disk is full")), []string{"error: the disk is full"}},
	}) {
		execute(t, flatQuotas(), tc.intercept, "top").exits(exitError).printsNothing().reports(tc.want...).fitsTerminal()
	}
}

// inventoryWith is the CardInventory with one card.
func inventoryWith(card v1alpha1.InventoryCard) *v1alpha1.CardInventory {
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{Summary: "counted", Cards: []v1alpha1.InventoryCard{card}}}
	inventory.Name = v1alpha1.InventoryName
	return inventory
}

// availableCards returns column FREE of a table of top, by CardQuota and card.
func availableCards(r result) map[string]string {
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

// TestFreeCardsAreThoseThatPodsCanGet: a quota is no promise. Column FREE has the least of what is free of the quota, of the
// quotas above it, and of the nodes. It has 0 for a queue that is held. Without a CardInventory the free cards of the nodes are
// not known.
func TestFreeCardsAreThoseThatPodsCanGet(t *testing.T) {
	cordonedNode := []client.Object{
		inventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H800", Total: 16, Healthy: 16, Cordoned: 8, Allocated: 8}),
		builder.Node("a").GPUs("NVIDIA-H800", 8).Obj(),
		builder.Node("b").GPUs("NVIDIA-H800", 8).Cordoned().Obj(),
		builder.Pod("lab", "train").Queue("astronomy").Running("b").Card("NVIDIA-H800").GPUs(6).Obj(),
		builder.Pod("lab", "chat").Queue("biology").Running("a").Card("NVIDIA-H800").GPUs(2).Obj(),
	}
	largeQuotas := treeQuotas()
	for _, object := range largeQuotas {
		object.(*v1alpha1.CardQuota).Status.Cards[0].Quota += 16
		object.(*v1alpha1.CardQuota).Status.Cards[0].Free += 16
	}

	held := flatQuotas()
	ready := &cardQuotaIn(held, "llm-chat").Status.Conditions[0]
	ready.Status = metav1.ConditionFalse
	ready.Reason = v1alpha1.ReasonHeld

	for t, tc := range check.Cases(t, map[string]struct {
		objects []client.Object
		command string
		want    map[string]string
	}{
		"institute has used its 8 H800, so its children get none": {
			treeQuotas(), "top", map[string]string{"institute NVIDIA-H800": "0", "astronomy NVIDIA-H800": "0", "biology NVIDIA-H800": "0"},
		},
		"institute has used its 8 H800, and top shows only its child biology": {treeQuotas(), "top biology", map[string]string{"biology NVIDIA-H800": "0"}},
		"16 - 13 = 3 H200 are free on nodes, 8 and 2 of the quotas, and no slice of its quota": {
			append(flatQuotas(), inventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H200", Total: 16, Healthy: 16, Allocated: 13})),
			"top llm-chat llm-training",
			map[string]string{"llm-chat NVIDIA-H200": "3", "llm-training NVIDIA-H200": "2", "llm-training NVIDIA-H200/mig-1g.18gb-mixed": "0"},
		},
		"8 - 2 = 6 H800 are free on node a, node b is cordoned, and quotas are 16 larger": {
			append(largeQuotas, cordonedNode...), "top biology", map[string]string{"biology NVIDIA-H800": "6"},
		},
		"llm-chat is held": {held, "top llm-chat", map[string]string{"llm-chat NVIDIA-H200": "0"}},
	}) {
		check.Equal(t, "free cards", tc.want, availableCards(execute(t, tc.objects, mayReadAll, tc.command).exits(exitOK)))
	}
}

// TestCardsBeyondTheQuotaAreNotBorrowed: the queue deserves 4 and uses 12, and its quota was lowered to 6. The status says
// that 12 - 4 = 8 are borrowed. Top shows only 6 - 4 = 2 as borrowed, and the other 12 - 6 = 6 as beyond the quota.
func TestCardsBeyondTheQuotaAreNotBorrowed(t *testing.T) {
	h200 := v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 6, Deserved: 4, Used: 12, Borrowed: 8, OverQuotaBy: 6}
	lowered := inTree(countedQuota("llm-training", "llm", "training", h200), "").Obj()
	execute(t, []client.Object{lowered}, mayReadAll, "top -o json").prints(`"borrowed": 2,`, `"overQuotaBy": 6,`)
}
