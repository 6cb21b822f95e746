package tide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/arena"
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
	Loss       arena.Loss
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
			time.Sleep(time.Duration(i) * w.Period / time.Duration(count))
			name := fmt.Sprintf("request-%02d", i)
			began := time.Now()
			if err := w.Create(ctx, arena.Pod(arena.Inference, name, name, model).Queue(inferenceQueue).Obj()); err != nil {
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
			objects = append(objects, service(arena.Inference, names[i], inferenceQueue, replicas))
		}
		began := time.Now()
		if err := w.Create(ctx, objects...); err != nil {
			return err
		}
		return w.serve(ctx, s, began, deployments*replicas, names...)
	})
}

// Gang lets one job of inference come that runs as a whole or not at all.
func (w *World) Gang(ctx context.Context, size int) (*Scene, error) {
	return w.scene(ctx, size, leastFor(size), func(s *Scene) error {
		began := time.Now()
		if err := w.Create(ctx, gang(arena.Inference, "large", inferenceQueue, size)); err != nil {
			return err
		}
		return w.serve(ctx, s, began, size, "large")
	})
}

// leastFor is how many gangs must be broken for so many cards at once.
func leastFor(cards int) int { return (cards + arena.GangSize - 1) / arena.GangSize }

// scene plays one tide and takes account of it, until nobody has been lost for a
// while.
func (w *World) scene(ctx context.Context, pods, least int, play func(*Scene) error) (*Scene, error) {
	const calm = 4 * time.Second
	before, err := w.Retries(ctx)
	if err != nil {
		return nil, err
	}
	s := &Scene{Pods: pods}
	w.Book.Open()
	if err := play(s); err != nil && !errors.Is(err, errTooLate) {
		return nil, err
	}
	err = w.Until(ctx, "calm", func(context.Context) (bool, error) {
		var since time.Duration
		s.Loss, since = w.Book.Account()
		return since > calm, nil
	})
	if err != nil {
		return nil, err
	}
	s.Loss.Least, s.Loss.Partial = least, w.Book.State().Partial
	after, err := w.Retries(ctx)
	s.Loss.Retries = after - before
	return s, err
}

// serve waits until so many pods of the workloads are bound and run.
func (w *World) serve(ctx context.Context, s *Scene, began time.Time, pods int, names ...string) error {
	var served int
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, TooLate, true, func(context.Context) (bool, error) {
		bound, running := w.Book.Times(names...)
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
		err = fmt.Errorf("%d of %d: %w", served, pods, errTooLate)
	}
	return err
}
