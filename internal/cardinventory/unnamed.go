package cardinventory

import (
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
)

// UnnamedReasons are why cards of nodes have no name.
var UnnamedReasons = []v1alpha1.AnomalyReason{
	v1alpha1.AnomalyNoModelLabel, v1alpha1.AnomalySeveralModels, v1alpha1.AnomalyAmbiguousResource, v1alpha1.AnomalyInvalidLabel,
}

// LeavesUnnamed reports whether an anomaly is why cards have no name, so that a name that no node has may
// be theirs.
func LeavesUnnamed(anomaly v1alpha1.InventoryAnomaly) bool {
	return slices.Contains(UnnamedReasons, anomaly.Reason)
}
