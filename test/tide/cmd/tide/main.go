// Command tide shows the daily ebb and flow of cards on a large cluster: training fills all
// cards, inference reclaims some of them, leaves, and training returns.
//
//	tide [-nodes 500] [-flood 400] [-gang 512]
//
// It exits with 1 when a check failed, and says which.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/tide"
)

// timeout bounds the demonstration.
const timeout = 20 * time.Minute

func main() {
	s := &demonstration{}
	flag.IntVar(&s.nodes, "nodes", 500, "number of nodes with eight cards, and of training gangs of eight pods")
	flag.IntVar(&s.flood, "flood", 400, "number of inference pods that come at once")
	flag.IntVar(&s.gang, "gang", 512, "number of pods of the inference gang")
	harness.RunMain("\ntide", func(ctx context.Context) error { return run(ctx, s) })
}

func run(ctx context.Context, s *demonstration) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after %s", timeout))
	defer cancel()

	began := time.Now()
	fmt.Printf("Starting etcd, Kubernetes, Volcano's controllers and webhooks, the operator, our scheduler, and %d nodes with %d cards each …\n", s.nodes, harness.GangSize)
	w, err := tide.Start(ctx, tide.Setup{Nodes: s.nodes, Period: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	fmt.Printf("Ready after %.0f s.\n", time.Since(began).Seconds())
	s.env = w
	s.Cluster = w.Cluster
	if err := s.playChapters(ctx); err != nil {
		return err
	}

	fmt.Printf("\nThe demonstration took %.0f s.\n", time.Since(began).Seconds())
	if len(s.failures) > 0 {
		return fmt.Errorf("failed checks: %w", errors.Join(s.failures...))
	}

	fmt.Println("All checks passed.")
	return nil
}
