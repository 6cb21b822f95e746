package top

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// withVolcano is kubectl.ForeignCluster with Volcano: a pod of namespace lab runs in queue research with 1 H200, and a
// job without pods waits there for 4.
func withVolcano() []client.Object {
	return append(kubectl.ForeignCluster(), builder.Queue("research").Obj(),
		builder.Pod("lab", "volcano").Queue("research").GPUs(1).Running("h200-0").Obj(),
		builder.PodGroup("lab", "early").Queue("research").Request(`{"NVIDIA-H200":4}`).Obj())
}

// TestTopWithoutCardQuotasShowsWhoUsesCards: the golden files have the cards of kubectl.ForeignCluster by namespace,
// which is the default without Volcano, and with Volcano by queue. Pods that wait are apart. A user who may not list
// nodes learns no card names, and one of namespace lab alone sees its pods.
func TestTopWithoutCardQuotasShowsWhoUsesCards(t *testing.T) {
	noNodes := kubectl.Forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{})
	withoutKinds := func(before interceptor.Funcs) interceptor.Funcs {
		return kubectl.WithoutKinds(before, kubectl.OurGroup, kubectl.VolcanoGroup)
	}

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
	}{
		"use":                   {kubectl.ForeignCluster(), kubectl.Nothing, "top"},
		"use-json":              {kubectl.ForeignCluster(), kubectl.Nothing, "top -o json"},
		"use-one":               {kubectl.ForeignCluster(), kubectl.Nothing, "top web --by namespace"},
		"use-no-pods":           {nil, kubectl.Nothing, "top"},
		"use-without-nodes":     {kubectl.ForeignCluster(), withoutKinds(noNodes), "top"},
		"use-of-namespace":      {kubectl.ForeignCluster(), withoutKinds(kubectl.ForbidCluster("lab")), "top -n lab"},
		"use-volcano":           {withVolcano(), kubectl.WithoutKinds(kubectl.MayReadAll, kubectl.OurGroup), "top"},
		"use-volcano-namespace": {withVolcano(), kubectl.MayReadAll, "top --by namespace"},
		"use-no-quotas":         {withVolcano(), kubectl.MayReadAll, "top"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, tc.intercept, tc.command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("top-" + name)
			if name != "use-json" {
				r.FitsTerminal()
			}
		})
	}
}

// TestTopByRefusesWhatItCannotCount: a queue needs Volcano, and pods have neither the labels of CardQuotas nor a watch. A
// namespace without cards is named after the others were shown. CardQuotas that the user names or watches need their
// kind. A user who may list pods nowhere learns which right is missing.
func TestTopByRefusesWhatItCannotCount(t *testing.T) {
	for command, want := range map[string]string{
		"top --by queue":               "without Volcano, which is not installed, pods have no queue",
		"top --by card":                "--by card: write namespace or queue",
		"top --by namespace --watch":   "leave out --watch and --selector",
		"top --by namespace -l a=b":    "leave out --watch and --selector",
		"top --by namespace lab nolab": "no pod uses or requests cards in namespace nolab",
		"top --watch":                  "Cardquota is not installed",
		"top llm":                      "no kind CardQuota of cardquota.dev: Cardquota is not installed, or an older version. docs/install.md",
	} {
		execute(t, kubectl.ForeignCluster(), kubectl.Nothing, command).Exits(program.ExitError).Reports(want)
	}

	noRights := kubectl.WithoutKinds(kubectl.ForbidCluster("other"), kubectl.OurGroup, kubectl.VolcanoGroup)
	execute(t, kubectl.ForeignCluster(), noRights, "top -n lab").Exits(program.ExitError).PrintsNothing().Reports("may not list pods")
}

// TestTopForProgramsStaysAListOfCardQuotas: a program that reads CardQuotas gets an empty list while there are none, and
// the names of namespaces only where it asks for them.
func TestTopForProgramsStaysAListOfCardQuotas(t *testing.T) {
	execute(t, kubectl.ForeignCluster(), kubectl.MayReadAll, "top -o json").Prints(`"kind": "CardUsageList"`, `"items": []`)
	execute(t, kubectl.ForeignCluster(), kubectl.MayReadAll, "top --by namespace -o name").Prints("namespace/lab", "namespace/web")
	execute(t, withVolcano(), kubectl.MayReadAll, "top --by queue -o name").Prints("queue.scheduling.volcano.sh/research")
}
