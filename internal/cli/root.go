// Package cli is kubectl cardquota, the kubectl plugin of Cardquota. Each command reads objects with
// the user's own rights, calls a pure function of a package below, and prints the result. No command
// writes to the cluster.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/internal/cli/output"
)

// Exit codes of the program. Commands that report a finding have further ones in their help.
const (
	exitOK    = 0
	exitError = 1
)

// exitCode is an error that was shown already: it only sets the exit code.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Run executes the program and returns its exit code. args begin with the name of the program. simulate
// may be nil.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, simulate Simulator) int {
	// Both libraries would write their own lines between the output, the second one stack traces.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	p := newProgram(streams)
	p.simulate = simulate
	return p.execute(ctx, completionArguments(args))
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

// program is what all commands share.
type program struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	format  output.Format
	// templates are kubectl's flags of templates, noHeaders its flag of tables.
	templates *genericclioptions.KubeTemplatePrintFlags
	noHeaders bool
	// connect returns a client of the cluster that the flags name.
	connect func() (client.WithWatch, error)
	now     func() time.Time
	// after is time.After.
	after func(time.Duration) <-chan time.Time
	// watches reports whether the command watches, and requestTimeout bounds its requests if it does not.
	watches        bool
	requestTimeout time.Duration
	// selector chooses objects by their labels, nil for all.
	selector labels.Selector
	// hasBegun reports that flags and arguments were right, and the command ran.
	hasBegun bool
	// simulate runs the scheduler, nil if the program does not contain it.
	simulate Simulator
	// isTerminal reports whether a writer is a terminal.
	isTerminal func(io.Writer) bool
	// terminalColumns returns the width of a terminal, 0 for another writer.
	terminalColumns func(io.Writer) int
}

func newProgram(streams genericiooptions.IOStreams) *program {
	p := &program{
		streams: streams, flags: genericclioptions.NewConfigFlags(true), format: output.Table, templates: genericclioptions.NewKubeTemplatePrintFlags(),
		now: time.Now, after: time.After, isTerminal: isTerminal, terminalColumns: terminalColumns, requestTimeout: requestTimeout,
	}
	p.connect = p.connectCluster
	return p
}

func (p *program) execute(ctx context.Context, args []string) int {
	root := p.newRootCommand()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	command, err := root.ExecuteContextC(ctx)

	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil && errors.Is(err, context.Canceled): // Ctrl-C
		return exitError
	}

	p.printError(err)
	if !p.hasBegun {
		_, _ = fmt.Fprintf(p.streams.ErrOut, "See '%s --help' for usage.\n", command.CommandPath())
	}

	return exitError
}

// printError prints an error, wrapped for a person and in one line for a script, which may search it.
func (p *program) printError(err error) {
	text := "error: " + explainError(err)
	if p.isTerminal(p.streams.ErrOut) {
		text = strings.TrimSuffix(output.Indent(text, "", ""), "\n")
	}
	_, _ = fmt.Fprintln(p.streams.ErrOut, text)
}

// shownConnectionFlags are those of kubectl's flags that help texts show. The command options lists all.
var shownConnectionFlags = map[string]bool{"kubeconfig": true, "context": true, "namespace": true}

func (p *program) newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-cardquota",
		Short: "See the quotas of cards, who uses them, and what is wrong",
		Long: paragraphs("kubectl cardquota shows the quotas of cards, who uses them, and what is wrong.",
			"It reads with your own rights, and writes nothing to the cluster. All flags of kubectl that choose a cluster "+
				"and a user work here too, such as --context and --as: kubectl cardquota options lists them."),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl cardquota"},
		SilenceErrors: true, SilenceUsage: true,
		Args: refuseUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if _, err := p.newPrinter(); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		p.hasBegun = true
		return nil
	}

	root.SetFlagErrorFunc(explainFlagError)
	root.SetOut(p.streams.Out)
	root.SetErr(p.streams.ErrOut)
	root.SetIn(p.streams.In)
	p.flags.AddFlags(root.PersistentFlags())

	for _, flag := range flagsOf(root.PersistentFlags()) {
		flag.Hidden = !shownConnectionFlags[flag.Name]
	}

	mustSucceed(root.RegisterFlagCompletionFunc("namespace", p.completeNamespaces))
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", output.Columns)) + optionsHint)
	root.AddCommand(p.newTopCommand(), p.newWhyCommand(), p.newWhatIfCommand(), p.newInventoryCommand(), p.newImportCommand(), p.newDoctorCommand(),
		p.newReportCommand(), p.newVersionCommand(), newOptionsCommand())
	return root
}

// paragraphs wraps paragraphs of a help text.
func paragraphs(texts ...string) string {
	wrapped := make([]string, len(texts))
	for i, text := range texts {
		wrapped[i] = strings.Join(output.Wrap(text, output.Columns), "\n")
	}
	return strings.Join(wrapped, "\n\n")
}
