package importing

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
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

// TestImportPrintsCardQuotasForQueues: the golden files have the CardQuotas that import prints for the queues with
// cards, or for the queue that the user names. Pods of queue research use cards, and Queue chat has a quota of 4 in
// its annotation. The golden files also have the notes on the error stream. For a user who may not list pods, import
// only knows the annotations of Queues.
func TestImportPrintsCardQuotasForQueues(t *testing.T) {
	noPods := kubectl.Forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		command   string
	}{
		"all":    {kubectl.MayReadAll, "import"},
		"one":    {kubectl.MayReadAll, "import default --service-type inference"},
		"json":   {kubectl.MayReadAll, "import -o json"},
		"tenant": {noPods, "import"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, kubectl.ClusterWithoutCardQuotas(), tc.intercept, tc.command).Exits(program.ExitOK).FitsTerminal()
			kubectl.CompareGolden(t, "import-"+name, r.Out+"== on the error stream\n"+r.ErrOut)
		})
	}
}

// TestImportsOfAllFormatsAreAlike: a file of YAML and one of JSON have the same two CardQuotas, of queues research and
// chat, when doctor -f reads them. An empty list is a document too. Other formats, such as wide, cannot be applied and
// are refused.
func TestImportsOfAllFormatsAreAlike(t *testing.T) {
	read := func(format string) []*v1alpha1.CardQuota {
		r := execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "import -o "+format)
		files := program.ManifestFiles{Names: []string{"-"}}
		quotas, _, err := files.ReadCardQuotas(t.Context(), program.New(genericiooptions.IOStreams{In: strings.NewReader(r.Out)}))
		check.NoError(t, err)
		return quotas
	}

	fromYAML := read("yaml")
	check.Equal(t, "number of CardQuotas", 2, len(fromYAML))
	check.Equal(t, "CardQuotas of json", fromYAML, read("json"))

	execute(t, nil, kubectl.MayReadAll, "import -o json").Exits(program.ExitOK).Prints(`"items": []`)
	execute(t, nil, kubectl.MayReadAll, "import -o wide").Exits(program.ExitError).Reports("write yaml or json")
}

// TestImportKnowsMappedCards: no label of node a says which card amd.com/gpu is, but the policy maps the resource to
// MI300X. A pod of queue research uses 2 of them, so the CardQuota of research has MI300X.
func TestImportKnowsMappedCards(t *testing.T) {
	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	objects := []client.Object{
		policy, builder.Node("a").Resource("amd.com/gpu", "8").Obj(), builder.Queue("research").Obj(),
		builder.Pod("lab", "train").Queue("research").Requests("amd.com/gpu", "2").Running("a").Obj(),
	}
	execute(t, objects, kubectl.MayReadAll, "import research").Exits(program.ExitOK).Prints("MI300X")
}

// TestImportMakesATreeIfThePolicyOrTheUserSaysSo: Queue team has parent research and a quota of 2. In flat queues a
// parent has no effect, so import drops it and says how to keep it. In a tree, by --tree or by the policy, the
// CardQuota has the parent and deserves its quota.
func TestImportMakesATreeIfThePolicyOrTheUserSaysSo(t *testing.T) {
	objects := append(kubectl.ClusterWithoutCardQuotas(), builder.Queue("team").Quota(`{"NVIDIA-H200":2}`).Parent("research").Obj())
	treePolicy := builder.ServiceTypePolicy().Hierarchy(v1alpha1.QueueHierarchyTree).Obj()

	execute(t, objects, kubectl.MayReadAll, "import team").Prints("With --tree").Lacks("parent: research")
	execute(t, objects, kubectl.MayReadAll, "import team --tree").Prints("parent: research", "deserved: 2")
	execute(t, append(objects, treePolicy), kubectl.MayReadAll, "import team").Prints("parent: research", "deserved: 2")
}

// TestImportClaimsOnlyWhatItKnows: "nothing to import" is true only if the user may read all and asks for all queues.
// Without the right to list pods, it is not known which queues are in use. So import skips queue used, which has
// no annotation, and prints queue default only because the user names it. Without the right to list CardQuotas it
// prints none, since a Queue could get a second CardQuota.
func TestImportClaimsOnlyWhatItKnows(t *testing.T) {
	const nothing = "There is nothing to import"
	owned := []client.Object{builder.Queue("q").Quota(`{"A":1}`).Obj(), builder.CardQuota("q").Obj()}
	execute(t, owned, kubectl.MayReadAll, "import").Exits(program.ExitOK).Reports(nothing)
	execute(t, owned, kubectl.MayReadAll, "import q").Reports("CardQuota q has the queue").Lacks(nothing)

	noPods := kubectl.Forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})
	execute(t, append(owned, builder.Queue("used").Obj()), noPods, "import").
		Reports("No CardQuota is printed.", "Left out: used: no annotation", `may not list pods`).
		Lacks(nothing)
	execute(t, kubectl.ClusterWithoutCardQuotas(), noPods, "import default").Prints("queueName: default")

	noCardQuotas := kubectl.Forbid(kubectl.CardQuotas, &v1alpha1.CardQuotaList{})
	execute(t, kubectl.ClusterWithoutCardQuotas(), noCardQuotas, "import").
		Exits(program.ExitError).PrintsNothing().
		Reports("may not list cardquotas.cardquota.dev")
}

// TestImportRefusesWhatItCannotImport: import refuses a service type with a capital letter, which is no name. If the user
// names two Queues and one does not exist, it refuses both and prints nothing.
func TestImportRefusesWhatItCannotImport(t *testing.T) {
	execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "import research reserch").
		Exits(program.ExitError).PrintsNothing().Reports("there is no Queue reserch")
	execute(t, kubectl.ClusterWithoutCardQuotas(), kubectl.MayReadAll, "import --service-type Training").
		Exits(program.ExitError).Reports("is no name of a service type")
}
