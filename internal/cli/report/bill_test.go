package report

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

// used is the use of a series with a tenant, project, queue, service type and card, in thousandths of a card-second.
func used(milli int64, labels ...string) (cardseconds.Series, cardseconds.Milli) {
	return cardseconds.Series{Tenant: labels[0], Project: labels[1], Queue: labels[2], ServiceType: labels[3], Card: labels[4]}, cardseconds.Milli(milli)
}

// inputOf is a report of two days by tenant, without prices. The operator has counted from before them until after them.
func inputOf(use map[cardseconds.Series]cardseconds.Milli) Input {
	in := Input{From: begin, To: hours(48), Since: hours(-100), CountedUntil: hours(100), Used: use, By: ByTenant, Known: map[string]bool{}}
	for series := range use {
		in.Known[series.Tenant] = true
	}
	return in
}

// parseDigits returns the digits of a number as a whole number, without floats. It has so many decimals.
func parseDigits(t *rapid.T, text string, decimals int) *big.Int {
	whole, fraction, _ := strings.Cut(text, ".")
	check.Equal(t, "decimals of "+text, decimals, len(fraction))
	value, ok := new(big.Int).SetString(whole+fraction, 10)
	check.Must(t, ok, "%q is no number", text)
	return value
}

// TestAmountsAreExact: each row shows card-hours with three decimals, and as amount these hours times the price, both
// rounded half up. The total is the sum of the rows as shown, so that a tenant can check it by hand. The oracle
// computes with whole numbers: thousandths of an hour, and thousand-millionths of the currency.
func TestAmountsAreExact(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		decimals := rapid.IntRange(0, 6).Draw(t, "decimals")
		price := rapid.StringMatching(`[0-9]{1,4}\.[0-9]{9}`).Draw(t, "price")
		prices := check.Value(ParsePrices([]byte(fmt.Sprintf("currency: EUR\ndecimals: %d\nprices: [{card: A, perCardHour: %s}]", decimals, price))))(t)

		in := inputOf(map[cardseconds.Series]cardseconds.Milli{})
		in.Prices = prices
		in.By = ByQueue
		for i := range rapid.IntRange(1, 8).Draw(t, "rows") {
			// of tenant t without a project, queue q0, q1 and so on, service type none, and card A
			series, milli := used(rapid.Int64Range(1, 1<<50).Draw(t, "use"), "t", "", fmt.Sprint("q", i), "none", "A")
			in.Used[series] = milli
		}

		d := NewDocument(in)
		nano := parseDigits(t, price, 9)
		totalHours := new(big.Int)
		totalAmount := new(big.Int)

		// divide rounds half away from zero.
		divide := func(value, by *big.Int) *big.Int {
			doubled := new(big.Int).Add(new(big.Int).Lsh(value, 1), by)
			return doubled.Div(doubled, new(big.Int).Lsh(by, 1))
		}

		for i, row := range d.Items {
			series, _ := used(0, "t", "", fmt.Sprint("q", i), "none", "A")
			thousandths := divide(big.NewInt(int64(in.Used[series])), big.NewInt(3600)) // an hour is 3600 s, as Used is in ms
			check.Equal(t, "card-hours", thousandths.String(), parseDigits(t, row.CardHours, 3).String())

			unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(12-decimals)), nil) // 3 decimals of hours + 9 of the price = 12
			amount := divide(new(big.Int).Mul(thousandths, nano), unit)
			check.Equal(t, "amount", amount.String(), parseDigits(t, row.Amount, decimals).String())
			totalHours.Add(totalHours, thousandths)
			totalAmount.Add(totalAmount, amount)
		}

		check.Equal(t, "total of card-hours", totalHours.String(), parseDigits(t, d.Total.CardHours, 3).String())
		check.Equal(t, "total", totalAmount.String(), parseDigits(t, d.Total.Amount, decimals).String())
	})
}

// TestRowsAreSumsOfTheirGroup: seven series have used one card for one hour each, and one tenant has used nothing. By
// tenant, a row adds up what has the same tenant, service type and card. By project the project must be the same too,
// and by queue also the queue. Pods without a queue belong to no tenant, and their namespace is named. A series without
// use has no row. A wanted row has the tenant, then its project, queue, namespace, service type and card, as far as it
// has them. A row without a tenant begins with a space.
func TestRowsAreSumsOfTheirGroup(t *testing.T) {
	const oneHour = 3600 * 1000
	use := map[cardseconds.Series]cardseconds.Milli{
		{Namespace: "one", ServiceType: "none", Card: "A"}:                                  oneHour, // pods without a queue
		{Namespace: "two", ServiceType: "none", Card: "A"}:                                  oneHour,
		{Tenant: "lab", Project: "llm", Queue: "q1", ServiceType: "training", Card: "A"}:    oneHour,
		{Tenant: "lab", Project: "llm", Queue: "q2", ServiceType: "training", Card: "A"}:    oneHour,
		{Tenant: "lab", Project: "vision", Queue: "q3", ServiceType: "training", Card: "A"}: oneHour,
		{Tenant: "lab", Project: "vision", Queue: "q3", ServiceType: "training", Card: "B"}: oneHour,
		{Queue: "q4", ServiceType: "none", Card: "A"}:                                       oneHour, // without a tenant
		{Tenant: "idle", Queue: "q5", ServiceType: "none", Card: "A"}:                       0,
	}

	for by, want := range map[Grouping][]string{
		ByTenant: {
			" none A=1.000", " one none A=1.000", " two none A=1.000", "lab training A=3.000", "lab training B=1.000",
		},
		ByProject: {
			" none A=1.000", " one none A=1.000", " two none A=1.000",
			"lab llm training A=2.000", "lab vision training A=1.000", "lab vision training B=1.000",
		},
		ByQueue: {
			" one none A=1.000", " two none A=1.000", " q4 none A=1.000", "lab llm q1 training A=1.000",
			"lab llm q2 training A=1.000", "lab vision q3 training A=1.000", "lab vision q3 training B=1.000",
		},
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
	check.Equal(t, "rows of tenant idle and of none", 3, len(NewDocument(in).Items)) // of namespaces one and two, and of queue q4
}

// TestNotesSayWhatTheReportDoesNotHave: chat has used two hours of an H200 and half an hour of an Ascend-910B. The
// report is of two days, from 2026-10-01 on, and the operator has counted from before them until after them. Each row
// changes one thing of that. If the report then lacks numbers, or a price or a tenant may be misspelt, a note says so.
func TestNotesSayWhatTheReportDoesNotHave(t *testing.T) {
	prices := check.Value(ParsePrices([]byte(samplePrices)))(t)
	use := map[cardseconds.Series]cardseconds.Milli{
		{Tenant: "chat", Queue: "chat", ServiceType: "inference", Card: "NVIDIA-H200"}: 7200 * 1000,
		{Tenant: "chat", Queue: "chat", ServiceType: "inference", Card: "Ascend-910B"}: 1800 * 1000,
	}

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Input)
		want   []string
	}{
		"all is counted, without prices: no note": {func(*Input) {}, nil},
		"prices without Ascend-910B, and four that nothing used": {func(in *Input) { in.Prices = prices }, []string{
			"No price, so no amount, and not in the total: Ascend-910B (0.500 card-hours).",
			`Nothing was used at the price of card "NVIDIA-H200" for service type "training", card "NVIDIA-H200" of tenant "lab", ` +
				`card "NVIDIA-H200" of tenant "lab" for service type "training", card "NVIDIA-H200/mig-1g.18gb-mixed".`,
		}},
		"counted from 4 hours after the begin of the report on": {func(in *Input) { in.Since = hours(4) }, []string{
			"The operator sums up days and months since 2026-10-01T04:00:00Z. What was used before that is not in this report.",
		}},
		"counted until 5 hours before its begin": {func(in *Input) { in.CountedUntil = hours(-5) }, []string{
			"The operator has counted until 2026-09-30T19:00:00Z only. kubectl cardquota doctor finds out why.",
		}},
		"counted until 5 hours after its begin: the report ends there, no note": {func(in *Input) { in.CountedUntil = hours(5) }, nil},
		"the operator has stored nothing": {
			func(in *Input) {
				in.Since = time.Time{}
				in.CountedUntil = time.Time{}
			},
			[]string{"The operator has stored no sums yet. It does so when the first card is used."},
		},
		"the user names a tenant that has never used a card": {func(in *Input) { in.Tenants = []string{"chat", "labb"} }, []string{
			`There is no sum of tenant "labb" in this time. Check how --tenant is written.`,
		}},
	}) {
		in := inputOf(use)
		tc.change(&in)
		check.Equal(t, "notes", tc.want, NewDocument(in).Notes)
	}
}

// TestAReportWithoutUseSaysWhetherThatIsKnown: "No card was used" is true only where the operator has counted in the
// time of the report, and one of the named tenants exists. Otherwise nothing is known. The report is of two days, all
// of which the operator has counted unless the row says otherwise. Tenant idle has used no card.
func TestAReportWithoutUseSaysWhetherThatIsKnown(t *testing.T) {
	const (
		none    = "\nNo card was used.\n"
		unknown = "\nNothing is known of the cards that were used.\n"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Input)
		want   string
	}{
		"of tenant idle":                        {func(in *Input) { in.Tenants = []string{"idle"} }, none},
		"of idle and a misspelt tenant":         {func(in *Input) { in.Tenants = []string{"idle", "labb"} }, none},
		"of a misspelt tenant":                  {func(in *Input) { in.Tenants = []string{"labb"} }, unknown},
		"counted from the end of the report on": {func(in *Input) { in.Since = hours(48) }, unknown},
		"counted until the report begins":       {func(in *Input) { in.CountedUntil = begin }, unknown},
		"the operator has stored nothing": {
			func(in *Input) {
				in.Since = time.Time{}
				in.CountedUntil = time.Time{}
			},
			unknown,
		},
	}) {
		in := inputOf(map[cardseconds.Series]cardseconds.Milli{{Tenant: "idle", Queue: "q", ServiceType: "none", Card: "A"}: 0})
		tc.change(&in)
		check.Contains(t, "report", NewDocument(in).Render(output.Style{}), tc.want)
	}
}

// TestNoCellIsAFormula: the sums are in a ConfigMap, which an attacker may edit to have any names, and an administrator
// opens the CSV in a spreadsheet. So no cell begins like a formula, and none has line ends or escape sequences.
func TestNoCellIsAFormula(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		dangerous := rapid.SampledFrom([]string{`=HYPERLINK("x")`, "+1", "-1", "@a", "\t=1", "\r\n=1", "a,b", `a"b`, "\x1b[31m"})
		text := rapid.OneOf(rapid.String(), dangerous).Draw(t, "label")
		series, milli := used(3600*1000, text, text, text, text, text)
		series.Namespace = text

		in := inputOf(map[cardseconds.Series]cardseconds.Milli{series: milli})
		in.By = ByQueue
		var written bytes.Buffer
		check.NoError(t, NewDocument(in).WriteCSV(&written))

		lines := check.Value(csv.NewReader(&written).ReadAll())(t)
		check.Must(t, len(lines) == 2 && len(lines[1]) == len(header), "not a header and one row: %q", lines)
		for i, cell := range lines[1] {
			check.That(t, cell == "" || !strings.ContainsAny(cell[:1], "=+-@\t\r"), "column %s is a formula: %q", header[i], cell)
			check.That(t, !strings.ContainsAny(cell, "\n\r\x1b"), "column %s has control characters: %q", header[i], cell)
		}
	})
}

// TestAReportFits80Columns: all names are as long as Kubernetes allows, 63 characters, and the card has 60. The names
// break, and the numbers are never shortened: 2^45 thousandths of a second are 9773436.691 hours, at 1234.5678 each.
func TestAReportFits80Columns(t *testing.T) {
	prices := check.Value(ParsePrices([]byte("currency: GPUcredits\nprices: [{card: " + strings.Repeat("A", 60) + ", perCardHour: 1234.5678}]")))(t)
	series := cardseconds.Series{
		Tenant:      strings.Repeat("t", 63),
		Project:     strings.Repeat("p", 63),
		Queue:       strings.Repeat("q", 63),
		ServiceType: strings.Repeat("s", 63),
		Card:        strings.Repeat("A", 60),
		Namespace:   strings.Repeat("n", 63),
	}

	for _, by := range Groupings {
		in := inputOf(map[cardseconds.Series]cardseconds.Milli{series: 1 << 45})
		in.Prices = prices
		in.By = by

		text := NewDocument(in).Render(output.Style{})
		for line := range strings.Lines(text) {
			check.That(t, output.Width(strings.TrimRight(line, "\n")) <= output.Columns, "a long line by %s: %s", by, line)
		}
		check.Contains(t, "table", text, "9773436.691", "1234.5678")
	}
}
