package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completionTimeout bounds the requests of a completion. A user who presses the tab key does not
// wait longer.
const completionTimeout = 3 * time.Second

// completeCardQuotas completes the names of CardQuotas, or of the LocalCardQuotas of the namespace for who
// may not list them.
func (p *program) completeCardQuotas(cmd *cobra.Command, taken []string, _ string) ([]string, cobra.ShellCompDirective) {
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	return p.completeFrom(cmd, func(ctx context.Context, c client.Client) ([]string, error) {
		quotas, _, err := readCardQuotas(ctx, c, namespace)
		var names []string
		for _, quota := range quotas {
			if !slices.Contains(taken, quota.Name) {
				names = append(names, quota.Name)
			}
		}
		return names, err
	})
}

// completeNamespaces completes the value of --namespace.
func (p *program) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeNames(cmd, func() client.ObjectList { return &corev1.NamespaceList{} }, nil)
}

// completeNames returns the names of all objects of a kind that are not taken.
func (p *program) completeNames(cmd *cobra.Command, newList func() client.ObjectList, taken []string, options ...client.ListOption) ([]string, cobra.ShellCompDirective) {
	return p.completeWith(cmd, newList, func(object client.Object) []string {
		if slices.Contains(taken, object.GetName()) {
			return nil
		}
		return []string{object.GetName()}
	}, options...)
}

// completeWith returns what words has for the objects of a kind, each word once.
func (p *program) completeWith(cmd *cobra.Command, newList func() client.ObjectList, words func(client.Object) []string, options ...client.ListOption) ([]string, cobra.ShellCompDirective) {
	return p.completeFrom(cmd, func(ctx context.Context, c client.Client) (found []string, err error) {
		seen := map[string]bool{}
		err = listAll(ctx, c, newList, func(object client.Object) {
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

// completeFrom returns the words that read finds in the cluster. Without a cluster or the right to read it
// there is nothing to complete.
func (p *program) completeFrom(cmd *cobra.Command, read func(ctx context.Context, c client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()

	p.requestTimeout = completionTimeout // the client discovers the kinds without this context
	c, err := p.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	found, err := read(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	return found, cobra.ShellCompDirectiveNoFileComp
}

// immutableCompletions completes one of some values.
func immutableCompletions[S ~string](values []S) cobra.CompletionFunc {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}

// flagsOf returns all flags of a set.
func flagsOf(set *pflag.FlagSet) []*pflag.Flag {
	var flags []*pflag.Flag
	set.VisitAll(func(flag *pflag.Flag) { flags = append(flags, flag) })
	return flags
}

// mustSucceed panics on a mistake in the program itself: a flag that does not exist.
func mustSucceed(err error) {
	if err != nil {
		panic(err)
	}
}
