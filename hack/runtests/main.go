// Command runtests runs the project's tests in stages and reports times and results. The
// Makefile calls it:
//
//	runtests test     what every change needs: make test
//	runtests all      everything: make test-all
//	runtests quick    unit tests and lint of what changed: make quick
//	runtests inputs   the files that decide each stage, which explain why one ran
//
// Stages run in parallel lanes. A stage that is slow and rarely fails is a group: make test
// runs it only when a file that affects its result has changed since it last passed
// (choose.go). The files are derived from the sources (inputs.go).
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

	useMakefileBuildFlags()
	ok, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// useMakefileBuildFlags builds as the Makefile does, even when this program is started without
// make: other flags would compile every library again.
func useMakefileBuildFlags() {
	flags := os.Getenv("GOFLAGS")
	if !strings.Contains(flags, "-trimpath") {
		flags = strings.TrimSpace(flags + " -trimpath")
	}
	_ = os.Setenv("GOFLAGS", flags) // fails for names that are not valid only
	_ = os.Setenv("CGO_ENABLED", "0")
}

func run(ctx context.Context, args []string) (bool, error) {
	command := "test"
	if len(args) > 0 {
		command = args[0]
	}

	p, err := loadProject(ctx)
	if err != nil {
		return false, err
	}

	switch command {
	case "test", "all":
		return runStages(ctx, p, command == "all", args[min(1, len(args)):])
	case "quick":
		return runQuick(ctx, p)
	case "inputs":
		printInputs(p)
		return true, nil
	default:
		return false, fmt.Errorf("unknown command %q: use test, all, quick or inputs", command)
	}
}

// printInputs prints the inputs of each stage.
func printInputs(p *project) {
	for _, s := range allStages(p) {
		files := p.stageInputs(s)
		fmt.Printf("%s: %d files\n", s.name, len(files))
		for _, file := range files {
			fmt.Println("  " + file)
		}
	}
}
