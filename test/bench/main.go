// Command bench measures how fast a full cluster is filled. It compares Volcano's stock
// scheduler with its plugin capacity to this repository's scheduler, one after the other on
// equal fresh clusters.
//
//	bench [-nodes 500] [-gangs 500] [-runs 3] [-profile DIR]
//
// All gangs wait before a scheduler starts. The measured time is from its start until the last
// pod is bound. Bench exits with 1 when the median of our scheduler is longer than that of the
// stock scheduler, and with 2 when the measurement failed. It prints the load of the machine,
// which affects the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"cardquota.dev/operator/test/bench/harness"
)

// errSlower reports that our scheduler was slower.
var errSlower = errors.New("our scheduler took longer than the stock scheduler")

// size is the size of the benchmark.
type size struct {
	nodes, gangs, runs int
	period             time.Duration
	// profiles is the folder for CPU profiles of both schedulers, "" for none.
	profiles string
}

func main() {
	s := size{}
	flag.IntVar(&s.nodes, "nodes", 500, "number of nodes, each with eight cards")
	flag.IntVar(&s.gangs, "gangs", 500, "number of gangs, each of eight pods with one card; at most one per node")
	flag.IntVar(&s.runs, "runs", 3, "runs of each scheduler")
	flag.DurationVar(&s.period, "schedule-period", time.Second, "time between scheduling sessions")
	flag.StringVar(&s.profiles, "profile", "", "`folder` for a CPU profile of the first ten seconds of every drain")
	harness.RunMain("bench", func(ctx context.Context) error {
		_, err := compareSchedulers(ctx, s, os.Stdout)
		return err
	}, errSlower)
}

// compareSchedulers runs both schedulers s.runs times and reports to out. The error is
// errSlower when the measurement succeeded and ours is slower.
func compareSchedulers(ctx context.Context, s size, out io.Writer) (report, error) {
	if s.nodes < 1 || s.gangs < 1 || s.gangs > s.nodes || s.runs < 1 {
		return report{}, fmt.Errorf("%d gangs on %d nodes in %d runs: at least one of each, and no more gangs than nodes", s.gangs, s.nodes, s.runs)
	}

	r := report{size: s, measurements: map[string][]measurement{}}
	r.printHeader(out)
	err := harness.RunAlternating(s.runs, []string{stockName, ourName}, func(name string) error {
		d, err := measureRun(ctx, s, name)
		if err == nil {
			r.addRun(out, name, d)
		}
		return err
	}, out)
	if err != nil {
		return r, err
	}

	return r, r.printComparison(out)
}
