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

// Result is what one tide measured.
type Result struct {
	// Waited is how long after its creation each pod was bound, when they came one
	// at a time.
	Waited []time.Duration
	// First is when the first of the pods was bound, Bound when the last was, and
	// Running when the last ran, since the workloads were created; of pods that
	// come one at a time, the last one's.
	First, Bound, Running time.Duration
	// Pods is how many came, Done how many of them were served in time.
	Pods, Done int
	Loss       harness.Loss
	// Stuck is how many gangs did not come back between pods that came one at a
	// time.
	Stuck int
}

// ServeTimeout is how long a tide may take to come in.
const ServeTimeout = 2 * time.Minute

// errNotServed tells that not all of inference was served.
var errNotServed = errors.New("not served in time")

// ServePodsOneByOne lets pods come and go one at a time. Each comes when all gangs run,
// so that a gang must go for it, and at another moment between two sessions.
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

// ServeDeployments lets pods come at once, in so many Deployments.
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

// ServeGang lets one job of inference come that runs as a whole or not at all.
func (w *Env) ServeGang(ctx context.Context, size int) (*Result, error) {
	return w.measure(ctx, size, minGangsFor(size), func(s *Result) error {
		began := time.Now()
		if err := w.Create(ctx, gangJob(harness.Inference, "large", inferenceQueue, size)); err != nil {
			return err
		}
		return w.waitUntilServed(ctx, s, began, size, "large")
	})
}

// minGangsFor is how many gangs must be broken for so many cards at once.
func minGangsFor(cards int) int { return (cards + harness.GangSize - 1) / harness.GangSize }

// measure plays one tide and takes account of it, until nobody has been lost for a
// while.
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
	s.Loss.Least, s.Loss.Partial = least, w.Pods.Usage().Partial
	after, err := w.CountRetries(ctx)
	s.Loss.Retries = after - before
	return s, err
}

// waitUntilServed waits until so many pods of the workloads are bound and run.
func (w *Env) waitUntilServed(ctx context.Context, s *Result, began time.Time, pods int, names ...string) error {
	var served int
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, ServeTimeout, true, func(context.Context) (bool, error) {
		bound, running := w.Pods.PodTimes(names...)
		if len(bound) > 0 {
			s.First, s.Bound = bound[0].Sub(began), bound[len(bound)-1].Sub(began)
		}
		if served = min(len(running), pods); served == pods {
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

// What must hold of a tide.
const (
	// MaxBoundAfter is how long it may take until 400 pods are bound.
	MaxBoundAfter = 30 * time.Second
	// MaxGangRunningAfter is how long it may take until a gang of 512 pods runs.
	MaxGangRunningAfter = 60 * time.Second
	// maxBrokenGangsFactor is how many gangs may be broken, of the least possible.
	maxBrokenGangsFactor = 1.1
)

// Violations lists what does not hold of a tide that takes whole gangs.
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

// LateMessage tells what of a limit was not kept, "" when it was.
func LateMessage(what string, after, limit time.Duration) string {
	if after <= limit {
		return ""
	}
	return fmt.Sprintf("%s after %.1f s, limit %.0f s", what, after.Seconds(), limit.Seconds())
}

// BoundAfter is when the last pod of a tide was bound; what was not served in
// time counts as long as it was waited for.
func (s *Result) BoundAfter() time.Duration { return s.orTimeout(s.Bound) }

// RunningAfter is when the last pod of a tide ran.
func (s *Result) RunningAfter() time.Duration { return s.orTimeout(s.Running) }

func (s *Result) orTimeout(after time.Duration) time.Duration {
	if s.Done < s.Pods {
		return ServeTimeout
	}
	return after
}
