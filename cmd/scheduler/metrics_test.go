package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/metricnames"
)

func TestTheTableOfMetricsIsWhatTheSchedulerExports(t *testing.T) {
	registry, ok := prometheus.DefaultRegisterer.(*prometheus.Registry)
	check.Must(t, ok, "the registry is a %T", prometheus.DefaultRegisterer)
	documented, _ := metricnames.Documented(t, "../../docs/metrics.md")
	check.Equal(t, "metrics (-docs/metrics.md +the scheduler)", documented, metricnames.Registered(registry))
}
