package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/cluster"
)

const (
	// changers is how many gangs may get the cards of others at the same time.
	changers = 2
	// burst is how many changes of pods there may be at once.
	burst = 2 * gangSize
	// heartbeat is how often a kubelet writes the status of its node.
	heartbeat = 5 * time.Minute
	// settleTimeout is how long after the last change every status must be right.
	settleTimeout = time.Minute
)

// measureLoad measures while pods change and kubelets report.
func (e *env) measureLoad(ctx context.Context, r *report) error {
	if err := e.openQueues(ctx); err != nil {
		return err
	}
	if err := e.awaitRest(ctx); err != nil {
		return err
	}

	e.recount.takeLags(time.Now())
	before, written, err := e.readCounters(ctx)
	if err != nil {
		return err
	}

	began := time.Now()
	r.changes, err = e.changeFor(ctx, e.duration)
	if err != nil {
		return err
	}

	after, err := e.usage()
	if err != nil {
		return err
	}

	r.loadTime = time.Since(began)
	r.load = after.since(before)

	late := e.awaitRight(ctx, settleTimeout)
	if late != nil {
		late = errors.Join(errExceeded, late)
	}

	r.lags = e.recount.takeLags(time.Now())
	r.wrong, err = e.verify(ctx)
	if err != nil {
		return errors.Join(late, err)
	}

	later, err := harness.CountAPIWrites(ctx, e.core)
	r.writes = harness.Difference(later, written)
	return errors.Join(late, err)
}

// changeFor changes pods for some time, and returns how many changes there were.
func (e *env) changeFor(ctx context.Context, duration time.Duration) (changes int, err error) {
	pace := flowcontrol.NewTokenBucketRateLimiter(float32(e.changes), burst)
	var model, done atomic.Int64
	end := time.Now().Add(duration)

	group, ctx := errgroup.WithContext(ctx)
	for range changers {
		group.Go(func() error {
			for time.Now().Before(end) {
				changed, err := e.pods.changeGangs(ctx, int(model.Add(1))%e.cards, func() error { done.Add(1); return pace.Wait(ctx) })
				if err != nil {
					return err
				}
				if !changed { // no gang of this model waits
					time.Sleep(time.Millisecond)
				}
			}
			return nil
		})
	}

	group.Go(func() error { return e.reportNodes(ctx, end) })
	group.Go(func() error { return e.profileLoad(ctx, duration) })
	err = group.Wait()

	return int(done.Load()), err
}

// reportNodes writes the status of all nodes in turn, as often as kubelets do.
func (e *env) reportNodes(ctx context.Context, end time.Time) error {
	pace := time.NewTicker(heartbeat / time.Duration(e.nodes))
	defer pace.Stop()

	for i := 0; time.Now().Before(end); i++ {
		ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{ready}}})
		if err == nil {
			_, err = e.core.CoreV1().Nodes().Patch(ctx, e.nodeName(i%e.nodes), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		if err != nil {
			return fmt.Errorf("write the status of a node: %w", err)
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		case <-time.After(time.Until(end)):
		}
	}

	return nil
}

// openQueues opens the queues with pods, as Volcano's controller does.
func (e *env) openQueues(ctx context.Context) error {
	return inParallel(ctx, e.quotas, func(ctx context.Context, i int) error {
		queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: e.quotaName(i)}}
		return e.client.Status().Patch(ctx, queue, client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"Open"}}`)))
	})
}

// measureRest creates more CardQuotas, and measures when all of them are at rest. Kubelets report
// also then.
func (e *env) measureRest(ctx context.Context, r *report) error {
	e.recount.expectMore(time.Now())
	err := inParallel(ctx, max(0, e.restQuotas-e.quotas), func(ctx context.Context, i int) error {
		return e.client.Create(ctx, e.cardQuota(e.quotas+i))
	})
	if err != nil {
		return err
	}

	if err := e.awaitRight(ctx, syncTimeout); err != nil {
		r.wrong = e.recount.wrong()
		return errors.Join(errExceeded, err)
	}
	if err := e.awaitRest(ctx); err != nil {
		return err
	}

	before, written, err := e.readCounters(ctx)
	if err != nil {
		return err
	}

	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.reportNodes(groupCtx, began.Add(e.rest)) })
	group.Go(func() error { return e.profileCPU(groupCtx, "rest-cpu", e.rest/2) })
	if err := group.Wait(); err != nil {
		return err
	}

	after, later, err := e.readCounters(ctx)
	if err != nil {
		return err
	}

	r.restTime = time.Since(began)
	r.atRest = after.since(before)
	r.afterRest = after
	r.restWrites = harness.Difference(later, written)

	return e.writeProfile(ctx, "rest-heap", "heap")
}

// readCounters returns what the operator has used until now, and the writes to the API server.
func (e *env) readCounters(ctx context.Context) (usage, map[string]int, error) {
	used, err := e.usage()
	if err != nil {
		return usage{}, nil, err
	}
	written, err := harness.CountAPIWrites(ctx, e.core)
	return used, written, err
}

// awaitRest waits until the operator is at rest.
func (e *env) awaitRest(ctx context.Context) error {
	return harness.WaitUntilIdle(ctx, e.core, e.settle, isRegular)
}

// isRegular reports whether a write happens also at rest: of Leases, of the ConfigMaps with the
// card-seconds, of the benchmark, and to check who reads the metrics.
func isRegular(write string) bool {
	switch write {
	case "PATCH nodes/status", "PATCH configmaps", "POST tokenreviews", "POST subjectaccessreviews":
		return true
	}
	return false
}

// profileLoad writes profiles of the second half of the load.
func (e *env) profileLoad(ctx context.Context, duration time.Duration) error {
	if e.profiles == "" {
		return nil
	}

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration / 2):
	}

	if err := e.profileCPU(ctx, "load-cpu", duration/3); err != nil {
		return err
	}

	return e.writeProfile(ctx, "load-heap", "heap")
}

func (e *env) profileCPU(ctx context.Context, name string, duration time.Duration) error {
	return e.writeProfile(ctx, name, fmt.Sprintf("profile?seconds=%d", max(1, int(duration.Seconds()))))
}

// writeProfile writes a profile of the operator.
func (e *env) writeProfile(ctx context.Context, name, what string) error {
	if e.profiles == "" {
		return nil
	}
	text, err := cluster.HTTPGet(ctx, "http://"+e.pprof+"/debug/pprof/"+what)
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(e.profiles, name+".pprof"), text, 0o600)
}
