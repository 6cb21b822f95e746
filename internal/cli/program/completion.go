package program

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli/reader"
)

// CompletionTimeout bounds the requests of a completion. A user who presses the tab key does not
// wait longer.
const CompletionTimeout = 3 * time.Second

// AddSystemNamespaceFlag adds the flag that names the namespace of the programs.
func (p *Program) AddSystemNamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "system-namespace", *namespace,
		"The namespace of cardquota-manager and cardquota-scheduler. It is needed if you may not list Deployments of all namespaces.")
	CompleteFlag(cmd, "system-namespace", p.completeNamespaces)
}

// completeNamespaces completes the value of a flag that names a namespace.
func (p *Program) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.CompleteNames(cmd, &corev1.NamespaceList{}, nil)
}

// CompleteNames returns the names of all objects of a kind but those that are taken, which the command line has already.
// kind is an empty list of the kind.
func (p *Program) CompleteNames(cmd *cobra.Command, kind client.ObjectList, taken []string, options ...client.ListOption) ([]string, cobra.ShellCompDirective) {
	return p.CompleteWith(cmd, kind, func(object client.Object) []string {
		if slices.Contains(taken, object.GetName()) {
			return nil
		}
		return []string{object.GetName()}
	}, options...)
}

// CompleteWith returns the words that the function words has for each object of a kind, each word once. kind is an
// empty list of it.
func (p *Program) CompleteWith(cmd *cobra.Command, kind client.ObjectList, words func(client.Object) []string, options ...client.ListOption) ([]string, cobra.ShellCompDirective) {
	return p.CompleteFrom(cmd, func(ctx context.Context, c client.Client) (found []string, err error) {
		seen := map[string]bool{}
		err = reader.List(ctx, c, kind, func(object client.Object) {
			for _, word := range words(object) {
				if !seen[word] {
					seen[word] = true
					found = append(found, word)
				}
			}
		}, options...)

		return found, err
	})
}

// CompleteFrom returns the words that read finds in the cluster. Without a cluster or the right to read it
// there is nothing to complete.
func (p *Program) CompleteFrom(cmd *cobra.Command, read func(ctx context.Context, c client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
	defer cancel()

	p.RequestTimeout = CompletionTimeout // the client discovers the kinds without this context
	c, err := p.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	found, err := read(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	return found, cobra.ShellCompDirectiveNoFileComp
}

// FixedCompletions completes one of some values.
func FixedCompletions[S ~string](values []S) cobra.CompletionFunc {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}

// CompleteFlag sets what completes the value of a flag. It panics on a mistake in the program itself: a flag
// that does not exist.
func CompleteFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// completionPrefix begins the name under which kubectl starts a plugin to complete a command line.
const completionPrefix = "kubectl_complete-"

// completionArguments returns the arguments without the program. If kubectl started the program to
// complete a command line, through a link of another name, they become those of a completion.
func completionArguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.HasPrefix(filepath.Base(args[0]), completionPrefix) {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}
