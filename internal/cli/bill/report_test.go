package bill

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var begin = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func hours(h float64) time.Time { return begin.Add(time.Duration(h * float64(time.Hour))) }

func used(milli int64, labels ...string) (cardseconds.Series, cardseconds.Milli) {
	return cardseconds.Series{Tenant: labels[0], Project: labels[1], Queue: labels[2], ServiceType: labels[3], Card: labels[4]}, cardseconds.Milli(milli)
}

func inputOf(use map[cardseconds.Series]cardseconds.Milli) Input {
	in := Input{From: begin, To: hours(48), Since: hours(-100), CountedUntil: hours(100), Used: use, By: ByTenant, Known: map[string]bool{}}
	for series := range use {
		in.Known[series.Tenant] = true
	}
	return in
}

// decimalOf parses digits without floats: hundred is how many decimals they have at least.
func centsOf(t *rapid.T, text string, decimals int) *big.Int {
	whole, fraction, _ := strings.Cut(text, ".")
	check.Equal(t, "decimals of "+text, decimals, len(fraction))
	value, ok := new(big.Int).SetString(whole+fraction, 10)
	check.Must(t, ok, "%q is no number", text)
	return value
}

// TestAmountsAreExact compares with whole numbers: thousandths of an hour × nanounits of money.
func TestAmountsAreExact(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		decimals := rapid.IntRange(0, 6).Draw(t, "decimals")
		price := rapid.StringMatching(`[0-9]{1,4}\.[0-9]{9}`).Draw(t, "price")
		prices := check.Value(ParsePrices([]byte(fmt.Sprintf("currency: EUR\ndecimals: %d\nprices: [{card: A, perCardHour: %s}]", decimals, price))))(t)

		in := inputOf(map[cardseconds.Series]cardseconds.Milli{})
		in.Prices = prices
		in.By = ByQueue
		for i := range rapid.IntRange(1, 8).Draw(t, "rows") {
			series, milli := used(rapid.Int64Range(1, 1<<50).Draw(t, "use"), "t", "", fmt.Sprint("q", i), "none", "A")
			in.Used[series] = milli
		}

		d := NewDocument(in)
		nano := centsOf(t, price, 9)
		totalHours := new(big.Int)
		totalAmount := new(big.Int)

		// divide rounds half away from zero.
		divide := func(value, by *big.Int) *big.Int {
			doubled := new(big.Int).Add(new(big.Int).Lsh(value, 1), by)
			return doubled.Div(doubled, new(big.Int).Lsh(by, 1))
		}

		for i, row := range d.Items {
			series, _ := used(0, "t", "", fmt.Sprint("q", i), "none", "A")
			thousandths := divide(big.NewInt(int64(in.Used[series])), big.NewInt(3600))
			check.Equal(t, "card-hours", thousandths.String(), centsOf(t, row.CardHours, 3).String())

			unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(12-decimals)), nil)
			amount := divide(new(big.Int).Mul(thousandths, nano), unit)
			check.Equal(t, "amount", amount.String(), centsOf(t, row.Amount, decimals).String())
			totalHours.Add(totalHours, thousandths)
			totalAmount.Add(totalAmount, amount)
		}

		check.Equal(t, "total of card-hours", totalHours.String(), centsOf(t, d.Total.CardHours, 3).String())
		check.Equal(t, "total", totalAmount.String(), centsOf(t, d.Total.Amount, decimals).String())
	})
}

func TestGroupings(t *testing.T) {
	use := map[cardseconds.Series]cardseconds.Milli{}
	for _, labels := range [][]string{
		{"lab", "llm", "q1", "training", "A"}, {"lab", "llm", "q2", "training", "A"}, {"lab", "vision", "q3", "training", "A"}, {"lab", "vision", "q3", "training", "B"}, {"", "", "q4", "none", "A"},
	} {
		series, milli := used(3600*1000, labels...)
		use[series] = milli
	}

	for _, namespace := range []string{"one", "two"} { // pods without a queue
		use[cardseconds.Series{Namespace: namespace, ServiceType: "none", Card: "A"}] = 3600 * 1000
	}

	idle, _ := used(0, "idle", "", "q5", "none", "A")
	use[idle] = 0
	for by, want := range map[Grouping][]string{
		ByTenant:  {" none A=1.000", " one none A=1.000", " two none A=1.000", "lab training A=3.000", "lab training B=1.000"},
		ByProject: {" none A=1.000", " one none A=1.000", " two none A=1.000", "lab llm training A=2.000", "lab vision training A=1.000", "lab vision training B=1.000"},
		ByQueue:   {" one none A=1.000", " two none A=1.000", " q4 none A=1.000", "lab llm q1 training A=1.000", "lab llm q2 training A=1.000", "lab vision q3 training A=1.000", "lab vision q3 training B=1.000"},
	} {
		in := inputOf(use)
		in.By = by
		var got []string
		for _, row := range NewDocument(in).Items {
			words := []string{row.Tenant}
			for _, word := range []string{row.Project, row.Queue, row.Namespace, row.ServiceType, row.Card} {
				if word != "" {
					words = append(words, word)
				}
			}
			got = append(got, strings.Join(words, " ")+"="+row.CardHours)
		}

		check.Equal(t, "rows by "+string(by), want, got)
	}

	in := inputOf(use)
	in.Tenants = []string{"idle", ""}
	check.Equal(t, "rows of tenants", 3, len(NewDocument(in).Items))
}

func TestNotes(t *testing.T) {
	prices := check.Value(ParsePrices([]byte(samplePrices)))(t)

	series, milli := used(7200*1000, "chat", "", "chat", "inference", "NVIDIA-H200")
	unknown, more := used(1800*1000, "chat", "", "chat", "inference", "Ascend-910B")
	use := map[cardseconds.Series]cardseconds.Milli{series: milli, unknown: more}
	for name, tc := range map[string]struct {
		change func(*Input)
		want   []string
	}{
		"no note": {func(*Input) {}, nil},
		"prices": {func(in *Input) { in.Prices = prices }, []string{
			"No price, so no amount, and not in the total: Ascend-910B (0.500 card-hours).",
			`Nothing was used at the price of card "NVIDIA-H200" for service type "training", card "NVIDIA-H200" of tenant "lab", card "NVIDIA-H200" of tenant "lab" for service type "training", card "NVIDIA-H200/mig-1g.18gb-mixed".`}},
		"counted since": {func(in *Input) { in.Since = hours(4) }, []string{
			"The operator sums up days and months since 2026-10-01T04:00:00Z. What was used before that is not in this report."}},
		"counted until, before": {func(in *Input) { in.CountedUntil = hours(-5) }, []string{
			"The operator has counted until 2026-09-30T19:00:00Z only. kubectl cardquota doctor finds out why."}},
		"counted until, within": {func(in *Input) { in.CountedUntil = hours(5) }, nil}, // the report ends then
		"nothing stored": {func(in *Input) {
			in.Since = time.Time{}
			in.CountedUntil = time.Time{}
		}, []string{
			"The operator has stored no sums yet. It does so when the first card is used."}},
		"unknown tenants": {func(in *Input) { in.Tenants = []string{"chat", "labb"} }, []string{
			`There is no sum of tenant "labb" in this time. Check how --tenant is written.`}},
	} {
		in := inputOf(use)
		tc.change(&in)
		check.Equal(t, name, tc.want, NewDocument(in).Notes)
	}
}

// TestEmptyReports: that no card was used is said only where it is known.
func TestEmptyReports(t *testing.T) {
	const (
		none    = "\nNo card was used.\n"
		unknown = "\nNothing is known of the cards that were used.\n"
	)

	idle, nothing := used(0, "idle", "", "q", "none", "A")
	for name, tc := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"an idle tenant":             {func(in *Input) { in.Tenants = []string{"idle"} }, none},
		"an idle and a misspelt one": {func(in *Input) { in.Tenants = []string{"idle", "labb"} }, none},
		"a misspelt tenant":          {func(in *Input) { in.Tenants = []string{"labb"} }, unknown},
		"counted from then on":       {func(in *Input) { in.Since = hours(48) }, unknown},
		"counted until then":         {func(in *Input) { in.CountedUntil = begin }, unknown},
		"nothing stored": {func(in *Input) {
			in.Since = time.Time{}
			in.CountedUntil = time.Time{}
		}, unknown},
	} {
		in := inputOf(map[cardseconds.Series]cardseconds.Milli{idle: nothing})
		tc.change(&in)
		var text bytes.Buffer
		check.NoError(t, NewDocument(in).Write(&text, output.Style{}))
		check.Contains(t, name, text.String(), tc.want)
	}
}

// TestNoCellIsAFormula: a ConfigMap that was edited may have any text.
func TestNoCellIsAFormula(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`=HYPERLINK("x")`, "+1", "-1", "@a", "\t=1", "\r\n=1", "a,b", `a"b`, "\x1b[31m"})).Draw(t, "label")
		series, milli := used(3600*1000, text, text, text, text, text)
		series.Namespace = text

		in := inputOf(map[cardseconds.Series]cardseconds.Milli{series: milli})
		in.By = ByQueue
		var written bytes.Buffer
		check.NoError(t, NewDocument(in).WriteCSV(&written))

		lines := check.Value(csv.NewReader(&written).ReadAll())(t)
		check.Must(t, len(lines) == 2 && len(lines[1]) == len(header), "%q", lines)
		for i, cell := range lines[1] {
			check.That(t, cell == "" || !strings.ContainsAny(cell[:1], "=+-@\t\r"), "column %s is a formula: %q", header[i], cell)
			check.That(t, !strings.ContainsAny(cell, "\n\r\x1b"), "column %s has control characters: %q", header[i], cell)
		}
	})
}

func TestTableHas80Columns(t *testing.T) {
	prices := check.Value(ParsePrices([]byte("currency: GPUcredits\nprices: [{card: " + strings.Repeat("A", 60) + ", perCardHour: 1234.5678}]")))(t)
	series, milli := used(1<<45, strings.Repeat("t", 63), strings.Repeat("p", 63), strings.Repeat("q", 63), strings.Repeat("s", 63), strings.Repeat("A", 60))
	series.Namespace = strings.Repeat("n", 63)

	for _, by := range Groupings {
		in := inputOf(map[cardseconds.Series]cardseconds.Milli{series: milli})
		in.Prices = prices
		in.By = by

		var text bytes.Buffer
		check.NoError(t, NewDocument(in).Write(&text, output.Style{}))
		for line := range strings.Lines(text.String()) {
			check.That(t, output.Width(strings.TrimRight(line, "\n")) <= output.Columns, "a long line by %s: %s", by, line)
		}
		check.Contains(t, "table", text.String(), "9773436.691", "1234.5678") // the numbers are never shortened
	}
}
