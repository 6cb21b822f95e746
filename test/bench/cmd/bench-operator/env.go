package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// syncTimeout bounds how long the operator may take until every status is right.
const syncTimeout = 10 * time.Minute

// shippedEnv is the operator's environment in config/manager/deployment.yaml, as far as it sets how
// often Go collects garbage.
var shippedEnv = []string{"GOGC=50", "GOMEMLIMIT=1GiB"}

// env is a cluster with an operator that is measured.
type env struct {
	plan
	out     io.Writer
	cluster *cluster.Cluster
	// client reads and writes custom resources, core everything else in the cheap encoding: the
	// benchmark shares its processors with what it measures.
	client   client.WithWatch
	core     kubernetes.Interface
	programs *deployment.Deployment
	// pprof is the address of the operator's profiles.
	pprof string
	// pods are what the benchmark changes, recount compares.
	pods    *podSet
	recount *recount
	scraper *scraper

	stopWatches context.CancelFunc
}

func startEnv(ctx context.Context, s size, out io.Writer) (e *env, err error) {
	c, err := cluster.Start(ctx, cluster.Options{APIServerOnly: true, ManyObjects: true})
	if err != nil {
		return nil, err
	}

	e = &env{plan: plan{s}, out: out, cluster: c, stopWatches: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}()

	scheme, err := deployment.NewScheme()
	if err != nil {
		return nil, err
	}

	e.client, err = client.NewWithWatch(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}

	config := rest.CopyConfig(c.Config())
	config.ContentType = runtime.ContentTypeProtobuf
	e.core, err = kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := e.client.Create(ctx, builder.Namespace(deployment.Namespace)); err != nil {
		return nil, err
	}

	return e, e.install(ctx)
}

// install installs the operator without starting it, and a policy.
func (e *env) install(ctx context.Context) (err error) {
	e.pprof, err = cluster.FreeAddress()
	if err != nil {
		return err
	}

	e.programs, err = deployment.Install(ctx, e.cluster, deployment.Options{
		ManagerArgs:   []string{"--pprof-bind-address=" + e.pprof},
		ManagerEnv:    shippedEnv,
		SecureMetrics: true,
	})
	if err != nil {
		return err
	}

	policy := builder.ServiceTypePolicy().Obj()
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return e.client.Create(ctx, policy) == nil && e.client.List(ctx, &v1alpha1.CardQuotaList{}) == nil && e.client.List(ctx, &v1alpha1.LocalCardQuotaList{}) == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the CRDs: %w", err)
	}

	return nil
}

func (e *env) stop() error {
	e.stopWatches()
	return e.cluster.Stop()
}

// fill creates all objects.
func (e *env) fill(ctx context.Context) error {
	began := time.Now()
	e.pods = newPodSet(e.plan, e.core)
	for _, step := range []struct {
		n      int
		create func(ctx context.Context, i int) error
	}{
		{e.quotas * e.views, func(ctx context.Context, i int) error {
			quota := i / e.views
			return e.client.Create(ctx, builder.Namespace(e.namespace(quota, i%e.views), quotaLabel, e.quotaName(quota)))
		}},
		{e.nodes, func(ctx context.Context, i int) error { return createNode(ctx, e.core, e.node(i)) }},
		{e.quotas, func(ctx context.Context, i int) error { return e.client.Create(ctx, e.cardQuota(i)) }},
		{e.gangs(), func(ctx context.Context, i int) error { return e.client.Create(ctx, e.podGroup(i)) }},
		{e.gangs(), e.pods.createGang},
	} {
		if err := inParallel(ctx, step.n, step.create); err != nil {
			return err
		}
	}

	harness.Printf(e.out, "%d nodes, %d pods and %d CardQuotas are created after %s.\n", e.nodes, e.gangs()*gangSize, e.quotas, harness.FormatSeconds(time.Since(began)))
	return nil
}

func createNode(ctx context.Context, core kubernetes.Interface, node *corev1.Node) error {
	_, err := core.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// inParallel calls a function for 0 to n-1.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// startOperator starts the operator and waits until every status is right.
func (e *env) startOperator(ctx context.Context, r *report) error {
	watching, cancel := context.WithCancel(ctx)
	e.stopWatches = cancel
	var err error
	e.recount, err = startRecount(watching, e)
	if err != nil {
		return err
	}

	began := time.Now()
	if err := e.programs.StartManager(ctx); err != nil {
		return err
	}

	e.scraper = startScraper(watching, e.programs.ManagerMetrics)
	if err := e.writeProfile(ctx, "start-heap", "heap"); err != nil {
		return err
	}
	if err := e.awaitRight(ctx, syncTimeout); err != nil {
		return err
	}

	r.start = time.Since(began)
	r.afterStart, err = e.usage()
	if err != nil {
		return err
	}

	harness.Printf(e.out, "The operator has written every status %s after its start, with %.0f CPU seconds.\n", harness.FormatSeconds(r.start), r.afterStart.cpu)
	return nil
}

// awaitRight waits until every status equals the recount.
func (e *env) awaitRight(ctx context.Context, timeout time.Duration) error {
	var wrong []string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		if !e.programs.Manager.Running() {
			return false, errors.New("the operator ended by itself")
		}
		wrong = e.recount.wrong()
		return len(wrong) == 0, nil
	})
	if err != nil {
		listed, listErr := e.verify(ctx) // the benchmark's own watches may be late
		return fmt.Errorf("%d statuses differ from a recount, the first is %q; %d differ when everything is listed; see %s: %w",
			len(wrong), append(wrong, "")[0], len(listed), e.keepLog(), errors.Join(err, listErr))
	}

	return nil
}

// keepLog copies the operator's log out of the cluster's folder, which is removed with the cluster.
func (e *env) keepLog() string {
	kept := filepath.Join(os.TempDir(), "bench-operator.log")
	text, err := os.ReadFile(e.programs.Manager.LogFile())
	if err == nil {
		err = os.WriteFile(kept, text, 0o600)
	}
	if err != nil {
		return err.Error()
	}
	return kept
}
