package builder

import (
	"k8s.io/apimachinery/pkg/runtime"

	"cardquota.dev/operator/internal/testing/check"
)

// Scheme returns a scheme with the kinds that a test uses. A fake client makes a map of all its kinds for every
// write, so each further kind takes time.
func Scheme(t check.T, adders ...func(*runtime.Scheme) error) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range adders {
		check.NoError(t, add(scheme))
	}
	return scheme
}
