// Package top is kubectl cardquota top: how much of each quota is used, in the order of tenants or of the
// tree of quotas.
package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
)

// question is what the user asks for: the CardQuotas with some names and labels, all of them without names.
type question struct {
	names    []string
	selector string
	// watch is to show them again after each change. allNamespaces is to show the LocalCardQuotas of all
	// namespaces to a user who may not list CardQuotas.
	watch, allNamespaces bool
	// by is by what pods are summed up instead of CardQuotas, "" for CardQuotas.
	by grouping
}

// isOfAll reports whether the user asks for all CardQuotas, once.
func (q *question) isOfAll() bool { return len(q.names) == 0 && q.selector == "" && !q.watch }

// askedNamespace returns the namespace of which the user asks, "" for all.
func (q *question) askedNamespace(p *program.Program) (string, error) {
	if q.allNamespaces {
		return metav1.NamespaceAll, nil
	}
	return p.Namespace()
}

// NewCommand returns the command top.
func NewCommand(p *program.Program) *cobra.Command {
	var asked question
	cmd := &cobra.Command{
		Use:   "top [NAME...]",
		Short: "Show how much of each quota is used",
		Long: program.Paragraphs("Shows quota, used, borrowed, pending and free cards of each CardQuota. In a tree of quotas a parent comes before "+
			"its children, and its numbers contain theirs. Without a name it shows all CardQuotas.",
			"Without CardQuotas, or with --by, it shows which cards pods use and request, by namespace, or by queue on a cluster with Volcano. That needs neither Cardquota nor Volcano.",
			"Where you may not list CardQuotas, it shows the LocalCardQuotas of your namespace, or with -A those of all namespaces.",
			"FREE is what pods can get now: no more than each quota above has free, and no more than lie idle on nodes that take pods. It is 0 for a queue that is held.",
			"While the policy only observes, a second table counts the workloads that mode Enforce would treat differently.",
			"The bar shows used cards as #, borrowed ones as +, and ! if more is used than the quota. Borrowed cards may be taken back at any time."),
		Example: "  kubectl cardquota top\n  kubectl cardquota top --by namespace\n  kubectl cardquota top llm-training --watch\n  kubectl cardquota top -o json\n" +
			"  kubectl cardquota top -o custom-columns=NAME:.name,USED:.cards[*].used",
		ValidArgsFunction: completeCardQuotas(p),
		RunE: func(cmd *cobra.Command, names []string) error {
			asked.names = names
			if asked.by != "" && !slices.Contains(groupings, asked.by) {
				return fmt.Errorf("--by %s: write %s", asked.by, output.JoinWords(groupings, "or"))
			}
			if asked.by != "" && (asked.watch || asked.selector != "") {
				return errors.New("--by counts pods and not CardQuotas: leave out --watch and --selector")
			}
			return answerTop(cmd.Context(), p, asked)
		},
	}

	p.AddListFlags(cmd)
	cmd.Flags().BoolVarP(&asked.allNamespaces, "all-namespaces", "A", false, "Show the LocalCardQuotas of all namespaces, if you may not list CardQuotas.")
	cmd.Flags().StringVarP(&asked.selector, "selector", "l", "", "Only those with these labels, such as team=chat.")
	cmd.Flags().StringVar((*string)(&asked.by), "by", "", "Show which cards pods use, by "+output.JoinWords(groupings, "or")+", instead of CardQuotas.")
	program.CompleteFlag(cmd, "by", program.FixedCompletions(groupings))
	cmd.Flags().BoolVarP(&asked.watch, "watch", "w", false, "Show it again after each change, until Ctrl-C.")
	return cmd
}

// answerTop shows the usage of the quotas, once or after each change.
func answerTop(ctx context.Context, p *program.Program, asked question) error {
	namespace, err := asked.askedNamespace(p)
	if err != nil {
		return err
	}

	chosen := selection{names: asked.names}
	chosen.labels, err = labels.Parse(asked.selector)
	if err != nil {
		return fmt.Errorf("--selector %s: %w", asked.selector, err)
	}

	// Connect sets a time limit for requests, which would end a watch.
	p.Watches = asked.watch
	c, err := p.Connect()
	if err != nil {
		return err
	}

	if asked.by != "" {
		return showUse(ctx, p, c, namespace, asked, "")
	}

	quotas, source, err := readTopQuotas(ctx, c, namespace, asked.names)
	if reason, isWanted := useInstead(p, asked, quotas, err); isWanted {
		return showUse(ctx, p, c, namespace, asked, reason)
	}

	var noView *reader.NoViewError
	switch {
	case errors.As(err, &noView):
		return errors.New(noView.Explain())
	case err != nil:
		return err
	case asked.watch && !source.MayList():
		return errors.New("--watch needs the right to list and watch cardquotas.cardquota.dev")
	case asked.watch:
		return watchTop(ctx, p, c, source, chosen)
	}

	found, err := readFindings(ctx, c, quotas)
	if err != nil {
		return err
	}
	found.note = source.Note
	return showTop(p, quotas, found, chosen)
}

// readFindings reads what top shows beside the CardQuotas.
func readFindings(ctx context.Context, c client.Client, quotas []*v1alpha1.CardQuota) (found findings, err error) {
	found.idle, err = readIdleCards(ctx, c)
	if err == nil {
		found.forecast, err = readPolicyForecast(ctx, c, quotas)
	}
	return found, err
}

// readPolicyForecast returns what no CardQuota decides about. It is nil in mode Enforce, where there is nothing, and where
// the user may not read the policy.
func readPolicyForecast(ctx context.Context, c client.Client, quotas []*v1alpha1.CardQuota) (*v1alpha1.PolicyForecast, error) {
	if !slices.ContainsFunc(quotas, func(q *v1alpha1.CardQuota) bool { return q.Status.Mode == v1alpha1.ModeObserve }) {
		return nil, nil
	}

	policy := &v1alpha1.ServiceTypePolicy{}
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, policy)
	if reader.IsForbidden(err) || reader.IsNotInstalled(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	return policy.Status.Forecast, err
}

// useInstead reports whether to show which cards pods use, because the user asks for all CardQuotas and the cluster has
// none, and the note that says so. err is why they cannot be read. A program gets an empty list of CardQuotas instead.
func useInstead(p *program.Program, asked question, quotas []*v1alpha1.CardQuota, err error) (note string, isWanted bool) {
	switch {
	case !asked.isOfAll():
		return "", false
	case reader.IsNotInstalled(err):
		return "Cardquota is not installed, so no quota limits these cards. kubectl cardquota import proposes CardQuotas.", true
	case err == nil && len(quotas) == 0 && p.Format.IsForPeople():
		return "The cluster has no CardQuotas, so no quota limits these cards. kubectl cardquota import proposes some, and docs/administrator-guide.md says how to write one.", true
	default:
		return "", false
	}
}

// showUse shows which cards pods use, with a note. A user who may not list all pods sees those of a namespace.
func showUse(ctx context.Context, p *program.Program, c client.Client, namespace string, asked question, note string) error {
	r := reader.New(c)
	use := reader.ReadUse(ctx, r, namespace)
	by := asked.by
	switch err := r.Err(); {
	case err != nil:
		return err
	case !use.HasPods:
		return errors.New(strings.Join(r.Gaps, ", and "))
	case by == byQueue && use.LacksVolcano:
		return errors.New("without Volcano, which is not installed, pods have no queue: write --by namespace")
	case by == "" && use.LacksVolcano:
		by = byNamespace
	case by == "":
		by = byQueue
	}

	list, missing := newUseList(by, use.By(by.groupOf), use.Fleet, asked.names...)
	notes := append(r.Gaps, list.unnamedNotes(use.HasNodes)...)
	if note != "" {
		notes = append(notes, note)
	}

	err := p.Print(list, func(style output.Style) string { return list.Render(style) + output.Notes(notes) })
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("no pod uses or requests cards in %s %s", by, output.JoinWords(missing, "or"))
	}
	return err
}

// readTopQuotas returns the quotas that the user may list, and where they come from. A user who may list none
// may still have the right to get those that he names.
func readTopQuotas(ctx context.Context, c client.Client, namespace string, names []string) ([]*v1alpha1.CardQuota, reader.QuotaSource, error) {
	quotas, source, err := reader.ReadCardQuotas(ctx, c, namespace)
	if !reader.IsForbidden(err) || len(names) == 0 {
		return quotas, source, err
	}

	named, getErr := getCardQuotas(ctx, c, names)
	if reader.IsForbidden(getErr) {
		return quotas, source, err
	}

	return named, reader.QuotaSource{}, getErr // a source that cannot be listed, and so not watched
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

// completeCardQuotas completes the names of CardQuotas, or of the LocalCardQuotas of the namespace for a user who
// may not list CardQuotas.
func completeCardQuotas(p *program.Program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, taken []string, _ string) ([]string, cobra.ShellCompDirective) {
		namespace, err := p.Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		return p.CompleteFrom(cmd, func(ctx context.Context, c client.Client) ([]string, error) {
			quotas, _, err := reader.ReadCardQuotas(ctx, c, namespace)
			var names []string
			for _, quota := range quotas {
				if !slices.Contains(taken, quota.Name) {
					names = append(names, quota.Name)
				}
			}
			return names, err
		})
	}
}

// findings are what top shows beside the CardQuotas: idle cards by name, nil if they are unknown, what no CardQuota decides
// about in mode Observe, and a note below the table, "" for none.
type findings struct {
	idle     map[string]int64
	forecast *v1alpha1.PolicyForecast
	note     string
}

// selection is which of the quotas are shown: those with some names, all without names, and with some labels.
type selection struct {
	names  []string
	labels labels.Selector
}

// isAll reports whether all CardQuotas are shown.
func (s *selection) isAll() bool { return len(s.names) == 0 && s.labels.Empty() }

// showTop prints the usage of CardQuotas. It is an error if a named one does not exist, after the
// others were shown.
func showTop(p *program.Program, quotas []*v1alpha1.CardQuota, found findings, chosen selection) error {
	shown := slices.DeleteFunc(slices.Clone(quotas), func(q *v1alpha1.CardQuota) bool { return !chosen.labels.Matches(labels.Set(q.Labels)) })
	list, missing := NewList(shown, chosen.names...)
	list.SetAvailable(quotas, found.idle)
	if chosen.isAll() {
		list.Forecast = found.forecast
	}

	err := p.Print(list, func(style output.Style) string {
		switch {
		case len(list.Items) == 0 && len(missing) > 0:
			return ""
		case len(list.Items) == 0 && len(quotas) > 0:
			return output.Indent(fmt.Sprintf("No CardQuota has the labels %s.", chosen.labels), "", "")
		case len(list.Items) == 0:
			return "The cluster has no CardQuotas.\n"
		case found.note == "":
			return list.Render(style)
		default:
			return list.Render(style) + output.Notes([]string{found.note})
		}
	})
	if err == nil && len(missing) > 0 {
		err = errors.New("no CardQuota has the name " + output.JoinWords(missing, "or"))
		if !chosen.labels.Empty() {
			err = fmt.Errorf("%w and the labels %s", err, chosen.labels)
		}
	}

	return err
}
