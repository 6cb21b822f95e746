package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"cardquota.dev/operator/test/bench/harness"
)

// writeVerbs are the verbs of requests that change something.
var writeVerbs = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// countAPIWrites returns how many write requests the apiserver has received, such as "POST
// pods/binding". It leaves out Leases, which are renewed by the clock.
func countAPIWrites(ctx context.Context, client kubernetes.Interface) (map[string]int, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the apiserver: %w", err)
	}
	return parseAPIWrites(text)
}

func parseAPIWrites(metrics []byte) (map[string]int, error) {
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, series := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range series.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if writeVerbs[labels["verb"]] && labels["resource"] != "leases" {
			what := strings.TrimSuffix(labels["verb"]+" "+labels["resource"]+"/"+labels["subresource"], "/")
			counts[what] += int(series.GetCounter().GetValue())
		}
	}
	return counts, nil
}

// waitUntilIdle waits until no API write has happened for a while.
func waitUntilIdle(ctx context.Context, client kubernetes.Interface) error {
	const rest, timeout = 2 * time.Second, 2 * time.Minute
	var last map[string]int
	since := time.Now()
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := countAPIWrites(ctx, client)
		if !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		return time.Since(since) >= rest, err
	})
	if err != nil {
		return fmt.Errorf("the cluster does not come to rest before the start: %w", err)
	}
	return nil
}

// processorTime returns the CPU seconds used until now, by program: those of this process's
// children, its own as "bench", and those of the whole machine as wholeMachine.
func processorTime() (map[string]float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	machine, err := proc.Stat()
	if err != nil {
		return nil, err
	}
	processes, err := proc.AllProcs()
	if err != nil {
		return nil, err
	}
	busy := machine.CPUTotal
	used := map[string]float64{wholeMachine: busy.User + busy.Nice + busy.System + busy.IRQ + busy.SoftIRQ}
	for _, process := range processes {
		stat, err := process.Stat()
		if err != nil {
			continue // it has ended
		}
		if process.PID == os.Getpid() {
			used["bench"] = stat.CPUTime()
		}
		if stat.PPID != os.Getpid() {
			continue
		}
		if program, err := process.Executable(); err == nil {
			used[filepath.Base(program)] += stat.CPUTime()
		}
	}
	return used, nil
}

// wholeMachine is the key of the CPU seconds of all programs that run.
const wholeMachine = "the whole machine"

// otherCPUSeconds removes the machine's CPU seconds from a difference and returns those used by
// programs outside of the benchmark.
func otherCPUSeconds(used map[string]float64) float64 {
	foreign := used[wholeMachine]
	delete(used, wholeMachine)
	return max(0, foreign-sumValues(used))
}

// difference subtracts an earlier reading from a later one and leaves out zeros.
func difference[N harness.Number](later, earlier map[string]N) map[string]N {
	moved := map[string]N{}
	for key, value := range later {
		if value != earlier[key] {
			moved[key] = value - earlier[key]
		}
	}
	return moved
}
