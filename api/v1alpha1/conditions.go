package v1alpha1

// Condition types. True is good for every one of them.
const (
	// Of a CardQuota.
	ConditionQueueSynced        = "QueueSynced"        // The Queue has the fields of this CardQuota.
	ConditionWithinQuota        = "WithinQuota"        // The queue's pods use no card beyond its quota.
	ConditionInventorySatisfied = "InventorySatisfied" // Healthy nodes have the cards that all CardQuotas grant. Ready does not depend on it.
	ConditionCardsKnown         = "CardsKnown"         // Some node has each card of the spec. Ready does not depend on it.

	// ConditionLocalViewsComplete: every namespace that namespaceSelector selects has a LocalCardQuota.
	// Present only when False.
	ConditionLocalViewsComplete = "LocalViewsComplete"

	// ConditionHierarchyValid: the parents up to the top level exist, and what they grant covers what this
	// CardQuota says. Present only while the ServiceTypePolicy says queueHierarchy: Tree.
	ConditionHierarchyValid = "HierarchyValid"

	// Of a ServiceTypePolicy.
	ConditionConfigSynced = "ConfigSynced" // The scheduler's ConfigMap has what this policy says; the message names base and replacements.
	// ConditionBypassGuarded: the API server refuses pods with cards that bypass the scheduler, and
	// changes that would move or end the charge of assigned pods.
	ConditionBypassGuarded = "BypassGuarded"

	// Of both kinds.
	//
	// ConditionEnforced: the scheduler's heartbeat proves that quotas are enforced by the rendered
	// configuration, and no pod uses a card that it got without the scheduler. Without proof it is False.
	ConditionEnforced    = "Enforced"
	ConditionReady       = "Ready"       // The object is synced and, with a ServiceTypePolicy, enforced.
	ConditionFieldsKnown = "FieldsKnown" // Present only when False: the spec was written with unknown fields.
)

// Reasons of QueueSynced. Ready repeats them when the Queue is not synced.
const (
	ReasonSynced = "Synced" // True: the Queue has every field of this CardQuota.
	// ReasonForeignChangeReplaced: the operator replaced fields that another field manager had written;
	// the message names it and the time. True until the spec changes. Repeated changes are replaced
	// once a second. Its event comes again for another manager or value, or after five quiet minutes.
	ReasonForeignChangeReplaced    = "ForeignChangeReplaced"
	ReasonWeightConflict           = "WeightConflict"           // True: the quota is written, spec.weight is left to another field manager.
	ReasonQueueConflict            = "QueueConflict"            // False: an older CardQuota has the queue; the message names it.
	ReasonQueueRefused             = "QueueRefused"             // False: the API server or Volcano's webhook refused the write; the message says why.
	ReasonQueueReserved            = "QueueReserved"            // False: the queue belongs to Volcano and is never written.
	ReasonInvalidNamespaceSelector = "InvalidNamespaceSelector" // False: spec.namespaceSelector is invalid. The Queue is not changed.
	ReasonDraining                 = "Draining"                 // False: the CardQuota is being deleted; its Queue has no quota and is still used.

	// ReasonVolcanoMissing: False, also of Ready and Enforced of a ServiceTypePolicy. The API server lacks kinds of Volcano,
	// so there is no Queue; the message names them. The operator goes on by itself when they are served.
	ReasonVolcanoMissing = "VolcanoMissing"

	// In trees of quotas. ReasonParentNotFound, ReasonParentCycle and ReasonTooDeep are reasons here as
	// well: the Queue is not created or moved.
	ReasonParentConflict     = "ParentConflict"     // True: the quota is written, spec.parent is left to another field manager.
	ReasonPriorityCut        = "PriorityCut"        // True: the priority would reach the next service type's; the message has both numbers.
	ReasonTreeFieldsUnused   = "TreeFieldsUnused"   // True: the quota is written; parent, deserved or guarantee have no effect while queues are flat.
	ReasonWaitingForParent   = "WaitingForParent"   // False: the parent's Queue must exist or be raised first. The message has the numbers.
	ReasonWaitingForChildren = "WaitingForChildren" // False: the Queues of children must be lowered, moved or deleted first. The message names them.
)

// Reasons of HierarchyValid. The first three False ones close the queue and what is below it:
// nothing starts there. ReasonWorkInParent closes the queue itself. The others change the numbers in force, which the message names.
const (
	ReasonHierarchyValid       = "HierarchyValid"       // True: the path to the top level is complete, and every number is in force as written.
	ReasonParentNotFound       = "ParentNotFound"       // False: no CardQuota has the name that this one or an ancestor has in spec.parent.
	ReasonParentCycle          = "ParentCycle"          // False: the parents form a cycle; the message names them.
	ReasonTooDeep              = "TooDeep"              // False: the queue is more than 6 levels below the root.
	ReasonWorkInParent         = "WorkInParent"         // False: the CardQuota has children and also a service type or pods. New jobs belong in a child.
	ReasonCardNotInParent      = "CardNotInParent"      // False: the parent does not grant a card at all.
	ReasonQuotaAboveParent     = "QuotaAboveParent"     // False: the quota is larger than the parent's; the parent's is in force.
	ReasonDeservedAboveParent  = "DeservedAboveParent"  // False: deserved is larger than the parent's; the parent's is in force.
	ReasonGuaranteeAboveParent = "GuaranteeAboveParent" // False: guarantee is larger than the parent's; the parent's is in force.
	ReasonScaled               = "Scaled"               // False: children together deserve or are guaranteed more than their parent; all are scaled in proportion.
)

// Reasons of WithinQuota, InventorySatisfied and CardsKnown.
const (
	ReasonWithinQuota           = "WithinQuota"           // True: no card is used beyond the quota.
	ReasonOverQuota             = "OverQuota"             // False: more is used than the quota, for example after lowering it.
	ReasonNotCounted            = "NotCounted"            // Unknown, of all: not counted yet, or another CardQuota has the queue.
	ReasonInventorySatisfied    = "InventorySatisfied"    // True: there are as many healthy cards as all CardQuotas grant.
	ReasonOverAllocationAllowed = "OverAllocationAllowed" // True: CardQuotas grant more, and overAllocation is Allow. The message has the numbers.
	ReasonOverAllocated         = "OverAllocated"         // False: CardQuotas grant more. The message names cards, numbers and CardQuotas.
	ReasonCardsKnown            = "CardsKnown"            // True: some node has each card of the spec.
	ReasonUnknownCard           = "UnknownCard"           // False: no node has a card of the spec. The message names the nearest card, or what nodes have.
)

// Reasons of LocalViewsComplete.
const (
	ReasonTooManyNamespaces = "TooManyNamespaces" // False: only the first 50 namespaces by name have a LocalCardQuota.
)

// Reasons of several conditions while spec.mode of the ServiceTypePolicy is Observe, or comes into force.
const (
	// ReasonObserving: True of Ready and ConfigSynced, since the policy is followed. False of Enforced and
	// BypassGuarded, and Unknown of QueueSynced. The operator writes only its own objects.
	ReasonObserving = "Observing"
	// ReasonRestoring: False, of QueueSynced and Ready. The operator gives Queues back what they had before it
	// wrote them. The message names what is left.
	ReasonRestoring = "Restoring"
	// ReasonSchedulerRuns: False, of Ready. Cardquota's scheduler enforces quotas, so Observe is not in force yet.
	ReasonSchedulerRuns = "SchedulerRuns"
	// ReasonRightsMissing: False, of Ready, Enforced, QueueSynced and BypassGuarded. The operator lacks rights of the
	// ClusterRole cardquota-manager-enforce. The message names them, and the command that grants them.
	ReasonRightsMissing = "RightsMissing"
)

// Reasons of Ready, besides those of QueueSynced and Enforced, and of FieldsKnown.
const (
	ReasonReady         = "Ready"         // True: the Queue has this quota and is Open.
	ReasonQueueNotOpen  = "QueueNotOpen"  // False: the Queue is not Open and takes no workload.
	ReasonHeld          = "Held"          // False: the stop policy of the CardQuota or of an ancestor lets nothing new start.
	ReasonUnknownFields = "UnknownFields" // False: the message names fields of the spec that have no effect in this version.
)

// Reasons of ConfigSynced, besides ReasonSynced. All are False, and the configuration that was
// rendered last stays in force.
const (
	ReasonInvalidPolicy         = "InvalidPolicy"         // The spec contradicts itself.
	ReasonBaseMissing           = "BaseMissing"           // The base ConfigMap or its key does not exist.
	ReasonBaseInvalid           = "BaseInvalid"           // The base cannot be read, or no scheduler would load the result.
	ReasonHierarchyNotSupported = "HierarchyNotSupported" // The base has plugin capacity with enableHierarchy, and the policy has queueHierarchy: Flat.
	ReasonConfigRefused         = "ConfigRefused"         // A ConfigMap could not be read or written.
)

// Reasons of Enforced. All but the first two are False.
const (
	ReasonEnforced        = "Enforced"        // True: the heartbeat is fresh and names the rendered configuration.
	ReasonNoPolicy        = "NoPolicy"        // Unknown: without a ServiceTypePolicy the configuration is not known.
	ReasonNoHeartbeat     = "NoHeartbeat"     // No session ended within the last 20 seconds, and no other scheduler is known.
	ReasonStockScheduler  = "StockScheduler"  // Another scheduler is active instead, which does not know card quotas.
	ReasonSecondScheduler = "SecondScheduler" // Another program also binds pods of our scheduler's name.
	ReasonNotConfigured   = "NotConfigured"   // The ConfigMap does not have what the policy says.
	ReasonConfigNotLoaded = "ConfigNotLoaded" // The scheduler runs with another configuration than the rendered one.
	ReasonCardBypass      = "CardBypass"      // A pod bypassed the scheduler, by another schedulerName or its own nodeName, and uses a card.
)

// Reasons of BypassGuarded.
const (
	ReasonBypassDenied    = "Denied"          // True: such pods are refused; the message names the card resources.
	ReasonBypassWarned    = "OnlyWarned"      // False: schedulerBypassPolicy is Warn.
	ReasonBypassOff       = "SwitchedOff"     // False: schedulerBypassPolicy is Allow.
	ReasonNoCardResources = "NoCardResources" // Unknown: no node has offered a card yet.
	ReasonGuardRefused    = "GuardRefused"    // False: a ValidatingAdmissionPolicy could not be written; the message says why.
)

// Reasons of events that are no reasons of a condition: an event of a condition has its reason. Each
// is emitted once for each transition, as a Warning unless said otherwise.
const (
	EventQueueRecreated    = "QueueRecreated"      // On a CardQuota: the Queue did not exist any more and was created again.
	EventAdopted           = "Adopted"             // Normal, on a CardQuota: it took over an existing Queue and will not delete it.
	EventConfigSynced      = "ConfigSynced"        // Normal, on a ServiceTypePolicy: for the first time or again.
	EventConfigCorrected   = "ConfigCorrected"     // On a ServiceTypePolicy, each time another manager changed the scheduler's ConfigMap.
	EventPriorityClassKept = "PriorityClassKept"   // On a ServiceTypePolicy: an existing PriorityClass has another value and is kept.
	EventGuardRestored     = "GuardRestored"       // On a ServiceTypePolicy: a changed or deleted ValidatingAdmissionPolicy was restored.
	EventCardsReclaimed    = "CardsReclaimed"      // By the scheduler, on a job of which it reclaimed cards; the message names what it lost and to whom.
	EventForecast          = "EnforcementForecast" // Normal, on a CardQuota in mode Observe, at most once an hour: what mode Enforce would change.
	EventNotEnforced       = "NotEnforced"         // On both kinds: the message begins with the reason of condition Enforced.
)
