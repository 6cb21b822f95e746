package action

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/capacitycard"
)

// begin hands the cluster to Volcano's cache.
func (w *world) begin() {
	w.cache = cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(1000), w.evicted, &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	options.ServerOpts.PercentageOfNodesToFind = 100 // as the program sets it
	for _, claim := range w.volumes {
		if err := w.cache.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(claim); err != nil {
			panic(err)
		}
	}
	for _, n := range w.nodes {
		if err := w.cache.AddOrUpdateNode(n); err != nil {
			panic(err)
		}
	}
	for _, class := range []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 80000}, {ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: 20000}} {
		w.cache.AddPriorityClass(class)
	}
	for _, q := range w.queues {
		w.cache.AddQueueV1beta1(q)
	}
	for _, g := range w.groups {
		w.cache.AddPodGroupV1beta1(g)
	}
	for _, p := range w.pods {
		w.cache.AddPod(p.DeepCopy())
	}
	w.action = New(w.habits)
	servers = append(servers, w.cache.Client())
}

// open opens a session with the plugins of the shipped configuration.
func (w *world) open() *framework.Session {
	if w.cache == nil {
		w.begin()
	}
	tiers := []conf.Tier{{}, {}}
	for i, names := range [][]string{{"priority", "gang", "conformance", capacitycard.PluginName}, {"predicates", "nodeorder", "binpack"}} {
		for _, name := range names {
			option, no := conf.PluginOption{Name: name}, false
			if name == capacitycard.PluginName {
				option.Arguments = w.args
			} else {
				option.EnabledPreemptable, option.EnabledReclaimable = &no, &no
			}
			plugins.ApplyPluginConfDefaults(&option)
			tiers[i].Plugins = append(tiers[i].Plugins, option)
		}
	}
	w.ssn = framework.OpenSession(w.cache, tiers, nil)
	return w.ssn
}

// run opens a session and lets allocate and the action have it. It stays open
// until the test ends or another one is opened.
func (w *world) run(t *testing.T) *world {
	t.Helper()
	if w.ssn != nil {
		w.close()
	}
	w.open()
	t.Cleanup(w.close)
	w.execute()
	return w
}

func (w *world) execute() {
	conf.EnabledActionMap = map[string]bool{Name: true, "enqueue": true, "allocate": true}
	if !w.alone {
		first := allocate.New()
		first.Initialize()
		first.Execute(w.ssn)
		first.UnInitialize()
	}
	w.action.Execute(w.ssn)
}

func (w *world) close() {
	if w.ssn != nil {
		framework.CloseSession(w.ssn)
		w.ssn = nil
	}
}

// in lists the pods that the session has in a status, with the node of those
// that were placed.
func (w *world) in(status api.TaskStatus) []string {
	var found []string
	for _, job := range w.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[status] {
			name := task.Name
			if status == api.Pipelined || status == api.Binding || status == api.Allocated {
				name += "@" + task.NodeName
			}
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// expect compares who goes and who is promised a node, each written "a b c"; for
// whole jobs "a*3" stands for "a-0 a-1 a-2".
func (w *world) expect(t *testing.T, goes, promised string) {
	t.Helper()
	if got := strings.Join(w.in(api.Releasing), " "); got != spell(goes) {
		t.Errorf("%q go, want %q", got, spell(goes))
	}
	if got := strings.Join(w.in(api.Pipelined), " "); got != spell(promised) {
		t.Errorf("promised %q, want %q", got, spell(promised))
	}
}

// spell writes "a*2 b@n*2" out as "a-0 a-1 b-0@n b-1@n".
func spell(short string) string {
	var words []string
	for _, word := range strings.Fields(short) {
		name, number, many := strings.Cut(word, "*")
		if !many {
			words = append(words, word)
			continue
		}
		var n int
		if _, err := fmt.Sscan(number, &n); err != nil {
			panic(err)
		}
		name, node, placed := strings.Cut(name, "@")
		for i := range n {
			if placed {
				words = append(words, fmt.Sprintf("%s-%d@%s", name, i, node))
			} else {
				words = append(words, fmt.Sprintf("%s-%d", name, i))
			}
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// deleted lists the pods that Volcano asked the API server to delete, once as
// many have arrived.
func (w *world) deleted(t *testing.T, want int) []string {
	t.Helper()
	var names []string
	for len(names) < want {
		select {
		case name := <-w.evicted:
			names = append(names, name)
		case <-time.After(10 * time.Second):
			t.Fatalf("only %q are deleted, want %d pods", names, want)
		}
	}
	select {
	case name := <-w.evicted:
		t.Errorf("%s is deleted as well", name)
	case <-time.After(20 * time.Millisecond):
	}
	slices.Sort(names)
	return names
}

// state writes down everything that an attempt could change.
func state(ssn *framework.Session) string {
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
	if tide, ok := capacitycard.TideOf(ssn); ok {
		for _, q := range ssn.Queues {
			lines = append(lines, fmt.Sprintf("%s may take %d of A, %d of B", q.Name, tide.Room(q.UID, "A"), tide.Room(q.UID, "B")))
		}
		for _, job := range ssn.Jobs {
			for _, task := range job.Tasks {
				lines = append(lines, fmt.Sprintf("%s is charged %d", task.UID, tide.Cards(task)))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func join(words []string) string { return strings.Join(words, " ") }
