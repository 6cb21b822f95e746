package observer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// viewOf is a view of the CardQuota q, of which so many cards are used.
func viewOf(namespace string, used int64, change ...func(*v1alpha1.LocalCardQuotaStatus)) *v1alpha1.LocalCardQuota {
	view := &v1alpha1.LocalCardQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}}
	view.Status.State = "Open"
	view.Status.Cards = []v1alpha1.CardStatus{{Name: h200, Quota: 2, Used: used, Free: 2 - used, Physical: 8}}
	for _, c := range change {
		c(&view.Status)
	}
	return view
}

func blockedIn(namespace string, holders ...v1alpha1.CardHolder) func(*v1alpha1.LocalCardQuotaStatus) {
	return func(s *v1alpha1.LocalCardQuotaStatus) {
		s.Blocked = []v1alpha1.BlockedStatus{{Workload: v1alpha1.WorkloadReference{Namespace: namespace, Name: "a"}, Holders: holders}}
	}
}

func usesCPU(cpu string) func(*v1alpha1.LocalCardQuotaStatus) {
	return func(s *v1alpha1.LocalCardQuotaStatus) {
		s.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse(cpu)}
	}
}

func inState(state string) func(*v1alpha1.LocalCardQuotaStatus) {
	return func(s *v1alpha1.LocalCardQuotaStatus) { s.State = state }
}

func TestViews(t *testing.T) {
	const placed = `place a node=h200-0 cards=1; write quota q used=1 free=1; write queue q allocated=H200:1;`
	for t, tc := range check.Cases(t, map[string]struct {
		text  string
		views []*v1alpha1.LocalCardQuota
		want  string
	}{
		"right":                       {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0)}, ""},
		"missing":                     {"", nil, "status"},
		"missing in an ending one":    {`write namespace mine deleted=true`, nil, ""},
		"in a namespace that is gone": {`remove namespace mine`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0)}, "status"},
		"in another namespace":        {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0), viewOf("theirs", 0)}, "status"},
		"other numbers":               {placed, []*v1alpha1.LocalCardQuota{viewOf("mine", 0)}, "status"},
		"the same numbers":            {placed, []*v1alpha1.LocalCardQuota{viewOf("mine", 1)}, ""},
		"names itself":                {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, blockedIn("mine", v1alpha1.CardHolder{Count: 1}))}, ""},
		"names a workload of another": {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, blockedIn("theirs"))}, "status"},
		"names a queue of another":    {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, blockedIn("mine", v1alpha1.CardHolder{Queue: "secret"}))}, "status"},
		"names a holder of another":   {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, blockedIn("mine", v1alpha1.CardHolder{Workload: v1alpha1.WorkloadReference{Namespace: "theirs"}}))}, "status"},
		"other CPU":                   {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, usesCPU("1"))}, "status"},
		"the same CPU":                {`write quota q usedCPU=2; place a node=h200-0 card= cpu=2`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0, usesCPU("2"))}, ""},
		"other memory":                {`write quota q usedMemory=1Gi; place a node=h200-0 card= memory=1Gi`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0)}, "status"},
		"a quota of CPU without one": {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, func(s *v1alpha1.LocalCardQuotaStatus) {
			s.CPU = &v1alpha1.ResourceStatus{Quota: ptr.To(resource.MustParse("1"))}
		})}, "status"},
		"closed":                        {`write queue q state=Closed`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0, inState("Closed"))}, ""},
		"open while closed":             {`write queue q state=Closed`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0, inState("Open"))}, "status"},
		"held":                          {`write queue q stopPolicy=Hold`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0, inState("Held"))}, ""},
		"open while held":               {`write queue q stopPolicy=Hold`, []*v1alpha1.LocalCardQuota{viewOf("mine", 0, inState("Open"))}, "status"},
		"held while open":               {"", []*v1alpha1.LocalCardQuota{viewOf("mine", 0, inState("Held"))}, "status"},
		"of a CardQuota that is ending": {`write quota q deleted=true`, []*v1alpha1.LocalCardQuota{viewOf("mine", 1)}, ""},
	}) {
		w := newSceneOfEntries().playScript(`load namespace mine team=chat; load namespace theirs; load quota q used=0 free=2`)
		w.selectNamespaces(tc.text, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}})
		for _, view := range tc.views {
			w.applyObject(view, false)
		}

		w.playScript(`check; wait 19s`)
		if open := w.checkNow(); (len(open) > 0) != (tc.want != "") {
			t.Errorf("open is %v", open)
		}
		w.playScript(`wait 2s`).expectViolations(t, tc.want)
	}
}

// selectNamespaces plays a script, and then lets the CardQuota q select namespaces.
func (w *scene) selectNamespaces(text string, selector *metav1.LabelSelector) {
	w.playScript(text)
	quota := w.Object("quota", "q").(*v1alpha1.CardQuota)
	quota.Spec.NamespaceSelector = selector
	w.applyObject(quota, false)
}

func TestNoViewsWithoutAnExplicitSelector(t *testing.T) {
	for _, selector := range []*metav1.LabelSelector{nil, {}} {
		w := newScene().playScript(`load namespace mine team=chat; load quota q used=0 free=2`)
		w.selectNamespaces("", selector)
		w.playScript(`check; wait 1m`).expectViolations(t, "")
	}
}

func TestOnlyFiftyNamespacesNeedAView(t *testing.T) {
	w := newScene().playScript(`load quota q used=0 free=2`)
	for i := range 51 {
		w.machine.loadObject(builder.Namespace(fmt.Sprintf("n%02d", i), "team", "chat"), w.clock)
		if i < 50 {
			w.applyObject(viewOf(fmt.Sprintf("n%02d", i), 0), false)
		}
	}
	w.selectNamespaces("", &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}})
	w.checkNow()
	w.clock = w.clock.Add(time.Minute)
	w.expectViolations(t, "")
}
