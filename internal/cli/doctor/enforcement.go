package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

const (
	policyObject  = "servicetypepolicy/" + v1alpha1.PolicyName
	policyCommand = "kubectl describe stp " + v1alpha1.PolicyName
)

// findMissingPolicy finds that there is no ServiceTypePolicy, although its kind exists and the user may read it.
func findMissingPolicy(c *Cluster) []Finding {
	if !c.HasPolicy || c.Policy != nil || c.isMissing("ServiceTypePolicy") || !c.isInstalled() {
		return nil
	}
	return []Finding{{Severity: Error, Object: policyObject, Command: "kubectl apply -f config/samples/adopt.yaml",
		Problem: "It does not exist. Without it the scheduler has no configuration, and no quota is enforced. This one only observes; docs/adopt.md has the steps after it."}}
}

// findUnsyncedConfiguration finds a condition ConfigSynced that is not True.
func findUnsyncedConfiguration(c *Cluster) []Finding {
	condition := c.policyCondition(v1alpha1.ConditionConfigSynced)
	if condition.Status == "" || condition.Status == metav1.ConditionTrue {
		return nil
	}
	return []Finding{{Severity: Error, Object: policyObject, Command: policyCommand,
		Problem: fmt.Sprintf("The scheduler's configuration does not follow the policy (%s): %s", condition.Reason, condition.Message)}}
}

// findMissingEnforcement finds a condition Enforced that is not True.
func findMissingEnforcement(c *Cluster) []Finding {
	condition := c.policyCondition(v1alpha1.ConditionEnforced)
	switch {
	case c.Policy == nil || c.isEnforced():
		return nil
	case condition.Status == "":
		return []Finding{{Severity: Error, Object: policyObject, Command: "kubectl -n " + c.Namespace + " logs deployment/cardquota-manager --tail=50",
			Problem: "The operator has not seen it yet, so nothing is known about the enforcement of quotas."}}
	}

	finding := Finding{Severity: Error, Object: policyObject, Command: policyCommand,
		Problem: fmt.Sprintf("Quotas are not proven to be enforced (%s): %s", condition.Reason, condition.Message)}
	switch condition.Reason {
	case v1alpha1.ReasonObserving: // the administrator wants that
		finding = Finding{Severity: Info, Object: policyObject, Command: policyCommand, Problem: "The policy observes: " + condition.Message}
	case v1alpha1.ReasonRightsMissing:
		finding.Command = policy.BindCommand(c.Namespace)
	case v1alpha1.ReasonStockScheduler:
		finding = c.addHandover(finding)
	case v1alpha1.ReasonSecondScheduler:
		finding.Command = "kubectl get pods -A -l app=volcano-scheduler"
	case v1alpha1.ReasonNoHeartbeat, v1alpha1.ReasonConfigNotLoaded:
		finding.Command = "kubectl -n " + c.Namespace + " logs deployment/cardquota-scheduler --tail=50"
	}

	return []Finding{finding}
}

// findUnfinishedMode finds a policy whose spec.mode is Observe, and that waits for the end of our scheduler, or has not
// restored everything. It also finds one that enforces, and whose operator lost rights.
func findUnfinishedMode(c *Cluster) []Finding {
	ready := c.policyCondition(v1alpha1.ConditionReady)
	finding := Finding{Severity: Warning, Object: policyObject, Command: policyCommand, Problem: fmt.Sprintf("It is not ready (%s): %s", ready.Reason, ready.Message)}

	switch ready.Reason {
	case v1alpha1.ReasonSchedulerRuns, v1alpha1.ReasonRestoring:
		return []Finding{finding}
	case v1alpha1.ReasonRightsMissing:
		if c.policyCondition(v1alpha1.ConditionEnforced).Reason == ready.Reason { // NotEnforced says it
			return nil
		}
		finding.Severity = Error
		finding.Command = policy.BindCommand(c.Namespace)
		return []Finding{finding}
	default:
		return nil
	}
}

// addHandover adds to a finding how our scheduler takes over from Volcano's. The command stops
// Volcano's, so it appears only if ours can schedule.
func (c *Cluster) addHandover(finding Finding) Finding {
	if !c.canTakeOver() {
		finding.Command = ""
		finding.Problem = strings.TrimSuffix(finding.Problem, ".") + ". A ServiceTypePolicy with ConfigSynced and ready replicas of our scheduler come before its end: docs/adopt.md has the steps."
		return finding
	}

	// Its label finds the Deployment where no pod shows its name.
	namespace := c.Namespace
	deployment := "-l " + workload.StockSchedulerLabel + "=" + workload.StockSchedulerApp
	if len(c.OtherSchedulers) > 0 {
		namespace = c.OtherSchedulers[0].Namespace
		if name := deploymentOf(c.OtherSchedulers[0]); name != "" {
			deployment = name
		}
	}

	finding.Command = "kubectl -n " + namespace + " scale deployment " + deployment + " --replicas=0"
	return finding
}

// canTakeOver reports whether our scheduler can schedule: a replica is ready, and the operator has
// written the configuration of the policy. A replica without a configuration is ready as well.
func (c *Cluster) canTakeOver() bool {
	synced := c.policyCondition(v1alpha1.ConditionConfigSynced)
	return synced.Status == metav1.ConditionTrue && synced.ObservedGeneration == c.Policy.Generation &&
		slices.ContainsFunc(c.Schedulers, func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas > 0 })
}

// deploymentOf returns the name of the Deployment of a pod: that of its ReplicaSet without the hash at its end. It is ""
// if no ReplicaSet of that form owns the pod.
func deploymentOf(pod *corev1.Pod) string {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "ReplicaSet" && hash != "" {
		if name, isNamed := strings.CutSuffix(owner.Name, "-"+hash); isNamed {
			return name
		}
	}
	return ""
}

// findUnguardedBypass finds a condition BypassGuarded that is not True. Where the user has chosen that, the command
// changes schedulerBypassPolicy, unless it is too early.
func findUnguardedBypass(c *Cluster) []Finding {
	condition := c.policyCondition(v1alpha1.ConditionBypassGuarded)
	if condition.Status == "" || condition.Status == metav1.ConditionTrue || condition.Reason == v1alpha1.ReasonObserving {
		return nil
	}

	finding := Finding{Severity: Warning, Object: policyObject, Command: policyCommand,
		Problem: fmt.Sprintf("The API server does not refuse pods that get cards without the scheduler (%s): %s", condition.Reason, condition.Message)}
	switch isChosen := condition.Reason == v1alpha1.ReasonBypassWarned || condition.Reason == v1alpha1.ReasonBypassOff; {
	// Deny would refuse pods that still run without the scheduler, once they are created again.
	case isChosen && c.isAdopting():
		finding.Severity = Info
		finding.Problem = strings.TrimSuffix(finding.Problem, ".") + ". Deny comes last: docs/adopt.md has the steps before it."
	case isChosen:
		finding.Command = `kubectl patch stp default --type=merge -p '{"spec":{"admission":{"schedulerBypassPolicy":"Deny"}}}'`
	}

	return []Finding{finding}
}

// isAdopting reports whether schedulerBypassPolicy Deny would come too early: queues without a quota
// may still use cards, or pods that would be refused use some.
func (c *Cluster) isAdopting() bool {
	return c.spec().UnmanagedQueues == v1alpha1.UnmanagedIgnore || c.policyCondition(v1alpha1.ConditionEnforced).Reason == v1alpha1.ReasonCardBypass || len(findBypasses(c)) > 0
}

// findStaleHeartbeat finds a heartbeat that ended although condition Enforced is True: the operator, which would change
// it, does not run. It finds nothing if the user may not read the heartbeat.
func findStaleHeartbeat(c *Cluster) []Finding {
	if !c.HasLease || !c.isEnforced() {
		return nil
	}

	finding := Finding{Severity: Error, Object: "lease/" + c.Namespace + "/" + enforcement.LeaseName,
		Command: "kubectl -n " + c.Namespace + " get pods -l 'app.kubernetes.io/name in (cardquota-manager,cardquota-scheduler)'"}
	if c.Lease == nil {
		finding.Problem = "It does not exist: no scheduler sends a heartbeat, although the policy says Enforced. The status is old, because the operator does not run."
		return []Finding{finding}
	}

	report, err := enforcement.ReadReport(c.Lease)
	switch {
	case err != nil:
		finding.Problem = err.Error()
	case !report.Fresh(c.Now):
		finding.Problem = fmt.Sprintf("The last heartbeat is of %s, although the policy says Enforced. Either neither program runs, or the clock of this machine is wrong: it shows %s.",
			report.At.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
	default:
		return nil
	}

	return []Finding{finding}
}

// findRefusedConfiguration finds a configuration that the scheduler refused, as its last heartbeat says, however old that
// is.
func findRefusedConfiguration(c *Cluster) []Finding {
	report, _ := c.report()
	if report.ConfigProblem == "" {
		return nil
	}
	return []Finding{{Severity: Error, Object: "configmap/" + c.Namespace + "/cardquota-scheduler-configmap", Command: policyCommand,
		Problem: "The scheduler keeps its last configuration, because it refused the newest one: " + report.ConfigProblem}}
}

// findOtherSchedulers finds Volcano's own scheduler. NotEnforced reports it once the operator has set condition
// Enforced to another value than True.
func findOtherSchedulers(c *Cluster) []Finding {
	isReported := c.policyCondition(v1alpha1.ConditionEnforced).Status != "" && !c.isEnforced()
	if isReported || len(c.OtherSchedulers) == 0 {
		return nil
	}

	pod := c.OtherSchedulers[0]
	finding := Finding{Severity: Info, Object: "pod/" + pod.Namespace + "/" + pod.Name,
		Problem: "Volcano's own scheduler is active and does not know card quotas."}
	if !c.isEnforced() {
		return []Finding{c.addHandover(finding)}
	}

	finding.Severity = Warning
	finding.Command = "kubectl -n " + pod.Namespace + " describe pod " + pod.Name
	finding.Problem = "A pod has the label of Volcano's own scheduler while our scheduler is active. If it schedules, it places pods without looking at quotas."
	return []Finding{finding}
}
