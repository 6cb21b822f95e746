package top

import (
	"context"
	"errors"
	neturl "net/url"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// execute runs the command against a cluster with some objects.
var execute = kubectl.Plugin{Commands: []program.Command{NewCommand}}.Execute

// TestTopShowsTheUseOfCardQuotas: the golden files have all CardQuotas or the named ones, of flat queues or of a
// tree. Flat are llm-training, llm-chat, ads, which is held and uses more than its quota, and new, which is not
// counted yet. In the tree institute is the parent of two, and a parent is shown with its children. Tables fit a
// terminal, except with -o wide.
func TestTopShowsTheUseOfCardQuotas(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		command string
	}{
		"flat":       {kubectl.FlatQuotas(), "top"},
		"flat-wide":  {kubectl.FlatQuotas(), "top -o wide"},
		"flat-json":  {kubectl.FlatQuotas(), "top llm-training -o json"},
		"flat-yaml":  {kubectl.FlatQuotas(), "top new -o yaml"},
		"one":        {kubectl.FlatQuotas(), "top llm-chat"},
		"tree":       {kubectl.TreeQuotas(), "top"},
		"subtree":    {kubectl.TreeQuotas(), "top institute"},
		"no-objects": {nil, "top"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, kubectl.MayReadAll, tc.command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("top-" + name)

			if !strings.HasSuffix(tc.command, "wide") && !strings.HasSuffix(tc.command, "yaml") {
				r.FitsTerminal()
			}
		})
	}
}

// TestTopOfAMissingNameShowsTheOthers: the user names CardQuota ads, and adds, which does not exist. As kubectl get
// does, top shows ads with its Ascend-910B, and ends with an error about adds.
func TestTopOfAMissingNameShowsTheOthers(t *testing.T) {
	execute(t, kubectl.FlatQuotas(), kubectl.MayReadAll, "top ads adds").Exits(program.ExitError).Prints("Ascend-910B").Reports("no CardQuota has the name adds")
}

// TestTopWithoutTheRightToListGetsByName: a user may get CardQuotas by their names, but not list them. So top gets the
// CardQuota that the user names.
func TestTopWithoutTheRightToListGetsByName(t *testing.T) {
	execute(t, kubectl.FlatQuotas(), kubectl.Forbid(kubectl.CardQuotas, &v1alpha1.CardQuotaList{}), "top llm-chat").Exits(program.ExitOK).Prints("llm-chat")
}

// TestTopSaysThatNoCardQuotaHasTheLabels: the cluster has CardQuotas, and none has the label. So top does not say that
// there are none, nor that llm-chat does not exist.
func TestTopSaysThatNoCardQuotaHasTheLabels(t *testing.T) {
	execute(t, kubectl.FlatQuotas(), kubectl.MayReadAll, "top -l team=gone").Exits(program.ExitOK).Prints("No CardQuota has the labels team=gone.")
	execute(t, kubectl.FlatQuotas(), kubectl.MayReadAll, "top llm-chat -l team=gone").Exits(program.ExitError).
		Reports("no CardQuota has the name llm-chat and the labels team=gone")
}

// TestATenantSeesItsLocalCardQuotas: a user of namespace lab alone may not list CardQuotas. Top shows the
// LocalCardQuotas of the namespace instead, here llm.
func TestATenantSeesItsLocalCardQuotas(t *testing.T) {
	objects := append(kubectl.FlatQuotas(), kubectl.LocalQuota())
	for name, command := range map[string]string{"local": "top -n lab", "local-json": "top llm -n lab -o json"} {
		execute(t, objects, kubectl.ForbidCluster("lab"), command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("top-" + name)
	}
}

// TestTopWithoutAViewSaysWhatHelps: namespace lab has LocalCardQuota llm, and namespace other has none. The user may
// have forgotten -n, no CardQuota may select the namespace, or the user has no rights. These cases look alike, so the
// error names all that helps.
func TestTopWithoutAViewSaysWhatHelps(t *testing.T) {
	objects := append(kubectl.FlatQuotas(), kubectl.LocalQuota())

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
		execute(t, objects, kubectl.ForbidCluster(tc.namespaceOfUser), tc.command).Exits(program.ExitError).PrintsNothing().
			Reports(`user "tina" may not list cardquotas.cardquota.dev`).Reports(tc.want...).FitsTerminal()
	}
}

// TestTopOfAnOldInstallationNamesNoView: a user who may not list CardQuotas is usually sent to the LocalCardQuotas of
// the namespace. An older installation does not have that kind, so there the error must not name it.
func TestTopOfAnOldInstallationNamesNoView(t *testing.T) {
	noLocalQuotas := kubectl.NotInstalled(&v1alpha1.LocalCardQuotaList{})
	noQuotas := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if kubectl.SameKind(c, list, &v1alpha1.CardQuotaList{}) {
			return kubectl.Forbidden("list", kubectl.CardQuotas)
		}
		return noLocalQuotas.List(ctx, c, list, options...)
	}}
	execute(t, kubectl.FlatQuotas(), noQuotas, "top -n other").Exits(program.ExitError).Lacks("LocalCardQuota")
}

// TestWhatKeepsACommandFromReadingIsExplained: a user reads what to do, not the error of a library. Control
// characters of an error do not reach the terminal.
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
			kubectl.Forbid(kubectl.CardQuotas, &v1alpha1.CardQuotaList{}), []string{`user "tina" may not list cardquotas.cardquota.dev`, "cardquota-viewer"},
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
		execute(t, kubectl.FlatQuotas(), tc.intercept, "top").Exits(program.ExitError).PrintsNothing().Reports(tc.want...).FitsTerminal()
	}
}

// availableCards returns column FREE of a table of top, by CardQuota and card.
func availableCards(r kubectl.Result) map[string]string {
	found := map[string]string{}
	name := ""
	for line := range strings.Lines(r.Out) {
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

// TestFreeCardsAreThoseThatPodsCanGet: a quota is no promise. Column FREE has the least of what is free of the quota,
// of the quotas above it, and of the nodes. It has 0 for a queue that is held. Without a CardInventory the free cards
// of the nodes are not known.
func TestFreeCardsAreThoseThatPodsCanGet(t *testing.T) {
	cordonedNode := []client.Object{
		kubectl.InventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H800", Total: 16, Healthy: 16, Cordoned: 8, Allocated: 8}),
		builder.Node("a").GPUs("NVIDIA-H800", 8).Obj(),
		builder.Node("b").GPUs("NVIDIA-H800", 8).Cordoned().Obj(),
		builder.Pod("lab", "train").Queue("astronomy").Running("b").Card("NVIDIA-H800").GPUs(6).Obj(),
		builder.Pod("lab", "chat").Queue("biology").Running("a").Card("NVIDIA-H800").GPUs(2).Obj(),
	}
	largeQuotas := kubectl.TreeQuotas()
	for _, object := range largeQuotas {
		object.(*v1alpha1.CardQuota).Status.Cards[0].Quota += 16
		object.(*v1alpha1.CardQuota).Status.Cards[0].Free += 16
	}

	held := kubectl.FlatQuotas()
	ready := &kubectl.CardQuotaIn(held, "llm-chat").Status.Conditions[0]
	ready.Status = metav1.ConditionFalse
	ready.Reason = v1alpha1.ReasonHeld

	for t, tc := range check.Cases(t, map[string]struct {
		objects []client.Object
		command string
		want    map[string]string
	}{
		"institute has used its 8 H800, so its children get none": {
			kubectl.TreeQuotas(), "top", map[string]string{"institute NVIDIA-H800": "0", "astronomy NVIDIA-H800": "0", "biology NVIDIA-H800": "0"},
		},
		"institute has used its 8 H800, and top shows only its child biology": {kubectl.TreeQuotas(), "top biology", map[string]string{"biology NVIDIA-H800": "0"}},
		"16 - 13 = 3 H200 are free on nodes, 8 and 2 of the quotas, and no slice of its quota": {
			append(kubectl.FlatQuotas(), kubectl.InventoryWith(v1alpha1.InventoryCard{Name: "NVIDIA-H200", Total: 16, Healthy: 16, Allocated: 13})),
			"top llm-chat llm-training",
			map[string]string{"llm-chat NVIDIA-H200": "3", "llm-training NVIDIA-H200": "2", "llm-training NVIDIA-H200/mig-1g.18gb-mixed": "0"},
		},
		"8 - 2 = 6 H800 are free on node a, node b is cordoned, and quotas are 16 larger": {
			append(largeQuotas, cordonedNode...), "top biology", map[string]string{"biology NVIDIA-H800": "6"},
		},
		"llm-chat is held": {held, "top llm-chat", map[string]string{"llm-chat NVIDIA-H200": "0"}},
	}) {
		check.Equal(t, "free cards", tc.want, availableCards(execute(t, tc.objects, kubectl.MayReadAll, tc.command).Exits(program.ExitOK)))
	}
}

// TestCardsBeyondTheQuotaAreNotBorrowed: the queue deserves 4 and uses 12, and its quota was lowered to 6. The status
// says that 12 - 4 = 8 are borrowed. Top shows only 6 - 4 = 2 as borrowed, and the other 12 - 6 = 6 as beyond the
// quota.
func TestCardsBeyondTheQuotaAreNotBorrowed(t *testing.T) {
	h200 := v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 6, Deserved: 4, Used: 12, Borrowed: 8, OverQuotaBy: 6}
	lowered := kubectl.InTree(kubectl.CountedQuota("llm-training", "llm", "training", h200), "").Obj()
	execute(t, []client.Object{lowered}, kubectl.MayReadAll, "top -o json").Prints(`"borrowed": 2,`, `"overQuotaBy": 6,`)
}
