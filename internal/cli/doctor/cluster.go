package doctor

import (
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
)

// Cluster is everything that the rules look at. What the user may not read is nil, and Gaps names it.
type Cluster struct {
	// Now is the clock of the user's machine.
	Now time.Time
	// ClientVersion is the version of kubectl cardquota.
	ClientVersion string
	// Namespace is where cardquota-manager and cardquota-scheduler run.
	Namespace string
	// Gaps say what could not be read, and why.
	Gaps []string

	// MissingKinds are the kinds of Cardquota and Volcano that the API server does not have.
	MissingKinds []string
	// Definitions are the CustomResourceDefinitions of Cardquota.
	Definitions []*apiextensionsv1.CustomResourceDefinition
	// Operators and Schedulers are the Deployments of both programs. They count only if
	// HasDeployments.
	Operators, Schedulers []*appsv1.Deployment
	HasDeployments        bool
	// OperatorLease is the Lease of an operator without a Deployment, nil if there is none. If
	// HidesOperatorLease, the user may not read it.
	OperatorLease      *coordinationv1.Lease
	HidesOperatorLease bool
	// OtherSchedulers are running pods with the label of Volcano's own scheduler.
	OtherSchedulers []*corev1.Pod
	// Validating and Mutating are the webhook configurations of the operator. OLM makes one for each
	// webhook. They count only if HasWebhooks.
	Validating  []*admissionregistrationv1.ValidatingWebhookConfiguration
	Mutating    []*admissionregistrationv1.MutatingWebhookConfiguration
	HasWebhooks bool

	// Policy is the ServiceTypePolicy, nil if there is none. It counts only if HasPolicy.
	Policy    *v1alpha1.ServiceTypePolicy
	HasPolicy bool
	// Lease is the scheduler's heartbeat, nil if there is none. It counts only if HasLease.
	Lease    *coordinationv1.Lease
	HasLease bool

	// Quotas are all CardQuotas. They count only if HasQuotas.
	Quotas    []*v1alpha1.CardQuota
	HasQuotas bool
	// Planned are the CardQuotas of --filename in their order, and Files the file of each by name.
	Planned []*v1alpha1.CardQuota
	Files   map[string]string
	// Queues are all Queues.
	Queues []*v1beta1.Queue
	// Inventory is the status of the CardInventory, or what it would be. nil is unknown.
	Inventory *v1alpha1.CardInventoryStatus

	// Pods, PodGroups, Nodes and the results of their count are empty unless HasUsage.
	Pods      []*corev1.Pod
	PodGroups []*v1beta1.PodGroup
	Nodes     []*corev1.Node
	Cards     *card.Inventory
	Usage     map[string]queueusage.Usage
	Charges   map[types.UID]quota.Charge
	HasUsage  bool
	// Namespaces are all namespaces, none if the user may not list them.
	Namespaces []*corev1.Namespace

	// plan is what the files lead to. Diagnose makes it.
	plan *plan
}

// isInstalled reports whether a part of Cardquota is in the cluster: a program, or its kinds.
func (c *Cluster) isInstalled() bool {
	return len(c.Operators) > 0 || c.hasLeadingOperator() || len(c.Schedulers) > 0 || !c.isMissing("CardQuota")
}

// hasLeadingOperator reports whether an operator without a Deployment has its Lease.
func (c *Cluster) hasLeadingOperator() bool {
	if c.OperatorLease == nil {
		return false
	}
	_, leads := enforcement.ReadOperatorLease(c.OperatorLease, c.Now)
	return leads
}

// lacksVolcano reports whether neither of the kinds of Volcano that doctor reads is in the cluster. If one is, the
// installation of Volcano is broken.
func (c *Cluster) lacksVolcano() bool { return c.isMissing("Queue") && c.isMissing("PodGroup") }

func (c *Cluster) isMissing(kind string) bool { return slices.Contains(c.MissingKinds, kind) }

// policyCondition returns a condition of the policy, an empty one without it.
func (c *Cluster) policyCondition(kind string) metav1.Condition {
	if c.Policy == nil {
		return metav1.Condition{}
	}
	return conditions.Get(c.Policy.Status.Conditions, kind)
}

// isEnforced reports whether the operator says that quotas are enforced.
func (c *Cluster) isEnforced() bool {
	return c.policyCondition(v1alpha1.ConditionEnforced).Status == metav1.ConditionTrue
}

// isObserving reports whether the policy only observes, so that our scheduler is not needed.
func (c *Cluster) isObserving() bool {
	return c.policyCondition(v1alpha1.ConditionEnforced).Reason == v1alpha1.ReasonObserving
}

// inventory returns the status of the CardInventory, an empty one if it is unknown.
func (c *Cluster) inventory() v1alpha1.CardInventoryStatus {
	return ptr.Deref(c.Inventory, v1alpha1.CardInventoryStatus{})
}

// programs returns the Deployments of both programs.
func (c *Cluster) programs() []*appsv1.Deployment { return slices.Concat(c.Operators, c.Schedulers) }

// spec returns the policy with all defaults.
func (c *Cluster) spec() v1alpha1.ServiceTypePolicySpec {
	if c.Policy == nil {
		return policy.Effective(v1alpha1.ServiceTypePolicySpec{})
	}
	return policy.EffectivePolicy(c.Policy)
}

// report returns the last report of the scheduler, and whether it is readable and fresh.
func (c *Cluster) report() (enforcement.Report, bool) {
	if c.Lease == nil {
		return enforcement.Report{}, false
	}
	report, err := enforcement.ReadReport(c.Lease)
	return report, err == nil && report.Fresh(c.Now)
}
