package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTheProgramLinksNoScheduler: for Windows kubectl cardquota is small. It links neither Volcano's scheduler nor the
// operator, except the operator's pure rules of admission. For other systems it adds the scheduler, for whatif. The test
// asks go list what the program for Windows depends on.
func TestTheProgramLinksNoScheduler(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./cmd/kubectl-cardquota")
	list.Dir = "../.."
	list.Env = append(os.Environ(), "GOOS=windows")

	packages := check.Value(list.Output())(t)
	check.Contains(t, "packages", string(packages), "cardquota.dev/operator/internal/cli\n")
	for name := range strings.Lines(string(packages)) {
		name = strings.TrimSpace(name)
		if name == "cardquota.dev/operator/internal/validation" {
			continue
		}

		for _, unwanted := range []string{
			"volcano.sh/volcano", "sigs.k8s.io/controller-runtime/pkg/manager", "k8s.io/client-go/kubernetes/typed",
			"cardquota.dev/operator/internal/controller", "cardquota.dev/operator/internal/webhook", "cardquota.dev/operator/internal/scheduler",
		} {
			check.That(t, !strings.HasPrefix(name+"/", unwanted+"/"), "the program imports %s", name)
		}
	}
}
