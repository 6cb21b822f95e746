package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/bench/harness"
)

// TestBothSchedulersFillTheCluster: the benchmark measures how long stock Volcano and our scheduler take for the
// same pods. Each fills 10 nodes of 8 cards with 10 gangs of 8 pods in one run. A run measures times, nodes, writes
// to the API server and processor time, and the report compares both schedulers. No time is checked, because other
// tests may run on the machine.
func TestBothSchedulersFillTheCluster(t *testing.T) {
	var out strings.Builder
	r, err := compareSchedulers(t.Context(), size{nodes: 10, gangs: 10, runs: 1, period: 500 * time.Millisecond}, &out)
	t.Log(out.String())
	check.Must(t, err == nil || errors.Is(err, errSlower), "%v", err)

	for name, program := range map[string]string{stockName: "scheduler", ourName: "cardquota-scheduler"} {
		check.Must(t, len(r.measurements[name]) == 1, "%s: %d runs, want 1", name, len(r.measurements[name]))
		checkMeasurement(t, name, program, r.measurements[name][0])
		check.Contains(t, "report", out.String(), "\nRun 1 of "+name+"\n  all 80 pods bound after ", "\n"+name+": all pods bound after ")
	}

	check.Contains(t, "report", out.String(), "times as long as "+stockName)
}

// checkMeasurement checks that a run with 80 pods measured everything.
func checkMeasurement(t *testing.T, name, program string, d measurement) {
	check.That(t, d.first > 0 && d.half >= d.first && d.all >= d.half, "%s: first, half and all pods after %s, %s and %s", name, d.first, d.half, d.all)
	// 80 pods fill 10 nodes of 8 cards.
	check.That(t, d.nodes == 10 && d.nodesPerGang >= 1 && d.nodesPerGang <= harness.GangSize, "%s: pods on %d nodes, a gang on %.2f", name, d.nodes, d.nodesPerGang)
	check.That(t, d.apiWrites["POST pods/binding"] >= 80, "%s: writes %v, want at least 80 bindings", name, d.apiWrites)
	check.That(t, d.cpuSeconds[program] > 0 && d.cpuSeconds["kube-apiserver"] > 0 && d.load != "", "%s: CPU seconds %v at a load of %q", name, d.cpuSeconds, d.load)
}

// TestImpossibleSizesAreRefused: a size that cannot end is refused before a cluster starts: nothing to do, or more
// gangs than nodes have cards for. A node has the 8 cards of one gang.
func TestImpossibleSizesAreRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that no cluster starts if a size is accepted
	for t, s := range check.Cases(t, map[string]size{
		"no node":                    {gangs: 1, runs: 1},
		"no gang":                    {nodes: 1, runs: 1},
		"no run":                     {nodes: 1, gangs: 1},
		"5 gangs for 4 nodes' cards": {nodes: 4, gangs: 5, runs: 1},
	}) {
		_, err := compareSchedulers(ctx, s, os.Stderr)
		check.Says(t, err, "at least one of each")
	}
}

// TestEveryModelHasCardsForItsGangs: the cluster of the benchmark has exactly the cards that as many gangs as nodes
// ask for. A node has 8 cards of one of several models, and a gang has 8 pods with one card each. So the models of
// nodes and gangs must take turns alike.
func TestEveryModelHasCardsForItsGangs(t *testing.T) {
	for nodes := 1; nodes <= 13; nodes++ {
		cards := map[string]int{}
		asked := map[string]int{}
		for _, profile := range nodeProfiles(nodes) {
			cards[profile.Labels["nvidia.com/gpu.product"]] += profile.Count * harness.GangSize
		}

		for gang := range nodes {
			for member := range harness.GangSize {
				asked[gangPod(gang, member).Annotations["volcano.sh/card.name"]]++
			}
		}
		check.Equal(t, fmt.Sprintf("the cards of %d nodes and those that as many gangs ask for", nodes), cards, asked)
	}
}

// TestOurMedianDecides: the benchmark fails if our scheduler takes longer than stock Volcano to bind all pods. The
// medians of the runs are compared, or the mean of the middle two, so that one slow run does not decide. The
// numbers are seconds until all pods are bound.
func TestOurMedianDecides(t *testing.T) {
	drains := func(times ...int) (all []measurement) {
		for _, n := range times {
			all = append(all, measurement{all: time.Duration(n) * time.Second})
		}
		return all
	}

	for name, tc := range map[string]struct {
		stock, ours []measurement
		wantErr     error
		wantReport  string
	}{
		"medians 10 s and 8 s, the slowest run is ours: faster": {
			stock: drains(9, 30, 10), ours: drains(8, 5, 60), wantReport: "takes 0.80 times as long",
		},
		"both 10 s: not slower": {
			stock: drains(10), ours: drains(10), wantReport: "takes 1.00 times as long as stock Volcano: it is not slower",
		},
		"medians 10 s and 11 s, the fastest run is ours: slower": {
			stock: drains(10, 10, 10), ours: drains(9, 11, 11),
			wantErr: errSlower, wantReport: "takes 1.10 times as long as stock Volcano: it is slower",
		},
		"two runs of 1 s and 21 s, the mean is 11 s: slower than 10 s": {
			stock: drains(10, 10), ours: drains(1, 21),
			wantErr: errSlower, wantReport: "after 11.0 s in the median of 2 runs, from 1.0 s to 21.0 s",
		},
	} {
		var out strings.Builder
		r := report{measurements: map[string][]measurement{stockName: tc.stock, ourName: tc.ours}}
		check.Equal(t, name, tc.wantErr, r.printComparison(&out), cmpopts.EquateErrors())
		check.Contains(t, name, out.String(), tc.wantReport)
	}
}

// TestProcessorTimeIsReadFromTheKernel: a report says how busy the rest of the machine was. That is the time of the
// whole machine without the benchmark's own processes a and b: 10 s - 3 s - 4 s = 3 s. processorTime reads both from
// the kernel, and calls this process bench.
func TestProcessorTimeIsReadFromTheKernel(t *testing.T) {
	used := map[string]float64{wholeMachine: 10, "a": 3, "b": 4}
	check.Equal(t, "seconds elsewhere", 3, otherCPUSeconds(used))
	check.Equal(t, "seconds of the benchmark, without the whole machine", map[string]float64{"a": 3, "b": 4}, used)
	now, err := processorTime()
	check.That(t, err == nil && now["bench"] > 0 && now[wholeMachine] >= now["bench"], "%v, %v", now, err)
}
