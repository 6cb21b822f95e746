// Command bench-tide measures how fast inference reclaims cards from training, and at what
// loss. It compares this repository's scheduler with its action cardreclaim to the same
// scheduler with Volcano's action reclaim, alternately on equal fresh clusters.
//
//	bench-tide [-nodes 500] [-singles 100] [-requests 50] [-flood 400] [-gang 512] [-runs 3] [-out dist] [-profile DIR]
//
// It writes bench-tide.md and bench-tide.json into the folder -out. It exits with 1 when a
// requirement is not met, and names it. It exits with 2 when the measurement failed. It prints
// the load of the machine, which affects the times.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"cardquota.dev/operator/test/bench/harness"
)

// errFailed reports that a requirement is not met.
var errFailed = errors.New("not all requirements are met")

func main() {
	s := size{}
	flag.IntVar(&s.Nodes, "nodes", 500, "number of nodes with eight cards, and of training gangs of eight pods")
	flag.IntVar(&s.Singles, "singles", 100, "number of training pods that wait beside the gangs")
	flag.IntVar(&s.Requests, "requests", 50, "number of inference pods that come one at a time")
	flag.IntVar(&s.Flood, "flood", 400, "number of inference pods that come at once, a multiple of eight")
	flag.IntVar(&s.Gang, "gang", 512, "number of pods of the inference gang")
	flag.IntVar(&s.Runs, "runs", 3, "runs of each action")
	flag.BoolVar(&s.Packed, "packed", false, "every training gang on a node of its own, instead of scattered over the nodes")

	flag.DurationVar(&s.Period, "schedule-period", time.Second, "time between scheduling sessions")
	flag.StringVar(&s.profiles, "profile", "", "`folder` for a CPU profile of the scheduler in every scene")
	out := flag.String("out", "dist", "`folder` for the report")
	harness.RunMain("bench-tide", func(ctx context.Context) error { return run(ctx, s, *out) }, errFailed)
}

// run measures, writes the report, and checks the requirements.
func run(ctx context.Context, s size, folder string) error {
	r, err := compareActions(ctx, s, os.Stdout)
	if err != nil {
		return err
	}

	fmt.Printf("\n%s\n", r.markdown())
	if err := r.writeFiles(folder); err != nil {
		return err
	}

	failures := r.unmetRequirements()
	for _, failure := range failures {
		fmt.Println("FAILED:", failure)
	}

	if len(failures) > 0 {
		return errFailed
	}
	fmt.Println("All requirements are met.")

	return nil
}
