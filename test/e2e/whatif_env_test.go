package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli"
	"cardquota.dev/operator/internal/cli/whatif"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/testing/check"
)

// whatIfTest is the environment of a scene that compares kubectl cardquota whatif with the scheduler:
// two nodes with four of a card each, and one with four of another card.
type whatIfTest struct {
	*treeTest
	other, kubeconfig string
}

// proof is a question to whatif that then becomes true.
type proof struct {
	// submitted are the objects of the file, by the name of the workload.
	submitted []client.Object
	// flags are those of the change, and change makes it.
	flags  []string
	change func()
	// onNodes compares the nodes of the pods too, where only one choice is possible.
	onNodes bool
	// want is the outcome: of the simulation, and then of the scheduler.
	want []string
}

// prove asks whatif, makes the change, submits the objects, and compares.
func (t *whatIfTest) prove(p proof) {
	before := t.holders()
	result, lost := t.askLoss(func() whatif.Result { return t.whatIf(p.submitted, p.flags) })
	t.Expect(result.Settled).To(BeTrue())
	t.Expect(t.predicted(&p, result)).To(Equal(p.want), "whatif says %+v", result)

	if p.change != nil {
		p.change()
	}

	t.createObjects(p.submitted...)
	total := map[string]int{}
	for _, pod := range result.Pods {
		total[workloadOf(p.submitted, pod.Name)]++
	}

	t.waitUntilStable(func() any { return t.observed(&p, before, total) }, p.want)
	if !slices.Contains(p.flags, "--drain") {
		t.wantLoss(lost, before)
	}
}

// whatIf runs the command for a file with objects, as a user with the documented rights.
func (t *whatIfTest) whatIf(objects []client.Object, flags []string) whatif.Result {
	var file bytes.Buffer
	for _, object := range objects {
		kind := check.Value(t.GroupVersionKindFor(object))(t)
		written := object.DeepCopyObject().(client.Object)
		written.GetObjectKind().SetGroupVersionKind(kind)
		fmt.Fprintf(&file, "---\n%s", check.Value(yaml.Marshal(written))(t))
	}

	path := filepath.Join(t.TempDir(), "workloads.yaml")
	t.Expect(os.WriteFile(path, file.Bytes(), 0o600)).To(Succeed())
	var out, errOut bytes.Buffer

	args := append([]string{"kubectl-cardquota", "whatif", "--kubeconfig", t.kubeconfig, "-n", t.namespace, "-o", "json", "-f", path}, flags...)
	code := cli.Run(t.ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, simulator.New())
	t.Expect(code).To(BeElementOf(0, 2), "%s\n%s", errOut.String(), file.String())
	var result whatif.Result
	t.Expect(json.Unmarshal(out.Bytes(), &result)).To(Succeed(), out.String())
	t.Expect(result.Runs).To(Equal(code == 0))

	return result
}

// workloadOf returns the name of the workload that a pod or an object belongs to.
func workloadOf(objects []client.Object, name string) string {
	for _, object := range objects {
		if workload := workloadName(object); name == workload || strings.HasPrefix(name, workload+"-") {
			return workload
		}
	}
	return name
}

// workloadName returns the name of a submitted workload. Pods without a controller have it in a label.
func workloadName(object client.Object) string {
	if pod, isPod := object.(*corev1.Pod); isPod {
		return pod.Labels[app]
	}
	return object.GetName()
}

// outcome collects what happens, in words.
type outcome struct {
	runs, lost map[string]int
	reasons    map[string][]string
	waits      map[string]int
	again      map[string]int
}

func newOutcome() outcome {
	return outcome{map[string]int{}, map[string]int{}, map[string][]string{}, map[string]int{}, map[string]int{}}
}

func (o outcome) lines() []string {
	var lines []string
	for what, pods := range o.runs {
		lines = append(lines, fmt.Sprintf("%d %s", pods, what))
	}

	for name, pods := range o.waits {
		reasons := slices.Compact(slices.Sorted(slices.Values(o.reasons[name])))
		lines = append(lines, fmt.Sprintf("%d %s wait: %s", pods, name, strings.Join(reasons, ", ")))
	}

	for name, pods := range o.lost {
		lines = append(lines, fmt.Sprintf("%d %s evicted, %d run again", pods, name, o.again[name]))
	}

	slices.Sort(lines)
	return lines
}

// placeOf names where a pod of a workload runs.
func (p *proof) placeOf(workload string, cards int64, name, node string) string {
	place := fmt.Sprintf("%s on %d %s", workload, cards, name)
	if p.onNodes {
		place += " of " + node
	}
	return place
}

// predicted returns what whatif says.
func (t *whatIfTest) predicted(p *proof, result whatif.Result) []string {
	o := newOutcome()
	for _, pod := range result.Pods {
		name := workloadOf(p.submitted, pod.Name)
		if pod.Node == "" {
			o.waits[name]++
			o.reasons[name] = append(o.reasons[name], string(pod.Reason))
			continue
		}

		t.Expect(pod.Cards).To(HaveLen(1))
		o.runs[p.placeOf(name, pod.Cards[0].Count, pod.Cards[0].Card, pod.Node)]++
	}

	for _, v := range result.Victims {
		if v.Workload.Namespace == t.namespace && !v.Drained { // other scenes play on the same cluster
			o.lost[v.Workload.Name] += v.LostPods
			o.again[v.Workload.Name] += v.Restarted
		}
	}

	if moved := result.DrainedPods + result.DrainedEnded; moved > 0 {
		o.lost["of the node"] = moved
		o.again["of the node"] = result.DrainedPlaced
	}

	return o.lines()
}

// observed returns what happened since there were these holders. total are the pods of the submitted
// workloads.
func (t *whatIfTest) observed(p *proof, before map[types.UID]corev1.Pod, total map[string]int) []string {
	o := newOutcome()
	now := t.holders()

	isSubmitted := map[string]bool{}
	for _, object := range p.submitted {
		isSubmitted[workloadName(object)] = true
	}

	lostOf := func(name string) string {
		if slices.Contains(p.flags, "--drain") {
			return "of the node"
		}
		return name
	}

	started := map[string]int{}
	for uid, pod := range now {
		name := t.ownerName(&pod)
		switch _, stayed := before[uid]; {
		case isSubmitted[name]:
			count, used := t.usedCardOf(&pod)
			o.runs[p.placeOf(name, count, used, pod.Spec.NodeName)]++
			total = maps.Clone(total)
			total[name]--
		case !stayed:
			started[lostOf(name)]++
		}
	}

	for uid, pod := range before {
		if _, stays := now[uid]; !stays {
			name := lostOf(t.ownerName(&pod))
			o.lost[name]++
			o.again[name] = started[name]
		}
	}

	for name, left := range total {
		if left > 0 {
			o.waits[name] = left
			o.reasons[name] = t.statedReasons(p, name)
		}
	}

	return o.lines()
}

// holders returns the running pods of the scene that are not deleted.
func (t *whatIfTest) holders() map[types.UID]corev1.Pod {
	pods := &corev1.PodList{}
	t.listObjects(pods, client.InNamespace(t.namespace))
	out := map[types.UID]corev1.Pod{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			out[pod.UID] = pod
		}
	}
	return out
}

// ownerName returns the workload of a pod: the Volcano job, or what its label says.
func (t *whatIfTest) ownerName(pod *corev1.Pod) string {
	if job := pod.Labels[batchv1alpha1.JobNameKey]; job != "" {
		return job
	}
	return pod.Labels[app]
}

// usedCardOf returns the cards of a running pod, from the labels of its node.
func (t *whatIfTest) usedCardOf(pod *corev1.Pod) (count int64, name string) {
	for card, used := range t.usedCards([]corev1.Pod{*pod}) {
		count = used
		name = card
	}
	return count, name
}

// statedReasons returns why the status of the CardQuotas says that a workload waits.
func (t *whatIfTest) statedReasons(p *proof, name string) []string {
	quotas := &api.CardQuotaList{}
	t.listObjects(quotas)

	var reasons []string
	for _, quota := range quotas.Items {
		for _, entry := range quota.Status.Blocked {
			if entry.Workload.Namespace == t.namespace && workloadOf(p.submitted, entry.Workload.Name) == name {
				reasons = append(reasons, string(entry.Reason))
			}
		}
	}

	return reasons
}

// grantWhatIf creates a user with the rights that docs/kubectl.md names, and returns their kubeconfig.
func grantWhatIf(t *testing.T, st *testCluster) string {
	g := NewWithT(check.Trail(t))
	text := check.Value(os.ReadFile(filepath.Join(suite.root, "docs", "kubectl.md")))(t)

	role := &rbacv1.ClusterRole{}
	for _, block := range strings.Split(string(text), "```") {
		if manifest, isYAML := strings.CutPrefix(block, "yaml\n"); isYAML && strings.Contains(manifest, "kind: ClusterRole\n") {
			g.Expect(yaml.UnmarshalStrict([]byte(manifest), role)).To(Succeed())
		}
	}

	g.Expect(role.Name).NotTo(BeEmpty(), "docs/kubectl.md has a ClusterRole")
	user := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "engineer"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: user.Namespace, Name: user.Name}},
	}
	for _, object := range []client.Object{role, user, binding} {
		g.Expect(st.Create(t.Context(), object)).To(Succeed())
	}

	return check.Value(st.cluster.KubeconfigFor(t.Context(), user.Namespace, user.Name))(t)
}
