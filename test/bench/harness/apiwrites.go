package harness

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// writeVerbs are the verbs of requests that change something.
var writeVerbs = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// CountAPIWrites returns how many write requests the apiserver has received, such as "POST
// pods/binding". Leases are not counted: they are renewed by the clock.
func CountAPIWrites(ctx context.Context, client kubernetes.Interface) (map[string]int, error) {
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

// WaitUntilIdle waits until no API write has happened for a while. Writes that are ignored do not
// count; nil ignores none.
func WaitUntilIdle(ctx context.Context, client kubernetes.Interface, rest time.Duration, ignore func(write string) bool) error {
	const timeout = 2 * time.Minute
	var last map[string]int
	since := time.Now()
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := CountAPIWrites(ctx, client)
		if ignore != nil {
			maps.DeleteFunc(now, func(write string, _ int) bool { return ignore(write) })
		}

		if !maps.Equal(now, last) {
			last = now
			since = time.Now()
		}
		return time.Since(since) >= rest, err
	})
	if err != nil {
		return fmt.Errorf("the cluster does not come to rest: %w", err)
	}

	return nil
}

// Difference subtracts an earlier reading from a later one and removes zeros.
func Difference[N Number](later, earlier map[string]N) map[string]N {
	moved := map[string]N{}
	for key, value := range later {
		if value != earlier[key] {
			moved[key] = value - earlier[key]
		}
	}
	return moved
}
