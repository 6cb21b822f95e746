package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

const (
	// Namespace is the namespace of all pods.
	Namespace = metav1.NamespaceDefault
	// GangSize is the number of pods of a gang, with one card each, and the number of cards of
	// a node.
	GangSize = 8
	// RoleLabel is the role of a pod.
	RoleLabel = "bench.role"
	// GroupLabel is the workload of a pod.
	GroupLabel = "bench.group"
	// waitTimeout bounds every wait.
	waitTimeout = 15 * time.Minute
)

// GangNodes returns nodes that each have the cards for one gang.
func GangNodes(name, model string, count int) cluster.NodeProfile {
	node := builder.Node(name).GPUs(model, GangSize).Resource(corev1.ResourceMemory, "512Gi").Obj()
	return cluster.NodeProfile{Name: name, Count: count, Labels: node.Labels, Allocatable: node.Status.Allocatable}
}

// CardPod returns a pod with one card.
func CardPod(role, group, name, model string) *builder.PodBuilder {
	return builder.Pod(Namespace, name).Label(RoleLabel, role).Label(GroupLabel, group).Card(model).CPU("1").Memory("4Gi").GPUs(1)
}

// Env is a cluster whose pods are tracked.
type Env struct {
	Cluster *cluster.Cluster
	Client  client.Client
	Pods    *PodTracker
	// MetricsAddress is the address at which the scheduler serves metrics and profiles.
	MetricsAddress string

	// stopWatch ends the watch: an apiserver that stops waits for watches.
	stopWatch context.CancelFunc
}

// Start starts a cluster without a scheduler.
func Start(ctx context.Context, nodes ...cluster.NodeProfile) (w *Env, err error) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: nodes})
	if err != nil {
		return nil, err
	}

	watching, cancel := context.WithCancel(ctx)
	w = &Env{Cluster: c, stopWatch: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()

	w.MetricsAddress, err = cluster.FreeAddress()
	if err != nil {
		return nil, err
	}

	scheme, err := deployment.NewScheme()
	if err != nil {
		return nil, err
	}

	w.Client, err = client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}

	w.Pods, err = watchPods(watching, c.Config())
	return w, err
}

// Stop stops the cluster.
func (w *Env) Stop() error {
	w.stopWatch()
	return w.Cluster.Stop()
}

// Create creates objects in parallel. It retries an object whose queue Volcano's webhooks have
// not seen yet.
func (w *Env) Create(ctx context.Context, objects ...client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)

	for _, object := range objects {
		group.Go(func() error {
			err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
				err := w.Client.Create(ctx, object)
				if cluster.IsStaleAdmissionCache(err) {
					return false, nil
				}
				return err == nil, err
			})

			if err != nil {
				return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
			}
			return nil
		})
	}

	return group.Wait()
}

// WaitUntil waits for a condition. Its error says which pods used the cards.
func (w *Env) WaitUntil(ctx context.Context, what string, done func(ctx context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, waitTimeout, true, done); err != nil {
		return fmt.Errorf("wait for %s: %w; now %+v", what, errors.Join(err, context.Cause(ctx)), w.Pods.Usage())
	}
	return nil
}

// WriteCPUProfile writes a CPU profile of the scheduler's next ten seconds, unless folder is
// "". It waits until the scheduler listens.
func (w *Env) WriteCPUProfile(ctx context.Context, folder, name string) error {
	if folder == "" {
		return nil
	}

	var profile []byte
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (_ bool, err error) {
		profile, err = cluster.HTTPGet(ctx, "http://"+w.MetricsAddress+"/debug/pprof/profile?seconds=10")
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}

	return os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".pprof"), profile, 0o600)
}
