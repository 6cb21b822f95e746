// Package report is kubectl cardquota report: card-hours and money by tenant, card and service type. Numbers
// are exact: card-seconds are thousandths, prices are decimals, and only what a row shows is rounded.
package report

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
)

// reportOptions are the flags of the command.
type reportOptions struct {
	from, to, month string
	by              string
	tenants         []string
	prices          string
	namespace       string
}

// NewCommand returns the command report.
func NewCommand(p *program.Program) *cobra.Command {
	options := reportOptions{by: string(ByTenant), namespace: reader.DefaultSystemNamespace}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show card-hours and their price, by tenant, card and service type",
		Long: program.Paragraphs("Shows how many card-hours each tenant used, by card and service type, and what they cost. The numbers are the sums of days and months that the operator stores in its ConfigMaps. The default is this month so far. Days begin in spec.billingTimeZone of the ServiceTypePolicy.",
			"Card-hours are rounded to three decimals. An amount is the rounded card-hours × the price, rounded half away from zero, and the total is the sum of what the rows show."),
		Example: "  kubectl cardquota report\n  kubectl cardquota report --month 2026-10 --prices prices.yaml\n  kubectl cardquota report --from 2026-10-01 --to 2026-10-08 --by project -o csv",
		Args:    program.RefuseArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return showReport(cmd.Context(), p, options) },
	}

	p.AddOutputFlag(cmd, output.CSV)
	flags := cmd.Flags()
	flags.StringVar(&options.from, "from", "", "First day of the report, such as 2026-10-01. Default: the first day of this month.")
	flags.StringVar(&options.to, "to", "", "The day after the last one of the report. Default: tomorrow.")
	flags.StringVar(&options.month, "month", "", "Report of a month, such as 2026-10.")
	flags.StringVar(&options.by, "by", options.by, "What has a row of its own, for each card and service type: "+output.JoinWords(Groupings, "or")+".")
	flags.StringSliceVar(&options.tenants, "tenant", nil, "Show only this tenant. May be repeated.")
	flags.StringVar(&options.prices, "prices", "", "A file with the price of an hour of each card.")
	p.AddSystemNamespaceFlag(cmd, &options.namespace)

	program.CompleteFlag(cmd, "by", program.FixedCompletions(Groupings))
	program.CompleteFlag(cmd, "month", completeMonths(p))
	program.CompleteFlag(cmd, "tenant", completeTenants(p))
	for _, name := range []string{"from", "to"} {
		program.CompleteFlag(cmd, name, cobra.NoFileCompletions)
	}

	return cmd
}

// showReport prints the report. A file for a spreadsheet has no notes, so they are on the error stream.
func showReport(ctx context.Context, p *program.Program, options reportOptions) error {
	in := Input{By: Grouping(options.by), Tenants: options.tenants}
	if !slices.Contains(Groupings, in.By) {
		return fmt.Errorf("--by: write %s", output.JoinWords(Groupings, "or"))
	}

	var err error
	in.Prices, err = readPrices(options.prices)
	if err != nil {
		return err
	}
	if err := readSums(ctx, p, options, &in); err != nil {
		return err
	}

	document := NewDocument(in)
	if p.Format != output.CSV {
		return p.Print(document, document.Render)
	}
	if err := document.WriteCSV(p.Streams.Out); err != nil {
		return err
	}

	_, err = fmt.Fprint(p.Streams.ErrOut, output.Notes(document.Notes))
	return err
}

// readPrices reads the file of --prices, nil without one.
func readPrices(path string) (*Prices, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --prices: %w", err)
	}

	prices, err := ParsePrices(text)
	if err != nil {
		return nil, fmt.Errorf("read --prices %s: %w", path, err)
	}

	return prices, nil
}

// completeMonths completes the last twelve months.
func completeMonths(p *program.Program) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var months []string
		month := cardseconds.DayOf(p.Now()).Month()
		for i := range 12 {
			months = append(months, string(month.Add(-i)))
		}
		return months, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeTenants completes the tenants of CardQuotas.
func completeTenants(p *program.Program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return p.CompleteWith(cmd, &v1alpha1.CardQuotaList{}, func(object client.Object) []string {
			if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Spec.Tenant != "" {
				return []string{quota.Spec.Tenant}
			}
			return nil
		})
	}
}
