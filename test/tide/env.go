// Package tide simulates the daily ebb and flow of cards on a large local cluster: training
// fills the cards, inference reclaims some of them, leaves, and training returns. It measures
// times and losses.
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

// The actions that reclaim cards.
const (
	CardReclaim = "cardreclaim"
	Reclaim     = "reclaim" // Volcano's own
)

// Setup configures an Env.
type Setup struct {
	// Nodes is the number of nodes, each with the cards of one gang.
	Nodes int
	// Singles is the number of training pods that wait beside the gangs.
	Singles int
	// Action reclaims cards. Without it the shipped configuration is used, and a
	// ServiceTypePolicy may change it.
	Action string
	// Packed lets the scheduler choose the nodes of gangs, which keeps their pods together
	// while the cluster fills. Otherwise every pod prefers a node of its own, drawn at random:
	// over time, Volcano's own scheduler scatters gangs too.
	Packed bool
	// Period is the time between sessions.
	Period time.Duration
}

// Env is a cluster on which both programs run.
type Env struct {
	Setup
	*harness.Env
	// preferredNodes is the preferred node of each pod of each gang: no node is preferred by
	// more pods than it has cards.
	preferredNodes [harness.GangSize][]int
}

// Start starts a cluster with empty queues.
func Start(ctx context.Context, s Setup) (w *Env, err error) {
	w = &Env{Setup: s}
	w.Env, err = harness.Start(ctx, harness.GangNodes(nodePrefix, model, s.Nodes))
	if err != nil {
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

// configurationEdits returns the edits of the shipped configuration: old, new, old, new …
func (s Setup) configurationEdits() (replace []string) {
	if s.Action != "" {
		replace = append(replace, `"enqueue, allocate, backfill"`, `"enqueue, allocate, backfill, `+s.Action+`"`)
	}
	if s.Action == Reclaim {
		// Otherwise a Deployment with one pod reclaims nothing for further pods.
		replace = append(replace, "- name: gang\n", "- name: gang\n        enableJobStarving: false\n")
	}
	if !s.Packed {
		replace = append(replace, "- name: nodeorder\n", "- name: nodeorder\n        arguments:\n          nodeaffinity.weight: 100\n")
	}
	return replace
}

// CreatePolicy creates the ServiceTypePolicy with its defaults and waits until the scheduler
// applies it.
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

// openQueues creates the CardQuotas and waits until their queues are open. Each has a quota of
// all cards, so that only the nodes limit the workloads.
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

// CountRetries returns the sum of the retries that Volcano has counted so far.
func (w *Env) CountRetries(ctx context.Context) (sum int, err error) {
	all := &batch.JobList{}
	err = w.Client.List(ctx, all)
	for i := range all.Items {
		sum += int(all.Items[i].Status.RetryCount)
	}
	return sum, err
}
