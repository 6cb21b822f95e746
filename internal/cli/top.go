package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/quotausage"
)

func (p *program) newTopCommand() *cobra.Command {
	watch := false
	allNamespaces := false
	selector := ""
	cmd := &cobra.Command{
		Use:   "top [NAME...]",
		Short: "Show how much of each quota is used",
		Long: paragraphs("Shows quota, used, borrowed, pending and free cards of each CardQuota. In a tree of quotas a parent comes before "+
			"its children, and its numbers contain theirs. Without a name it shows all CardQuotas.",
			"Where you may not list CardQuotas, it shows the LocalCardQuotas of your namespace, or with -A those of all namespaces.",
			"FREE is what pods can get now: no more than each quota above has free, and no more than lie idle on nodes that take pods. It is 0 for a queue that is held.",
			"The bar shows used cards as #, borrowed ones as +, and ! if more is used than the quota. Borrowed cards may be taken back at any time."),
		Example: "  kubectl cardquota top\n  kubectl cardquota top llm-training --watch\n  kubectl cardquota top -o json\n" +
			"  kubectl cardquota top -o custom-columns=NAME:.name,USED:.cards[*].used",
		ValidArgsFunction: p.completeCardQuotas,
		RunE: func(cmd *cobra.Command, names []string) error {
			namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
			if err != nil {
				return err
			}

			if allNamespaces {
				namespace = metav1.NamespaceAll
			}

			p.watches = watch
			p.selector, err = labels.Parse(selector)
			if err != nil {
				return fmt.Errorf("--selector %s: %w", selector, err)
			}

			c, err := p.connect()
			if err != nil {
				return err
			}

			quotas, source, err := readTopQuotas(cmd.Context(), c, namespace, names)
			var noView *noViewError
			switch {
			case errors.As(err, &noView):
				return errors.New(explainNoView(noView))
			case err != nil:
				return err
			case watch && source.newList == nil:
				return errors.New("--watch needs the right to list and watch cardquotas.cardquota.dev")
			case watch:
				return p.watchTop(cmd.Context(), c, source, names)
			default:
				idle, err := readIdleCards(cmd.Context(), c)
				if err != nil {
					return err
				}
				return p.showTop(quotas, idle, names, source.note)
			}
		},
	}

	p.addListFlags(cmd)
	cmd.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "Show the LocalCardQuotas of all namespaces, if you may not list CardQuotas.")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "Only those with these labels, such as team=chat.")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Show it again after each change, until Ctrl-C.")
	return cmd
}

// readTopQuotas returns the quotas that the user may list, and where they come from. Who may not list may
// still get some by name.
func readTopQuotas(ctx context.Context, c client.Client, namespace string, names []string) ([]*v1alpha1.CardQuota, quotaSource, error) {
	quotas, source, err := readCardQuotas(ctx, c, namespace)
	if !isForbidden(err) || len(names) == 0 {
		return quotas, source, err
	}

	named, getErr := getCardQuotas(ctx, c, names)
	if isForbidden(getErr) {
		return quotas, source, err
	}

	return named, quotaSource{}, getErr
}

// getCardQuotas returns the CardQuotas of some names that exist.
func getCardQuotas(ctx context.Context, c client.Client, names []string) ([]*v1alpha1.CardQuota, error) {
	var quotas []*v1alpha1.CardQuota
	for _, name := range names {
		quota := &v1alpha1.CardQuota{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, quota); client.IgnoreNotFound(err) != nil {
			return nil, err
		} else if err == nil {
			quotas = append(quotas, quota)
		}
	}
	return quotas, nil
}

// showTop prints the usage of CardQuotas. It is an error if a named one does not exist, after the
// others were shown.
func (p *program) showTop(quotas []*v1alpha1.CardQuota, idle map[string]int64, names []string, note string) error {
	shown := quotas
	if p.selector != nil {
		shown = slices.DeleteFunc(slices.Clone(quotas), func(q *v1alpha1.CardQuota) bool { return !p.selector.Matches(labels.Set(q.Labels)) })
	}

	list, missing := quotausage.NewList(shown, names...)
	list.SetAvailable(quotas, idle)
	err := p.print(list, func(w io.Writer, style output.Style) error {
		if len(list.Items) == 0 {
			if len(missing) > 0 {
				return nil
			}
			_, err := fmt.Fprint(w, output.Indent("The cluster has no CardQuotas. docs/administrator-guide.md says how to write one, "+
				"and kubectl cardquota import makes them from the Queues of the cluster.", "", ""))
			return err
		}

		if err := list.Write(w, style); err != nil || note == "" {
			return err
		}

		return output.WriteNotes(w, []string{note})
	})
	if err == nil && len(missing) > 0 {
		err = errors.New("no CardQuota has the name " + output.JoinWords(missing, "or"))
	}

	return err
}
