package top

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestTopShowsWhatEnforceWouldChange: all CardQuotas observe. Of llm-training 2 workloads would wait and 1 names no queue, of
// llm-chat 12 would be reclaimed. What no CardQuota decides about is of the whole cluster, so it is left out where the user
// names CardQuotas. ads has no forecast.
func TestTopShowsWhatEnforceWouldChange(t *testing.T) {
	for name, command := range map[string]string{
		"observe": "top", "observe-one": "top llm-training", "observe-none": "top ads", "observe-json": "top llm-training -o json", "observe-yaml": "top -l a!=b -o yaml",
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, kubectl.ObservedQuotas(), kubectl.MayReadAll, command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("top-" + name)
			if !strings.HasSuffix(command, "json") && !strings.HasSuffix(command, "yaml") {
				r.FitsTerminal()
			}
		})
	}
}

// TestTheForecastOfATreeIsIndented: astronomy and its parent institute observe. The forecast of a parent contains those below
// it, and the row of astronomy is indented as in the table of usage.
func TestTheForecastOfATreeIsIndented(t *testing.T) {
	objects := kubectl.TreeQuotas()
	for _, name := range []string{"institute", "astronomy"} {
		quota := kubectl.CardQuotaIn(objects, name)
		quota.Status.Mode = v1alpha1.ModeObserve
		quota.Status.Forecast = &v1alpha1.CardQuotaForecast{Bypassing: kubectl.Foretold("Pod", "it needs schedulerName: volcano", 0, "a")}
	}

	check.Contains(t, "output", execute(t, objects, kubectl.MayReadAll, "top").Exits(program.ExitOK).Out, `
CARDQUOTA    WOULD WAIT  BYPASSING
institute             0          1
  astronomy           0          1
`)
}

// TestTopReadsThePolicyOnlyInModeObserve: in mode Enforce there is no forecast, and the table is as before, also for a user
// who may not read the policy. In mode Observe such a user does not see what no CardQuota decides about.
func TestTopReadsThePolicyOnlyInModeObserve(t *testing.T) {
	forbidden := kubectl.ForbidGet[*v1alpha1.ServiceTypePolicy](v1alpha1.GroupVersion.WithResource("servicetypepolicies").GroupResource())
	enforced := func() []client.Object {
		objects := kubectl.ObservedQuotas()
		for _, name := range []string{"ads", "llm-chat", "llm-training", "new"} {
			quota := kubectl.CardQuotaIn(objects, name)
			quota.Status.Mode = v1alpha1.ModeEnforce
			quota.Status.Forecast = nil
		}
		return objects
	}

	for t, tc := range check.Cases(t, map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		want      []string
		lacks     string
	}{
		"Enforce":                             {enforced(), kubectl.MayReadAll, []string{"llm-chat"}, "Enforce"},
		"Observe, the policy may not be read": {kubectl.ObservedQuotas(), forbidden, []string{"WOULD WAIT"}, "No CardQuota counts"},
		"Observe, the policy is gone":         {kubectl.ObservedQuotas()[:4], kubectl.MayReadAll, []string{"WOULD WAIT"}, "No CardQuota counts"},
		"Observe, nothing would change": {
			[]client.Object{builder.CardQuota("a").With(func(q *v1alpha1.CardQuota) { q.Status.Mode = v1alpha1.ModeObserve }).Obj()},
			kubectl.MayReadAll, []string{"Mode Enforce would change nothing"}, "WOULD WAIT",
		},
	}) {
		execute(t, tc.objects, tc.intercept, "top").Exits(program.ExitOK).Prints(tc.want...).Lacks(tc.lacks)
	}
}

// TestTopNamesSomeNamespacesThatAreAmbiguous: of 12 namespaces the policy lists the first 10, and top names 3 and counts the
// others.
func TestTopNamesSomeNamespacesThatAreAmbiguous(t *testing.T) {
	list := List{Forecast: &v1alpha1.PolicyForecast{AmbiguousNamespacesTotal: 12}}
	for _, name := range strings.Split("abcdefghij", "") {
		list.Forecast.AmbiguousNamespaces = append(list.Forecast.AmbiguousNamespaces, v1alpha1.AmbiguousNamespace{Name: name, CardQuotas: []string{"x", "y"}})
	}
	check.Equal(t, "notes", []string{"Several CardQuotas select the same namespace, so its pods that name no queue count for none: a, b, c and 9 more."}, list.forecastNotes())
}
