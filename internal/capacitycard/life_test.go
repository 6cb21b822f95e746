package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"cardquota.dev/operator/internal/card"
)

// life is one scheduler and what it lives on: what the API server knows, kept
// as plainly as possible, Volcano's real cache of it, and the open session with
// its statements. Its recount is the oracle of the books.
type life struct {
	models map[string]string         // node → the model it is labelled with, "" for none
	quotas map[string]map[string]int // queue → model → quota
	queues map[string]*v1beta1.Queue
	groups map[string]*v1beta1.PodGroup
	pods   map[string]*corev1.Pod // by name
	born   int
	// binding tells the node of pods that the API server was asked to bind,
	// evicting the pods it was asked to evict; it has not answered yet.
	binding  map[string]string
	evicting map[string]bool

	cache   *cache.SchedulerCache
	evicted evictor
	tiers   []conf.Tier
	plugin  *plugin
	ssn     *framework.Session

	// undecided are statements that were neither committed nor discarded, saved
	// the operations of discarded ones.
	undecided, saved []*draft
	// replayed tells that operations were replayed in this session. Volcano's
	// sub-jobs then still list the tasks that the replay replaced by clones.
	replayed bool
	// leaving are tasks that an earlier session evicted.
	leaving map[types.UID]bool
	// last is the model that a pod was charged last.
	last map[types.UID]string
}

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

// evictor receives what Volcano's cache asks the API server to evict.
type evictor chan string

func (e evictor) Evict(pod *corev1.Pod, _ string) error {
	e <- pod.Name
	return nil
}

// quotas are texts of card.quota and what they allow.
var quotas = []struct {
	text   string
	allows map[string]int
}{
	{`{"A":4,"B":2}`, map[string]int{"A": 4, "B": 2}}, {`{"A":3,"B":5}`, map[string]int{"A": 3, "B": 5}}, {`{"A":9,"B":9}`, map[string]int{"A": 9, "B": 9}},
	{`{"A":1}`, map[string]int{"A": 1}}, {`{"B":5}`, map[string]int{"B": 5}}, {`{}`, map[string]int{}},
	{"nonsense", nil}, // not even CPU
}

// newLife begins a life in which some pods run already, within their quotas or
// not. A cache cannot be stopped, so all lives have the same one.
func newLife(t *rapid.T, cache *cache.SchedulerCache) *life {
	yes := true
	enabled := func(name string) conf.PluginOption {
		return conf.PluginOption{Name: name, EnabledJobOrder: &yes, EnabledJobReady: &yes, EnabledJobPipelined: &yes, EnabledQueueOrder: &yes,
			EnabledPredicate: &yes, EnabledBestNode: &yes, EnabledAllocatable: &yes, EnabledSubJobReady: &yes, EnabledSubJobPipelined: &yes}
	}
	l := &life{
		cache:  cache,
		models: map[string]string{"n1": "A", "n2": "B", "n3": "A"},
		quotas: map[string]map[string]int{},
		queues: map[string]*v1beta1.Queue{"q": quotaQueue("q", "{}"), "r": quotaQueue("r", "{}")},
		groups: map[string]*v1beta1.PodGroup{},
		pods:   map[string]*corev1.Pod{},
		tiers:  []conf.Tier{{Plugins: []conf.PluginOption{enabled(gang.PluginName), enabled(PluginName)}}},
	}
	for _, queue := range slices.Sorted(maps.Keys(l.queues)) {
		l.requota(t, queue)
	}
	for job, queue := range map[string]string{"one": "q", "two": "q", "three": "r"} {
		l.groups[job] = group(job, queue, 1, "Inqueue", "1")
	}
	l.groups["two"].Spec.MinMember = 2
	for _, job := range slices.Sorted(maps.Keys(l.groups)) {
		for _, place := range []string{"0", "1"} {
			l.create(t, job, place, rapid.SampledFrom([]string{"", "", "n1", "n2", "n3"}).Draw(t, "runs on"))
		}
	}
	framework.RegisterPluginBuilder(gang.PluginName, gang.New)
	framework.RegisterPluginBuilder(PluginName, func(a framework.Arguments) framework.Plugin {
		l.plugin = New(a).(*plugin)
		return l.plugin
	})
	l.restart()
	l.open()
	return l
}

// create makes a pod at a place of a job, with a UID of its own; node is "" for
// one that waits.
func (l *life) create(t *rapid.T, job, place, node string) {
	cards := rapid.IntRange(0, 3).Draw(t, "cards")
	names := rapid.SampledFrom([]string{"A", "B", "A|B", "B|A", "", ""}).Draw(t, "card.name")
	pod := pods(1, job, fmt.Sprint(cards), names, node)[0]
	l.born++
	pod.Name, pod.UID = job+"-"+place, types.UID(fmt.Sprint(job, "-", place, "#", l.born))
	l.pods[pod.Name] = pod
	if l.ssn != nil {
		l.cache.AddPod(pod.DeepCopy())
	}
}

// restart is a new process: it knows nothing but what the API server tells.
func (l *life) restart() {
	process = newMemory()
	process.voice.recorder = &record.FakeRecorder{}
	l.binding, l.evicting, l.last = map[string]string{}, map[string]bool{}, map[types.UID]string{}
	l.evicted = make(evictor, len(l.pods))
	l.cache.Evictor = l.evicted
	l.cache.Jobs, l.cache.Nodes, l.cache.Queues = map[api.JobID]*api.JobInfo{}, map[string]*api.NodeInfo{}, map[api.QueueID]*api.QueueInfo{}
	l.cache.NodeList = nil
	for _, node := range slices.Sorted(maps.Keys(l.models)) {
		l.tellNode(node)
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

// tellNode hands the cache a node of five cards as it is labelled now.
func (l *life) tellNode(name string) {
	node := cardNode(name, l.models[name])
	if l.models[name] == "" {
		node.Labels = nil
	}
	node.Status.Allocatable[gpu] = resource.MustParse("5")
	if err := l.cache.AddOrUpdateNode(node); err != nil {
		panic(err)
	}
}

// requota writes another quota to a queue.
func (l *life) requota(t *rapid.T, name string) {
	quota := quotas[rapid.IntRange(0, len(quotas)-1).Draw(t, "quota of "+name)]
	old, queue := l.queues[name], l.queues[name].DeepCopy()
	queue.Annotations["volcano.sh/card.quota"] = quota.text
	queue.ResourceVersion += "x" // Volcano looks whether it changed
	l.queues[name], l.quotas[name] = queue, quota.allows
	if l.ssn != nil {
		l.cache.UpdateQueueV1beta1(old, queue)
	}
}

// open opens the next session.
func (l *life) open() {
	l.ssn = framework.OpenSession(l.cache, l.tiers, nil)
	l.undecided, l.saved, l.replayed, l.leaving = nil, nil, false, map[types.UID]bool{}
	for name := range l.evicting {
		l.leaving[l.pods[name].UID] = true
	}
}

// next closes the session, lets the world change and opens another one.
func (l *life) next(t *rapid.T) {
	framework.CloseSession(l.ssn)
	l.answer(t)
	switch rapid.IntRange(0, 7).Draw(t, "what changes") {
	case 1:
		node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
		l.models[node] = rapid.SampledFrom([]string{"A", "B", ""}).Draw(t, "model")
		l.tellNode(node)
	case 2:
		l.requota(t, rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue"))
	case 3:
		l.models = map[string]string{"n1": "A", "n2": "B", "n3": "A"}
		l.restart()
	}
	l.open()
}

// podsChange lets the owners of pods delete them and make new ones, and pods
// end, at any time.
func (l *life) podsChange(t *rapid.T) {
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
		now := metav1.Now()
		delete(l.evicting, name)
		l.update(name, func(p *corev1.Pod) { p.DeletionTimestamp = &now })
	}
}

// answer lets the API server answer, late or never, what it was asked.
func (l *life) answer(t *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		pod, node := l.pods[name], l.binding[name]
		answer := rapid.IntRange(0, 3).Draw(t, "answer about "+name)
		switch {
		case answer == 0: // none yet
		case node != "" && answer == 1: // refused; Volcano fetches the pod again
			delete(l.binding, name)
			l.fetch(name)
		case node != "":
			delete(l.binding, name)
			l.update(name, func(p *corev1.Pod) { p.Spec.NodeName = node })
		case l.evicting[name] && answer == 1:
			delete(l.evicting, name)
			l.fetch(name)
		case l.evicting[name]:
			delete(l.evicting, name)
			now := metav1.Now()
			l.update(name, func(p *corev1.Pod) { p.DeletionTimestamp = &now })
		case pod.DeletionTimestamp != nil:
			l.remove(name)
		case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending:
			l.update(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		}
	}
}

// update changes a pod and tells the cache as an informer does.
func (l *life) update(name string, change func(*corev1.Pod)) {
	old := l.pods[name].DeepCopy()
	change(l.pods[name])
	l.cache.UpdatePod(old, l.pods[name].DeepCopy())
}

// fetch is what Volcano does after a bind or an eviction that failed.
func (l *life) fetch(name string) {
	l.cache.DeletePod(l.pods[name])
	l.cache.AddPod(l.pods[name].DeepCopy())
}

func (l *life) remove(name string) {
	l.cache.DeletePod(l.pods[name])
	delete(l.pods, name)
	delete(l.binding, name)
	delete(l.evicting, name)
}

// tasks lists the tasks of the session in one of the states, by UID.
func (l *life) tasks(states ...api.TaskStatus) []*api.TaskInfo {
	var found []*api.TaskInfo
	for _, job := range l.ssn.Jobs {
		for _, task := range job.Tasks {
			if len(states) == 0 || slices.Contains(states, task.Status) {
				found = append(found, task)
			}
		}
	}
	slices.SortFunc(found, func(a, b *api.TaskInfo) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return found
}

// asked is what a pod says: how many cards, and which models may be its.
func asked(pod *corev1.Pod) (cards int, names string) {
	quantity := pod.Spec.Containers[0].Resources.Requests[gpu]
	return int(quantity.Value()), pod.Annotations["volcano.sh/card.name"]
}

// holds is the rule of what counts: pods that run or are on their way to a node,
// those that this session promised one, and those that an earlier session
// evicts while the API server has not deleted them.
func (l *life) holds(task *api.TaskInfo) bool {
	switch task.Status {
	case api.Allocated, api.Pipelined, api.Binding, api.Bound, api.Running:
		return true
	case api.Releasing:
		return l.leaving[task.Pod.UID]
	}
	return false
}

// ends is the rule of what ends: pods that are being deleted on their node and
// have not finished, whatever Volcano calls them, and those that this session
// evicted.
func (l *life) ends(task *api.TaskInfo) bool {
	return task.Status == api.Releasing && !l.holds(task) && task.NodeName != "" && task.Pod.Status.Phase != corev1.PodSucceeded
}

// queueOf is the queue that pays for a task.
func (l *life) queueOf(task *api.TaskInfo) string {
	return l.groups[strings.TrimPrefix(string(task.Job), "ns/")].Spec.Queue
}

// modelOf is the card a task is on: its node's, or while that has no label the
// one it was charged last.
func (l *life) modelOf(task *api.TaskInfo) string {
	if model := l.models[task.NodeName]; model != "" {
		l.last[task.Pod.UID] = model
	}
	return l.last[task.Pod.UID]
}

// used counts what every queue uses of every model, and what of it ends.
func (l *life) used() map[use]int {
	sums := map[use]int{}
	for _, task := range l.tasks() {
		if holds, ends := l.holds(task), l.ends(task); holds || ends {
			cards, _ := asked(task.Pod)
			sums[use{l.queueOf(task), l.modelOf(task), ends}] += cards
		}
	}
	return sums
}

// use is a queue and a model, of what is used or what ends.
type use struct {
	queue, model string
	ends         bool
}

// mayUse tells whether a task may be placed on a node while so much is in use.
func (l *life) mayUse(task *api.TaskInfo, node string, used map[use]int) bool {
	cards, names := asked(task.Pod)
	queue, model := l.queueOf(task), l.models[node]
	if l.quotas[queue] == nil || cards == 0 {
		return l.quotas[queue] != nil
	}
	return model != "" && (names == "" || strings.Contains(names, model)) &&
		used[use{queue, model, false}]+cards <= l.quotas[queue][model] && used[use{queue, model, true}] <= l.quotas[queue][model]
}

// check compares the books with the recount.
func (l *life) check(t *rapid.T) {
	pods, used := map[string]int{}, l.used()
	for _, task := range l.tasks() {
		charge := l.plugin.account.Charged(string(task.UID))
		if l.holds(task) != (charge != nil) {
			t.Fatalf("%s is %s on %q, evicted before: %v, and is charged %+v", task.UID, task.Status, task.NodeName, l.leaving[task.Pod.UID], charge)
		}
		if charge != nil {
			pods[l.queueOf(task)]++
		}
	}
	for queue := range l.queues {
		for _, model := range []string{"A", "B"} {
			if got, want := int(l.plugin.account.Used(queue, card.Name(model))), used[use{queue, model, false}]; got != want {
				t.Fatalf("queue %s uses %d of %s, a recount says %d", queue, got, model, want)
			}
			if got, _ := l.plugin.account.Ending(queue, card.Name(model)); int(got) != used[use{queue, model, true}] {
				t.Fatalf("%d of %s of queue %s end, a recount says %d", got, model, queue, used[use{queue, model, true}])
			}
		}
		if milliCPU, memory := l.plugin.account.UsedCPUMemory(queue); milliCPU != int64(pods[queue])*1000 || memory != int64(pods[queue])<<30 {
			t.Fatalf("queue %s uses %dm CPU and %d bytes for %d pods of 1 CPU and 1Gi", queue, milliCPU, memory, pods[queue])
		}
	}
}

// grewWithinQuota checks that what is in use grew only where it is within the
// quota and no more than that ends, since so much was in use.
func (l *life) grewWithinQuota(t *rapid.T, before map[use]int) {
	after := l.used()
	for u, used := range after {
		if u.ends || used <= before[u] {
			continue
		}
		if ending := after[use{u.queue, u.model, true}]; ending > l.quotas[u.queue][u.model] {
			t.Fatalf("queue %s uses %d of %s after %d while %d end, its quota is %d", u.queue, used, u.model, before[u], ending, l.quotas[u.queue][u.model])
		}
		if used > l.quotas[u.queue][u.model] {
			t.Fatalf("queue %s uses %d of %s after %d, its quota is %d", u.queue, used, u.model, before[u], l.quotas[u.queue][u.model])
		}
	}
}
