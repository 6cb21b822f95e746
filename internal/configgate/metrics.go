package configgate

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	configValid = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "cardquota_scheduler_config_valid",
		Help: "1 if the scheduler configuration as it is written now is in force, 0 if it is missing or was refused.",
	})
	configInfo = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "cardquota_scheduler_config_info",
		Help: "Always 1; the label is the SHA-256 of the scheduler configuration in force. Absent while there is none.",
	}, []string{"hash"})
)

func setMetrics(status Status) {
	configValid.Set(0)
	if status.Reason == ReasonLoaded {
		configValid.Set(1)
	}
	configInfo.Reset()
	if status.Hash != "" {
		configInfo.WithLabelValues(status.Hash).Set(1)
	}
}
