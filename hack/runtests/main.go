// Command runtests runs the project's tests in stages and reports times and results. The
// Makefile calls it:
//
//	runtests test     what every change needs: make test
//	runtests all      everything: make test-all
//	runtests quick    unit tests and lint of what changed: make quick
//	runtests inputs   the files that decide each group
//
// Stages run in parallel lanes. A stage that is slow and rarely fails is a group: make test
// runs it only when one of its inputs has changed since it last passed in this clone.
//
// It does what git and go do not: it knows which files outside a package decide the result of
// its tests (go's cache of tests knows those that a test opens in its own process, and not
// those of the clusters and programs that it starts), it runs stages beside each other within
// two cores, ends what a stage started, repeats the output of failures at the end, and compares
// the times with a budget. Which files changed it asks git, which package imports which go list,
// and what a test did go test -json.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "exec" {
		fmt.Fprintln(os.Stderr, "runtests:", execTest(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}

	// When make is killed, this process ends as by Ctrl-C, with everything that it started.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// Other flags than the Makefile's would compile every library again.
	if flags := os.Getenv("GOFLAGS"); !strings.Contains(flags, "-trimpath") {
		_ = os.Setenv("GOFLAGS", strings.TrimSpace(flags+" -trimpath"))
	}
	_ = os.Setenv("CGO_ENABLED", "0")

	ok, err := run(ctx, append(os.Args[1:], "test")[0], os.Args[min(2, len(os.Args)):])
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, command string, only []string) (bool, error) {
	p, err := loadProject(ctx)
	if err != nil {
		return false, err
	}

	switch command {
	case "test", "all":
		return runStages(ctx, p, command == "all", only)
	case "quick":
		return runQuick(ctx, p)
	case "inputs":
		for _, s := range allStages(p) {
			if s.group {
				fmt.Printf("%s\n  %s\n", s.name, strings.Join(p.inputs(s), "\n  "))
			}
		}
		return true, nil
	default:
		return false, fmt.Errorf("unknown command %q: use test, all, quick or inputs", command)
	}
}
