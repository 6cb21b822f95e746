package tide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/bench/harness"
)

// Result is the result of one scene.
type Result struct {
	// Waited is how long after its creation each pod was bound, when they came one at a time.
	Waited []time.Duration
	// First is when the first pod was bound, Bound when the last was, and Running when the last
	// one ran, since the workloads were created. For pods that come one at a time, it is that
	// of the last pod.
	First, Bound, Running time.Duration
	// Pods is the number of pods, Done how many of them were served in time.
	Pods, Done int
	Loss       harness.Loss
	// Stuck is how many gangs did not run again between pods that came one at a time.
	Stuck int
}

// ServeTimeout bounds how long inference may wait for cards.
const ServeTimeout = 2 * time.Minute

// errNotServed reports that not all of inference was served.
var errNotServed = errors.New("not served in time")

// ServePodsOneByOne creates and removes inference pods one at a time. Each comes when all gangs
// run, so that a gang must be evicted for it, and at a different moment between two sessions.
func (w *Env) ServePodsOneByOne(ctx context.Context, count int) (*Result, error) {
	return w.measure(ctx, count, count, func(s *Result) error {
		for i := range count {
			time.Sleep(time.Duration(i) * w.Period / time.Duration(count))
			name := fmt.Sprintf("request-%02d", i)
			began := time.Now()

			if err := w.Create(ctx, harness.CardPod(harness.Inference, name, name, model).Queue(inferenceQueue).Obj()); err != nil {
				return err
			}
			if err := w.waitUntilServed(ctx, s, began, 1, name); err != nil {
				return err
			}

			s.Waited = append(s.Waited, s.Bound)
			back, err := w.ReturnToTraining(ctx)
			if err != nil {
				return err
			}
			s.Stuck += len(back.Stuck)
		}
		return nil
	})
}

// ServeDeployments creates inference pods at once in some Deployments.
func (w *Env) ServeDeployments(ctx context.Context, name string, deployments, replicas int) (*Result, error) {
	return w.measure(ctx, deployments*replicas, minGangsFor(deployments*replicas), func(s *Result) error {
		var names []string
		var objects []client.Object
		for i := range deployments {
			names = append(names, fmt.Sprintf("%s-%02d", name, i))
			objects = append(objects, newDeployment(harness.Inference, names[i], inferenceQueue, replicas))
		}

		began := time.Now()
		if err := w.Create(ctx, objects...); err != nil {
			return err
		}

		return w.waitUntilServed(ctx, s, began, deployments*replicas, names...)
	})
}

// ServeGang creates one inference job that runs as a whole or not at all.
func (w *Env) ServeGang(ctx context.Context, size int) (*Result, error) {
	return w.measure(ctx, size, minGangsFor(size), func(s *Result) error {
		began := time.Now()
		if err := w.Create(ctx, gangJob(harness.Inference, "large", inferenceQueue, size)); err != nil {
			return err
		}
		return w.waitUntilServed(ctx, s, began, size, "large")
	})
}

// minGangsFor returns how many gangs must be broken to free some cards at once.
func minGangsFor(cards int) int { return (cards + harness.GangSize - 1) / harness.GangSize }

// measure runs one scene and measures it until no pod has been lost for a while.
func (w *Env) measure(ctx context.Context, pods, least int, play func(*Result) error) (*Result, error) {
	const calm = 4 * time.Second
	before, err := w.CountRetries(ctx)
	if err != nil {
		return nil, err
	}

	s := &Result{Pods: pods}
	w.Pods.ResetLoss()
	if err := play(s); err != nil && !errors.Is(err, errNotServed) {
		return nil, err
	}

	err = w.WaitUntil(ctx, "calm", func(context.Context) (bool, error) {
		var since time.Duration
		s.Loss, since = w.Pods.LossSinceReset()
		return since > calm, nil
	})
	if err != nil {
		return nil, err
	}

	s.Loss.Least = least
	s.Loss.Partial = w.Pods.Usage().Partial
	after, err := w.CountRetries(ctx)
	s.Loss.Retries = after - before
	return s, err
}

// waitUntilServed waits until the given number of pods of the workloads is bound and runs.
func (w *Env) waitUntilServed(ctx context.Context, s *Result, began time.Time, pods int, names ...string) error {
	var served int
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, ServeTimeout, true, func(context.Context) (bool, error) {
		bound, running := w.Pods.PodTimes(names...)
		if len(bound) > 0 {
			s.First = bound[0].Sub(began)
			s.Bound = bound[len(bound)-1].Sub(began)
		}
		served = min(len(running), pods)
		if served == pods {
			s.Running = running[pods-1].Sub(began)
		}
		return served == pods, nil
	})

	s.Done += served
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%d of %d: %w", served, pods, errNotServed)
	}

	return err
}

// Requirements of a scene.
const (
	// MaxBoundAfter bounds how long it takes until 400 pods are bound.
	MaxBoundAfter = 30 * time.Second
	// MaxGangRunningAfter bounds how long it takes until a gang of 512 pods runs.
	MaxGangRunningAfter = 60 * time.Second
	// maxBrokenGangsFactor bounds the broken gangs, relative to the smallest possible number.
	maxBrokenGangsFactor = 1.1
)

// Violations returns the requirements that a scene with whole gangs violates.
func (s *Result) Violations() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s.Done < s.Pods {
		fault("%d of %d pods served", s.Done, s.Pods)
	}

	if limit := maxBrokenGangsFactor * float64(s.Loss.Least); float64(s.Loss.Gangs) > limit {
		fault("%d gangs broken, at most %.1f may be", s.Loss.Gangs, limit)
	}

	if s.Loss.Partial > 0 {
		fault("%d gangs left running in part", s.Loss.Partial)
	}

	if s.Loss.Retries > 0 {
		fault("%d retries counted against jobs", s.Loss.Retries)
	}

	return faults
}

// LateMessage describes by how much a limit was exceeded, or "".
func LateMessage(what string, after, limit time.Duration) string {
	if after <= limit {
		return ""
	}
	return fmt.Sprintf("%s after %.1f s, limit %.0f s", what, after.Seconds(), limit.Seconds())
}

// BoundAfter returns when the last pod was bound. Pods that were not served in time count as
// ServeTimeout.
func (s *Result) BoundAfter() time.Duration { return s.orTimeout(s.Bound) }

// RunningAfter returns when the last pod ran.
func (s *Result) RunningAfter() time.Duration { return s.orTimeout(s.Running) }

func (s *Result) orTimeout(after time.Duration) time.Duration {
	if s.Done < s.Pods {
		return ServeTimeout
	}
	return after
}
