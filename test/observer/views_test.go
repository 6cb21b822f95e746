package observer

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// viewOf is a LocalCardQuota of the CardQuota q, which has a quota of 2 H200, of which so many are used.
func viewOf(namespace string, used int64, change ...func(*v1alpha1.LocalCardQuotaStatus)) *v1alpha1.LocalCardQuota {
	view := &v1alpha1.LocalCardQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}}
	view.Status.State = "Open"
	view.Status.Cards = []v1alpha1.CardStatus{{Name: h200, Quota: 2, Used: used, Free: 2 - used, Physical: 8}}
	for _, c := range change {
		c(&view.Status)
	}
	return view
}

// TestLocalCardQuotasShowTheirNamespaceOnly: a LocalCardQuota shows tenants a CardQuota in each namespace that its
// selector names, and nowhere else. Its numbers and state equal a recount, and it names no workload, holder or queue
// of other namespaces. CardQuota q has 2 H200, none used, and selects namespace "mine", but not "theirs". If a view
// is wrong for 20 s, the observer reports violation "status". The scene does not compare lists of workloads with pods
// that wait, so pod a of these lists need not exist.
func TestLocalCardQuotasShowTheirNamespaceOnly(t *testing.T) {
	type status = v1alpha1.LocalCardQuotaStatus
	const oneCardUsed = `
		place a node=h200-0 cards=1
		write quota q used=1 free=1
		write queue q allocated=H200:1`

	views := func(views ...*v1alpha1.LocalCardQuota) []*v1alpha1.LocalCardQuota { return views }
	viewWith := func(change func(*status)) []*v1alpha1.LocalCardQuota { return views(viewOf("mine", 0, change)) }
	inState := func(state string) []*v1alpha1.LocalCardQuota { return viewWith(func(s *status) { s.State = state }) }
	usingCPU := func(cores string) []*v1alpha1.LocalCardQuota {
		return viewWith(func(s *status) { s.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse(cores)} })
	}
	listing := func(namespaceOfPod string, holders ...v1alpha1.CardHolder) []*v1alpha1.LocalCardQuota {
		workload := v1alpha1.WorkloadReference{Namespace: namespaceOfPod, Name: "a"}
		return viewWith(func(s *status) { s.Blocked = []v1alpha1.BlockedStatus{{Workload: workload, Holders: holders}} })
	}

	for t, tc := range check.Cases(t, map[string]struct {
		steps         string
		views         []*v1alpha1.LocalCardQuota
		wantViolation string
	}{
		"a view in mine":                                {"", views(viewOf("mine", 0)), ""},
		"no view in mine":                               {"", nil, "status"},
		"no view in mine, which is being deleted":       {`write namespace mine deleted=true`, nil, ""},
		"mine was deleted, and its view is still there": {`remove namespace mine`, views(viewOf("mine", 0)), "status"},
		"views in mine and theirs":                      {"", views(viewOf("mine", 0), viewOf("theirs", 0)), "status"},
		"a card is used, and the view reads none used":  {oneCardUsed, views(viewOf("mine", 0)), "status"},
		"a card is used, and the view reads 1 used":     {oneCardUsed, views(viewOf("mine", 1)), ""},
		"a holder without a name":                       {"", listing("mine", v1alpha1.CardHolder{Count: 1}), ""},
		"a workload of another namespace":               {"", listing("theirs"), "status"},
		"a holder with the name of its queue":           {"", listing("mine", v1alpha1.CardHolder{Queue: "secret"}), "status"},
		"a holder of another namespace": {
			"", listing("mine", v1alpha1.CardHolder{Workload: v1alpha1.WorkloadReference{Namespace: "theirs"}}), "status",
		},
		"no CPU is used, and the view reads 1 core":    {"", usingCPU("1"), "status"},
		"2 cores are used, and the view reads 2 cores": {`write quota q usedCPU=2; place a node=h200-0 card= cpu=2`, usingCPU("2"), ""},
		"1 Gi is used, and the view reads no memory": {
			`write quota q usedMemory=1Gi; place a node=h200-0 card= memory=1Gi`, views(viewOf("mine", 0)), "status",
		},
		"a limit of CPU that the CardQuota does not have": {"", viewWith(func(s *status) {
			s.CPU = &v1alpha1.ResourceStatus{Quota: ptr.To(resource.MustParse("1"))}
		}), "status"},
		"the queue is closed, and the view reads Closed":             {`write queue q state=Closed`, inState("Closed"), ""},
		"the queue is closed, and the view reads Open":               {`write queue q state=Closed`, inState("Open"), "status"},
		"the queue is on hold, and the view reads Held":              {`write queue q stopPolicy=Hold`, inState("Held"), ""},
		"the queue is on hold, and the view reads Open":              {`write queue q stopPolicy=Hold`, inState("Open"), "status"},
		"the queue is open, and the view reads Held":                 {"", inState("Held"), "status"},
		"a wrong view of a CardQuota that is being deleted: ignored": {`write quota q deleted=true`, views(viewOf("mine", 1)), ""},
	}) {
		s := newSceneThatIgnoresWaiting().playScript(`
			load namespace mine team=chat
			load namespace theirs
			load quota q used=0 free=2`)
		s.playScript(tc.steps).selectNamespaces(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}})
		for _, view := range tc.views {
			s.writeObject(view)
		}

		s.playScript(`check; wait 19s`)
		check.Equal(t, "something is wrong, and tolerated after 19 s", tc.wantViolation != "", len(s.checkNow()) > 0)
		s.playScript(`wait 2s`).expectViolations(t, tc.wantViolation)
	}
}

// selectNamespaces lets the CardQuota q select namespaces.
func (s *scene) selectNamespaces(selector *metav1.LabelSelector) {
	quota := s.Object("quota", "q").(*v1alpha1.CardQuota)
	quota.Spec.NamespaceSelector = selector
	s.writeObject(quota)
}

// TestACardQuotaWithoutAnExplicitSelectorNeedsNoViews: a CardQuota that takes pods of every namespace, because it has
// no selector or an empty one, has no LocalCardQuotas. So none is missing in namespace mine.
func TestACardQuotaWithoutAnExplicitSelectorNeedsNoViews(t *testing.T) {
	for _, selector := range []*metav1.LabelSelector{nil, {}} {
		s := newSceneWithQuotaOfTwo().playScript(`load namespace mine team=chat; load quota q used=0 free=2`)
		s.selectNamespaces(selector)
		s.playScript(`check; wait 1m`).expectViolations(t, "")
	}
}

// TestOnlyFiftyNamespacesNeedAView: the operator writes at most 50 LocalCardQuotas for a CardQuota, for the first
// namespaces by name. The CardQuota q selects 51 namespaces, and 50 of them have a view. The last one needs none.
func TestOnlyFiftyNamespacesNeedAView(t *testing.T) {
	s := newSceneWithQuotaOfTwo().playScript(`load quota q used=0 free=2`)
	for i := range 51 {
		name := fmt.Sprintf("n%02d", i)
		s.observed.loadObject(builder.Namespace(name, "team", "chat"), s.clock)
		if i < 50 {
			s.writeObject(viewOf(name, 0))
		}
	}

	s.selectNamespaces(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}})
	s.playScript(`check; wait 1m`).expectViolations(t, "")
}
