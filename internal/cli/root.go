// Package cli is kubectl cardquota, the kubectl plugin of Cardquota. Each command reads objects with
// the user's own rights, calls a pure function of its package, and prints the result. No command
// writes to the cluster.
package cli

import (
	"context"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cardquota.dev/operator/internal/cli/doctor"
	"cardquota.dev/operator/internal/cli/importing"
	"cardquota.dev/operator/internal/cli/inventory"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/report"
	"cardquota.dev/operator/internal/cli/top"
	"cardquota.dev/operator/internal/cli/version"
	"cardquota.dev/operator/internal/cli/whatif"
	"cardquota.dev/operator/internal/cli/why"
	"cardquota.dev/operator/internal/simulation"
)

// commands are all commands of kubectl cardquota.
var commands = []program.Command{
	top.NewCommand, why.NewCommand, whatif.NewCommand, inventory.NewCommand, importing.NewCommand, doctor.NewCommand, report.NewCommand, version.NewCommand,
}

// Run executes the program and returns its exit code. args begin with the name of the program. scheduler
// may be empty.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, scheduler simulation.Scheduler) int {
	p := program.New(streams)
	p.Scheduler = scheduler
	return p.Run(ctx, args, commands...)
}
