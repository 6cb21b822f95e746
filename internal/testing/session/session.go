// Package session describes a cluster as text and opens sessions of Volcano's scheduler on it,
// with Volcano's own cache, for tests.
package session

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
	"volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/testing/builder"
)

func init() {
	// Default adds Volcano's flags to those of the program, which a test may print.
	flags := pflag.CommandLine
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	options.Default()
	pflag.CommandLine = flags
	options.ServerOpts.SchedulerNames = []string{"volcano"}
	metrics.InitKubeSchedulerRelatedMetrics()
}

// Cluster has the objects of the API server, Volcano's cache of them, and the open session.
type Cluster struct {
	Nodes  []*corev1.Node
	Queues []*v1beta1.Queue
	Groups []*v1beta1.PodGroup
	Pods   []*corev1.Pod
	// Namespaces are the namespaces in the session's lister.
	Namespaces []*corev1.Namespace
	// Now is when the cluster was described.
	Now time.Time
	// ID is part of the UID of each object, so that no two clusters share one.
	ID int64

	// Cache is nil until Begin.
	Cache *cache.SchedulerCache
	// Evicted receives the names of pods that Volcano asks to evict.
	Evicted chan string
	// Ssn is the session that is open, nil when none is.
	Ssn *framework.Session
}

var clusters atomic.Int64

// New creates a cluster from a text; see Add.
func New(text string, changes ...func(*corev1.Pod)) *Cluster {
	c := &Cluster{ID: clusters.Add(1), Now: time.Now().Truncate(time.Second), Evicted: make(chan string, 1000)}
	return c.Add(text, changes...)
}

// PodsOf returns the pods of a text without adding them to the cluster.
func (c *Cluster) PodsOf(text string, changes ...func(*corev1.Pod)) []*corev1.Pod {
	return (&Cluster{ID: c.ID, Now: c.Now}).Add(text, changes...).Pods
}

// Objects returns copies of the nodes, queues, PodGroups and pods, in this order.
func (c *Cluster) Objects() []client.Object {
	return slices.Concat(copyObjects(c.Nodes), copyObjects(c.Queues), copyObjects(c.Groups), copyObjects(c.Pods))
}

func copyObjects[Object client.Object](objects []Object) []client.Object {
	copied := make([]client.Object, len(objects))
	for i, object := range objects {
		copied[i] = object.DeepCopyObject().(client.Object)
	}
	return copied
}

func (c *Cluster) uidFor(name string) types.UID { return types.UID(fmt.Sprintf("w%d-%s", c.ID, name)) }

// Evictor receives the names of pods that Volcano's cache asks the API server to evict.
type Evictor chan string

// Evict sends the name of the pod.
func (e Evictor) Evict(pod *corev1.Pod, _ string) error {
	e <- pod.Name
	return nil
}

// Begin adds the cluster to a new cache, with priority classes low and high. The cache has no
// workers: nothing happens in parallel to the test.
func (c *Cluster) Begin() {
	c.Cache = cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(1000), Evictor(c.Evicted), &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	for name, value := range map[string]int32{"low": 20000, "high": 80000} {
		c.Cache.AddPriorityClass(builder.PriorityClass(name, value))
	}

	for _, namespace := range c.Namespaces {
		if err := c.Cache.SharedInformerFactory().Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
			panic(err)
		}
	}

	for _, node := range c.Nodes {
		if err := c.Cache.AddOrUpdateNode(node); err != nil {
			panic(err)
		}
	}

	for _, queue := range c.Queues {
		c.Cache.AddQueueV1beta1(queue)
	}

	for _, group := range c.Groups {
		c.Cache.AddPodGroupV1beta1(group)
	}

	for _, pod := range c.Pods {
		c.Cache.AddPod(pod.DeepCopy())
	}
}

// Open opens the next session with a configuration that names plugins, tier by tier. arguments
// are the plugins' arguments by name.
func (c *Cluster) Open(tiers [][]string, arguments map[string]framework.Arguments, configurations ...conf.Configuration) *framework.Session {
	c.Close()
	if c.Cache == nil {
		c.Begin()
	}

	var configured []conf.Tier
	for _, names := range tiers {
		var tier conf.Tier
		for _, name := range names {
			option := conf.PluginOption{Name: name, Arguments: arguments[name]}
			if no := false; !slices.Contains([]string{"capacity-card", "conformance"}, name) {
				option.EnabledPreemptable = &no
				option.EnabledReclaimable = &no
			}
			if no := false; name == "gang" { // else preempt never looks inside a job that has its minimum
				option.EnabledJobStarving = &no
			}

			plugins.ApplyPluginConfDefaults(&option)
			tier.Plugins = append(tier.Plugins, option)
		}
		configured = append(configured, tier)
	}

	c.Ssn = framework.OpenSession(c.Cache, configured, configurations)
	return c.Ssn
}

// Close closes the session, if one is open.
func (c *Cluster) Close() {
	if c.Ssn != nil {
		framework.CloseSession(c.Ssn)
		c.Ssn = nil
	}
}

// Run runs actions in the session.
func (c *Cluster) Run(actions ...framework.Action) {
	conf.EnabledActionMap = map[string]bool{"enqueue": true, "allocate": true}
	for _, action := range actions {
		conf.EnabledActionMap[action.Name()] = true
	}
	for _, action := range actions {
		action.Initialize()
		action.Execute(c.Ssn)
		action.UnInitialize()
	}
}

// Update changes a pod and updates the cache as an informer does.
func (c *Cluster) Update(name string, change func(*corev1.Pod)) {
	pod := c.Pod(name)
	old := pod.DeepCopy()
	change(pod)
	c.Cache.UpdatePod(old, pod.DeepCopy())
}

// Pod returns a pod by its name.
func (c *Cluster) Pod(name string) *corev1.Pod {
	i := slices.IndexFunc(c.Pods, func(pod *corev1.Pod) bool { return pod.Name == name })
	if i < 0 {
		panic("no pod " + name)
	}
	return c.Pods[i]
}

// Job returns a job of the session by its name, or nil.
func (c *Cluster) Job(name string) *api.JobInfo {
	for _, job := range c.Ssn.Jobs {
		if job.Name == name {
			return job
		}
	}
	return nil
}

// Task returns a task of the session by the name of its pod, or nil.
func (c *Cluster) Task(name string) *api.TaskInfo {
	for _, job := range c.Ssn.Jobs {
		for _, task := range job.Tasks {
			if task.Name == name {
				return task
			}
		}
	}
	return nil
}

// In returns the tasks of the session in a status, by name.
func (c *Cluster) In(status api.TaskStatus) []*api.TaskInfo {
	var found []*api.TaskInfo
	for _, job := range c.Ssn.Jobs {
		for _, task := range job.TaskStatusIndex[status] {
			found = append(found, task)
		}
	}
	slices.SortFunc(found, func(a, b *api.TaskInfo) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// Names formats tasks as "a b c", with the node of those that the session placed.
func Names(tasks []*api.TaskInfo) string {
	names := make([]string, len(tasks))
	for i, task := range tasks {
		names[i] = task.Name
		if slices.Contains([]api.TaskStatus{api.Pipelined, api.Binding, api.Allocated}, task.Status) {
			names[i] += "@" + task.NodeName
		}
	}
	return strings.Join(names, " ")
}

// Outcome returns the tasks that are evicted, and those that are pipelined to a node.
func (c *Cluster) Outcome() (evicted, pipelined string) {
	return Names(c.In(api.Releasing)), Names(c.In(api.Pipelined))
}

// Spell expands "a*2 b@n*2" to "a-0 a-1 b-0@n b-1@n", sorted.
func Spell(short string) string {
	var words []string
	for _, word := range strings.Fields(short) {
		name, times, many := strings.Cut(word, "*")
		if !many {
			words = append(words, word)
			continue
		}

		name, node, placed := strings.Cut(name, "@")
		for i := range mustParseInt(times) {
			word := fmt.Sprintf("%s-%d", name, i)
			if placed {
				word += "@" + node
			}
			words = append(words, word)
		}
	}

	slices.Sort(words)
	return strings.Join(words, " ")
}
