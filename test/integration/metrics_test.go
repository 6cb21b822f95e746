package integration

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/metricnames"
)

func TestTheOtherMetricsOfThePageAreWhatTheOperatorExports(t *testing.T) {
	_, documented := metricnames.Documented(t, "../../docs/metrics.md")
	check.Equal(t, "metrics (-docs/metrics.md +the operator)", documented, metricnames.Registered(metrics))
}
