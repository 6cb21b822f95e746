package cardinventory

import (
	"fmt"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// DeviceSlice is what a ResourceSlice says about the devices of a driver of dynamic resource allocation.
type DeviceSlice struct {
	Driver, Pool string
	// Generation is that of the pool. Slices of earlier generations are outdated.
	Generation int64
	// Nodes are the nodes that have the devices, none if the slice does not name them.
	Nodes []string
	// Devices is the number of devices. It is 0 if they can overlap, as parts of cards do.
	Devices int64
}

// addClaimCards adds the cards that drivers hand out by ResourceClaims, one anomaly for each driver.
func (l anomalyList) addClaimCards(slices []DeviceSlice) {
	// A driver replaces its slices by those of a new generation. Until then it offers the devices
	// twice.
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, slice := range slices {
		key := pool{slice.Driver, slice.Pool}
		newest[key] = max(newest[key], slice.Generation)
	}

	for _, slice := range slices {
		isOutdated := slice.Generation < newest[pool{slice.Driver, slice.Pool}]
		if isOutdated || !card.IsAcceleratorDriver(slice.Driver) {
			continue
		}

		key := anomalyKey{reason: v1alpha1.AnomalyResourceClaimCards, text: fmt.Sprintf(
			"driver %s hands out cards by ResourceClaims, and no quota limits these; pods of our scheduler get them only with unmanagedQueues: Ignore, pods of other schedulers freely: "+
				"offer the cards by a device plugin, and remove the driver", slice.Driver)}

		sum := l.add(key, "", card.Count(slice.Devices))
		for _, node := range slice.Nodes {
			sum.nodes[node] = true
		}
	}
}
