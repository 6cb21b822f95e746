package servicetype

import (
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

func TestMinimumRuntimeHasBounds(t *testing.T) {
	for runtime, good := range map[time.Duration]bool{
		0: true, 1: true, time.Hour: true, MaxMinimumRuntime: true,
		-1: false, -time.Hour: false, MaxMinimumRuntime + 1: false, 1<<63 - 1: false,
	} {
		matrix := Matrix{"inference": {ReclaimFrom: []string{"training"}}, "training": {Reclaimable: true, MinimumRuntime: runtime}}
		err := matrix.Validate()
		check.That(t, good == (err == nil), "a minimum runtime of %s: error %v, want accepted %v", runtime, err, good)
		check.That(t, err == nil || strings.Contains(err.Error(), `type "training" has a minimum runtime of `+runtime.String()+": write 0s to 168h0m0s"), "the refusal of %s does not help: %v", runtime, err)
	}

	check.Equal(t, "the default matrix has a minimum runtime", 0, DefaultMatrix()["training"].MinimumRuntime)
}
