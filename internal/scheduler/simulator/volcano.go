//go:build !windows

package simulator

import (
	"fmt"
	"sync"

	"github.com/spf13/pflag"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/metrics"
)

// simulationLock allows one simulation at a time: plugins, actions and options of Volcano are global.
var simulationLock sync.Mutex

// init sets Volcano's options before any goroutine reads the flags of the program. Volcano's cache calls options.Default
// too, and its first call has two effects that would hurt later: it replaces options that were set before, and it adds
// Volcano's flags to those of the program, so that the help of kubectl cardquota would list them.
func init() {
	flags := pflag.CommandLine
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	options.Default()
	pflag.CommandLine = flags
}

// prepareMetrics sets metrics that Kubernetes' scheduler plugins dereference.
var prepareMetrics = sync.OnceFunc(metrics.InitKubeSchedulerRelatedMetrics)

// recoverFromVolcano turns a panic into the error of the function that defers it. Volcano panics on some states, and a
// snapshot may be inconsistent.
func recoverFromVolcano(err *error) {
	if found := recover(); found != nil {
		*err = fmt.Errorf("the scheduler cannot work with this snapshot: %v", found)
	}
}
