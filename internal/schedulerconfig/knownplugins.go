package schedulerconfig

// CapacityCard is the name under which the plugin that enforces card quotas is configured.
const CapacityCard = "capacity-card"

// The arguments of capacity-card. The operator renders them, and the plugin parses them.
const (
	ArgumentUnlimitedCPUMemory = "cardUnlimitedCpuMemory"
	ArgumentOverCommitFactor   = "overCommitFactor"
	ArgumentMaxReservation     = "maxReservation"
	ArgumentUnmanagedQueues    = "unmanagedQueues"
	ArgumentNodeOrderWeight    = "nodeOrderWeight"
	ArgumentOwners             = "podOwnerReferenceToServiceType"
	ArgumentServiceTypes       = "serviceTypes"
	ArgumentVictimOrder        = "victimOrder"
	ArgumentReclaimResources   = "reclaimResources"
	ArgumentQueueHierarchy     = "queueHierarchy"
	ArgumentPriorityClasses    = "priorityClasses"
	ArgumentCards              = "cards"
)

// The keys of a service type in ArgumentServiceTypes.
const (
	ServiceTypeReclaimable    = "reclaimable"
	ServiceTypeReclaimFrom    = "reclaimFrom"
	ServiceTypeMinimumRuntime = "minimumRuntime"
)

// HashArgument is the capacity-card argument for the hash of the configuration that a session
// runs with. The scheduler's configuration loader writes it. A configuration that brings its
// own is refused: a copied hash would vouch for a text that was never checked.
const HashArgument = "configHash"

// CardReclaim is the configured name of the action that reclaims cards in whole gangs, and the reason that Volcano
// writes to the pods it evicts. Only the scheduler built here has it.
const CardReclaim = "cardreclaim"

// Preempt is the configured name of Volcano's action that evicts inside a queue, and the reason that is written to
// the pods it evicts.
const Preempt = "preempt"

// BuiltIn is the configuration that Volcano v1.14.1 uses when there is none
// (DefaultSchedulerConf in pkg/scheduler/util.go).
const BuiltIn = `
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
`

// Known has the names that a scheduler binary knows. Its configuration may contain no others.
type Known struct {
	// Actions are the names of the registered actions.
	Actions []string
	// RefusedActions are registered actions that must not run, with the reason.
	RefusedActions map[string]string
	// Plugins are the names of the registered plugins, capacity-card among them.
	Plugins []string
	// ValidateArguments checks the arguments of capacity-card, so that only the plugin has
	// rules for them. It never sees HashArgument. Nil accepts any arguments.
	ValidateArguments func(map[string]any) error
}

// Shipped returns what the scheduler built here knows, for programs that write its
// configuration without containing it. It accepts any arguments: the scheduler checks them
// itself, and reports a configuration that breaks their rules.
func Shipped() Known {
	return Known{
		Actions:        append(VolcanoActions(), CardReclaim),
		RefusedActions: RefusedActions(),
		Plugins:        append(VolcanoPlugins(), CapacityCard),
	}
}

// RefusedActions returns the actions of Volcano that evict without placing another pod, with
// the reason. No rule of card quota can say whether such an eviction is worth it.
func RefusedActions() map[string]string {
	return map[string]string{
		"shuffle": "it evicts pods of queues that are within their quota, and places no pod in return",
	}
}

// VolcanoActions returns the names of the actions that Volcano v1.14.1 registers
// (pkg/scheduler/actions/factory.go).
func VolcanoActions() []string {
	return []string{"enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle"}
}

// VolcanoPlugins returns the names of the plugins that Volcano v1.14.1 registers
// (pkg/scheduler/plugins/factory.go).
func VolcanoPlugins() []string {
	return []string{
		"binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang",
		"network-topology-aware", "nodegroup", "nodeorder", "numa-aware", "overcommit", "pdb",
		"predicates", "priority", "proportion", "rescheduling", "resource-strategy-fit",
		"resourcequota", "sla", "task-topology", "tdm", "usage",
	}
}

// Keys of the text's levels, from the yaml tags in Volcano's pkg/scheduler/conf.
var (
	documentKeys      = []string{"actions", "tiers", "configurations", "metrics"}
	tierKeys          = []string{"plugins"}
	configurationKeys = []string{"name", "arguments"}
	pluginKeys        = append([]string{"name", "arguments"}, Switches()...)
	// metricsKeys are the keys read by pkg/scheduler/cache and pkg/scheduler/metrics/source.
	metricsKeys = []string{
		"type", "address", "interval", "tls.insecureSkipVerify", "elasticsearch.index",
		"elasticsearch.hostnameFieldName", "elasticsearch.username", "elasticsearch.password",
	}
)

// Switches returns the on/off keys of a plugin entry as Volcano v1.14.1 spells them. Some start
// with enable, some with enabled, one with a capital letter.
func Switches() []string {
	return []string{
		"enableJobOrder", switchHierarchy, "enableJobReady", "enableJobPipelined",
		"enableTaskOrder", switchPreemptable, switchReclaimable, switchPreemptive,
		"enableQueueOrder", "EnabledClusterOrder", "enablePredicate", "enableBestNode",
		"enableNodeOrder", "enableTargetJob", "enableReservedNodes", "enableJobEnqueued",
		"enabledVictim", "enableJobStarving", "enabledOverused", "enabledAllocatable",
		"enabledHyperNodeOrder", "enabledSubJobReady", "enabledSubJobPipelined",
		"enabledSubJobOrder", "enabledHyperNodeGradient",
	}
}

// mandatorySwitches are the capacity-card switches that must stay on. Volcano can skip the
// other hooks, so only these two keep a pod within its quota.
var mandatorySwitches = []string{"enabledAllocatable", "enablePredicate"}

// incompatiblePlugins account for queues themselves. Beside capacity-card they would decide on
// the same queues by other numbers.
var incompatiblePlugins = []string{"capacity", "proportion"}
