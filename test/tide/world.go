// Package tide plays the tide on a large local cluster: training fills the
// cards, inference takes some of them back, leaves, and training returns. It
// keeps an account of how long that takes and of what is lost.
package tide

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
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

// World is a cluster on which both programs run.
type World struct {
	Setup
	Book *Book
	// Metrics is the address at which the scheduler serves metrics and profiles.
	Metrics string

	cluster *cluster.Cluster
	client  client.Client
	// close ends the watch: the apiserver waits for it when it stops.
	close context.CancelFunc
	// wishes is the node that each pod of each gang wishes for: no more pods than
	// cards wish for the same.
	wishes [GangSize][]int
}

// patience ends a wait that does not come to its end.
const patience = 10 * time.Minute

// Start starts a cluster with the queues on it, and nothing in them.
func Start(ctx context.Context, s Setup) (w *World, err error) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: fleet(s.Nodes)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}
	w = &World{Setup: s, Metrics: fmt.Sprintf("127.0.0.1:%d", port), cluster: c}
	random := rand.New(rand.NewPCG(1, 2)) // the same in every run
	for k := range w.wishes {
		w.wishes[k] = random.Perm(s.Nodes)
	}
	if w.client, err = newClient(c); err != nil {
		return nil, err
	}
	configuration, err := configuration(s)
	if err != nil {
		return nil, err
	}
	_, err = deployment.Start(ctx, c, deployment.Options{
		Configuration: configuration, SchedulePeriod: s.Period,
		SchedulerArgs: []string{"--listen-address=" + w.Metrics, "--enable-pprof=true", "--kube-api-qps=2000", "--kube-api-burst=2000"},
	})
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx)
	w.close = cancel
	if w.Book, err = watch(watching, c.Config()); err == nil {
		err = w.openQueues(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return w, nil
}

// Stop stops everything.
func (w *World) Stop() error {
	w.close()
	return w.cluster.Stop()
}

// configuration is the shipped ConfigMap with an action that takes cards back.
func configuration(s Setup) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "config", "scheduler", "configmap.yaml"))
	if err != nil {
		return "", err
	}
	changes := map[string]string{}
	if s.Action != "" {
		changes[`"enqueue, allocate, backfill"`] = `"enqueue, allocate, backfill, ` + s.Action + `"`
	}
	if s.Action == Reclaim {
		// Without it a Deployment that has one pod takes nothing back for more.
		changes["- name: gang\n"] = "- name: gang\n        enableJobStarving: false\n"
	}
	if !s.Packed {
		changes["- name: nodeorder\n"] = "- name: nodeorder\n        arguments:\n          nodeaffinity.weight: 100\n"
	}
	changed := string(text)
	for old, replacement := range changes {
		if strings.Count(changed, old) != 1 {
			return "", fmt.Errorf("the shipped configuration has not once %q", old)
		}
		changed = strings.Replace(changed, old, replacement, 1)
	}
	return changed, nil
}

func newClient(c *cluster.Cluster) (client.Client, error) {
	scheme, err := deployment.Scheme()
	if err != nil {
		return nil, err
	}
	return client.New(c.Config(), client.Options{Scheme: scheme})
}

// Policy makes the ServiceTypePolicy that is in force unless somebody wishes
// otherwise, and waits until the scheduler works by it.
func (w *World) Policy(ctx context.Context) error {
	policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
	if err := w.client.Create(ctx, policy); err != nil {
		return fmt.Errorf("create ServiceTypePolicy: %w", err)
	}
	return w.until(ctx, "the ServiceTypePolicy to be in force", func() (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		return apimeta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionReady), err
	})
}

// Kubectl runs kubectl as an administrator.
func (w *World) Kubectl(ctx context.Context, args ...string) (string, error) {
	return w.cluster.Kubectl(ctx, args...)
}

// openQueues makes the CardQuotas and waits until their queues take work.
func (w *World) openQueues(ctx context.Context) error {
	cards := w.Nodes * GangSize
	for _, q := range []*v1alpha1.CardQuota{quota(gangQueue, "training", cards), quota(singleQueue, "training", cards), quota(inferenceQueue, "inference", cards)} {
		if err := w.client.Create(ctx, q); err != nil {
			return fmt.Errorf("create CardQuota: %w", err)
		}
	}
	return w.until(ctx, "the queues to open", func() (bool, error) {
		all := &v1alpha1.CardQuotaList{}
		if err := w.client.List(ctx, all); err != nil {
			return false, err
		}
		for _, q := range all.Items {
			if !apimeta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionReady) {
				return false, nil
			}
		}
		return true, nil
	})
}

// Retries is the sum of the retries that Volcano has counted until now.
func (w *World) Retries(ctx context.Context) (int, error) {
	all := &batch.JobList{}
	if err := w.client.List(ctx, all); err != nil {
		return 0, err
	}
	sum := 0
	for i := range all.Items {
		sum += int(all.Items[i].Status.RetryCount)
	}
	return sum, nil
}

// until waits for a condition, and says who held the cards when it was not met.
func (w *World) until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s", patience))
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; now %+v", what, context.Cause(ctx), w.Book.State())
		}
	}
}
