package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/scheduler/simulator"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// plugin is kubectl cardquota with all commands.
var plugin = kubectl.Plugin{Commands: commands, Scheduler: simulator.New()}

// execute runs a command against a cluster with some objects.
var execute = plugin.Execute

// newRootCommand returns the command with all others below it.
func newRootCommand() *cobra.Command {
	return program.New(genericiooptions.NewTestIOStreamsDiscard()).NewRootCommand(commands...)
}
