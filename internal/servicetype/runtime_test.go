package servicetype

import (
	"math"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestMinimumRuntimeIsAtMostAWeek: a service type can protect its jobs from reclaim for a minimum runtime, from 0 to
// 168 hours (MaxMinimumRuntime). The error says what to write. By default training has none.
func TestMinimumRuntimeIsAtMostAWeek(t *testing.T) {
	validate := func(minimumRuntime time.Duration) error {
		return Matrix{"training": {Reclaimable: true, MinimumRuntime: minimumRuntime}}.Validate()
	}

	for _, accepted := range []time.Duration{0, 1, time.Hour, 168 * time.Hour} {
		check.NoError(t, validate(accepted))
	}
	for _, refused := range []time.Duration{-1, -time.Hour, 168*time.Hour + 1, math.MaxInt64} {
		check.Says(t, validate(refused), `type "training" has a minimum runtime of `+refused.String()+": write 0s to 168h0m0s")
	}

	check.Equal(t, "minimum runtime of the default matrix", 0, DefaultMatrix()["training"].MinimumRuntime)
}
