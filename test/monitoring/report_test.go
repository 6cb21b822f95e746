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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/framework"
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
type billed struct{ tenant, namespace, serviceType, card, seconds, hours, price, amount string }

// dayBill is a bill of the day so far.
type dayBill struct {
	lines map[string]billed
	// until is until when it is counted.
	until time.Time
}

// checkReport compares what kubectl cardquota report bills with the used cards at each scrape, and with the
// times of the pod without a queue.
func (e *Env) checkReport(t *testing.T) dayBill {
	bill := e.billDay(t)
	check.Equal(t, "billed queues", len(priceOf), len(bill.lines))
	for queue, line := range bill.lines {
		want, slack := e.bypassed()
		if queue != "" {
			want, slack = e.usedUntil(t, fmt.Sprintf("queue=%q", queue), bill.until)
		}

		got := number(t, line.seconds)
		t.Logf("%q: billed %.0f card-seconds, by scrapes %.0f, for %s EUR", queue, got, want, line.amount)
		check.That(t, want > 0 && math.Abs(got-want) <= slack, "%q: billed %.0f card-seconds, by scrapes %.0f", queue, got, want)
		check.Equal(t, fmt.Sprintf("whether %q is billed by namespace", queue), queue == "", line.namespace == namespace)

		hours := exact(t, line.hours)
		price := exact(t, line.price)
		check.Equal(t, "price for "+queue, exact(t, priceOf[queue]).FloatString(3), price.FloatString(3))
		check.Equal(t, "card-hours of "+queue, new(big.Rat).Quo(exact(t, line.seconds), big.NewRat(3600, 1)).FloatString(3), line.hours)
		check.Equal(t, "amount of "+queue, new(big.Rat).Mul(hours, price).FloatString(2), line.amount)
	}

	return bill
}

// checkGrowth compares two bills of a time in which each queue used the same cards all the time. All of it is
// billed, to the millisecond, although for a part of the time no operator led.
func checkGrowth(t *testing.T, before, after dayBill) {
	passed := after.until.Sub(before.until).Milliseconds()
	check.That(t, passed > 0, "no time passed since %s", before.until)
	for queue, cards := range map[string]int64{pretrain: pretrainQuota, vision: visionQuota, speech: speechQuota, ranker: 0, "": 0} {
		grown := new(big.Rat).Sub(exact(t, after.lines[queue].seconds), exact(t, before.lines[queue].seconds))
		check.Equal(t, fmt.Sprintf("card-seconds of %q in %d ms", queue, passed), big.NewRat(cards*passed, 1000).FloatString(3), grown.FloatString(3))
	}
}

// bypassed returns the card-seconds of the pod without a queue, by its times. A count may be two seconds late.
func (e *Env) bypassed() (want, slack float64) {
	return bypassCards * e.bypass.ended.Sub(e.bypass.began).Seconds(), bypassCards * 2
}

// checkTable compares the table of a month, in which each queue has one row, with a bill of its only day.
func (e *Env) checkTable(t *testing.T, whole dayBill) {
	table := e.report(t, "-o", "wide")
	hours := new(big.Rat)
	amounts := new(big.Rat)

	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}

	for queue, line := range whole.lines { // each tenant has one queue of a card and a service type
		owner := cmp.Or(line.tenant, "namespace/"+line.namespace)
		want := strings.Join([]string{owner, line.serviceType, line.card, line.hours, line.price, line.amount}, " ")
		check.That(t, rows[want], "the table has no row %q of %q:\n%s", want, queue, table)
		hours.Add(hours, exact(t, line.hours))
		amounts.Add(amounts, exact(t, line.amount))
	}

	total := fmt.Sprintf("Total %s %s", hours.FloatString(3), amounts.FloatString(2))
	check.That(t, rows[total], "the table has no row %q:\n%s", total, table)
}

// billDay returns the bill of the day so far.
func (e *Env) billDay(t *testing.T) (bill dayBill) {
	day := cardseconds.DayOf(time.Now().In(e.zone))
	for {
		bill.until = e.countedUntil(t)
		bill.lines = billedLines(t, e.report(t, "--from", string(day), "--to", string(day.Add(1)), "--by", "queue", "-o", "csv"))
		if e.countedUntil(t).Equal(bill.until) { // the operator has stored nothing meanwhile
			return bill
		}
	}
}

// countedUntil returns until when the stored sums are counted.
func (e *Env) countedUntil(t *testing.T) time.Time {
	bills := framework.Fetch[corev1.ConfigMap](t, e, client.ObjectKey{Namespace: deployment.Namespace, Name: cardseconds.ConfigMapName(0)})
	return check.Value(cardseconds.ParseRunning(bills.Data[cardseconds.TextKey]))(t).Header.CountedUntil
}

// billedLines returns the lines of a report as csv, by queue.
func billedLines(t *testing.T, text string) map[string]billed {
	lines := check.Value(csv.NewReader(strings.NewReader(text)).ReadAll())(t)

	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}

	bills := map[string]billed{}
	for _, line := range lines[1:] {
		of := func(name string) string { return line[column[name]] }
		bills[of("queue")] = billed{
			of("tenant"), of("namespace"), of("service_type"), of("card"), of("card_seconds"), of("card_hours"), of("per_card_hour"), of("amount"),
		}
	}

	return bills
}

// report runs kubectl cardquota report.
func (e *Env) report(t *testing.T, args ...string) string {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	check.NoError(t, os.WriteFile(file, []byte(prices), 0o600))
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut}
	code := cli.Run(t.Context(), append([]string{"kubectl-cardquota", "report", "--kubeconfig", e.cluster.Kubeconfig(), "--prices", file}, args...), streams, simulation.Scheduler{})
	check.Must(t, code == 0, "%v: exit code %d: %s", args, code, errOut.String())
	return out.String()
}

// valueOf returns the value of a query with one series.
func (e *Env) valueOf(t *testing.T, query string, at time.Time) float64 {
	answer := check.Value(e.Prometheus.Ask(t.Context(), query, at))(t)
	check.Must(t, len(answer) == 1, "%s: %d series", query, len(answer))
	return float64(answer[0].Value)
}

func number(t *testing.T, text string) float64 {
	value, _ := exact(t, text).Float64()
	return value
}

// exact returns a decimal.
func exact(t *testing.T, text string) *big.Rat {
	value, ok := new(big.Rat).SetString(text)
	check.Must(t, ok, "%q is no number", text)
	return value
}
