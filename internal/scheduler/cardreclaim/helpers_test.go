package cardreclaim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
	"cardquota.dev/operator/internal/workload"
)

// shipped is how the product repeats a failed write.
var shipped = writeBackoff

// cards is the cache of the plugin. newTree replaces it.
var cards = capacitycard.NewCache()

func TestMain(m *testing.M) {
	writeBackoff.Duration = time.Millisecond
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.Builder(cards))
	os.Exit(m.Run())
}

const (
	gpu  = session.GPU
	hour = time.Hour
	day  = 24 * time.Hour
)

// fakePolicies has the policies of Volcano jobs. Other jobs are unknown.
type fakePolicies map[string]workload.EvictionPolicy

func (f fakePolicies) OpenSession(*framework.Session) bool { return true }

func (f fakePolicies) EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool) {
	evictionPolicy, known := f[namespace+"/"+name]
	return evictionPolicy, known
}

// FailureLimitFor knows no Kubernetes Job, see policiesWithJobs.
func (f fakePolicies) FailureLimitFor(string, string, types.UID) (workload.FailureLimit, bool) {
	return workload.FailureLimit{}, false
}

func amount(quantity string) resource.Quantity { return resource.MustParse(quantity) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return session.OwnedBy(apiVersion, kind, "o", "o")
}

// scene is a cluster with the action.
type scene struct {
	*session.Cluster
	habits fakePolicies
	args   framework.Arguments
	// volumes are claims of volumes that are not bound.
	volumes []*corev1.PersistentVolumeClaim
	// alone runs the action without allocate before it.
	alone  bool
	action *Action
}

// PLENTY is quota for all cards. BUSY is training in two gangs that use the eight cards of
// node n, HALF the first of them.
var short = strings.NewReplacer("PLENTY", `{"A":1000,"B":1000,"A/mig-1g.10gb-mixed":1000}`,
	"BUSY", "job na queue=tra min=4 running=n*4 age=24h; job nb queue=tra min=4 running=n*4 age=24h", "HALF", "job na queue=tra min=4 running=n*4 age=24h")

// newScene returns a scene with an inference queue above a training queue. Both may use all
// cards.
func newScene(text string, changes ...func(*corev1.Pod)) *scene {
	w := &scene{Cluster: session.New(""), habits: fakePolicies{}, volumes: []*corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "unbound"}}}}
	return w.add("queue inf quota=PLENTY priority=80000 serviceType=inference cpu=1000; queue tra quota=PLENTY priority=20000 serviceType=training cpu=1000").add(text, changes...)
}

// add adds a text in the format of package session. The owner and evictionPolicy of a job in it set
// its policies, which are unknown with evictionPolicy=Unknown.
func (w *scene) add(text string, changes ...func(*corev1.Pod)) *scene {
	text = short.Replace(text)
	w.Add(text, changes...)
	for _, line := range words.Lines(text) {
		action := line.Value("evictionPolicy")
		if line.Value("owner") == "vcjob" && action != "Unknown" {
			w.habits["ns/"+line.Name()] = workload.EvictionPolicy{Inelastic: action != "", Terminates: action == "TerminateJob"}
		}
	}

	return w
}

// startCache fills Volcano's cache with the cluster.
func (w *scene) startCache() {
	w.Begin()
	for _, podSet := range w.volumes {
		utilruntime.Must(w.Cache.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(podSet))
	}
	w.action = New(cards, w.habits)
	w.action.clock = func() time.Time { return w.Now } // so that slow machines change nothing
	servers = append(servers, w.Cache.Client())
}

// openSession opens a session with the plugins of the shipped configuration, and more.
func (w *scene) openSession(more ...string) *scene {
	if w.Cache == nil {
		w.startCache()
	}
	w.Open([][]string{{"priority", "gang", "conformance", capacitycard.PluginName}, append([]string{"predicates", "nodeorder", "binpack"}, more...)},
		map[string]framework.Arguments{capacitycard.PluginName: w.args})
	return w
}

// runAction opens a session and runs allocate and the action. It stays open until the test
// ends or opens another one.
func (w *scene) runAction(t *testing.T) *scene {
	t.Helper()
	t.Cleanup(w.Close)
	w.openSession().executeActions()
	return w
}

// runAllocate opens a session and runs allocate alone. It stays open until the test ends.
func (w *scene) runAllocate(t *testing.T) *scene {
	t.Helper()
	t.Cleanup(w.Close)
	w.openSession().Run(NewAllocate(w.action))
	return w
}

// addToCache adds jobs to the cluster and to Volcano's cache, as an informer does.
func (w *scene) addToCache(text string) {
	groups := len(w.Groups)
	pods := len(w.Pods)
	w.add(text)
	for _, group := range w.Groups[groups:] {
		w.Cache.AddPodGroupV1beta1(group)
	}
	for _, pod := range w.Pods[pods:] {
		w.Cache.AddPod(pod.DeepCopy())
	}
}

// search is a session of the action, of which a test places the jobs itself.
func (w *scene) search(t *testing.T) *reclaimSession {
	t.Helper()
	t.Cleanup(w.Close)
	policy, _ := cards.ReclaimPolicyFor(w.openSession().Ssn.UID)
	return newReclaimSession(w.Ssn, policy, w.action)
}

// placeFirst places a job with the full budget of a job.
func (rs *reclaimSession) placeFirst(job *api.JobInfo) {
	rs.startJob(len(rs.nodes))
	rs.placeJob(job)
}

func (w *scene) executeActions() {
	if w.alone {
		w.Run(w.action)
		return
	}
	w.Run(NewAllocate(w.action), w.action)
}

// expectEvictedAndPlaced compares the evicted and the pipelined pods, in the format of
// session.Spell.
func (w *scene) expectEvictedAndPlaced(t *testing.T, wantGoes, wantPipelined string) {
	t.Helper()
	goes, pipelined := w.Outcome()
	check.That(t, goes == session.Spell(wantGoes) && pipelined == session.Spell(wantPipelined),
		"%q are evicted and %q are pipelined, want %q and %q", goes, pipelined, session.Spell(wantGoes), session.Spell(wantPipelined))
}

// sceneCase is a scene with its expected evicted and pipelined pods.
type sceneCase struct {
	text, goes, pipelined string
	change                func(*corev1.Pod)
}

func runScenes(t *testing.T, scenes map[string]sceneCase) {
	t.Helper()
	for t, s := range check.Cases(t, scenes) {
		s.scene().runAction(t).expectEvictedAndPlaced(t, s.goes, s.pipelined)
	}
}

func (s sceneCase) scene() *scene { return newScene(s.text, s.change) }

// onPod applies a change to the pod of a name, onJob to the pods of a job.
func onPod(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Name == name {
			change(p)
		}
	}
}

func onJob(job string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if change != nil && p.Annotations["scheduling.k8s.io/group-name"] == job {
			change(p)
		}
	}
}

func applyAll(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, change := range changes {
			change(p)
		}
	}
}

// expectNoWrites fails if the action or Volcano wrote to a pod.
func (w *scene) expectNoWrites(t *testing.T) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	check.Equal(t, "pods that Volcano evicts", 0, len(w.Evicted))
	for _, action := range w.Cache.Client().(*fake.Clientset).Actions() {
		if verb := action.GetVerb(); action.GetResource().Resource == "pods" && (verb == "patch" || verb == "update" || verb == "delete") {
			t.Errorf("pods are written to: %v", action)
		}
	}
}

// sessionState prints everything that a plan could change.
func sessionState(ssn *framework.Session) string {
	var lines []string
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			lines = append(lines, fmt.Sprintf("%s %s %q", task.UID, task.Status, task.NodeName))
		}
		for status, tasks := range job.TaskStatusIndex {
			lines = append(lines, fmt.Sprintf("%s %s %q", job.UID, status, slices.Sorted(maps.Keys(tasks))))
		}
		lines = append(lines, fmt.Sprintf("%s has %s", job.UID, job.Allocated))
	}

	for _, n := range ssn.Nodes {
		for what, r := range map[string]*api.Resource{"idle": n.Idle, "used": n.Used, "releasing": n.Releasing, "pipelined": n.Pipelined} {
			scalars := maps.Clone(r.ScalarResources)
			maps.DeleteFunc(scalars, func(_ corev1.ResourceName, quantity float64) bool { return quantity == 0 })
			lines = append(lines, fmt.Sprintf("%s %s %v %v %v", n.Name, what, r.MilliCPU, r.Memory, scalars))
		}

		for _, task := range n.Tasks {
			lines = append(lines, fmt.Sprintf("%s holds %s %s", n.Name, task.UID, task.Status))
		}
	}

	if policy, ok := cards.ReclaimPolicyFor(ssn.UID); ok {
		for _, q := range ssn.Queues {
			lines = append(lines, fmt.Sprintf("%s may take %d of A, %d of B", q.Name, policy.FreeQuota(q.UID, "A"), policy.FreeQuota(q.UID, "B")))
		}

		for _, job := range ssn.Jobs {
			for _, task := range job.Tasks {
				lines = append(lines, fmt.Sprintf("%s is charged %d", task.UID, policy.CardCount(task)))
			}
		}
	}

	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
