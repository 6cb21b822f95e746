//go:build !windows

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// NodeRefusals returns why nodes refuse a pod of the cluster that waits, in the words of Kubernetes, by node. It
// asks the plugin predicates: about labels, taints, ports, other pods that the pod must be near to or away from,
// and topology spread. It asks nothing about cards, quotas, CPU, memory and volumes. A pod of which the
// scheduler knows no job is an error.
func NodeRefusals(c *simulation.Cluster, pod *corev1.Pod, now time.Time) (refusals map[string]string, err error) {
	simulationLock.Lock()
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

	task := findTask(ssn, pod)
	if task == nil {
		return nil, fmt.Errorf("the scheduler knows no job of pod %s/%s", pod.Namespace, pod.Name)
	}

	// Volcano checks first what does not depend on the node, and prepares the checks of each node.
	if err := ssn.PrePredicateFn(task); err != nil {
		return nil, fmt.Errorf("check pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}

	refusals = map[string]string{}
	for _, node := range ssn.NodeList {
		if err := ssn.PredicateForAllocateAction(task, node); err != nil {
			refusals[node.Name] = reasonOf(err)
		}
	}

	return refusals, nil
}

// findTask returns the pending task of a pod, nil if the session has none.
func findTask(ssn *framework.Session, pod *corev1.Pod) *api.TaskInfo {
	for _, job := range ssn.Jobs {
		if task := job.Tasks[api.TaskID(pod.UID)]; task != nil {
			return task
		}
	}
	return nil
}

// reasonOf returns what a predicate says, without the pod and the node that Volcano adds.
func reasonOf(err error) string {
	fit, ok := err.(*api.FitError) //nolint:errorlint // Volcano does not wrap it
	if !ok {
		return err.Error()
	}

	reasons := fit.Reasons()
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), ", ")
}
