package cardreclaim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
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
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
	"cardquota.dev/operator/internal/workload"
)

// shippedBackoff is how the product repeats a failed write. Tests repeat it without waiting.
var shippedBackoff = writeBackoff

// cards is the cache of the plugin. newTree replaces it.
var cards = capacitycard.NewCache()

func TestMain(m *testing.M) {
	writeBackoff.Duration = time.Millisecond
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, capacitycard.Builder(cards))
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

// scene is a cluster with the action cardreclaim.
type scene struct {
	*session.Cluster
	// policies are those of the Volcano jobs, arguments those of the plugin capacity-card.
	policies  fakePolicies
	arguments framework.Arguments
	// withoutAllocate leaves the action allocate out of each session.
	withoutAllocate bool
	search          *Search
	// preempts are the searches of the last preempt.
	preempts *PreemptSearches
}

// newInferenceAndTrainingScene returns a scene with two flat queues: inference with priority 80000, which reclaims,
// and training with priority 20000. Both have a quota of 1000 of each card.
func newInferenceAndTrainingScene(text string, changes ...podChange) *scene {
	s := &scene{Cluster: session.New(""), policies: fakePolicies{}}
	return s.add(`
		queue inference quota=1000 priority=80000 serviceType=inference cpu=1000
		queue training quota=1000 priority=20000 serviceType=training cpu=1000`).add(text, changes...)
}

// newTree returns a scene of which the queues are a tree. The plugin gets a new cache, because it remembers by name
// which queues may not borrow.
func newTree(text string, changes ...podChange) *scene {
	useNewCache()
	s := &scene{Cluster: session.New(""), policies: fakePolicies{}, arguments: framework.Arguments{"queueHierarchy": "Tree"}}
	return s.add(text, changes...)
}

// useNewCache gives the plugin a new cache, as a restart of the scheduler does.
func useNewCache() {
	cards = capacitycard.NewCache()
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, capacitycard.Builder(cards))
}

// add adds a text in the format of package session. A queue may have plain numbers, see expandQueue. The owner and
// evictionPolicy of a job set its policies, which are unknown with evictionPolicy=Unknown.
func (s *scene) add(text string, changes ...podChange) *scene {
	for _, line := range words.Lines(text) {
		if line.Verb == "queue" {
			line = s.expandQueue(line)
		}

		s.AddLine(line, changes...)
		action := line.Value("evictionPolicy")
		if line.Value("owner") == "vcjob" && action != "Unknown" {
			s.policies["ns/"+line.Name()] = workload.EvictionPolicy{Inelastic: action != "", Terminates: action == "TerminateJob"}
		}
	}

	return s
}

// expandQueue replaces plain numbers. quota=8 and deserved=8 are 8 of card A and 8 of card B, guarantee=8 is 8 of
// card A. Queues with them deserve and are guaranteed nothing in a tree unless the text says it.
func (s *scene) expandQueue(line words.Line) words.Line {
	if _, err := strconv.Atoi(line.Value("quota")); err != nil {
		return line
	}

	if s.arguments["queueHierarchy"] == "Tree" {
		priority := map[bool]string{true: "80000", false: "20000"}[line.Value("serviceType") == "inference"]
		line.Words = append(words.Words(strings.Fields("cpu=1000 deserved=0 guarantee=0 priority="+priority)), line.Words...)
	}

	for i, word := range line.Words {
		switch word.Key {
		case "quota", "deserved":
			line.Words[i].Value = fmt.Sprintf(`{"A":%[1]s,"B":%[1]s}`, word.Value)
		case "guarantee":
			line.Words[i].Value = fmt.Sprintf(`{"A":%s}`, word.Value)
		}
	}

	return line
}

// startCache fills Volcano's cache with the cluster, and a volume claim "unbound" that never gets a volume.
func (s *scene) startCache() {
	s.Begin()
	claims := s.Cache.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Informer().GetIndexer()
	utilruntime.Must(claims.Add(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "unbound"}}))
	s.search = New(NewEvictions(cards, s.policies))
	s.search.clock = func() time.Time { return s.Now } // so that slow machines change nothing
	servers = append(servers, s.Cache.Client())
}

// Actions make the actions that scenes run. Package actions imports this one, so wiring_test.go sets them.
var Actions struct {
	Allocate, CardReclaim func(*capacitycard.Cache, *Evictions, *Search) framework.Action
	Preempt               func(*capacitycard.Cache, *Evictions, *Search, *PreemptSearches) PreemptAction
}

// PreemptAction is the action preempt.
type PreemptAction interface {
	framework.Action
	Evictor() *Evictor
}

// allocate returns the action allocate.
func (s *scene) allocate() framework.Action {
	return Actions.Allocate(cards, s.search.evictions, s.search)
}

// reclaim returns the action cardreclaim.
func (s *scene) reclaim() framework.Action {
	return Actions.CardReclaim(cards, s.search.evictions, s.search)
}

// preempt returns a new action preempt.
func (s *scene) preempt() PreemptAction {
	s.preempts = NewPreemptSearches(s.search)
	return Actions.Preempt(cards, s.search.evictions, s.search, s.preempts)
}

// openSession opens a session with the plugins of the shipped configuration, and more.
func (s *scene) openSession(more ...string) *scene {
	if s.Cache == nil {
		s.startCache()
	}
	s.Open([][]string{{"priority", "gang", "conformance", schedulerconfig.CapacityCard}, append([]string{"predicates", "nodeorder", "binpack"}, more...)},
		map[string]framework.Arguments{schedulerconfig.CapacityCard: s.arguments})
	return s
}

// runSession opens a session and runs allocate and cardreclaim. It stays open until the test ends or opens another one.
func (s *scene) runSession(t *testing.T) *scene {
	t.Cleanup(s.Close)
	s.openSession().runActions()
	return s
}

// runAllocate opens a session and runs allocate alone. It stays open until the test ends.
func (s *scene) runAllocate(t *testing.T) *scene {
	t.Cleanup(s.Close)
	s.openSession().Run(s.allocate())
	return s
}

// runActions runs allocate and cardreclaim in the open session.
func (s *scene) runActions() {
	if s.withoutAllocate {
		s.Run(s.reclaim())
		return
	}
	s.Run(s.allocate(), s.reclaim())
}

// addToCache adds jobs to the cluster and to Volcano's cache, as an informer does.
func (s *scene) addToCache(text string) {
	groups := len(s.Groups)
	pods := len(s.Pods)
	s.add(text)
	for _, group := range s.Groups[groups:] {
		s.Cache.AddPodGroupV1beta1(group)
	}
	for _, pod := range s.Pods[pods:] {
		s.Cache.AddPod(pod.DeepCopy())
	}
}

// changeQueue replaces a queue in the cluster and in Volcano's cache, as an informer does.
func (s *scene) changeQueue(text string) {
	s.add(text)
	s.Cache.AddQueueV1beta1(s.Queues[len(s.Queues)-1])
}

// openSearch opens a session of the action, of which a test places the jobs itself.
func (s *scene) openSearch(t *testing.T) *reclaimSession {
	t.Cleanup(s.Close)
	plugin, _ := cards.PluginFor(s.openSession().Ssn.UID)
	return newReclaimSession(plugin, s.search)
}

// placeWithFullBudget places a job with the full budget of a job.
func (rs *reclaimSession) placeWithFullBudget(job *api.JobInfo) {
	rs.startJob(len(rs.nodes))
	rs.placeJob(job)
}

// expectEvictedAndPlaced compares the evicted pods, and those that wait on a node for cards that become free. Both are
// in the format of session.Spell: "a*2" are a-0 and a-1, and "a@n*2" are these on node n.
func (s *scene) expectEvictedAndPlaced(t *testing.T, wantEvicted, wantPlaced string) {
	evicted, placed := s.Outcome()
	check.Equal(t, "evicted pods", session.Spell(wantEvicted), evicted)
	check.Equal(t, "pods placed on cards that become free", session.Spell(wantPlaced), placed)
}

// expectEvicted compares the evicted pods.
func (s *scene) expectEvicted(t *testing.T, want string) {
	check.Equal(t, "evicted pods", session.Spell(want), session.Names(s.In(api.Releasing)))
}

// expectBound compares the pods that the session binds to free cards.
func (s *scene) expectBound(t *testing.T, want string) {
	check.Equal(t, "bound pods", session.Spell(want), session.Names(s.In(api.Binding)))
}

// sceneCase is a scene with its expected evicted pods, and the pods that are placed on the cards of these.
type sceneCase struct {
	scene                   string
	change                  podChange
	wantEvicted, wantPlaced string
}

// runScenes runs a session of allocate and cardreclaim on each scene, with the queues of newInferenceAndTrainingScene.
func runScenes(t *testing.T, scenes map[string]sceneCase) {
	for t, tc := range check.Cases(t, scenes) {
		newInferenceAndTrainingScene(tc.scene, tc.change).runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// evictedByQueue counts the evicted pods of each queue: "xb 1, ya 2".
func (s *scene) evictedByQueue() string {
	counts := map[string]int{}
	for _, task := range s.In(api.Releasing) {
		counts[string(s.Ssn.Jobs[task.Job].Queue)]++
	}
	var parts []string
	for _, queue := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", queue, counts[queue]))
	}
	return strings.Join(parts, ", ")
}

// podsOf returns the pods of a job.
func (s *scene) podsOf(job string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range s.Pods {
		if pod.Annotations["scheduling.k8s.io/group-name"] == job {
			pods = append(pods, pod)
		}
	}
	return pods
}

// countPlaced returns how many pods of a job have a node: free, or as soon as evicted pods have left it.
func (s *scene) countPlaced(job string) int {
	placed := s.Job(job).TaskStatusIndex
	return len(placed[api.Pipelined]) + len(placed[api.Allocated]) + len(placed[api.Binding])
}

// expectNoWrites fails if the action or Volcano wrote to a pod.
func (s *scene) expectNoWrites(t *testing.T) {
	time.Sleep(20 * time.Millisecond)
	check.Equal(t, "pods that Volcano evicts", 0, len(s.Evicted))
	for _, action := range s.Cache.Client().(*fake.Clientset).Actions() {
		isWrite := slices.Contains([]string{"patch", "update", "delete"}, action.GetVerb())
		check.That(t, !isWrite || action.GetResource().Resource != "pods", "pods are written to: %v", action)
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
			lines = append(lines, fmt.Sprintf("%s uses %s %s", n.Name, task.UID, task.Status))
		}
	}

	if policy, ok := cards.PluginFor(ssn.UID); ok {
		for _, q := range ssn.Queues {
			lines = append(lines, fmt.Sprintf("%s may take %d of A, %d of B", q.Name, policy.Rules.FreeQuota(q.UID, "A"), policy.Rules.FreeQuota(q.UID, "B")))
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
