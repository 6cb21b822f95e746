package leader

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The second handler counts from when the process began, which is the future in a bubble of synctest.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}
