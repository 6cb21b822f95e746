// Command cardquota-scheduler is Volcano's scheduler with card quotas: Volcano v1.14.1's
// actions and plugins, the capacity-card plugin, and a start-up that schedules nothing until
// there is a configuration that enforces quotas.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	// Credential plugins of kubeconfig files.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	cliflag "k8s.io/component-base/cli/flag"
	// Metrics of API requests.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	"k8s.io/klog/v2"
	// Volcano's own actions and plugins register themselves.
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	// Decides by PANIC_ON_ERROR what Volcano's assertions do.
	_ "volcano.sh/volcano/pkg/scheduler/util/assert"
)

func main() {
	// Volcano looks up the flag v in the command line's flag set while it runs.
	klog.InitFlags(nil)
	flags := addFlags(pflag.CommandLine)
	pflag.CommandLine.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if flags.volcano.PrintVersion {
		fmt.Println(versionLine())
		return
	}
	os.Exit(start(flags))
}

// start returns the process's exit code: 0 only if the scheduler was asked to stop and did.
func start(flags *flags) int {
	if err := flags.complete(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	klog.StartFlushDaemon(flags.logFlush)
	defer klog.Flush()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)

	if err := run(ctx, flags); err != nil {
		klog.ErrorS(err, "the scheduler ends")
		return 1
	}
	klog.InfoS("the scheduler ends as it was asked to")
	return 0
}
