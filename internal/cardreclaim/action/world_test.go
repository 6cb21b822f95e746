package action

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"

	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/vcjob"
)

// shipped is how a mark that failed is tried again.
var shipped = again

func TestMain(m *testing.M) {
	again.Duration = time.Millisecond
	options.Default()
	metrics.InitKubeSchedulerRelatedMetrics()
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.New)
	os.Exit(m.Run())
}

// habits answers for Volcano jobs; those it does not name are not known.
type habits map[string]vcjob.Habit

func (h habits) Open(*framework.Session) {}

func (h habits) HabitOf(namespace, name string) (vcjob.Habit, bool) {
	habit, known := h[namespace+"/"+name]
	return habit, known
}

// world is a cluster, with Volcano's cache of it and the action.
type world struct {
	nodes  []*corev1.Node
	queues []*v1beta1.Queue
	groups []*v1beta1.PodGroup
	pods   []*corev1.Pod
	// volumes are claims of volumes that pods may have.
	volumes []*corev1.PersistentVolumeClaim
	habits  habits
	args    framework.Arguments
	// alone runs the action without allocate before it.
	alone bool

	id      int64
	now     time.Time
	cache   *cache.SchedulerCache
	evicted evictor
	action  *Action
	ssn     *framework.Session
}

// evictor receives what Volcano asks the API server to delete.
type evictor chan string

func (e evictor) Evict(pod *corev1.Pod, _ string) error {
	e <- pod.Name
	return nil
}

// worlds counts them, so that no two have pods of the same UID: the plugin
// remembers pods as long as the process lives.
var worlds atomic.Int64

// tides makes a world with an inference queue above a training queue, which may
// use all cards that there are.
func tides(nodes ...*corev1.Node) *world {
	w := &world{nodes: nodes, id: worlds.Add(1), now: time.Now().Truncate(time.Second), habits: habits{}, evicted: make(evictor, 1000)}
	w.queue("inf", "inference", 80000, plenty)
	w.queue("tra", "training", 20000, plenty)
	return w
}

const plenty = `{"A":1000,"B":1000,"A/mig-1g.10gb-mixed":1000}`

// queue adds a queue or replaces the one of that name. An inference queue is not
// reclaimable.
func (w *world) queue(name, service string, priority int32, quota string, changes ...func(*v1beta1.Queue)) {
	reclaimable := service != "inference"
	q := &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{"volcano.sh/card.quota": quota}},
		Spec: v1beta1.QueueSpec{Weight: 1, Priority: priority, Reclaimable: &reclaimable,
			Capability: corev1.ResourceList{"cpu": resource.MustParse("1000"), "memory": resource.MustParse("10Ti")}},
		Status: v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	}
	if service != "" {
		q.Annotations["volcano.sh/service.type"] = service
	}
	for _, change := range changes {
		change(q)
	}
	w.queues = append(slices.DeleteFunc(w.queues, func(other *v1beta1.Queue) bool { return other.Name == name }), q)
}

const gpu = corev1.ResourceName("nvidia.com/gpu")

// node makes a node with cards of a model.
func node(name, model string, cards int, changes ...func(*corev1.Node)) *corev1.Node {
	allocatable := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"),
		gpu: *resource.NewQuantity(int64(cards), resource.DecimalSI)}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "81920", corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// job is a PodGroup with its pods. Pods that run are named job-0, job-1 … in the
// order of their nodes; those that wait come after them.
type job struct {
	name, queue string
	least       int32
	// on are the nodes of the pods that run, waits how many do not.
	on    []string
	waits int
	// cards is how many each of them asks for, 1 when 0, none when negative; of
	// the names in card, "A" when empty.
	cards int
	card  string
	// ran is how long ago the pods started.
	ran time.Duration
	// vcjob tells that a Volcano job of the same name owns the pods.
	vcjob bool
	// roles are the pods' tasks in the Volcano job and the minimum of each.
	roles map[string]int32
	role  func(i int) string
	pod   func(*corev1.Pod)
	group func(*v1beta1.PodGroup)
}

// repeat names a node n times.
func repeat(node string, n int) []string { return slices.Repeat([]string{node}, n) }

func (w *world) add(jobs ...job) *world {
	for _, j := range jobs {
		group := &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: j.name, Namespace: "ns", UID: types.UID(fmt.Sprintf("w%d-%s", w.id, j.name)), Annotations: map[string]string{}},
			Spec:       v1beta1.PodGroupSpec{Queue: j.queue, MinMember: j.least, MinTaskMember: j.roles},
			Status:     v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupInqueue},
		}
		if len(j.on) > 0 {
			group.Status.Phase = v1beta1.PodGroupRunning
		}
		if j.group != nil {
			j.group(group)
		}
		w.groups = append(w.groups, group)
		for i := range len(j.on) + j.waits {
			w.pods = append(w.pods, w.podOf(&j, i))
		}
		if j.vcjob {
			w.habits["ns/"+j.name] = vcjob.Habit{}
		}
	}
	return w
}

func (w *world) podOf(j *job, i int) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", j.name, i)
	requests := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	if j.cards >= 0 {
		requests[gpu] = *resource.NewQuantity(int64(max(1, j.cards)), resource.DecimalSI)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(fmt.Sprintf("w%d-%s", w.id, name)), Labels: map[string]string{},
			Annotations:       map[string]string{"scheduling.k8s.io/group-name": j.name},
			CreationTimestamp: metav1.NewTime(w.now.Add(-j.ran))},
		Spec:   corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if j.cards >= 0 {
		pod.Annotations["volcano.sh/card.name"] = j.card
		if j.card == "" {
			pod.Annotations["volcano.sh/card.name"] = "A"
		}
	}
	if i < len(j.on) {
		started := metav1.NewTime(w.now.Add(-j.ran))
		pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = j.on[i], corev1.PodRunning, &started
	}
	if j.role != nil {
		pod.Annotations["volcano.sh/task-spec"] = j.role(i)
	}
	if yes := true; j.vcjob {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: batch.SchemeGroupVersion.String(), Kind: "Job", Name: j.name, UID: types.UID(fmt.Sprintf("w%d-job-%s", w.id, j.name)), Controller: &yes}}
	}
	if j.pod != nil {
		j.pod(pod)
	}
	return pod
}

func ownerOf(apiVersion, kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", UID: "o", Controller: &yes}}
}
