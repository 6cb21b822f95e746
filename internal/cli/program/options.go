package program

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cardquota.dev/operator/internal/cli/output"
)

// optionsHint ends each help text.
const optionsHint = "\nkubectl cardquota options lists the flags of kubectl that every command takes.\n"

// newOptionsCommand returns the command that lists the flags of all commands, as kubectl options does.
func newOptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of kubectl that every command takes",
		Args:  RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shared := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
			cmd.InheritedFlags().VisitAll(func(flag *pflag.Flag) {
				shown := *flag
				shown.Hidden = false
				shared.AddFlag(&shown)
			})

			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Every command takes these flags of kubectl:\n\n%s", shared.FlagUsagesWrapped(output.Columns))
			return err
		},
	}
}
