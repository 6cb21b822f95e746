// Command kubectl-cardquota is the kubectl plugin of Cardquota: kubectl cardquota.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cardquota.dev/operator/internal/cli"
	"cardquota.dev/operator/internal/simulation"
)

// scheduler answers for whatif and why. It is empty on Windows, for which Volcano's scheduler does not
// compile.
var scheduler simulation.Scheduler

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	code := cli.Run(ctx, os.Args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, scheduler)
	stop()
	os.Exit(code)
}
