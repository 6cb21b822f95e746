package capacitycard

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/uthelper"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/usage"
)

const stranger = "evil" // a namespace that queue q leaves out

// claims makes pods on a node of every kind that a tenant may write, but for their
// PodGroup: by this scheduler or another, in a namespace that queue q takes or
// leaves out, with a record of a binding, the name of a queue, or both, for a card,
// for CPU, and for a resource that is a card nowhere.
func claims() []*corev1.Pod {
	var all []*corev1.Pod
	for _, scheduler := range []string{"volcano", "default-scheduler"} {
		for _, namespace := range []string{"ns", stranger} {
			for _, record := range []string{"", "q", "open"} {
				for _, written := range []string{"", "q", "open"} {
					for asked, name := range map[string]corev1.ResourceName{"card": gpu, "cpu": "", "nowhere": "evil.example/x"} {
						p := pods(1, "", "0", "NVIDIA-H200", "h200")[0]
						p.Name = fmt.Sprintf("%s-%s-%s-%s-%s", scheduler, namespace, record, written, asked)
						p.UID, p.Namespace, p.Spec.SchedulerName = types.UID(p.Name), namespace, scheduler
						p.Annotations = map[string]string{"volcano.sh/card.name": "NVIDIA-H200",
							"cardquota.dev/charged-queue": record, "scheduling.volcano.sh/queue-name": written}
						if name != "" {
							p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("3")
						}
						all = append(all, p)
					}
				}
			}
		}
	}
	return all
}

func outsidersWorld(queue, otherwise *v1beta1.Queue) *uthelper.TestCommonStruct {
	return &uthelper.TestCommonStruct{
		Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: []*v1beta1.Queue{queue, otherwise},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Running", "")}, Pods: pods(1, "j", "1", "NVIDIA-H200", "h200"),
	}
}

// TestTheOperatorChargesOutsidersAlike: of a pod that nobody may have let in, the
// scheduler and the operator believe the same, in a first session and with what was
// charged before, also when the queue has come to choose other namespaces.
func TestTheOperatorChargesOutsidersAlike(t *testing.T) {
	world := func() *uthelper.TestCommonStruct {
		return outsidersWorld(chooses(quotaQueue("q", `{"NVIDIA-H200":4}`), forChat), quotaQueue("open", `{"NVIDIA-H200":4}`))
	}
	ssn := run(t, world(), nil, ofTeam("ns", "chat"), ofTeam(stranger, "evil"))
	all := claims()
	taken := "ns"
	var last map[types.UID]account.Charge
	agree := func(when string) {
		t.Helper()
		var charges map[types.UID]account.Charge
		_, charges = usage.Recount(usage.World{Pods: all, Inventory: opened.inv, Schedulers: []string{"volcano"}, Last: last,
			Admits: func(queue, namespace string) bool { return queue != "q" || namespace == taken }})
		for _, pod := range all {
			if diff := cmp.Diff(charges[pod.UID], *opened.account.Charged(string(pod.UID)), cmpopts.IgnoreFields(account.Charge{}, "MilliCPU", "Memory")); diff != "" {
				t.Errorf("%s, %s (-operator +scheduler):\n%s", when, pod.Name, diff)
			}
		}
		last = charges
	}
	listed(t, all...)
	agree("at first")
	queue := ssn.Queues["q"].Queue.DeepCopy()
	queue.Annotations["volcano.sh/namespace-selector"] = `{"matchLabels":{"team":"evil"}}`
	ssn.Queues["q"].Queue, taken = queue, stranger
	opened.openBooks()
	agree("when the queue chooses another namespace")
}

// TestAForgedRecordWithholdsNoCards: whoever may create pods in one namespace could
// write a queue that is for others into a pod past every scheduler.
func TestAForgedRecordWithholdsNoCards(t *testing.T) {
	forged := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pods(1, "", "0", "NVIDIA-H200", "h200")[0]
		p.Namespace, p.UID, p.Spec.SchedulerName = stranger, "forged", "default-scheduler"
		p.Annotations = map[string]string{"volcano.sh/card.name": "NVIDIA-H200", "cardquota.dev/charged-queue": "q"}
		p.Spec.Containers[0].Resources.Requests["evil.example/x"] = resource.MustParse("1000")
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		used card.Count
		cpu  int64
	}{
		"in a namespace that the queue leaves out": {pod: forged(func(*corev1.Pod) {})},
		"in a PodGroup that names it": {pod: forged(func(p *corev1.Pod) {
			p.Namespace, p.Annotations["scheduling.k8s.io/group-name"] = stranger, "there"
		})},
		"in a namespace that it takes":  {pod: forged(func(p *corev1.Pod) { p.Namespace = "ns" }), cpu: 1000},
		"placed before the labels went": {pod: forged(func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" }), used: 1000, cpu: 1000},
		"only a queue's name, and CPU":  {pod: forged(func(p *corev1.Pod) { p.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": "q"} })},
		"only a queue's name, of our own": {pod: forged(func(p *corev1.Pod) {
			p.Spec.SchedulerName, p.Annotations = "volcano", map[string]string{"scheduling.volcano.sh/queue-name": "q"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			world := outsidersWorld(chooses(quotaQueue("q", `{"NVIDIA-H200":4}`), forChat), quotaQueue("open", ""))
			there := group("there", "q", 1, "Running", "")
			there.Namespace = stranger
			world.PodGroups = append(world.PodGroups, there)
			if tc.pod.Annotations["scheduling.k8s.io/group-name"] != "" {
				world.Pods = append(world.Pods, tc.pod)
			}
			run(t, world, nil, ofTeam("ns", "chat"), ofTeam(stranger, "evil"))
			listed(t, tc.pod)
			charge := opened.account.Charged(string(tc.pod.UID))
			if charge == nil {
				t.Fatal("the pod is not in the books at all")
			}
			if used := opened.account.Used("q", "NVIDIA-H200"); used != tc.used+1 {
				t.Errorf("the queue uses %d cards, want %d beside its own", used, tc.used)
			}
			if cpu := charge.MilliCPU; charge.Queue == "q" && cpu != tc.cpu || charge.Queue != "q" && tc.cpu > 0 {
				t.Errorf("queue %q is charged %dm, want %dm of q", charge.Queue, cpu, tc.cpu)
			}
		})
	}
}
