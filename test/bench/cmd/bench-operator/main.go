// Command bench-operator measures what the operator costs on a large cluster: memory, processor
// time, writes, and how late the status of its objects is.
//
//	bench-operator [-nodes 5000] [-pods 50000] [-quotas 1000] [-cards 20] [-views 1] [-changes 50]
//	               [-duration 3m] [-rest-quotas 10000] [-rest 2m] [-lowerings 30] [-profile DIR]
//
// It starts etcd and an API server, fills them, and runs the operator with the rights of its
// ServiceAccount. There is no scheduler: the benchmark creates, binds and deletes pods itself. It
// recounts the pods from its own watch, and compares every status with that. It reads the metrics of
// the operator as often as Prometheus does.
//
// It exits with 1 when a limit is exceeded, and names it. It exits with 2 when the measurement
// failed. It prints the load of the machine, which affects the times.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"cardquota.dev/operator/test/bench/harness"
)

// errExceeded reports that a limit is exceeded.
var errExceeded = errors.New("not all limits are kept")

// size is the size of the benchmark.
type size struct {
	nodes, pods, quotas, cards int
	// views is how many namespaces may use the queue of a CardQuota. Each has a LocalCardQuota.
	views int
	// changes is how many changes of pods there are in a second, during duration.
	changes  float64
	duration time.Duration
	// restQuotas is how many CardQuotas there are while nothing changes, during rest.
	restQuotas int
	rest       time.Duration
	// lowerings is how many of them are lowered to 0 afterwards, one after the other.
	lowerings int
	// settle is how long the operator must have written nothing to be at rest: longer than it delays
	// any status.
	settle time.Duration
	// profiles is the folder for profiles of the operator, "" for none.
	profiles string
}

func main() {
	s := size{settle: 12 * time.Second}
	flag.IntVar(&s.nodes, "nodes", 5000, "number of nodes, each with eight cards")
	flag.IntVar(&s.pods, "pods", 50_000, "number of pods with one card, in gangs of eight; a fifth of them waits")
	flag.IntVar(&s.quotas, "quotas", 1000, "number of CardQuotas")
	flag.IntVar(&s.cards, "cards", 20, "number of card models, which each CardQuota lists")
	flag.IntVar(&s.views, "views", 1, "number of namespaces with a LocalCardQuota for each CardQuota")
	flag.Float64Var(&s.changes, "changes", 50, "changes of pods in a second")
	flag.DurationVar(&s.duration, "duration", 3*time.Minute, "how long pods change")
	flag.IntVar(&s.restQuotas, "rest-quotas", 10_000, "number of CardQuotas at rest; 0 leaves this part out")
	flag.DurationVar(&s.rest, "rest", 2*time.Minute, "how long nothing changes")
	flag.IntVar(&s.lowerings, "lowerings", 30, "number of quotas that are lowered afterwards, while the cards of a node change")
	flag.StringVar(&s.profiles, "profile", "", "`folder` for profiles of the operator: of its start, under load, at rest and while quotas are lowered")

	debug.SetGCPercent(400) // the benchmark shares its processors with what it measures
	harness.RunMain("bench-operator", func(ctx context.Context) error {
		r, err := measureOperator(ctx, s, os.Stdout)
		return r.finish(os.Stdout, err)
	}, errExceeded)
}

// validate returns an error for a size that cannot be measured.
func (s *size) validate() error {
	lacksSome := s.nodes < 1 || s.quotas < 1 || s.cards < 1 || s.views < 1 || s.changes <= 0
	if lacksSome || s.pods < s.quotas*gangSize {
		return fmt.Errorf("%d nodes, %d pods, %d CardQuotas of %d cards in %d namespaces, %g changes in a second: at least one of each, and %d pods for each CardQuota",
			s.nodes, s.pods, s.quotas, s.cards, s.views, s.changes, gangSize)
	}
	return nil
}

// measureOperator measures once and reports to out what it does. With an error it returns what was
// measured until then, nil for nothing.
func measureOperator(ctx context.Context, s size, out io.Writer) (r *report, err error) {
	if err := s.validate(); err != nil {
		return nil, err
	}

	if s.profiles != "" { // before the minutes that the start takes
		if err := os.MkdirAll(s.profiles, 0o750); err != nil {
			return nil, err
		}
	}

	r = &report{size: s}
	r.printHeader(out)
	e, err := startEnv(ctx, s, out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()

	if err := e.fill(ctx); err != nil {
		return nil, err
	}
	if err := e.startOperator(ctx, r); err != nil {
		return nil, err
	}

	err = e.measureLoad(ctx, r)
	if err == nil && s.restQuotas > 0 {
		err = e.measureRest(ctx, r)
		if err == nil && s.lowerings > 0 {
			err = e.measureLowered(ctx, r)
		}
	}

	r.scrapes, r.unreadable = e.scraper.stop()
	return r, err
}
