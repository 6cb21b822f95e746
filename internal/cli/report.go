package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/bill"
	"cardquota.dev/operator/internal/cli/output"
)

// reportOptions are the flags of the command.
type reportOptions struct {
	from, to, month string
	by              string
	tenants         []string
	prices          string
	namespace       string
}

func (p *program) newReportCommand() *cobra.Command {
	options := reportOptions{by: string(bill.ByTenant), namespace: defaultSystemNamespace}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show card-hours and their price, by tenant, card and service type",
		Long: paragraphs("Shows how many card-hours each tenant used, by card and service type, and what they cost. The numbers are the sums of days and months that the operator stores in its ConfigMaps. The default is this month so far. Days begin in spec.billingTimeZone of the ServiceTypePolicy.",
			"Card-hours are rounded to three decimals. An amount is the rounded card-hours × the price, rounded half away from zero, and the total is the sum of what the rows show."),
		Example: "  kubectl cardquota report\n  kubectl cardquota report --month 2026-10 --prices prices.yaml\n  kubectl cardquota report --from 2026-10-01 --to 2026-10-08 --by project -o csv",
		Args:    refuseArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.showReport(cmd.Context(), options) },
	}

	p.addOutputFlag(cmd, output.CSV)
	flags := cmd.Flags()
	flags.StringVar(&options.from, "from", "", "First day of the report, such as 2026-10-01. Default: the first day of this month.")
	flags.StringVar(&options.to, "to", "", "The day after the last one of the report. Default: tomorrow.")
	flags.StringVar(&options.month, "month", "", "Report of a month, such as 2026-10.")
	flags.StringVar(&options.by, "by", options.by, "What has a row of its own, for each card and service type: "+output.JoinWords(bill.Groupings, "or")+".")
	flags.StringSliceVar(&options.tenants, "tenant", nil, "Show only this tenant. May be repeated.")
	flags.StringVar(&options.prices, "prices", "", "A file with the price of an hour of each card.")
	p.addSystemNamespaceFlag(cmd, &options.namespace)

	mustSucceed(cmd.RegisterFlagCompletionFunc("by", immutableCompletions(bill.Groupings)))
	mustSucceed(cmd.RegisterFlagCompletionFunc("month", p.completeMonths))
	mustSucceed(cmd.RegisterFlagCompletionFunc("tenant", p.completeTenants))
	for _, name := range []string{"from", "to"} {
		mustSucceed(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}

	return cmd
}

func (p *program) showReport(ctx context.Context, options reportOptions) error {
	in := bill.Input{By: bill.Grouping(options.by), Tenants: options.tenants}
	if !slices.Contains(bill.Groupings, in.By) {
		return fmt.Errorf("--by: write %s", output.JoinWords(bill.Groupings, "or"))
	}

	var err error
	in.Prices, err = readPrices(options.prices)
	if err != nil {
		return err
	}
	if err := p.readSums(ctx, options, &in); err != nil {
		return err
	}

	document := bill.NewDocument(in)
	if p.format != output.CSV {
		return p.print(document, document.Write)
	}
	if err := document.WriteCSV(p.streams.Out); err != nil {
		return err
	}

	return output.WriteNotes(p.streams.ErrOut, document.Notes)
}

func readPrices(path string) (*bill.Prices, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --prices: %w", err)
	}

	prices, err := bill.ParsePrices(text)
	if err != nil {
		return nil, fmt.Errorf("read --prices %s: %w", path, err)
	}

	return prices, nil
}

// completeMonths completes the last twelve months.
func (p *program) completeMonths(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var months []string
	month := cardseconds.DayOf(p.now()).Month()
	for i := range 12 {
		months = append(months, string(month.Add(-i)))
	}
	return months, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeTenants completes the tenants of CardQuotas.
func (p *program) completeTenants(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeWith(cmd, newCardQuotaList, func(object client.Object) []string {
		if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Spec.Tenant != "" {
			return []string{quota.Spec.Tenant}
		}
		return nil
	})
}
