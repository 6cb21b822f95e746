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

// usedCluster is a cluster with queues in use and no CardQuota.
func usedCluster() []client.Object {
	objects := []client.Object{
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Queue("research").Capability("256", "2Ti").Obj(),
		builder.Queue("chat").Quota(`{"NVIDIA-H200":4}`).ServiceType("inference").Obj(),
		builder.Queue("default").Obj(),
		builder.Queue("root").Obj(),
	}

	for _, pod := range builder.Pod("lab", "train").Queue("research").GPUs(2).Running("h200-0").Copies(2) {
		// As the API server records it for a pod that a scheduler bound.
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)}}}
		objects = append(objects, pod)
	}

	objects = append(objects, builder.Pod("lab", "waits").Queue("research").Card("NVIDIA-H200").GPUs(8).Obj(),
		builder.Pod("lab", "done").Queue("research").GPUs(4).Node("h200-0").Phase(corev1.PodSucceeded).Obj())
	return objects
}

func TestImport(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		args      []string
	}{
		"all":    {interceptor.Funcs{}, nil},
		"one":    {interceptor.Funcs{}, []string{"default", "--service-type", "inference"}},
		"json":   {interceptor.Funcs{}, []string{"-o", "json"}},
		"tenant": {forbid(pods, &corev1.PodList{}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, usedCluster(), tc.intercept, append([]string{"import"}, tc.args...)...).exits(exitOK)
			compareGolden(t, "import-"+name, r.out+"== on the error stream\n"+r.errOut)
			checkColumns(t, r.out+r.errOut)
		})
	}
}

// TestImportsOfAllFormatsAreAlike: files of either format have the same CardQuotas.
func TestImportsOfAllFormatsAreAlike(t *testing.T) {
	read := func(format string) []*v1alpha1.CardQuota {
		r := execute(t, usedCluster(), interceptor.Funcs{}, "import", "-o", format)
		files := manifestFiles{names: []string{"-"}}
		quotas, _, err := files.readCardQuotas(strings.NewReader(r.out))
		check.NoError(t, err)
		return quotas
	}

	fromYAML := read("yaml")
	check.That(t, len(fromYAML) == 2, "CardQuotas %v", fromYAML)
	check.Equal(t, "CardQuotas of json", fromYAML, read("json"))

	execute(t, nil, interceptor.Funcs{}, "import", "-o", "json").exits(exitOK).prints(`"items": []`)
	execute(t, nil, interceptor.Funcs{}, "import", "-o", "wide").exits(exitError).reports("write yaml or json")
}

// TestImportKnowsMappedCards: cards that the labels of nodes do not name count as the policy says.
func TestImportKnowsMappedCards(t *testing.T) {
	policy := builder.ServiceTypePolicy().Obj()
	policy.Status.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	objects := []client.Object{
		policy, builder.Node("a").Resource("amd.com/gpu", "8").Obj(), builder.Queue("research").Obj(),
		builder.Pod("lab", "train").Queue("research").Requests("amd.com/gpu", "2").Running("a").Obj(),
	}
	execute(t, objects, interceptor.Funcs{}, "import", "research").exits(exitOK).prints("MI300X")
}

// TestImportMakesATree: for a tree if the policy or the user says so.
func TestImportMakesATree(t *testing.T) {
	objects := append(usedCluster(), builder.Queue("team").Quota(`{"NVIDIA-H200":2}`).Parent("research").Obj())
	r := execute(t, objects, interceptor.Funcs{}, "import", "team")
	check.That(t, !strings.Contains(r.out, "parent: research") && strings.Contains(r.out, "With --tree"), "flat queues: %s", r.out)
	for _, args := range [][]string{{"import", "team", "--tree"}, {"import", "team"}} {
		execute(t, objects, interceptor.Funcs{}, args...).prints("parent: research", "deserved: 2")
		policy := builder.ServiceTypePolicy().Obj()
		policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
		objects = append(objects, policy)
	}
}

// TestImportSaysWhatItKnows: that nothing is missing only if it knows, and nothing without the CardQuotas,
// since a Queue could get a second one.
func TestImportSaysWhatItKnows(t *testing.T) {
	const nothing = "There is nothing to import"
	owned := []client.Object{builder.Queue("q").Quota(`{"A":1}`).Obj(), builder.CardQuota("q").Obj()}
	execute(t, owned, interceptor.Funcs{}, "import").exits(exitOK).reports(nothing)

	r := execute(t, owned, interceptor.Funcs{}, "import", "q")
	check.That(t, !strings.Contains(r.errOut, nothing) && strings.Contains(r.errOut, "CardQuota q has the queue"), "of other queues nothing is known: %s", r.errOut)

	noPods := forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})
	execute(t, append(owned, builder.Queue("used").Obj()), noPods, "import").
		lacks(nothing).
		reports("No CardQuota is printed.", "Left out: used: no annotation", `may not list pods`)
	check.Contains(t, "a named one", execute(t, usedCluster(), noPods, "import", "default").out, "queueName: default")

	execute(t, usedCluster(), forbid(schema.GroupResource{Group: "cardquota.dev", Resource: "cardquotas"}, &v1alpha1.CardQuotaList{}), "import").
		exits(exitError).printsNothing().
		reports("may not list cardquotas.cardquota.dev")
}

func TestImportNeedsQueues(t *testing.T) {
	execute(t, nil, notInstalled(&v1beta1.QueueList{}), "import").exits(exitError).reports("no kind Queue of scheduling.volcano.sh")
	execute(t, usedCluster(), interceptor.Funcs{}, "import", "research", "reserch").exits(exitError).printsNothing().reports("there is no Queue reserch")
	execute(t, usedCluster(), interceptor.Funcs{}, "import", "--service-type", "Training").exits(exitError).reports("is no name of a service type")
}
