// Package cli is kubectl cardquota, the kubectl plugin of Cardquota. Each command reads objects with
// the user's own rights, calls a pure function of its package, and prints the result. No command
// writes to the cluster.
package cli

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

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

// Run executes the program and returns its exit code. args begin with the name of the program. simulate
// may be nil.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, simulate simulation.Simulator) int {
	// Both libraries would write their own lines between the output, the second one stack traces.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	p := program.New(streams)
	p.Simulate = simulate
	return p.Execute(ctx, completionArguments(args), commands...)
}

// completionPrefix begins the name under which kubectl starts a plugin to complete a command line.
const completionPrefix = "kubectl_complete-"

// completionArguments returns the arguments without the program. If kubectl started the program to
// complete a command line, through a link of another name, they become those of a completion.
func completionArguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.HasPrefix(filepath.Base(args[0]), completionPrefix) {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}
