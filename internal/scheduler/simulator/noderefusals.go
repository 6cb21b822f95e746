//go:build !windows

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/simulation"
)

// predicatesOnly is a configuration of the scheduler that asks only what Kubernetes asks of a node. Cards and
// quotas are left out.
const predicatesOnly = `
actions: allocate
tiers:
- plugins:
  - name: predicates
`

// NodeRefusals returns why nodes refuse a pod that waits, by node. It asks the plugin predicates: about labels, taints,
// ports, other pods that the pod must be near to or away from, and topology spread. Where nothing of these is in the
// way, CPU, memory and the number of pods count. It asks nothing about cards, quotas and volumes, and of the cluster
// it needs only the nodes, pods, namespaces and the names of the scheduler.
func NodeRefusals(c *simulation.Cluster, pod *corev1.Pod, now time.Time) (refusals map[string]simulation.NodeRefusal, err error) {
	simulationLock.Lock() // plugins, actions and options of Volcano are global
	defer simulationLock.Unlock()
	defer recoverFromVolcano(&err)

	prepareMetrics()
	options.ServerOpts.SchedulerNames = c.Schedulers

	_, tiers, configurations, _, err := scheduler.UnmarshalSchedulerConf(predicatesOnly)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the scheduler: %w", err)
	}

	ssn := framework.OpenSession(newSimulatedCluster(c, nil, now).cache, tiers, configurations)
	defer framework.CloseSession(ssn)

	// Volcano checks first what does not depend on the node, and prepares the checks of each node. They need no job.
	task := api.NewTaskInfo(withoutClaims(pod))
	if err := ssn.PrePredicateFn(task); err != nil {
		return nil, fmt.Errorf("check pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}

	refusals = map[string]simulation.NodeRefusal{}
	for _, node := range ssn.NodeList {
		refusal := refusalFor(task, node, ssn.PredicateForAllocateAction(task, node))
		if refusal != (simulation.NodeRefusal{}) {
			refusals[node.Name] = refusal
		}
	}

	return refusals, nil
}

// refusalFor returns why a node refuses a pod, from what the predicates say, nothing if it does not. A full
// node counts only where nothing else is in the way: a taint stays when other pods have ended.
func refusalFor(task *api.TaskInfo, node *api.NodeInfo, err error) simulation.NodeRefusal {
	reasons := slices.DeleteFunc(reasonsOf(err), func(reason string) bool { return reason == api.NodePodNumberExceeded })
	if len(reasons) == 0 {
		if lacking := describeLacking(task, node); lacking != "" {
			return simulation.NodeRefusal{Cause: simulation.LacksCompute, Text: lacking}
		}
		return simulation.NodeRefusal{}
	}

	// Of a cordon, a taint and labels that are not selected, Volcano states one by chance. They are named in this order.
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.Node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(task.Pod.Spec.Tolerations, &cordon) {
		return simulation.NodeRefusal{Cause: simulation.Cordoned}
	}

	taint, isUntolerated := corev1helpers.FindMatchingUntoleratedTaint(node.Node.Spec.Taints, task.Pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc())
	if isUntolerated {
		return simulation.NodeRefusal{Cause: simulation.UntoleratedTaint, Text: taint.ToString()}
	}

	refusal := simulation.NodeRefusal{Text: strings.Join(reasons, ", ")}
	if slices.Contains(reasons, nodeaffinity.ErrReasonPod) {
		refusal.Cause = simulation.NotSelected
	}
	return refusal
}

// reasonsOf returns what predicates say, sorted, without the pod and the node that Volcano adds.
func reasonsOf(err error) []string {
	fit, ok := err.(*api.FitError) //nolint:errorlint // Volcano does not wrap it
	switch {
	case err == nil:
		return nil
	case !ok:
		return []string{err.Error()}
	}

	reasons := fit.Reasons()
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// describeLacking says of what a node has too little left for a pod beside cards, "" for nothing. A node may be over
// its allocatable amount; then 0 is left. Pods that are being deleted leave their CPU and memory, but count as pods.
func describeLacking(task *api.TaskInfo, node *api.NodeInfo) string {
	var lacking []string
	left := node.FutureIdle()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if wanted := task.InitResreq.Get(name); wanted > max(0, left.Get(name)) {
			lacking = append(lacking, fmt.Sprintf("%s %s of %s requested", quantityText(name, max(0, left.Get(name))), name, quantityText(name, wanted)))
		}
	}

	if node.Allocatable.MaxTaskNum <= len(node.Tasks) {
		lacking = append(lacking, "0 pods of 1 requested")
	}

	return strings.Join(lacking, ", ")
}

// quantityText returns an amount of a resource as Kubernetes writes it.
func quantityText(name corev1.ResourceName, amount float64) string {
	quantity := api.ResFloat642Quantity(name, amount)
	return quantity.String()
}
