package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/bench/harness"
)

// tour runs the steps of the tour until one fails: err.
type tour struct {
	harness.Narrator
	ctx  context.Context
	root string
	err  error
}

// runStep runs a step unless an earlier one failed.
func (g *tour) runStep(step func() error) {
	if g.err == nil {
		g.err = step()
	}
}

func (g *tour) printf(format string, args ...any) {
	g.runStep(func() error {
		_, err := fmt.Printf(format, args...)
		return err
	})
}

// showKubectl runs kubectl and prints the command and its output.
func (g *tour) showKubectl(args ...string) {
	g.runStep(func() error { return g.ShowKubectl(g.ctx, args...) })
}

// applyFiles applies one of the files of the tour.
func (g *tour) applyFiles(path ...string) {
	relative := filepath.Join(path...)
	verb := "-f"
	if filepath.Ext(relative) == "" {
		verb = "-k" // a folder with a kustomization
	}
	g.runStep(func() error {
		return g.ShowKubectlAs(g.ctx, "apply "+verb+" "+relative, "apply", verb, filepath.Join(g.root, relative))
	})
}

// waitForOutput waits until kubectl prints the wanted text.
func (g *tour) waitForOutput(want string, args ...string) {
	var last string

	g.runStep(func() error {
		err := wait.PollUntilContextTimeout(g.ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			out, err := g.Cluster.Kubectl(ctx, args...)
			last = strings.TrimSpace(out)
			return err == nil && last == want, nil
		})
		if err != nil {
			return fmt.Errorf("kubectl %s printed %q, expected %q: %w", strings.Join(args, " "), last, want, err)
		}
		return nil
	})
}

// runningApps returns the label app of each running pod that a selector selects.
func (g *tour) runningApps(selector string) ([]string, error) {
	out, err := g.Cluster.Kubectl(g.ctx, "get", "pods", "-l", selector, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.labels.app}")
	return strings.Fields(out), err
}

// checkOneGangRuns checks that one of two gangs of two pods runs completely and the other not at all.
func (g *tour) checkOneGangRuns(selector string) {
	g.runStep(func() error {
		running, err := g.runningApps(selector)
		if err == nil && (len(running) != 2 || running[0] != running[1]) {
			err = fmt.Errorf("one gang must run, and the other not at all, but pods of these run: %s", strings.Join(running, ", "))
		}
		return err
	})
}

// waitForRunning waits until a workload has exactly the given number of running pods.
func (g *tour) waitForRunning(selector string, count int) {
	want := strings.TrimSpace(strings.Repeat("Running ", count))
	g.waitForOutput(want, "get", "pods", "-l", selector, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].status.phase}")
}

// waitForPolicy waits until the policy is in force as it was written last.
func (g *tour) waitForPolicy() {
	g.waitForOutput("true true", "get", "stp", "default", "-o",
		`go-template={{eq .metadata.generation .status.observedGeneration}} {{range .status.conditions}}{{if eq .type "Ready"}}{{eq .status "True"}}{{end}}{{end}}`)
}
