package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/bill"
	"cardquota.dev/operator/internal/cli/carduse"
	"cardquota.dev/operator/internal/cli/output"
)

// reportOptions are the flags of the command.
type reportOptions struct {
	from, to, month string
	by              string
	tenants         []string
	matchers        []string
	prices          string
	prometheus      prometheusFlags
	namespace       string
}

func (p *program) newReportCommand() *cobra.Command {
	options := reportOptions{by: string(bill.ByTenant), namespace: defaultSystemNamespace}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show card-hours and their price, by tenant, card and service type",
		Long: paragraphs("Shows how many card-hours each tenant used, by card and service type, and what they cost. The numbers are the sums of days and months that the operator stores in its ConfigMaps. The default is this month so far. Days begin in spec.billingTimeZone of the ServiceTypePolicy.",
			"With --prometheus, --service or "+prometheusVariable+" the numbers are those of "+carduse.Counter+" in Prometheus, also for parts of a day. Use counts when Prometheus has its sample, at most a minute or two late. If Prometheus lacks samples, the report says when.",
			"Card-hours are rounded to three decimals. An amount is the rounded card-hours × the price, rounded half away from zero, and the total is the sum of what the rows show."),
		Example: "  kubectl cardquota report\n  kubectl cardquota report --month 2026-10 --prices prices.yaml\n  kubectl cardquota report --from 2026-10-01 --to 2026-10-08 --by project -o csv\n" +
			"  kubectl cardquota report --service monitoring/prometheus-k8s:9090 --from 24h",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.showReport(cmd.Context(), options) },
	}
	p.addOutputFlag(cmd, output.CSV)
	flags := cmd.Flags()
	flags.StringVar(&options.from, "from", "", "First day of the report, such as 2026-10-01. From Prometheus also 2026-10-01T08:00:00+02:00, or a time before now such as 30d or 24h; a day begins in your time zone there.")
	flags.StringVar(&options.to, "to", "", "End of the report, as --from; this day is not in it. Default: now.")
	flags.StringVar(&options.month, "month", "", "Report of a month, such as 2026-10.")
	flags.StringVar(&options.by, "by", options.by, "What has a row of its own, for each card and service type: "+output.JoinWords(bill.Groupings, "or")+".")
	flags.StringSliceVar(&options.tenants, "tenant", nil, "Show only this tenant. May be repeated.")
	flags.StringArrayVar(&options.matchers, "match", nil, "Use only series with this label, such as cluster=\"east\", where Prometheus has several clusters. May be repeated.")
	flags.StringVar(&options.prices, "prices", "", "A file with the price of an hour of each card.")
	options.prometheus.addFlags(cmd)
	p.addSystemNamespaceFlag(cmd, &options.namespace)
	mustSucceed(cmd.RegisterFlagCompletionFunc("by", fixedCompletions(bill.Groupings)))
	mustSucceed(cmd.RegisterFlagCompletionFunc("month", p.completeMonths))
	mustSucceed(cmd.RegisterFlagCompletionFunc("tenant", p.completeTenants))
	mustSucceed(cmd.RegisterFlagCompletionFunc("service", p.completePrometheusServices))
	for _, name := range []string{"from", "to", "match", "prometheus"} {
		mustSucceed(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	return cmd
}

func (p *program) showReport(ctx context.Context, options reportOptions) error {
	in := bill.Input{By: bill.Grouping(options.by), Tenants: options.tenants}
	if !slices.Contains(bill.Groupings, in.By) {
		return fmt.Errorf("--by: write %s", output.JoinWords(bill.Groupings, "or"))
	}
	for _, matcher := range options.matchers {
		if err := carduse.CheckMatcher(matcher); err != nil {
			return err
		}
	}
	var err error
	if in.Prices, err = readPrices(options.prices); err != nil {
		return err
	}
	read := p.readPrometheus
	if !options.prometheus.isSet() {
		read = p.readSums
	}
	if err := read(ctx, options, &in); err != nil {
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

// readPrometheus fills a report with the counter that Prometheus keeps.
func (p *program) readPrometheus(ctx context.Context, options reportOptions, in *bill.Input) (err error) {
	if in.Window, err = carduse.ParseWindow(options.from, options.to, options.month, p.now()); err != nil {
		return err
	}
	connection, err := p.connectPrometheus(options.prometheus)
	if err != nil {
		return err
	}
	source := &prometheusSource{connection: connection, api: promv1.NewAPI(connection.client), matchers: options.matchers}
	if in.Use, err = carduse.Sum(ctx, source, in.Window); err != nil {
		return explainSeveral(err)
	}
	if !in.Use.HasSamples {
		return fmt.Errorf("%s has no sample of %s in this time: check whether it scrapes the operator (config/prometheus), for how long it keeps samples, and --match", connection.name, carduse.Counter)
	}
	return nil
}

// explainSeveral says how to choose one of several programs that export the counter.
func explainSeveral(err error) error {
	var several *carduse.SeveralError
	if errors.As(err, &several) {
		first, _, _ := strings.Cut(several.One, ", ")
		return fmt.Errorf("%w. Choose the one of your cluster with --match, such as --match '%s'", err, first)
	}
	return err
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
	now := p.now()
	for i := range 12 {
		months = append(months, carduse.FormatMonth(now, i))
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

// completePrometheusServices completes Services that look like one of Prometheus.
func (p *program) completePrometheusServices(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeWith(cmd, func() client.ObjectList { return &corev1.ServiceList{} }, func(object client.Object) []string {
		service, ok := object.(*corev1.Service)
		if !ok || !strings.Contains(service.Name, "prometheus") {
			return nil
		}
		var ports []string
		for _, port := range service.Spec.Ports {
			ports = append(ports, fmt.Sprintf("%s/%s:%d", service.Namespace, service.Name, port.Port))
		}
		return ports
	})
}
