package tide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scene is what one tide measured.
type Scene struct {
	// Waited is how long after its creation each pod was bound, when they came one
	// at a time.
	Waited []time.Duration
	// First is when the first of the pods was bound, Bound when the last was, and
	// Running when the last ran, since the workloads were created; of pods that
	// come one at a time, the last one's.
	First, Bound, Running time.Duration
	// Pods is how many came, Done how many of them were served in time.
	Pods, Done int
	Loss       Loss
	// Stuck is how many gangs did not come back between pods that came one at a
	// time.
	Stuck int
}

// TooLate is how long a tide may take to come in.
const TooLate = 2 * time.Minute

// errTooLate tells that not all of inference was served.
var errTooLate = errors.New("not served in time")

// OneByOne lets pods come and go one at a time. Each comes when all gangs run,
// so that a gang must go for it, and at another moment between two sessions.
func (w *World) OneByOne(ctx context.Context, count int) (*Scene, error) {
	return w.scene(ctx, count, count, func(s *Scene) error {
		for i := range count {
			if err := pause(ctx, time.Duration(i)*w.Period/time.Duration(count)); err != nil {
				return err
			}
			name := fmt.Sprintf("request-%02d", i)
			began := time.Now()
			if err := w.create(ctx, pod(inference, name, inferenceQueue)); err != nil {
				return err
			}
			if err := w.serve(ctx, s, began, 1, name); err != nil {
				return err
			}
			s.Waited = append(s.Waited, s.Bound)
			back, err := w.Ebb(ctx)
			if err != nil {
				return err
			}
			s.Stuck += len(back.Stuck)
		}
		return nil
	})
}

// Flood lets pods come at once, in so many Deployments.
func (w *World) Flood(ctx context.Context, name string, deployments, replicas int) (*Scene, error) {
	return w.scene(ctx, deployments*replicas, leastFor(deployments*replicas), func(s *Scene) error {
		var names []string
		var objects []client.Object
		for i := range deployments {
			names = append(names, fmt.Sprintf("%s-%02d", name, i))
			objects = append(objects, service(inference, names[i], inferenceQueue, replicas))
		}
		began := time.Now()
		if err := w.create(ctx, objects...); err != nil {
			return err
		}
		return w.serve(ctx, s, began, deployments*replicas, names...)
	})
}

// Gang lets one job of inference come that runs as a whole or not at all.
func (w *World) Gang(ctx context.Context, size int) (*Scene, error) {
	return w.scene(ctx, size, leastFor(size), func(s *Scene) error {
		began := time.Now()
		if err := w.create(ctx, gang(inference, "large", inferenceQueue, size)); err != nil {
			return err
		}
		return w.serve(ctx, s, began, size, "large")
	})
}

func (w *World) create(ctx context.Context, objects ...client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, object := range objects {
		group.Go(func() error {
			if err := w.client.Create(ctx, object); err != nil {
				return fmt.Errorf("create %s: %w", object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// leastFor is how many gangs must be broken for so many cards at once.
func leastFor(cards int) int { return (cards + GangSize - 1) / GangSize }

// scene plays one tide and takes account of it, until nobody has been lost for a
// while.
func (w *World) scene(ctx context.Context, pods, least int, play func(*Scene) error) (*Scene, error) {
	const calm = 4 * time.Second
	before, err := w.Retries(ctx)
	if err != nil {
		return nil, err
	}
	s := &Scene{Pods: pods}
	w.Book.open()
	if err := play(s); err != nil && !errors.Is(err, errTooLate) {
		return nil, err
	}
	if err := w.until(ctx, "calm", func() (bool, error) { return w.Book.sinceLost() > calm, nil }); err != nil {
		return nil, err
	}
	s.Loss = w.Book.account()
	s.Loss.Least = least
	s.Loss.Partial = w.Book.State().Partial
	after, err := w.Retries(ctx)
	s.Loss.Retries = after - before
	return s, err
}

// serve waits until so many pods of the workloads are bound and run.
func (w *World) serve(ctx context.Context, s *Scene, began time.Time, pods int, names ...string) error {
	deadline := time.After(TooLate)
	for {
		bound, running := w.Book.times(names...)
		if len(bound) > 0 {
			s.First, s.Bound = bound[0].Sub(began), bound[len(bound)-1].Sub(began)
		}
		if len(running) >= pods {
			s.Running = running[pods-1].Sub(began)
			s.Done += pods
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			s.Done += len(running)
			return fmt.Errorf("%d of %d: %w", len(running), pods, errTooLate)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Quantile is the value that so much of all are not above, by nearest rank.
func Quantile(values []time.Duration, part float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(part*float64(len(sorted)) + 0.999999)
	return sorted[max(0, min(rank, len(sorted))-1)]
}
