package schedulerconfig

// CapacityCard is the name under which the plugin that enforces card quotas is configured.
const CapacityCard = "capacity-card"

// HashArgument is the capacity-card argument that carries the hash of the text a session runs
// with. The scheduler's configuration gate writes it; a text that brings its own is refused,
// because a copied hash would vouch for a text that was never checked.
const HashArgument = "configHash"

// CardReclaim is the name under which the action that takes cards back in whole gangs is
// configured. No scheduler but the one built here has it.
const CardReclaim = "cardreclaim"

// Preempt is the name under which Volcano's action that evicts inside a queue is configured.
const Preempt = "preempt"

// BuiltIn is the configuration with which Volcano v1.14.1 works where there is none
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

// Known is what a scheduler binary can do: only such names may stand in its configuration.
type Known struct {
	// Actions are the names of the registered actions.
	Actions []string
	// Refused are actions that are registered and must not run, with the reason.
	RefusedActions map[string]string
	// Plugins are the names of the registered plugins, capacity-card among them.
	Plugins []string
	// Arguments judges the arguments of capacity-card, so that the plugin alone owns their
	// rules. It never sees HashArgument. Nil accepts any arguments.
	ValidateArguments func(map[string]any) error
}

// Shipped is what the scheduler that is built here can do, for programs that write its
// configuration and do not contain it. It has no rules for arguments: the scheduler applies
// them itself, and reports a text that breaks them.
func Shipped() Known {
	return Known{
		Actions:        append(VolcanoActions(), CardReclaim),
		RefusedActions: RefusedActions(),
		Plugins:        append(VolcanoPlugins(), CapacityCard),
	}
}

// RefusedActions are the actions of Volcano that evict without anybody being placed in return, with
// the reason: no rule of card quota could tell whether such an eviction is worth it.
func RefusedActions() map[string]string {
	return map[string]string{
		"shuffle": "it evicts pods of queues that are within their quota, for nobody in particular",
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

// Switches returns the on/off keys of a plugin entry as Volcano v1.14.1 spells them; some
// begin with enable, some with enabled, one with a capital letter.
func Switches() []string {
	return []string{
		"enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined",
		"enableTaskOrder", "enablePreemptable", "enableReclaimable", "enablePreemptive",
		"enableQueueOrder", "EnabledClusterOrder", "enablePredicate", "enableBestNode",
		"enableNodeOrder", "enableTargetJob", "enableReservedNodes", "enableJobEnqueued",
		"enabledVictim", "enableJobStarving", "enabledOverused", "enabledAllocatable",
		"enabledHyperNodeOrder", "enabledSubJobReady", "enabledSubJobPipelined",
		"enabledSubJobOrder", "enabledHyperNodeGradient",
	}
}

// mandatorySwitches are the capacity-card switches that must never be off: Volcano can skip the other
// gates, so these two alone keep a pod from exceeding its queue's quota.
var mandatorySwitches = []string{"enabledAllocatable", "enablePredicate"}

// incompatiblePlugins are the plugins that account for queues themselves. Beside capacity-card they
// would decide on the same queues by other numbers.
var incompatiblePlugins = []string{"capacity", "proportion"}
