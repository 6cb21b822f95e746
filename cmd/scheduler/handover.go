package main

import (
	"context"
	"errors"
	"os"

	"k8s.io/klog/v2"
)

// takeTurns stands for election whenever no other scheduler runs, until this
// process has led or ctx ends. Another scheduler that appears ends the election:
// a process that has not led yet waits until it is gone, one that leads stops,
// frees the lease and ends with an error, because Volcano cannot be started a
// second time. newTurn makes an election that was not run yet.
func takeTurns(asked, ctx context.Context, others *foreign, newTurn func() *election) error {
	for {
		if others.gone(ctx) != nil {
			return stopReason(asked, ctx)
		}
		term, end := context.WithCancelCause(ctx)
		go func() {
			if err := others.arrival(term); err != nil {
				end(err)
			}
		}()
		turn := newTurn()
		err := turn.run(term)
		cause := stopReason(asked, term)
		end(nil)
		if err != nil || cause == nil || turn.led || ctx.Err() != nil {
			return errors.Join(err, cause)
		}
		klog.InfoS("stands back from the election", "reason", cause.Error())
	}
}

// ownPod is the name of the pod that this process runs in.
func ownPod() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, _ := os.Hostname() // without a name no pod is the own one
	return name
}
