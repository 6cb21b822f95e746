package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/cluster"
)

// guide shows the tour: it explains, runs kubectl, and prints what kubectl says.
type guide struct {
	cluster *cluster.Cluster
	root    string
	chapter int
}

// headline begins a chapter.
func (g *guide) headline(title, text string) {
	g.chapter++
	title = fmt.Sprintf("%d. %s", g.chapter, title)
	fmt.Printf("\n%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), text)
}

// show runs kubectl and prints the command and its output.
func (g *guide) show(ctx context.Context, args ...string) error {
	fmt.Printf("\n$ kubectl %s\n", printable(args))
	out, err := g.cluster.Kubectl(ctx, args...)
	fmt.Print(indent(out))
	return err
}

// apply applies one of the files that belong to the tour.
func (g *guide) apply(ctx context.Context, path ...string) error {
	relative := filepath.Join(path...)
	verb := "-f"
	if filepath.Ext(relative) == "" {
		verb = "-k" // a folder with a kustomization
	}
	fmt.Printf("\n$ kubectl apply %s %s\n", verb, relative)
	out, err := g.cluster.Kubectl(ctx, "apply", verb, filepath.Join(g.root, relative))
	fmt.Print(indent(out))
	return err
}

// until waits until kubectl prints what is wanted.
func (g *guide) until(ctx context.Context, want string, args ...string) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		out, err := g.cluster.Kubectl(ctx, args...)
		last = strings.TrimSpace(out)
		return err == nil && last == want, nil
	})
	if err != nil {
		return fmt.Errorf("kubectl %s printed %q, expected %q: %w", strings.Join(args, " "), last, want, err)
	}
	return nil
}

// running waits until a workload has exactly so many running pods.
func (g *guide) running(ctx context.Context, selector string, count int) error {
	want := strings.TrimSpace(strings.Repeat("Running ", count))
	return g.until(ctx, want, "get", "pods", "-l", selector, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].status.phase}")
}

func indent(text string) string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
}

// printable quotes what a shell would split.
func printable(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if strings.ContainsAny(arg, " {}[]'\"$*|<>") {
			quoted[i] = "'" + arg + "'"
		}
	}
	return strings.Join(quoted, " ")
}
