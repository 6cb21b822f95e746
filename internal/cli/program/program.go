// Package program is what the commands of kubectl cardquota share: the flags of kubectl, the client, how
// results and errors are printed, and completion. The commands are in the packages beside it.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/simulation"
)

// Exit codes of the program. Commands that report a finding have further ones in their help.
const (
	ExitOK    = 0
	ExitError = 1
	// ExitWaits is that of why and whatif for a workload that waits.
	ExitWaits = 2
)

// ExitCode is an error that was shown already: it only sets the exit code.
type ExitCode int

// Error returns a text that is not shown.
func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Program is what all commands share.
type Program struct {
	// Streams are where the commands read and print.
	Streams genericiooptions.IOStreams
	// Format is how the result is printed, by the flag --output.
	Format output.Format
	// Connect returns a client of the cluster that the flags name.
	Connect func() (client.WithWatch, error)
	// Now is the clock.
	Now func() time.Time
	// After is time.After.
	After func(time.Duration) <-chan time.Time
	// Watches reports whether the command watches, and RequestTimeout bounds its requests if it does not.
	Watches        bool
	RequestTimeout time.Duration
	// Scheduler answers what the scheduler would do, empty if the program does not contain it.
	simulation.Scheduler
	// IsTerminal reports whether a writer is a terminal.
	IsTerminal func(io.Writer) bool
	// TerminalColumns returns the width of a terminal, 0 for another writer.
	TerminalColumns func(io.Writer) int

	flags *genericclioptions.ConfigFlags
	// templates are kubectl's flags of templates, noHeaders its flag of tables.
	templates *genericclioptions.KubeTemplatePrintFlags
	noHeaders bool
	// hasBegun reports that flags and arguments were right, and the command ran.
	hasBegun bool
}

// New returns a program that reads the cluster which its flags name.
func New(streams genericiooptions.IOStreams) *Program {
	p := &Program{
		Streams: streams, flags: genericclioptions.NewConfigFlags(true), Format: output.Table, templates: genericclioptions.NewKubeTemplatePrintFlags(),
		Now: time.Now, After: time.After, IsTerminal: isTerminal, TerminalColumns: terminalColumns, RequestTimeout: requestTimeout,
	}
	p.Connect = p.connectCluster
	return p
}

// Command makes a command of a program.
type Command func(*Program) *cobra.Command

// Run executes the program and returns its exit code. args begin with the name of the program. It changes the loggers
// of libraries for the whole process.
func (p *Program) Run(ctx context.Context, args []string, commands ...Command) int {
	// Both libraries would write their own lines between the output, the second one stack traces.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	return p.Execute(ctx, completionArguments(args), commands...)
}

// Execute runs a command line without the name of the program, and returns the exit code. commands are all
// commands that the program has.
func (p *Program) Execute(ctx context.Context, args []string, commands ...Command) int {
	root := p.NewRootCommand(commands...)
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	command, err := root.ExecuteContextC(ctx)

	var code ExitCode
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code): // the command has printed its answer, and only the exit code is left
		return int(code)
	case ctx.Err() != nil && errors.Is(err, context.Canceled): // Ctrl-C
		return ExitError
	}

	p.printError(err)
	if !p.hasBegun { // flags or arguments are wrong
		_, _ = fmt.Fprintf(p.Streams.ErrOut, "See '%s --help' for usage.\n", command.CommandPath())
	}

	return ExitError
}

// printError prints an error, wrapped for a person and in one line for a script, which may search it.
func (p *Program) printError(err error) {
	text := "error: " + reader.Explain(err)
	if p.IsTerminal(p.Streams.ErrOut) {
		text = strings.TrimSuffix(output.Indent(text, "", ""), "\n")
	}
	_, _ = fmt.Fprintln(p.Streams.ErrOut, text)
}

// Namespace returns the namespace that flags or kubeconfig name.
func (p *Program) Namespace() (string, error) {
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// NewReader connects to the cluster.
func (p *Program) NewReader() (*reader.Reader, error) {
	c, err := p.Connect()
	if err != nil {
		return nil, err
	}
	return reader.New(c), nil
}
