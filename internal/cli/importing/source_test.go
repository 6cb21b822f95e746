package importing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
	"cardquota.dev/operator/internal/validation"
)

// resourceQuota limits resources of a namespace, each name followed by the quantity.
func resourceQuota(namespace, name string, hard ...string) *corev1.ResourceQuota {
	object := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for i := 0; i < len(hard); i += 2 {
		object.Spec.Hard[corev1.ResourceName(hard[i])] = resource.MustParse(hard[i+1])
	}
	return object
}

// mixedFleet is two nodes of 8 H200 and 8 H800 and one of 8 Ascend-910B, without Volcano. Pods of namespaces lab, ads,
// npu and web use cards, and one of web waits for 2 H200. Namespace npu has two ResourceQuotas of its only card, and ads
// one of nvidia.com/gpu, which may be H200 or H800. The ResourceQuota of batch has a scope, that of docs no cards. Pods of
// idle wait for cards and hold none.
func mixedFleet() []client.Object {
	pod := func(namespace, name string) *builder.PodBuilder {
		return builder.Pod(namespace, name).Scheduler("default-scheduler")
	}

	scoped := resourceQuota("batch", "low", "requests.huawei.com/Ascend910", "2")
	scoped.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	return []client.Object{
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), builder.Node("h800-0").GPUs("NVIDIA-H800", 8).Label("pool", "h800").Obj(), builder.Node("npu-0").NPUs("Ascend-910B", 8).Obj(),
		pod("lab", "train").GPUs(2).Running("h200-0").Obj(), pod("ads", "serve").GPUs(3).Running("h800-0").Obj(),
		pod("npu", "tune").Requests("huawei.com/Ascend910", "5").Running("npu-0").Obj(),
		pod("web", "serve").GPUs(1).Running("h200-0").Obj(), pod("web", "waits").Card("NVIDIA-H200").GPUs(2).Obj(),
		pod("idle", "waits").Card("NVIDIA-H200").GPUs(2).Obj(),
		builder.Namespace("ads", "team", "ads"),
		resourceQuota("npu", "cards", "requests.huawei.com/Ascend910", "6", "requests.cpu", "64", "limits.memory", "1Ti", "pods", "50"),
		resourceQuota("npu", "less", "requests.huawei.com/Ascend910", "4", "cpu", "32", "requests.memory", "256Gi"),
		resourceQuota("ads", "gpu", "requests.nvidia.com/gpu", "4"),
		resourceQuota("docs", "compute", "requests.cpu", "4"),
		scoped,
	}
}

// kueueObjects returns the objects of testdata/kueue.yaml, in another version if version is not "".
func kueueObjects(t *testing.T, version string) []client.Object {
	text := string(check.Value(os.ReadFile(filepath.Join("testdata", "kueue.yaml")))(t))
	if version != "" { // v1beta1 has another name for the cohort
		text = strings.ReplaceAll(strings.ReplaceAll(text, "v1beta2", version), "cohortName:", "cohort:")
	}

	var objects []client.Object
	for document := range strings.SplitSeq(text, "---\n") {
		object := &unstructured.Unstructured{}
		check.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
		objects = append(objects, object)
	}
	return objects
}

// TestImportNeedsNothingInstalled: the golden files have the CardQuotas of mixedFleet, on which neither Cardquota nor
// Volcano is installed: of each source alone, and of all together. The notes are on the error stream.
func TestImportNeedsNothingInstalled(t *testing.T) {
	withKueue := append(mixedFleet(), kueueObjects(t, "")...)
	noNodes := kubectl.WithoutKinds(kubectl.Forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{}), kubectl.OurGroup, kubectl.VolcanoGroup)
	tenant := kubectl.WithoutKinds(kubectl.ForbidCluster("npu"), kubectl.OurGroup, kubectl.VolcanoGroup)

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
	}{
		"namespaces":     {mixedFleet(), kubectl.Nothing, "import --from namespaces"},
		"foreign":        {kubectl.ForeignCluster(), kubectl.Nothing, "import"},
		"resourcequotas": {mixedFleet(), kubectl.Nothing, "import --from resourcequotas"},
		"kueue":          {withKueue, kubectl.Nothing, "import --from kueue"},
		"sources":        {withKueue, kubectl.Nothing, "import"},
		"sources-json":   {withKueue, kubectl.Nothing, "import -o json"},
		"tree":           {mixedFleet(), kubectl.Nothing, "import --from namespaces --tree"},
		"no-nodes":       {withKueue, noNodes, "import"},
		"of-namespace":   {mixedFleet(), tenant, "import -n npu"},
		"nothing":        {nil, kubectl.Nothing, "import"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, tc.intercept, tc.command).Exits(program.ExitOK).FitsTerminal()
			kubectl.CompareGolden(t, "import-"+name, r.Out+"== on the error stream\n"+r.ErrOut)
		})
	}
}

// TestEveryVersionOfKueueIsRead: v1beta1 names the cohort in another field than v1beta2, and nothing else that matters
// differs. So the CardQuotas and what is dropped are the same.
func TestEveryVersionOfKueueIsRead(t *testing.T) {
	want := execute(t, append(mixedFleet(), kueueObjects(t, "")...), kubectl.Nothing, "import --from kueue").Out
	check.Equal(t, "CardQuotas of v1beta1", want, execute(t, append(mixedFleet(), kueueObjects(t, "v1beta1")...), kubectl.Nothing, "import --from kueue").Out)
	check.Contains(t, "CardQuotas", want, "cohort science")
}

// TestNoCardIsProposedTwice: pods of namespace lab are in Queue research, and one is in none. Each counts once: the Queue
// has 4 H200, and the CardQuota of the namespace 1. Queue web has the name of a namespace, so that gets another name. A
// CardQuota that exists selects namespace ads, so that gets none.
func TestNoCardIsProposedTwice(t *testing.T) {
	ads := builder.CardQuota("ads-cards").Selects("kubernetes.io/metadata.name", "ads").Card("NVIDIA-H200", 1).Obj()
	objects := append(kubectl.ClusterWithoutCardQuotas(), ads, builder.Queue("web").Obj(), builder.Namespace("ads", "kubernetes.io/metadata.name", "ads"),
		builder.Pod("lab", "alone").Scheduler("default-scheduler").GPUs(1).Running("h200-0").Obj(),
		builder.Pod("web", "serve").Scheduler("default-scheduler").GPUs(1).Running("h200-0").Obj(),
		builder.Pod("ads", "serve").Scheduler("default-scheduler").GPUs(1).Running("h200-0").Obj())

	r := execute(t, objects, kubectl.MayReadAll, "import").Exits(program.ExitOK).Reports("Left out: namespace ads: CardQuota ads-cards selects it")
	files := program.ManifestFiles{Names: []string{"-"}}
	quotas, _, err := files.ReadCardQuotas(t.Context(), program.New(genericiooptions.IOStreams{In: strings.NewReader(r.Out)}))
	check.NoError(t, err)

	got := map[string]int64{}
	for _, quota := range quotas {
		got[quota.Name] = *quota.Spec.Cards[0].Quota
	}
	check.Equal(t, "quotas", map[string]int64{"chat": 4, "research": 4, "lab": 1, "web-namespace": 1}, got)
}

// TestTheOperatorTakesWhatIsProposed: a user applies the file after the installation, so the webhook must accept each
// CardQuota beside those before it, in flat queues and in a tree.
func TestTheOperatorTakesWhatIsProposed(t *testing.T) {
	for t, hierarchy := range check.Cases(t, map[string]v1alpha1.QueueHierarchy{"flat": v1alpha1.QueueHierarchyFlat, "tree": v1alpha1.QueueHierarchyTree}) {
		policy := builder.ServiceTypePolicy().Hierarchy(hierarchy).Obj()
		policy.Status.QueueHierarchy = hierarchy
		r := execute(t, append(mixedFleet(), append(kueueObjects(t, ""), policy)...), kubectl.MayReadAll, "import").Exits(program.ExitOK)

		files := program.ManifestFiles{Names: []string{"-"}}
		quotas, _, err := files.ReadCardQuotas(t.Context(), program.New(genericiooptions.IOStreams{In: strings.NewReader(r.Out)}))
		check.NoError(t, err)
		check.That(t, len(quotas) > 3, "only %d CardQuotas", len(quotas))
		for i, quota := range quotas {
			result := validation.ValidateCardQuota(quota, nil, validation.CardQuotaInput{All: quotas[:i], Policy: policy})
			check.Equal(t, "refusals of "+quota.Name, 0, len(result.Errors))
		}
	}
}

// TestImportRefusesSourcesThatAreNotThere: a source that the user names must be there. Without a choice those that are
// missing are left out.
func TestImportRefusesSourcesThatAreNotThere(t *testing.T) {
	for command, want := range map[string]string{
		"import --from queues":         "no kind Queue of scheduling.volcano.sh: Volcano is not installed",
		"import research":              "no kind Queue of scheduling.volcano.sh: Volcano is not installed",
		"import --from kueue":          "Kueue is not installed",
		"import --from quotas":         "--from quotas: write queues, kueue, resourcequotas or namespaces",
		"import research --from kueue": "leave out one of both",
	} {
		execute(t, mixedFleet(), kubectl.Nothing, command).Exits(program.ExitError).PrintsNothing().Reports(want)
	}
}
