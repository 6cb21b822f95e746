//go:build !windows

// Package simulator answers what the scheduler would do: it runs Volcano's scheduler with our plugin and
// actions on a snapshot, in this process. It has no client of a cluster and writes nothing.
//
// It knows what objects say. What the running scheduler remembers between sessions, such as cards that
// it keeps for a gang, it does not know. It looks at no volumes and no network topology.
package simulator

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/scheduler/actions"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/workload"
)

const (
	// maxSessions bounds a simulation.
	maxSessions = 40
	// quietSessions is after how many sessions without a change the cluster is settled. One is not enough: a job that was
	// enqueued in one session may be served in the next one only.
	quietSessions = 3
)

// New returns the functions of this package.
func New() simulation.Scheduler {
	return simulation.Scheduler{Simulate: Run, NodeRefusals: NodeRefusals}
}

// Run returns what the scheduler would do with new workloads in a cluster. configuration is that of the
// scheduler. now is the time by which lost work is counted. When ctx ends, Run returns after the action
// that runs: Volcano's actions take no context.
func Run(ctx context.Context, c *simulation.Cluster, workloads []simulation.Workload, configuration string, now time.Time) (simulation.Result, error) {
	_, result, err := run(ctx, c, workloads, configuration, now)
	return result, err
}

// run does what Run says, and also returns the simulated cluster after the last session.
func run(ctx context.Context, c *simulation.Cluster, workloads []simulation.Workload, configuration string, now time.Time) (simulated *simulatedCluster, result simulation.Result, err error) {
	simulationLock.Lock() // plugins, actions and options of Volcano are global
	defer simulationLock.Unlock()
	defer recoverFromVolcano(&err)

	known := schedulerconfig.Shipped()
	known.ValidateArguments = snapshot.ValidateArguments
	if err := schedulerconfig.Validate(configuration, known); err != nil {
		return nil, result, fmt.Errorf("the configuration of the scheduler: %w", err)
	}

	prepareMetrics()
	options.ServerOpts.SchedulerNames = c.Schedulers

	plugin := capacitycard.NewCache()
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, capacitycard.Builder(plugin))
	simulated = newSimulatedCluster(c, workloads, now)
	plugin.UseVCJobs(simulated.jobs)
	shared := actions.NewShared(plugin, simulated.jobs)
	// Simulated sessions follow each other at once, so a search must not rest between them.
	shared.Search.WithClock(func() time.Time { return now })
	framework.RegisterAction(actions.NewCardReclaim(shared))
	framework.RegisterAction(actions.NewPreempt(shared))
	framework.RegisterAction(actions.NewAllocate(shared))

	order, tiers, configurations, _, err := scheduler.UnmarshalSchedulerConf(configuration)
	if err != nil {
		return nil, result, fmt.Errorf("the configuration of the scheduler: %w", err)
	}

	// quiet counts the sessions since the last change.
	for quiet := 0; quiet < quietSessions && simulated.session < maxSessions; quiet++ {
		simulated.session++
		if simulated.runSession(ctx, order, tiers, configurations) {
			quiet = -1 // the loop makes it 0
		}

		result.IsSettled = quiet == quietSessions-1
		if err := ctx.Err(); err != nil {
			return nil, result, err
		}
	}

	simulated.fill(&result)
	if refusesClaims(tiers) {
		result.UncheckedClaims = simulated.placedWithClaims()
	}

	return simulated, result, nil
}

// refusesClaims reports whether a scheduler with this configuration refuses ResourceClaims for cards: one with the plugin
// capacity-card, unless its unmanagedQueues is Ignore. A simulation cannot check the claims, which a snapshot does not have.
func refusesClaims(tiers []conf.Tier) bool {
	for _, tier := range tiers {
		for _, plugin := range tier.Plugins {
			if plugin.Name == schedulerconfig.CapacityCard {
				return plugin.Arguments[schedulerconfig.ArgumentUnmanagedQueues] != string(v1alpha1.UnmanagedIgnore)
			}
		}
	}
	return false
}

// runSession runs one session, applies what it decided, and reports whether that changed anything. When
// ctx ends, it runs no further action.
func (s *simulatedCluster) runSession(ctx context.Context, order []framework.Action, tiers []conf.Tier, configurations []conf.Configuration) bool {
	// The plugin asks which actions run while the session opens.
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range order {
		conf.EnabledActionMap[action.Name()] = true
	}

	ssn := framework.OpenSession(s.cache, tiers, configurations)
	for _, action := range order {
		if ctx.Err() != nil {
			break
		}
		action.Initialize()
		action.Execute(ssn)
		action.UnInitialize()
	}

	// CloseSession drops the jobs of the session, so its evictions are read before.
	evictions := readEvictions(ssn)
	framework.CloseSession(ssn)

	// Each step runs, whatever the steps before it changed.
	changed := s.applyPodGroups()
	s.applyPodStatuses()
	changed = s.applyBindings() || changed
	changed = s.applyEvictions(evictions) || changed
	changed = s.endTerminating() || changed
	return s.createPods() || changed
}

// newSimulatedCluster returns a simulated cluster before the first session: Volcano's cache has the objects of a snapshot,
// without what a drain evicts, and then new workloads. No client of a cluster is used.
func newSimulatedCluster(c *simulation.Cluster, workloads []simulation.Workload, now time.Time) *simulatedCluster {
	s := &simulatedCluster{
		cluster: c, workloads: workloads, now: now, pods: map[types.UID]*corev1.Pod{}, cached: map[types.UID]*corev1.Pod{}, groups: map[types.NamespacedName]*v1beta1.PodGroup{},
		placed: map[types.UID]bool{}, restarted: map[types.UID]*victim{}, jobs: newSimulatedJobs(c, workloads),
		statusWrites: statusWrites{statuses: map[types.UID]corev1.PodStatus{}, written: map[types.NamespacedName]*v1beta1.PodGroup{}},
	}

	s.cache = cache.NewCustomMockSchedulerCache(c.Schedulers[0], noBinder{}, noEvictor{}, &s.statusWrites, nil, &record.FakeRecorder{})
	// Controllers have not created these pods yet. They compete with the new workloads.
	missing := c.MissingPods()
	s.cache.BindFlowChannel = make(chan *cache.BindContext, len(c.Pods)+countPods(missing)+countPods(workloads)) // never full
	for _, class := range c.PriorityClasses {
		s.cache.AddPriorityClass(class)
	}

	informers := s.cache.SharedInformerFactory()
	addAll(informers.Core().V1().Namespaces().Informer().GetIndexer(), c.Namespaces)
	addAll(informers.Core().V1().Nodes().Informer().GetIndexer(), c.Nodes)
	addAll(informers.Scheduling().V1().PriorityClasses().Informer().GetIndexer(), c.PriorityClasses)
	addAll(informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer(), c.Budgets)

	// Volcano's cache writes into its objects, so it gets copies.
	for _, node := range c.Nodes {
		_ = s.cache.AddOrUpdateNode(node.DeepCopy()) // always nil
	}

	for _, queue := range c.Queues {
		s.cache.AddQueueV1beta1(queue.DeepCopy())
		// Volcano writes the sum of all resources to the root queue. The client is a fake.
		_, _ = s.cache.VCClient().SchedulingV1beta1().Queues().Create(context.Background(), queue.DeepCopy(), metav1.CreateOptions{})
	}

	for _, group := range c.PodGroups {
		s.setPodGroup(group)
	}

	for _, pod := range c.Pods {
		// A scheduler's cache has no pods that wait for another scheduler.
		if !workload.IsFinished(pod) && (pod.Spec.NodeName != "" || slices.Contains(c.Schedulers, pod.Spec.SchedulerName)) {
			s.setPod(pod)
		}
	}

	s.applyDrain()
	s.addWorkloads(missing, now)
	for i, added := range workloads {
		// They are newer than what waits already, in the order of the files.
		s.addWorkloads([]simulation.Workload{added}, now.Add(time.Duration(i+1)*time.Millisecond))
	}

	return s
}

// countPods returns how many pods workloads have.
func countPods(workloads []simulation.Workload) (count int) {
	for _, w := range workloads {
		count += len(w.Pods)
	}
	return count
}

// addWorkloads adds the PodGroups of workloads, and those pods that are created at once. createPods creates
// the others when their turn comes. created is for PodGroups without a time of their creation.
func (s *simulatedCluster) addWorkloads(workloads []simulation.Workload, created time.Time) {
	for _, added := range workloads {
		if added.Group != nil && s.groups[nameOf(added.Group)] == nil {
			group := added.Group.DeepCopy()
			if group.CreationTimestamp.IsZero() {
				group.CreationTimestamp = metav1.NewTime(created)
			}
			s.setPodGroup(group)
		}

		switch {
		case added.WaitsForEnqueue:
			s.uncreated = append(s.uncreated, added)
		case added.OneByOne && len(added.Pods) > 1:
			s.setPod(added.Pods[0])
			s.uncreated = append(s.uncreated, added)
		default:
			for _, pod := range added.Pods {
				s.setPod(pod)
			}
		}
	}
}

// addAll adds objects to the store of an informer that does not run.
func addAll[Object metav1.Object](store clientcache.Indexer, objects []Object) {
	for _, object := range objects {
		_ = store.Add(object) // fails only for objects without a name
	}
}
