package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"cardquota.dev/operator/test/arena"
)

// writeVerbs are the verbs of requests that change something.
var writeVerbs = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// writes counts the requests that changed something, or tried to, since the
// apiserver started: "POST pods/binding" to number. Leases are left out, which
// are renewed by the clock.
func writes(ctx context.Context, client kubernetes.Interface) (map[string]int, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the apiserver: %w", err)
	}
	return countWrites(text)
}

func countWrites(metrics []byte) (map[string]int, error) {
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

// quiet waits until nothing was written for a while.
func quiet(ctx context.Context, client kubernetes.Interface) error {
	const rest, patience = 2 * time.Second, 2 * time.Minute
	var last map[string]int
	since := time.Now()
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		now, err := writes(ctx, client)
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

// ticksPerSecond is USER_HZ, which is 100 on every Linux architecture of Go.
const ticksPerSecond = 100

// processorTime returns the CPU seconds used until now, by program: those of
// the children of this process, its own as "bench", and all of the machine as
// wholeMachine.
func processorTime() (map[string]float64, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	machine, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	whole, err := parseMachine(string(machine))
	if err != nil {
		return nil, fmt.Errorf("/proc/stat: %w", err)
	}
	used := map[string]float64{wholeMachine: whole}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		process, parent, seconds, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if process == os.Getpid() {
			used["bench"] = seconds
		}
		if parent != os.Getpid() {
			continue
		}
		if program, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe")); err == nil {
			used[filepath.Base(program)] += seconds
		}
	}
	return used, nil
}

// wholeMachine is the key of the CPU seconds of all programs that run.
const wholeMachine = "the whole machine"

// elsewhere takes the machine's CPU seconds out of a difference and returns
// those that were used by programs that do not belong to the benchmark.
func elsewhere(used map[string]float64) float64 {
	foreign := used[wholeMachine]
	delete(used, wholeMachine)
	return max(0, foreign-total(used))
}

// parseStat reads /proc/<pid>/stat. The program's name in it may hold anything.
func parseStat(text string) (process, parent int, seconds float64, err error) {
	before, _, _ := strings.Cut(text, " ")
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 13 {
		return 0, 0, 0, fmt.Errorf("%d fields", len(fields))
	}
	process, err = strconv.Atoi(before)
	parent, wrong := strconv.Atoi(fields[1])
	seconds, ticks := ticksOf(fields[11:13]) // utime, stime
	return process, parent, seconds, errors.Join(err, wrong, ticks)
}

// parseMachine reads /proc/stat: the first line is all processors' time as
// user, nice, system, idle, iowait, irq, softirq and more.
func parseMachine(text string) (seconds float64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("the first line is %q", line)
	}
	return ticksOf(slices.Concat(fields[1:4], fields[6:8]))
}

func ticksOf(fields []string) (seconds float64, err error) {
	for _, field := range fields {
		ticks, wrong := strconv.Atoi(field)
		err = errors.Join(err, wrong)
		seconds += float64(ticks) / ticksPerSecond
	}
	return seconds, err
}

// less takes an earlier reading from a later one; what did not move is left out.
func less[N arena.Number](later, earlier map[string]N) map[string]N {
	moved := map[string]N{}
	for key, value := range later {
		if value != earlier[key] {
			moved[key] = value - earlier[key]
		}
	}
	return moved
}
