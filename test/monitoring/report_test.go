package monitoring

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cardquota.dev/operator/internal/cli"
	"cardquota.dev/operator/internal/testing/check"
)

// prices are those of the bill: training pays less, and one tenant has a price of his own.
const prices = `currency: EUR
prices:
- {card: NVIDIA-H200, perCardHour: 42.5}
- {card: NVIDIA-H200, serviceType: training, perCardHour: 21.333}
- {card: NVIDIA-GeForce-RTX-4090, perCardHour: 3}
- {card: NVIDIA-GeForce-RTX-4090, tenant: shop, perCardHour: 4.25}
`

// priceOf are the prices of the queues. Pods without a queue have an empty one.
var priceOf = map[string]string{pretrain: "21.333", vision: "3", ranker: "42.5", speech: "4.25", "": "3"}

// billed is a queue's line of a bill.
type billed struct{ tenant, serviceType, card, seconds, hours, price, amount string }

// checkReport runs kubectl cardquota report on the day, and compares what it bills for each queue with
// the used cards at each scrape. times are those of bills that begin before the first sample, and that add
// up.
func (e *Env) checkReport(t *testing.T, times []time.Time, end time.Time) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prices.yaml")
	check.NoError(t, os.WriteFile(file, []byte(prices), 0o600))
	whole := e.billQueues(t, file, times[0], end)
	check.Equal(t, "billed queues", len(priceOf), len(whole))
	for queue, line := range whole {
		want, slack := e.bypassed()
		if queue != "" {
			want, slack = e.usedUntil(t, fmt.Sprintf("queue=%q", queue), end)
		}
		got := number(t, line.seconds)
		t.Logf("%s: billed %.0f card-seconds, by scrapes %.0f, for %s EUR", queue, got, want, line.amount)
		check.That(t, want > 0 && math.Abs(got-want) <= slack, "%s: billed %.0f card-seconds, by scrapes %.0f", queue, got, want)
		hours, price := exact(t, line.hours), exact(t, line.price)
		check.Equal(t, "price for "+queue, exact(t, priceOf[queue]).FloatString(3), price.FloatString(3))
		check.Equal(t, "card-hours of "+queue, new(big.Rat).Quo(exact(t, line.seconds), big.NewRat(3600, 1)).FloatString(3), line.hours)
		check.Equal(t, "amount of "+queue, new(big.Rat).Mul(hours, price).FloatString(2), line.amount)
	}
	e.checkParts(t, file, times[1], times[2], end)
	e.checkTable(t, file, whole, times[0], end)
}

// bypassed returns the card-seconds of the pod without a queue, by its times. A count may be two seconds late.
func (e *Env) bypassed() (want, slack float64) {
	return bypassCards * e.bypass.ended.Sub(e.bypass.began).Seconds(), bypassCards * 2
}

// checkParts compares a bill with those of its two parts, which add up.
func (e *Env) checkParts(t *testing.T, file string, from, between, to time.Time) {
	t.Helper()
	sums := map[string]*big.Rat{}
	for _, part := range [][2]time.Time{{from, between}, {between, to}} {
		for queue, line := range e.billQueues(t, file, part[0], part[1]) {
			if sums[queue] == nil {
				sums[queue] = new(big.Rat)
			}
			sums[queue].Add(sums[queue], exact(t, line.seconds))
		}
	}
	for queue, line := range e.billQueues(t, file, from, to) {
		sum := sums[queue]
		check.Must(t, sum != nil, "no part of the day bills %s", queue)
		check.Equal(t, "card-seconds of "+queue+" by parts", exact(t, line.seconds).FloatString(3), sum.FloatString(3))
	}
}

// checkTable compares the table, in which each queue has one row, with the lines of the csv.
func (e *Env) checkTable(t *testing.T, file string, whole map[string]billed, from, to time.Time) {
	t.Helper()
	table, hours, amounts := e.report(t, file, from, to, "-o", "wide"), new(big.Rat), new(big.Rat)
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	for queue, line := range whole { // each tenant has one queue of a card and a service type
		want := strings.Join([]string{cmp.Or(line.tenant, "-"), line.serviceType, line.card, line.hours, line.price, line.amount}, " ")
		check.That(t, rows[want], "the table has no row %q of %s:\n%s", want, queue, table)
		hours.Add(hours, exact(t, line.hours))
		amounts.Add(amounts, exact(t, line.amount))
	}
	total := fmt.Sprintf("Total %s %s", hours.FloatString(3), amounts.FloatString(2))
	check.That(t, rows[total], "the table has no row %q:\n%s", total, table)
}

// billQueues returns the lines of a report as csv, by queue.
func (e *Env) billQueues(t *testing.T, file string, from, to time.Time) map[string]billed {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(e.report(t, file, from, to, "--by", "queue", "-o", "csv"))).ReadAll()
	check.NoError(t, err)
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	bills := map[string]billed{}
	for _, line := range lines[1:] {
		of := func(name string) string { return line[column[name]] }
		bills[of("queue")] = billed{of("tenant"), of("service_type"), of("card"), of("card_seconds"), of("card_hours"), of("per_card_hour"), of("amount")}
	}
	return bills
}

// report runs kubectl cardquota report.
func (e *Env) report(t *testing.T, file string, from, to time.Time, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut}
	all := append([]string{
		"kubectl-cardquota", "report", "--prometheus", e.Prometheus.URL, "--prices", file,
		"--from", from.UTC().Format(time.RFC3339), "--to", to.UTC().Format(time.RFC3339),
	}, args...)
	code := cli.Run(t.Context(), all, streams, nil)
	check.Must(t, code == 0, "%v: exit code %d: %s", args, code, errOut.String())
	return out.String()
}

// valueOf returns the value of a query with one series.
func (e *Env) valueOf(t *testing.T, query string, at time.Time) float64 {
	t.Helper()
	answer, err := e.Prometheus.Ask(t.Context(), query, at)
	check.NoError(t, err)
	check.Must(t, len(answer) == 1, "%s: %d series", query, len(answer))
	return float64(answer[0].Value)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	value, _ := exact(t, text).Float64()
	return value
}

// exact returns a decimal.
func exact(t *testing.T, text string) *big.Rat {
	t.Helper()
	value, ok := new(big.Rat).SetString(text)
	check.Must(t, ok, "%q is no number", text)
	return value
}
