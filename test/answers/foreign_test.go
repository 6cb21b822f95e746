package answers

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli/doctor"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// TestCommandsWorkOnAForeignCluster: neither Cardquota nor Volcano was ever installed. An administrator learns from the
// golden files which cards there are and who uses them, and gets CardQuotas from namespaces and ResourceQuotas, then
// also from Kueue, with the definitions of its release. Tina may read pods and ResourceQuotas of namespace lab alone. At
// last the definitions of stock Volcano come, and pods have queues. Nothing writes to the cluster.
func TestCommandsWorkOnAForeignCluster(t *testing.T) {
	p := &play{t, newSite(t, cluster.Options{APIServerOnly: true, WithoutVolcano: true})}
	p.createForeignObjects()

	for _, step := range []struct {
		name string
		run  func(*play)
	}{
		{"nothing is installed", nothingIsInstalled},
		{"Kueue is installed", kueueIsInstalled},
		{"Volcano is installed", volcanoIsInstalled},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(&play{t, p.site}) })
	}
}

// labelledNodes are nodes of one model, with the labels of GPU feature discovery.
func labelledNodes(name, model string) cluster.NodeProfile {
	return cluster.NodeProfile{Name: name, Labels: map[string]string{"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "81920", "pool": name},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "nvidia.com/gpu": resource.MustParse("8")}}
}

// createForeignObjects creates nodes, pods that use their cards, a ResourceQuota, and what Tina may read. No kubelet and no
// controller runs.
func (p *play) createForeignObjects() {
	npus := labelledNodes("npu", "")
	npus.Labels = map[string]string{"huawei.com/npu.product": "Ascend-910B", "huawei.com/npu.memory": "65536"}
	npus.Allocatable = corev1.ResourceList{"huawei.com/Ascend910": resource.MustParse("8")}
	h800s := labelledNodes("h800", "NVIDIA-H800")
	h800s.Count = 2
	unlabelled := labelledNodes("new", "")
	unlabelled.Labels = nil
	unlabelled.Allocatable = corev1.ResourceList{"amd.com/gpu": resource.MustParse("8")}
	check.NoError(p, p.cluster.CreateNodes(p.Context(), []cluster.NodeProfile{labelledNodes("h200", "NVIDIA-H200"), h800s, npus, unlabelled}))

	// Its cards are lost, and no kubelet makes it ready again.
	lost := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "h800-1"}}
	check.NoError(p, p.Status().Patch(p.Context(), lost, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`))))

	for _, name := range []string{"lab", "ads", "npu", "web", "vision"} {
		p.create(builder.Namespace(name))
	}

	pod := func(namespace, name string) *builder.PodBuilder {
		return builder.Pod(namespace, name).Scheduler("default-scheduler").CPU("1")
	}
	p.create(pod("lab", "train").GPUs(2).Node("h200-0").Obj(), pod("lab", "waits").Card("NVIDIA-H200").GPUs(8).Obj(),
		pod("ads", "serve").GPUs(3).Node("h800-0").Obj(), pod("web", "serve").Requests("amd.com/gpu", "2").Node("new-0").Obj(),
		pod("npu", "tune").Requests("huawei.com/Ascend910", "5").Node("npu-0").Obj())

	// After the pods: without a controller its status stays empty, and then admission lets no pod in.
	p.create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "npu", Name: "cards"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"requests.huawei.com/Ascend910": resource.MustParse("4"), "requests.cpu": resource.MustParse("64"), "pods": resource.MustParse("50")}}})
	p.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: tenant}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods", "resourcequotas"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: tenant}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenant},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenant}}})
}

// foreignCommands are the commands that are asked at each step, with their exit codes.
var foreignCommands = map[string]map[string]int{
	"nothing": {"inventory": 0, "top": 0, "doctor": doctor.ExitWarnings, "import": 0},
	"tenant":  {"inventory": program.ExitError, "top": 0, "doctor": program.ExitError, "import": 0},
	"kueue":   {"import": 0},
	"volcano": {"inventory": 0, "top": 0, "doctor": doctor.ExitWarnings, "import": 0},
}

// expectAnswers compares what the commands of a step print with a golden file each.
func (p *play) expectAnswers(step string, as ...string) {
	for command, want := range foreignCommands[step] {
		compareGolden(p.T, "foreign/"+step+"-"+command, func() string {
			out, errOut, code := p.ask(p.Context(), append([]string{command}, as...)...)
			check.Equal(p.T, "exit code of "+command, want, code)
			return out + "== on the error stream\n" + errOut
		})
	}
}

// nothingIsInstalled asks before anything is installed, as the administrator and as Tina.
func nothingIsInstalled(p *play) {
	p.expectAnswers("nothing")
	p.expectFindings(nil, "NodeNotReady")
	p.expectAnswers("tenant", "--as", tenant, "-n", "lab")
}

// kueueModule is the release of Kueue whose definitions are installed, and kueueSum its checksum as go.sum has it.
const (
	kueueModule = "sigs.k8s.io/kueue@v0.17.0"
	kueueSum    = "h1:7hzb38M4eKGzYW+CFv2s1L+swzzacUCHOCXxZmAV90I="
)

// kueueDefinitions returns the folder with the definitions of Kueue, which come with its module. No program of this
// project needs the module, so no go.mod has it.
func kueueDefinitions(t *testing.T) string {
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", kueueModule)
	command.Dir = t.TempDir()
	out, err := command.Output()
	if err != nil {
		missing.Skip(t, fmt.Errorf("download %s: %w", kueueModule, err))
	}

	var module struct{ Dir, Sum string }
	check.NoError(t, json.Unmarshal(out, &module))
	check.Equal(t, "checksum of "+kueueModule, kueueSum, module.Sum)
	return filepath.Join(module.Dir, "config", "components", "crd", "bases")
}

// kueueIsInstalled asks import when there are ClusterQueues. The API server serves v1beta1 and v1beta2, and prefers the
// later one.
func kueueIsInstalled(p *play) {
	definitions := kueueDefinitions(p.T)
	g := newGomega(p.T)
	for _, kind := range []string{"clusterqueues", "resourceflavors", "localqueues"} {
		g.Expect(p.cluster.ApplyFile(p.Context(), filepath.Join(definitions, "kueue.x-k8s.io_"+kind+".yaml"))).To(gomega.Succeed())
	}
	g.Expect(p.cluster.ApplyFile(p.Context(), filepath.Join(p.root, "internal/cli/importing/testdata/kueue.yaml"))).To(gomega.Succeed())
	p.expectAnswers("kueue")
}

// volcanoIsInstalled asks when the definitions of Volcano are there, and a pod runs in a Queue.
func volcanoIsInstalled(p *play) {
	g := newGomega(p.T)
	for _, file := range check.Value(filepath.Glob(filepath.Join(p.cluster.BinDir(), "volcano", "crds", "*.yaml")))(p.T) {
		g.Expect(p.cluster.ApplyFile(p.Context(), file)).To(gomega.Succeed())
	}

	// The definitions are served a moment after they are applied.
	for _, name := range []string{"research", "default"} {
		g.Eventually(func() error { return p.Create(p.Context(), newObject(builder.Queue(name).Obj())) }).Should(gomega.Succeed())
	}
	p.create(builder.Pod("lab", "volcano").Queue("research").GPUs(1).CPU("1").Node("h200-0").Obj())
	p.expectAnswers("volcano")
}
