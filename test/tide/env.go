// Package tide plays the tide on a large local cluster: training fills the
// cards, inference takes some of them back, leaves, and training returns. It
// keeps an account of how long that takes and of what is lost.
package tide

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/deployment"
)

// The actions that take cards back.
const (
	CardReclaim = "cardreclaim"
	Reclaim     = "reclaim" // Volcano's own
)

// Setup is what is played.
type Setup struct {
	// Nodes is how many there are, each with the cards of one gang.
	Nodes int
	// Singles is how many training pods wait beside the gangs.
	Singles int
	// Action takes cards back. Without one the shipped configuration is used as it
	// is, and a ServiceTypePolicy may change it.
	Action string
	// Packed leaves it to the scheduler where gangs run, which keeps their pods
	// together while the cluster fills. Else every pod wishes for a node of its
	// own, drawn at random, as time scatters them, and Volcano's own scheduler.
	Packed bool
	// Period is the time between sessions.
	Period time.Duration
}

// Env is a cluster on which both programs run.
type Env struct {
	Setup
	*harness.Env
	// wishes is the node that each pod of each gang wishes for: no more pods than
	// cards wish for the same.
	preferredNodes [harness.GangSize][]int
}

// Start starts a cluster with the queues on it, and nothing in them.
func Start(ctx context.Context, s Setup) (w *Env, err error) {
	w = &Env{Setup: s}
	if w.Env, err = harness.Start(ctx, harness.GangNodes(nodePrefix, model, s.Nodes)); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same in every run
	for k := range w.preferredNodes {
		w.preferredNodes[k] = random.Perm(s.Nodes)
	}
	configuration, err := deployment.ShippedConfiguration(s.configurationEdits()...)
	if err == nil {
		_, err = deployment.Start(ctx, w.Cluster, deployment.Options{
			Configuration: configuration, SchedulePeriod: s.Period,
			SchedulerArgs: []string{"--listen-address=" + w.MetricsAddress, "--enable-pprof=true", "--kube-api-qps=2000", "--kube-api-burst=2000"},
		})
	}
	if err == nil {
		err = w.openQueues(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// configurationEdits are those of the shipped configuration: old, new, old, new …
func (s Setup) configurationEdits() (replace []string) {
	if s.Action != "" {
		replace = append(replace, `"enqueue, allocate, backfill"`, `"enqueue, allocate, backfill, `+s.Action+`"`)
	}
	if s.Action == Reclaim {
		// Without it a Deployment that has one pod takes nothing back for more.
		replace = append(replace, "- name: gang\n", "- name: gang\n        enableJobStarving: false\n")
	}
	if !s.Packed {
		replace = append(replace, "- name: nodeorder\n", "- name: nodeorder\n        arguments:\n          nodeaffinity.weight: 100\n")
	}
	return replace
}

// CreatePolicy makes the ServiceTypePolicy that is in force unless somebody wishes
// otherwise, and waits until the scheduler works by it.
func (w *Env) CreatePolicy(ctx context.Context) error {
	policy := builder.ServiceTypePolicy().Obj()
	if err := w.Create(ctx, policy); err != nil {
		return err
	}
	return w.WaitUntil(ctx, "the ServiceTypePolicy to be in force", func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		return apimeta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionReady), err
	})
}

// openQueues makes the CardQuotas and waits until their queues take work. Each has a quota
// of all cards, so that only cards that are not free ever hold anybody up.
func (w *Env) openQueues(ctx context.Context) error {
	for queue, serviceType := range map[string]string{gangQueue: "training", singleQueue: "training", inferenceQueue: "inference"} {
		quota := builder.CardQuota(queue).Tenant(queue).ServiceType(serviceType).Card(model, int64(w.Nodes*harness.GangSize)).Obj()
		if err := w.Create(ctx, quota); err != nil {
			return err
		}
	}
	return w.WaitUntil(ctx, "the queues to open", func(ctx context.Context) (bool, error) {
		all := &v1alpha1.CardQuotaList{}
		err := w.Client.List(ctx, all)
		for _, q := range all.Items {
			if !apimeta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionReady) {
				return false, err
			}
		}
		return true, err
	})
}

// CountRetries is the sum of the retries that Volcano has counted until now.
func (w *Env) CountRetries(ctx context.Context) (sum int, err error) {
	all := &batch.JobList{}
	err = w.Client.List(ctx, all)
	for i := range all.Items {
		sum += int(all.Items[i].Status.RetryCount)
	}
	return sum, err
}
