package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// clusterWithoutCardQuotas has a node of 8 H200. Two running pods of queue research hold 2 cards each, and a third one waits
// for 8. Queue chat has a quota of 4, and queue default nothing.
func clusterWithoutCardQuotas() []client.Object {
	objects := []client.Object{
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Queue("research").Capability("256", "2Ti").Obj(),
		builder.Queue("chat").Quota(`{"NVIDIA-H200":4}`).ServiceType("inference").Obj(),
		builder.Queue("default").Obj(),
		builder.Queue("root").Obj(),
	}

	for _, pod := range builder.Pod("lab", "train").Queue("research").GPUs(2).Running("h200-0").Copies(2) {
		// As the API server records it for a pod that a scheduler bound.
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)},
		}}
		objects = append(objects, pod)
	}

	objects = append(objects, builder.Pod("lab", "waits").Queue("research").Card("NVIDIA-H200").GPUs(8).Obj(),
		builder.Pod("lab", "done").Queue("research").GPUs(4).Node("h200-0").Phase(corev1.PodSucceeded).Obj())
	return objects
}

// TestImportPrintsCardQuotasForQueues: the golden files have the CardQuotas that import prints for research and chat, or for
// the queue that the user names. They also have the notes on the error stream. For a user who may not list pods, import only
// knows the annotations of Queues.
func TestImportPrintsCardQuotasForQueues(t *testing.T) {
	noPods := forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		command   string
	}{
		"all":    {mayReadAll, "import"},
		"one":    {mayReadAll, "import default --service-type inference"},
		"json":   {mayReadAll, "import -o json"},
		"tenant": {noPods, "import"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, clusterWithoutCardQuotas(), tc.intercept, tc.command).exits(exitOK).fitsTerminal()
			compareGolden(t, "import-"+name, r.out+"== on the error stream\n"+r.errOut)
		})
	}
}

// TestImportsOfAllFormatsAreAlike: a file of YAML and one of JSON have the same two CardQuotas, when doctor -f reads them. An
// empty list is a document too. Other formats, such as wide, cannot be applied and are refused.
func TestImportsOfAllFormatsAreAlike(t *testing.T) {
	read := func(format string) []*v1alpha1.CardQuota {
		r := execute(t, clusterWithoutCardQuotas(), mayReadAll, "import -o "+format)
		files := manifestFiles{names: []string{"-"}}
		quotas, _, err := files.readCardQuotas(strings.NewReader(r.out))
		check.NoError(t, err)
		return quotas
	}

	fromYAML := read("yaml")
	check.Equal(t, "number of CardQuotas", 2, len(fromYAML))
	check.Equal(t, "CardQuotas of json", fromYAML, read("json"))

	execute(t, nil, mayReadAll, "import -o json").exits(exitOK).prints(`"items": []`)
	execute(t, nil, mayReadAll, "import -o wide").exits(exitError).reports("write yaml or json")
}

// TestImportKnowsMappedCards: no label of node a says which card amd.com/gpu is, but the policy maps the resource to MI300X. A
// pod of queue research uses 2 of them, so the CardQuota of research has MI300X.
func TestImportKnowsMappedCards(t *testing.T) {
	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	objects := []client.Object{
		policy, builder.Node("a").Resource("amd.com/gpu", "8").Obj(), builder.Queue("research").Obj(),
		builder.Pod("lab", "train").Queue("research").Requests("amd.com/gpu", "2").Running("a").Obj(),
	}
	execute(t, objects, mayReadAll, "import research").exits(exitOK).prints("MI300X")
}

// TestImportMakesATreeIfThePolicyOrTheUserSaysSo: Queue team has parent research and a quota of 2. In flat queues a parent has
// no effect, so import drops it and says how to keep it. In a tree, by --tree or by the policy, the CardQuota has the
// parent and deserves its quota.
func TestImportMakesATreeIfThePolicyOrTheUserSaysSo(t *testing.T) {
	objects := append(clusterWithoutCardQuotas(), builder.Queue("team").Quota(`{"NVIDIA-H200":2}`).Parent("research").Obj())
	treePolicy := builder.ServiceTypePolicy().Hierarchy(v1alpha1.QueueHierarchyTree).Obj()

	execute(t, objects, mayReadAll, "import team").prints("With --tree").lacks("parent: research")
	execute(t, objects, mayReadAll, "import team --tree").prints("parent: research", "deserved: 2")
	execute(t, append(objects, treePolicy), mayReadAll, "import team").prints("parent: research", "deserved: 2")
}

// TestImportClaimsOnlyWhatItKnows: "nothing to import" is true only if the user may read all and asks for all queues.
// Without the right to list pods, it is not known which queues are in use. So import leaves out queue used, which has
// no annotation, and prints queue default only because the user names it. Without the right to list CardQuotas it
// prints none, since a Queue could get a second CardQuota.
func TestImportClaimsOnlyWhatItKnows(t *testing.T) {
	const nothing = "There is nothing to import"
	owned := []client.Object{builder.Queue("q").Quota(`{"A":1}`).Obj(), builder.CardQuota("q").Obj()}
	execute(t, owned, mayReadAll, "import").exits(exitOK).reports(nothing)
	execute(t, owned, mayReadAll, "import q").reports("CardQuota q has the queue").lacks(nothing)

	noPods := forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})
	execute(t, append(owned, builder.Queue("used").Obj()), noPods, "import").
		reports("No CardQuota is printed.", "Left out: used: no annotation", `may not list pods`).
		lacks(nothing)
	execute(t, clusterWithoutCardQuotas(), noPods, "import default").prints("queueName: default")

	noCardQuotas := forbid(cardQuotas, &v1alpha1.CardQuotaList{})
	execute(t, clusterWithoutCardQuotas(), noCardQuotas, "import").
		exits(exitError).printsNothing().
		reports("may not list cardquotas.cardquota.dev")
}

// TestImportRefusesWhatItCannotImport: import refuses a cluster without Volcano, and a service type with a capital letter, which
// is no name. If the user names two Queues and one does not exist, it refuses both and prints nothing.
func TestImportRefusesWhatItCannotImport(t *testing.T) {
	execute(t, nil, notInstalled(&v1beta1.QueueList{}), "import").
		exits(exitError).reports("no kind Queue of scheduling.volcano.sh")
	execute(t, clusterWithoutCardQuotas(), mayReadAll, "import research reserch").
		exits(exitError).printsNothing().reports("there is no Queue reserch")
	execute(t, clusterWithoutCardQuotas(), mayReadAll, "import --service-type Training").
		exits(exitError).reports("is no name of a service type")
}
