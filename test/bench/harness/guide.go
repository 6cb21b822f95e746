package harness

import (
	"context"
	"fmt"
	"strings"

	"cardquota.dev/operator/test/cluster"
)

// Narrator tells a show in chapters: it explains, runs kubectl, and prints what kubectl says.
type Narrator struct {
	Cluster *cluster.Cluster
	chapter int
}

// Headline begins a chapter.
func (g *Narrator) Headline(title, text string) {
	g.chapter++
	title = fmt.Sprintf("%d. %s", g.chapter, title)
	fmt.Printf("\n%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), text)
}

// ShowKubectl runs kubectl and prints the command as a user types it, and its output.
func (g *Narrator) ShowKubectl(ctx context.Context, args ...string) error {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if strings.ContainsAny(arg, " {}[]'\"$*|<>") {
			quoted[i] = "'" + arg + "'"
		}
	}
	return g.ShowKubectlAs(ctx, strings.Join(quoted, " "), args...)
}

// ShowKubectlAs is Show with another text in the place of the arguments.
func (g *Narrator) ShowKubectlAs(ctx context.Context, said string, args ...string) error {
	fmt.Printf("\n$ kubectl %s\n", said)
	out, err := g.Cluster.Kubectl(ctx, args...)
	if out = strings.TrimRight(out, "\n"); out != "" {
		fmt.Print("  " + strings.ReplaceAll(out, "\n", "\n  ") + "\n")
	}
	return err
}
