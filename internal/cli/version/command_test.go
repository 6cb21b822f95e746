package version

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// execute runs the command against a cluster with some objects.
var execute = kubectl.Plugin{Commands: []program.Command{NewCommand}}.Execute

// TestVersionShowsWhichProgramsFit: kubectl cardquota v0.2.1 shows three versions: its own, that of the operator and
// that of the scheduler. It reads the second from the image of the Deployment, and the third from the status of the
// policy. Another minor version does not fit. The golden files have the whole output, also for users who may read
// less, and for a cluster without the programs.
func TestVersionShowsWhichProgramsFit(t *testing.T) {
	defer func(version string) { build.Version = version }(build.Version)
	build.Version = "v0.2.1"

	fits := []client.Object{kubectl.Deployment("cardquota-manager", "registry:5000/cardquota-manager:v0.2.0"), kubectl.PolicyWithScheduler("v0.2.0")}
	differs := []client.Object{kubectl.Deployment("cardquota-manager", "cardquota-manager:v0.3.0"), kubectl.PolicyWithScheduler("v0.1.0")}
	digest := []client.Object{kubectl.Deployment("cardquota-manager", "cardquota-manager@sha256:0123")}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
	}{
		"fits":    {fits, kubectl.MayReadAll, "version"},
		"json":    {fits, kubectl.MayReadAll, "version -o json"},
		"differs": {differs, kubectl.MayReadAll, "version"},
		"unknown": {digest, kubectl.MayReadAll, "version"}, // an image with a digest states no version
		"tenant":  {fits, kubectl.Forbid(deployments, &appsv1.DeploymentList{}), "version"},
		"lab":     {nil, kubectl.ForbidCluster("lab"), "version"}, // a user of namespace lab alone
		"client":  {nil, kubectl.MayReadAll, "version --client"},
		"nothing": {nil, kubectl.MayReadAll, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, tc.objects, tc.intercept, tc.command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("version-" + name).FitsTerminal()
		})
	}
}
