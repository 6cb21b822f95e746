// Package monitoring plays a day on a local cluster, compressed into a minute, while a real
// Prometheus scrapes both programs as config/prometheus says. Its tests ask that Prometheus every
// query of the boards and of the alerts, and compare answers with the objects of the cluster.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/cluster"
)

// Jobs of the scrapes. An alert selects by the first two.
const (
	managerJob   = "cardquota-manager"
	schedulerJob = "cardquota-scheduler"
	// withoutTokenJob scrapes the operator without a token.
	withoutTokenJob = "without-token"
)

// ErrNoPrometheus reports that make prometheus found none for this machine.
var ErrNoPrometheus = errors.New("no Prometheus, which make prometheus takes from Debian's package")

// Prometheus is a running Prometheus.
type Prometheus struct {
	prometheusv1.API
	// Interval is the time between two scrapes and between two evaluations of the alerts.
	Interval time.Duration
}

// programPath returns the path of Prometheus' program.
func programPath(root string) (string, error) {
	path := filepath.Join(root, "bin", "prometheus", "prometheus")
	if _, err := os.Stat(path); err != nil {
		return "", ErrNoPrometheus
	}
	return path, nil
}

// scrape is what Prometheus scrapes and evaluates.
type scrape struct {
	interval time.Duration
	// manager and scheduler are the addresses of their metrics.
	manager, scheduler string
	// token may read metrics.
	token string
	// rules are groups of alerts in YAML.
	rules []byte
}

// startPrometheus starts Prometheus beside the programs of a cluster.
func startPrometheus(ctx context.Context, c *cluster.Cluster, program string, s scrape) (*Prometheus, error) {
	folder := filepath.Join(c.Dir(), "prometheus")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}

	for name, text := range map[string][]byte{"token": []byte(s.token), "rules.yaml": s.rules, "prometheus.yaml": []byte(s.configuration(folder))} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("prometheus: %w", err)
		}
	}

	address, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}

	_, err = c.StartProcess(ctx, cluster.ProcessSpec{
		Name: "prometheus", Path: program, Ready: cluster.HTTPProbe("http://" + address + "/-/ready"),
		Args: []string{
			"--config.file=" + filepath.Join(folder, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(folder, "data"),
			"--web.listen-address=" + address, "--log.level=warn",
		},
	})
	if err != nil {
		return nil, err
	}

	client, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}

	return &Prometheus{API: prometheusv1.NewAPI(client), Interval: s.interval}, nil
}

// configuration returns Prometheus' configuration. TLS and the token are those of the
// ServiceMonitors in config/prometheus.
func (s scrape) configuration(folder string) string {
	text := fmt.Sprintf("global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}\nrule_files: [%[2]q]\nscrape_configs:\n",
		model.Duration(s.interval), filepath.Join(folder, "rules.yaml"))
	authorization := fmt.Sprintf("authorization: {credentials_file: %q}, ", filepath.Join(folder, "token"))
	for _, job := range []struct{ name, address, authorization string }{
		{managerJob, s.manager, authorization}, {schedulerJob, s.scheduler, authorization}, {withoutTokenJob, s.manager, ""},
	} {
		text += fmt.Sprintf("- {job_name: %q, scheme: https, %stls_config: {insecure_skip_verify: true}, static_configs: [{targets: [%q]}]}\n",
			job.name, job.authorization, job.address)
	}
	return text
}

// Ask returns the series that a query has at one time. A warning is an error.
func (p *Prometheus) Ask(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	answer, warnings, err := p.Query(ctx, query, at)
	err = withWarnings(query, warnings, err)
	if err != nil {
		return nil, err
	}
	vector, ok := answer.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("%s: the answer is a %s", query, answer.Type())
	}
	return vector, nil
}

// AskRange returns the series that a query has from one time to another, with one value for each
// scrape. Values that are no number are skipped. A warning is an error.
func (p *Prometheus) AskRange(ctx context.Context, query string, from, to time.Time) (model.Matrix, error) {
	answer, warnings, err := p.QueryRange(ctx, query, prometheusv1.Range{Start: from, End: to, Step: p.Interval})
	err = withWarnings(query, warnings, err)
	if err != nil {
		return nil, err
	}

	matrix, ok := answer.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s: the answer is a %s", query, answer.Type())
	}

	for _, series := range matrix {
		series.Values = slices.DeleteFunc(series.Values, func(v model.SamplePair) bool { return math.IsNaN(float64(v.Value)) })
	}

	return slices.DeleteFunc(matrix, func(series *model.SampleStream) bool { return len(series.Values) == 0 }), nil
}

func withWarnings(query string, warnings []string, err error) error {
	if err == nil && len(warnings) > 0 {
		err = errors.New(strings.Join(warnings, "; "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// awaitTimeout is long enough for a busy machine.
const awaitTimeout = 90 * time.Second

// Await waits until each query has a series.
func (p *Prometheus) Await(ctx context.Context, queries ...string) error {
	for _, query := range queries {
		err := p.poll(ctx, func(ctx context.Context) error {
			vector, err := p.Ask(ctx, query, time.Now())
			if err == nil && len(vector) == 0 {
				err = errors.New("no series")
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("await %s: %w", query, err)
		}
	}

	return nil
}

// AwaitAlert waits until an alert is pending or firing, and returns it.
func (p *Prometheus) AwaitAlert(ctx context.Context, name string) (found prometheusv1.Alert, err error) {
	err = p.poll(ctx, func(ctx context.Context) error {
		result, err := p.Alerts(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(result.Alerts, func(a prometheusv1.Alert) bool { return a.Labels[model.AlertNameLabel] == model.LabelValue(name) })
		if i < 0 {
			return errors.New("it is inactive")
		}
		found = result.Alerts[i]
		return nil
	})
	if err != nil {
		err = fmt.Errorf("await alert %s: %w", name, err)
	}

	return found, err
}

// poll tries until there is no error.
func (p *Prometheus) poll(ctx context.Context, try func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, awaitTimeout, true, func(ctx context.Context) (bool, error) {
		if err := try(ctx); ctx.Err() == nil || last == nil {
			last = err
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", last, err)
	}
	return nil
}
