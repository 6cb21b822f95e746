package program

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cardquota.dev/operator/internal/cli/output"
)

// shownConnectionFlags are those of kubectl's flags that help texts show. The command options lists all.
var shownConnectionFlags = map[string]bool{"kubeconfig": true, "context": true, "namespace": true}

// NewRootCommand returns the command kubectl cardquota with the given commands below it.
func (p *Program) NewRootCommand(commands ...Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-cardquota",
		Short: "See the quotas of cards, who uses them, and what is wrong",
		Long: Paragraphs("kubectl cardquota shows the quotas of cards, who uses them, and what is wrong.",
			"It reads with your own rights, and writes nothing to the cluster. All flags of kubectl that choose a cluster "+
				"and a user work here too, such as --context and --as: kubectl cardquota options lists them."),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl cardquota"},
		SilenceErrors: true, SilenceUsage: true,
		Args: refuseUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	// A wrong format is refused before the command reads the cluster. cobra calls this once flags and
	// arguments are right, so a later error is none of usage.
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if _, err := p.newPrinter(); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		p.hasBegun = true
		return nil
	}

	root.SetFlagErrorFunc(explainFlagError)
	root.SetOut(p.Streams.Out)
	root.SetErr(p.Streams.ErrOut)
	root.SetIn(p.Streams.In)
	p.flags.AddFlags(root.PersistentFlags())

	// kubectl has some twenty of these flags. In each help they would hide the few of the
	// command.
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = !shownConnectionFlags[flag.Name] })

	CompleteFlag(root, "namespace", p.completeNamespaces)

	// FlagUsages is what cobra's template calls to list flags. The other function wraps them as wide as the other help.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", output.Columns)) + optionsHint)
	for _, newCommand := range commands {
		root.AddCommand(newCommand(p))
	}

	root.AddCommand(newOptionsCommand())
	return root
}

// Paragraphs wraps paragraphs of a help text.
func Paragraphs(texts ...string) string {
	wrapped := make([]string, len(texts))
	for i, text := range texts {
		wrapped[i] = strings.Join(output.Wrap(text, output.Columns), "\n")
	}
	return strings.Join(wrapped, "\n\n")
}
