package enforced

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var enforcedDesc = prometheus.NewDesc("cardquota_enforced",
	"1 while card quotas are proven to be enforced in the whole cluster, else 0; absent without a ServiceTypePolicy.", []string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (w *Watch) Describe(ch chan<- *prometheus.Desc) { ch <- enforcedDesc }

// Collect implements prometheus.Collector.
func (w *Watch) Collect(ch chan<- prometheus.Metric) {
	verdict, known := w.whole()
	if !known || verdict.Status == metav1.ConditionUnknown {
		return
	}
	value := 0.0
	if verdict.Status == metav1.ConditionTrue {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(enforcedDesc, prometheus.GaugeValue, value, verdict.Reason)
}
