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
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
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

// simulationLock allows one simulation at a time: plugins, actions and options of Volcano are global.
var simulationLock sync.Mutex

// init sets Volcano's options before any goroutine reads the flags of the program. Volcano's cache calls options.Default
// too, and its first call has two effects that would hurt later: it replaces options that were set before, and it adds
// Volcano's flags to those of the program, so that the help of kubectl cardquota would list them.
func init() {
	flags := pflag.CommandLine
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	options.Default()
	pflag.CommandLine = flags
}

// prepareMetrics sets metrics that Kubernetes' scheduler plugins dereference.
var prepareMetrics = sync.OnceFunc(metrics.InitKubeSchedulerRelatedMetrics)

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
	simulationLock.Lock()
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
			quiet = -1
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

// recoverFromVolcano turns a panic into the error of the function that defers it. Volcano panics on some states, and a
// snapshot may be inconsistent.
func recoverFromVolcano(err *error) {
	if found := recover(); found != nil {
		*err = fmt.Errorf("the scheduler cannot work with this snapshot: %v", found)
	}
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

// simulatedJobs are all jobs of a snapshot, and how they react to evictions.
type simulatedJobs struct {
	// volcano are Volcano jobs by namespace and name, kubernetes what Kubernetes Jobs do.
	volcano    map[string]*batch.Job
	kubernetes map[types.UID]workload.FailureLimit
}

// newSimulatedJobs returns the Volcano jobs and Kubernetes Jobs of a snapshot, and the Volcano jobs of new workloads.
func newSimulatedJobs(c *simulation.Cluster, workloads []simulation.Workload) simulatedJobs {
	all := simulatedJobs{volcano: map[string]*batch.Job{}, kubernetes: map[types.UID]workload.FailureLimit{}}
	for _, job := range c.Jobs {
		all.volcano[job.Namespace+"/"+job.Name] = workload.StripVCJob(job)
	}

	for _, w := range workloads {
		if w.Job != nil {
			all.volcano[w.Job.Namespace+"/"+w.Job.Name] = workload.StripVCJob(w.Job)
		}
	}

	for _, job := range c.KubernetesJobs {
		all.kubernetes[job.UID] = workload.FailureLimitFor(job)
	}

	return all
}

// OpenSession does nothing: the jobs are known.
func (simulatedJobs) OpenSession(*framework.Session) bool { return true }

// VCJob returns a Volcano job.
func (j simulatedJobs) VCJob(namespace, name string) (*batch.Job, bool) {
	job, known := j.volcano[namespace+"/"+name]
	return job, known
}

// EvictionPolicyFor returns how a Volcano job reacts to evictions.
func (j simulatedJobs) EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool) {
	job, known := j.VCJob(namespace, name)
	if !known {
		return workload.EvictionPolicy{}, false
	}
	return workload.EvictionPolicyFor(job), true
}

// FailureLimitFor returns how many pods of a Kubernetes Job may fail.
func (j simulatedJobs) FailureLimitFor(_, _ string, uid types.UID) (workload.FailureLimit, bool) {
	limit, known := j.kubernetes[uid]
	return limit, known
}
