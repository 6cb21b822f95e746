package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/bench/harness"
)

// TestBothSchedulersFillTheCluster runs a small benchmark. It does not check times: other tests
// may run at the same time.
func TestBothSchedulersFillTheCluster(t *testing.T) {
	var out strings.Builder
	r, err := compareSchedulers(t.Context(), size{nodes: 10, gangs: 10, runs: 1, period: 500 * time.Millisecond}, &out)
	t.Log(out.String())
	if err != nil && !errors.Is(err, errSlower) {
		t.Fatal(err)
	}

	for name, program := range map[string]string{stockName: "scheduler", ourName: "cardquota-scheduler"} {
		if len(r.measurements[name]) != 1 {
			t.Fatalf("%s: %d runs, want 1", name, len(r.measurements[name]))
		}
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

func TestImpossibleSizesAreRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for t, s := range check.Cases(t, map[string]size{
		"no node": {gangs: 1, runs: 1}, "no gang": {nodes: 1, runs: 1}, "no run": {nodes: 1, gangs: 1}, "more gangs than cards": {nodes: 4, gangs: 5, runs: 1},
	}) {
		_, err := compareSchedulers(ctx, s, os.Stderr)
		check.Says(t, err, "at least one of each")
	}
}

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

func TestOurMedianDecides(t *testing.T) {
	drains := func(times ...int) (all []measurement) {
		for _, n := range times {
			all = append(all, measurement{all: time.Duration(n) * time.Second})
		}
		return all
	}

	for name, tc := range map[string]struct {
		theirs, own []measurement
		want        error
		says        string
	}{
		"faster":                       {drains(9, 30, 10), drains(8, 5, 60), nil, "takes 0.80 times as long"},
		"as fast":                      {drains(10), drains(10), nil, "takes 1.00 times as long as stock Volcano: it is not slower"},
		"slower":                       {drains(10, 10, 10), drains(9, 11, 11), errSlower, "takes 1.10 times as long as stock Volcano: it is slower"},
		"of two runs the mean decides": {drains(10, 10), drains(1, 21), errSlower, "after 11.0 s in the median of 2 runs, from 1.0 s to 21.0 s"},
	} {
		var out strings.Builder
		r := report{measurements: map[string][]measurement{stockName: tc.theirs, ourName: tc.own}}
		err := r.printComparison(&out)
		check.That(t, errors.Is(err, tc.want) && strings.Contains(out.String(), tc.says), "%s: %v and\n%s", name, err, out.String())
	}
}

func TestProcessorTimeIsReadFromTheKernel(t *testing.T) {
	used := map[string]float64{wholeMachine: 10, "a": 3, "b": 4}
	check.Equal(t, "seconds elsewhere", 3, otherCPUSeconds(used))
	check.Equal(t, "seconds of the benchmark", map[string]float64{"a": 3, "b": 4}, used)
	now, err := processorTime()
	check.That(t, err == nil && now["bench"] > 0 && now[wholeMachine] >= now["bench"], "%v, %v", now, err)
}
