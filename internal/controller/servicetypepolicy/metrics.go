package servicetypepolicy

import (
	"github.com/prometheus/client_golang/prometheus"

	shared "cardquota.dev/operator/internal/controller"
)

func newEnforcedMetric() *shared.GaugeSet {
	return shared.NewGaugeSet("cardquota_enforced",
		"1 while card quotas are proven to be enforced in the whole cluster, else 0, with the reason of the policy's condition `Enforced`. Absent without a ServiceTypePolicy.", "reason")
}

func newSyncedMetric() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "cardquota_policy_config_synced",
		Help: "1 while the scheduler's ConfigMap has what the ServiceTypePolicy says, else 0. Absent without a ServiceTypePolicy.",
	}, []string{"policy"})
}

// Metrics returns metrics like those that Setup registers, for their descriptions.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{newEnforcedMetric(), newSyncedMetric()}
}
