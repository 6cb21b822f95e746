package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/arena"
)

// guide shows the tour, until something goes wrong: err.
type guide struct {
	arena.Guide
	ctx  context.Context
	root string
	err  error
}

// do goes on with the tour, unless something went wrong before.
func (g *guide) do(step func() error) {
	if g.err == nil {
		g.err = step()
	}
}

func (g *guide) say(format string, args ...any) {
	g.do(func() error {
		_, err := fmt.Printf(format, args...)
		return err
	})
}

// show runs kubectl and prints the command and its output.
func (g *guide) show(args ...string) {
	g.do(func() error { return g.Show(g.ctx, args...) })
}

// apply applies one of the files that belong to the tour.
func (g *guide) apply(path ...string) {
	relative := filepath.Join(path...)
	verb := "-f"
	if filepath.Ext(relative) == "" {
		verb = "-k" // a folder with a kustomization
	}
	g.do(func() error {
		return g.ShowAs(g.ctx, "apply "+verb+" "+relative, "apply", verb, filepath.Join(g.root, relative))
	})
}

// until waits until kubectl prints what is wanted.
func (g *guide) until(want string, args ...string) {
	var last string
	g.do(func() error {
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

// running waits until a workload has exactly so many running pods.
func (g *guide) running(selector string, count int) {
	want := strings.TrimSpace(strings.Repeat("Running ", count))
	g.until(want, "get", "pods", "-l", selector, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].status.phase}")
}
