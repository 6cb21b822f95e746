package capacitycard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// lifecycle is one scheduler and its environment: a plain model of the API server, Volcano's
// real cache of it, and the open session with its statements. A statement of Volcano is a list of
// placements and evictions that are committed or discarded together. The recount of this model is the
// oracle of the plugin's ledger: it counts all pods again after each step.
type lifecycle struct {
	models map[string]string         // node → the model it is labelled with, "" for none
	quotas map[string]map[string]int // queue → model → quota
	queues map[string]*v1beta1.Queue
	groups map[string]*v1beta1.PodGroup
	pods   map[string]*corev1.Pod // by name
	// versions counts the pods and queues that were created or changed, for their UIDs and versions.
	versions int
	// binding are the nodes of pods with a binding request, evicting the pods with an eviction
	// request, both without an answer so far.
	binding  map[string]string
	evicting map[string]bool
	// written is the queue in the annotation of a bound pod, "" from its creator.
	written map[types.UID]string

	cache   *cache.SchedulerCache
	evicted session.Evictor
	tiers   []conf.Tier
	m       *Cache
	plugin  *Plugin
	ssn     *framework.Session

	// undecided are statements that were neither committed nor discarded, saved
	// the operations of discarded ones.
	undecided, saved []*draft
	// replayed is set if this session replayed operations. Volcano's sub-jobs then still list
	// the tasks that the replay replaced by clones.
	replayed bool
	// leaving are the pods that an earlier session evicted.
	leaving map[types.UID]bool
	// lastModel is the model of the card for which a pod was charged last. lastCharged is the queue that was
	// charged for it, on which node.
	lastModel   map[types.UID]string
	lastCharged map[types.UID]chargedOn
}

// chargedOn is the queue that is charged for a pod on a node.
type chargedOn struct{ queue, node string }

// draft is a statement with what was done in it.
type draft struct {
	*framework.Statement
	steps []step
}

// step is a placement, or an eviction when it has no node.
type step struct {
	task api.TaskID
	job  api.JobID
	node string
}

// quotas are texts of card.quota and what they allow.
var quotas = []struct {
	text   string
	allows map[string]int
}{
	{`{"A":4,"B":2}`, map[string]int{"A": 4, "B": 2}},
	{`{"A":3,"B":5}`, map[string]int{"A": 3, "B": 5}},
	{`{"A":9,"B":9}`, map[string]int{"A": 9, "B": 9}},
	{`{"A":1}`, map[string]int{"A": 1}},
	{`{"B":5}`, map[string]int{"B": 5}},
	{`{}`, map[string]int{}},
	{"nonsense", nil}, // not even CPU
}

// newLifecycle has three nodes with five cards each and three jobs of two pods in two queues. Some pods run already,
// within the quotas or not. Volcano's cache cannot be stopped, so all lifecycles share one.
func newLifecycle(t *rapid.T, cache *cache.SchedulerCache) *lifecycle {
	yes := true
	enabled := func(name string) conf.PluginOption {
		return conf.PluginOption{Name: name, EnabledJobOrder: &yes, EnabledJobReady: &yes, EnabledJobPipelined: &yes, EnabledQueueOrder: &yes,
			EnabledPredicate: &yes, EnabledBestNode: &yes, EnabledAllocatable: &yes, EnabledSubJobReady: &yes, EnabledSubJobPipelined: &yes}
	}

	l := &lifecycle{
		cache:  cache,
		models: map[string]string{"n1": "A", "n2": "B", "n3": "A"},
		quotas: map[string]map[string]int{},
		queues: map[string]*v1beta1.Queue{"q": nil, "r": nil},
		groups: map[string]*v1beta1.PodGroup{},
		pods:   map[string]*corev1.Pod{}, written: map[types.UID]string{},
		tiers: []conf.Tier{{Plugins: []conf.PluginOption{enabled(gang.PluginName), enabled(schedulerconfig.CapacityCard)}}},
	}
	for _, queue := range slices.Sorted(maps.Keys(l.queues)) {
		l.changeQuota(t, queue)
	}

	for job, queue := range map[string]string{"one": "q", "two": "q", "three": "r"} {
		least := map[string]int{"one": 1, "two": 2, "three": 1}[job]
		l.groups[job] = session.New(fmt.Sprintf("job %s queue=%s min=%d minCards=1", job, queue, least)).Groups[0]
	}

	for _, job := range slices.Sorted(maps.Keys(l.groups)) {
		for _, place := range []string{"0", "1"} {
			l.create(t, job, place, rapid.SampledFrom([]string{"", "", "n1", "n2", "n3"}).Draw(t, "runs on"))
		}
	}

	framework.RegisterPluginBuilder(gang.PluginName, gang.New)
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, func(a framework.Arguments) framework.Plugin {
		l.plugin = buildPlugin(l.m, a)
		return l.plugin
	})

	l.restart()
	l.openSession(t)
	return l
}

// create creates a pod at a place of a job, with a UID of its own. It is pending if node is "".
func (l *lifecycle) create(t *rapid.T, job, place, node string) {
	cards := rapid.IntRange(0, 3).Draw(t, "cards")
	names := rapid.SampledFrom([]string{"A", "B", "A|B", "B|A", "none", "none"}).Draw(t, "card.name")
	pods := "pending=1"
	if node != "" {
		pods = "running=" + node
	}

	pod := session.New(fmt.Sprintf("job %s queue=q min=1 %s cards=%d card=%s", job, pods, cards, names)).Pods[0]
	l.versions++

	pod.Name = job + "-" + place
	pod.UID = types.UID(fmt.Sprint(job, "-", place, "#", l.versions))
	pod.Annotations["cardquota.dev/charged-queue"] = rapid.SampledFrom([]string{"", "", "q", "r", "gone"}).Draw(t, "written")
	l.pods[pod.Name] = pod
	if node != "" { // an earlier scheduler bound it and wrote the annotation
		l.written[pod.UID] = pod.Annotations["cardquota.dev/charged-queue"]
	}

	if l.ssn != nil {
		l.cache.AddPod(pod.DeepCopy())
	}
}

// restart starts a new process, which knows only what the API server returns.
func (l *lifecycle) restart() {
	l.m = NewCache()
	l.m.messages.recorder = &record.FakeRecorder{}
	l.binding = map[string]string{}
	l.evicting = map[string]bool{}
	l.lastModel = map[types.UID]string{}
	l.lastCharged = map[types.UID]chargedOn{}

	l.evicted = make(session.Evictor, len(l.pods))
	l.cache.Evictor = l.evicted
	l.cache.Jobs = map[api.JobID]*api.JobInfo{}
	l.cache.Nodes = map[string]*api.NodeInfo{}
	l.cache.Queues = map[api.QueueID]*api.QueueInfo{}
	l.cache.NodeList = nil
	for _, node := range slices.Sorted(maps.Keys(l.models)) {
		l.updateNode(node)
	}

	for _, queue := range l.queues {
		l.cache.AddQueueV1beta1(queue)
	}

	for _, group := range l.groups {
		l.cache.AddPodGroupV1beta1(group)
	}

	for _, pod := range l.pods {
		l.cache.AddPod(pod.DeepCopy())
	}
}

// updateNode gives the cache a node of five cards with its label of now.
func (l *lifecycle) updateNode(name string) {
	utilruntime.Must(l.cache.AddOrUpdateNode(session.Node(name, cmp.Or(l.models[name], "-"), 5)))
}

// changeQuota writes another quota to a queue, which may be new.
func (l *lifecycle) changeQuota(t *rapid.T, name string) {
	quota := quotas[rapid.IntRange(0, len(quotas)-1).Draw(t, "quota of "+name)]
	old := l.queues[name]
	queue := session.Queue(name, quota.text)
	l.versions++
	queue.ResourceVersion = fmt.Sprint(l.versions) // Volcano looks whether it changed
	l.queues[name] = queue
	l.quotas[name] = quota.allows

	switch {
	case l.ssn == nil:
	case old == nil:
		l.cache.AddQueueV1beta1(queue)
	default:
		l.cache.UpdateQueueV1beta1(old, queue)
	}
}

// movePodGroup moves a PodGroup to a queue that exists. It may delete queues that have none then.
func (l *lifecycle) movePodGroup(t *rapid.T) {
	name := rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "PodGroup")
	queue := rapid.SampledFrom(slices.Sorted(maps.Keys(l.queues))).Draw(t, "to")
	old := l.groups[name]

	group := l.groups[name].DeepCopy()
	group.Spec.Queue = queue
	group.ResourceVersion += "x"
	l.groups[name] = group

	l.cache.UpdatePodGroupV1beta1(old, group)
	for _, queue := range slices.Sorted(maps.Keys(l.queues)) {
		inUse := slices.ContainsFunc(slices.Collect(maps.Values(l.groups)), func(g *v1beta1.PodGroup) bool { return g.Spec.Queue == queue })
		if !inUse && rapid.Bool().Draw(t, "queue "+queue+" is deleted") {
			l.cache.DeleteQueueV1beta1(l.queues[queue])
			delete(l.queues, queue)
			delete(l.quotas, queue)
		}
	}
}

// openSession opens the next session, and compares the metrics with the recount.
func (l *lifecycle) openSession(t *rapid.T) {
	l.ssn = framework.OpenSession(l.cache, l.tiers, nil)
	l.undecided = nil
	l.saved = nil
	l.replayed = false
	l.leaving = map[types.UID]bool{}
	for name := range l.evicting {
		l.leaving[l.pods[name].UID] = true
	}

	used := l.used()
	pending := map[use]int{}
	shown := l.m.scrape(t)
	models := slices.Collect(maps.Values(l.models))
	hasBothModels := slices.Contains(models, "A") && slices.Contains(models, "B") // else a pod without a card name requests the other one

	for _, task := range l.tasks(api.Pending) {
		if cards, names := asked(task.Pod); cards > 0 {
			pending[use{l.queueOf(task), strings.ReplaceAll(cmp.Or(names, "A|B"), "B|A", "A|B"), false}] += cards
		}
	}

	for queue := range l.queues {
		for _, card := range []string{"A", "B", "A|B"} {
			key := fmt.Sprintf(`{card=%q,queue=%q}`, card, queue)
			allocated := used[use{queue, card, false}]
			requested := allocated + pending[use{queue, card, false}]
			check.Equal(t, "metric of used cards "+key, allocated, int(shown["cardquota_scheduler_used_cards"+key]))
			check.Must(t, !hasBothModels || int(shown["cardquota_queue_card_request"+key]) == requested,
				"queue %s is shown to request %v of %s, a recount says %d", queue, shown["cardquota_queue_card_request"+key], card, requested)
		}
	}

	for _, model := range []string{"A", "B"} {
		check.Equal(t, "cards "+model+" that are shown without a queue", 0, shown[fmt.Sprintf(`cardquota_card_unowned{card=%q}`, model)])
	}
}

// nextSession closes the session, lets the cluster change and opens another one.
func (l *lifecycle) nextSession(t *rapid.T) {
	framework.CloseSession(l.ssn)
	l.answerBindings(t)
	switch rapid.IntRange(0, 7).Draw(t, "what changes") {
	case 1:
		node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
		l.models[node] = rapid.SampledFrom([]string{"A", "B", ""}).Draw(t, "model")
		l.updateNode(node)
	case 2:
		l.changeQuota(t, rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue"))
	case 3:
		l.models = map[string]string{"n1": "A", "n2": "B", "n3": "A"}
		l.restart()
	case 4, 5:
		l.movePodGroup(t)
	}

	l.openSession(t)
}

// podsChange lets the owner of a pod create or delete it, or the pod end.
func (l *lifecycle) podsChange(t *rapid.T) {
	name := rapid.SampledFrom([]string{"one-0", "one-1", "two-0", "two-1", "three-0", "three-1"}).Draw(t, "pod")

	pod := l.pods[name]
	switch {
	case pod == nil:
		job, place, _ := strings.Cut(name, "-")
		l.create(t, job, place, "")
	case pod.Status.Phase == corev1.PodRunning && rapid.Bool().Draw(t, "ends"):
		delete(l.evicting, name)
		l.update(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	case pod.Spec.NodeName == "" || rapid.Bool().Draw(t, "by force"):
		l.remove(name)
	default:
		l.delete(name)
	}
}

// answerBindings lets the API server answer requests for bindings and evictions, late or never. It also lets terminating
// pods be gone and bound pods run.
func (l *lifecycle) answerBindings(t *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		pod := l.pods[name]
		node := l.binding[name]

		answer := rapid.IntRange(0, 3).Draw(t, "answer about "+name)
		switch {
		case answer == 0: // none yet
		case node != "" && answer == 1: // refused; Volcano fetches the pod again
			delete(l.binding, name)
			l.fetch(name)
		case node != "":
			l.bind(name, node)
		case l.evicting[name] && answer == 1:
			delete(l.evicting, name)
			l.fetch(name)
		case l.evicting[name]:
			l.delete(name)
		case pod.DeletionTimestamp != nil:
			l.remove(name)
		case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending:
			l.update(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		}
	}
}

// bind binds a pod as this process requested it, with the queue in its annotation.
func (l *lifecycle) bind(name, node string) {
	delete(l.binding, name)
	l.update(name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		l.written[p.UID] = l.lastCharged[p.UID].queue
		p.Annotations["cardquota.dev/charged-queue"] = l.written[p.UID]
	})
}

// update changes a pod and updates the cache as an informer does.
func (l *lifecycle) update(name string, change func(*corev1.Pod)) {
	old := l.pods[name].DeepCopy()
	change(l.pods[name])
	l.cache.UpdatePod(old, l.pods[name].DeepCopy())
}

// delete begins the termination of a pod.
func (l *lifecycle) delete(name string) {
	delete(l.evicting, name)
	l.update(name, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) })
}

// fetch reads a pod again, as Volcano does after a binding or an eviction that failed.
func (l *lifecycle) fetch(name string) {
	l.cache.DeletePod(l.pods[name])
	l.cache.AddPod(l.pods[name].DeepCopy())
}

// remove removes a pod at once.
func (l *lifecycle) remove(name string) {
	l.cache.DeletePod(l.pods[name])
	delete(l.pods, name)
	delete(l.binding, name)
	delete(l.evicting, name)
}
