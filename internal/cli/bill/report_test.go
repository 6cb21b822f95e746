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
	"cardquota.dev/operator/internal/cli/carduse"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var begin = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

func hours(h float64) time.Time { return begin.Add(time.Duration(h * float64(time.Hour))) }

func used(milli int64, labels ...string) (cardseconds.Series, carduse.Milli) {
	return cardseconds.Series{Tenant: labels[0], Project: labels[1], Queue: labels[2], ServiceType: labels[3], Card: labels[4]}, carduse.Milli(milli)
}

func inputOf(use map[cardseconds.Series]carduse.Milli) Input {
	return Input{Window: carduse.Window{From: begin, To: hours(48)}, Use: carduse.Use{CardSeconds: use, HasSamples: true}, By: ByTenant}
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
		prices, err := ParsePrices([]byte(fmt.Sprintf("currency: EUR\ndecimals: %d\nprices: [{card: A, perCardHour: %s}]", decimals, price)))
		check.NoError(t, err)
		in := inputOf(map[cardseconds.Series]carduse.Milli{})
		in.Prices, in.By = prices, ByQueue
		for i := range rapid.IntRange(1, 8).Draw(t, "rows") {
			series, milli := used(rapid.Int64Range(1, 1<<50).Draw(t, "use"), "t", "", fmt.Sprint("q", i), "none", "A")
			in.Use.CardSeconds[series] = milli
		}
		d := NewDocument(in)
		nano := centsOf(t, price, 9)
		totalHours, totalAmount := new(big.Int), new(big.Int)
		// divide rounds half away from zero.
		divide := func(value, by *big.Int) *big.Int {
			doubled := new(big.Int).Add(new(big.Int).Lsh(value, 1), by)
			return doubled.Div(doubled, new(big.Int).Lsh(by, 1))
		}
		for i, row := range d.Items {
			series, _ := used(0, "t", "", fmt.Sprint("q", i), "none", "A")
			thousandths := divide(big.NewInt(int64(in.Use.CardSeconds[series])), big.NewInt(3600))
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
	use := map[cardseconds.Series]carduse.Milli{}
	for _, labels := range [][]string{
		{"lab", "llm", "q1", "training", "A"}, {"lab", "llm", "q2", "training", "A"}, {"lab", "vision", "q3", "training", "A"}, {"lab", "vision", "q3", "training", "B"}, {"", "", "q4", "none", "A"},
	} {
		series, milli := used(3600*1000, labels...)
		use[series] = milli
	}
	idle, _ := used(0, "idle", "", "q5", "none", "A")
	use[idle] = 0
	for by, want := range map[Grouping][]string{
		ByTenant:  {" none A=1.000", "lab training A=3.000", "lab training B=1.000"},
		ByProject: {" none A=1.000", "lab llm training A=2.000", "lab vision training A=1.000", "lab vision training B=1.000"},
		ByQueue:   {" q4 none A=1.000", "lab llm q1 training A=1.000", "lab llm q2 training A=1.000", "lab vision q3 training A=1.000", "lab vision q3 training B=1.000"},
	} {
		in := inputOf(use)
		in.By = by
		var got []string
		for _, row := range NewDocument(in).Items {
			words := []string{row.Tenant}
			for _, word := range []string{row.Project, row.Queue, row.ServiceType, row.Card} {
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
	check.Equal(t, "rows of tenants", 1, len(NewDocument(in).Items))
}

func TestNotes(t *testing.T) {
	prices, err := ParsePrices([]byte(samplePrices))
	check.NoError(t, err)
	series, milli := used(7200*1000, "chat", "", "chat", "inference", "NVIDIA-H200")
	unknown, more := used(1800*1000, "chat", "", "chat", "inference", "Ascend-910B")
	use := map[cardseconds.Series]carduse.Milli{series: milli, unknown: more}
	gap := func(from, to float64) carduse.Gap { return carduse.Gap{From: hours(from), To: hours(to)} }
	for name, tc := range map[string]struct {
		change func(*Input)
		want   []string
	}{
		"no note": {func(*Input) {}, nil},
		"prices": {func(in *Input) { in.Prices = prices }, []string{
			"No price, so no amount, and not in the total: Ascend-910B (0.500 card-hours).",
			`Nothing was used at the price of card "NVIDIA-H200" for service type "training", card "NVIDIA-H200" of tenant "lab", card "NVIDIA-H200" of tenant "lab" for service type "training", card "NVIDIA-H200/mig-1g.18gb-mixed".`}},
		"a gap": {func(in *Input) { in.Use.Gaps = []carduse.Gap{gap(2, 3)} }, []string{
			"Prometheus has no samples of 2026-10-01T02:00:00Z to 2026-10-01T03:00:00Z. What was used then is in the next sample, but while no operator led, nothing was counted."}},
		"both ends": {func(in *Input) { in.Use.Gaps = []carduse.Gap{gap(0, 3), gap(40, 48)} }, []string{
			"Prometheus has no samples of the time before 2026-10-01T03:00:00Z. What was used since the last sample before --from is in this report.",
			"Prometheus has no samples after 2026-10-02T16:00:00Z. What was used since then is not in this report."}},
		"its first sample": {func(in *Input) { in.Use.FirstSample, in.Use.Gaps = hours(4), []carduse.Gap{gap(0, 4.5)} }, []string{
			"Prometheus has no samples before 2026-10-01T04:30:00Z. What was used before that is not in this report."}},
		"many gaps": {func(in *Input) {
			for i := range 8 {
				in.Use.Gaps = append(in.Use.Gaps, gap(float64(2*i+1), float64(2*i+2)))
			}
		}, []string{"Prometheus has no samples of 2026-10-01T01:00:00Z to 2026-10-01T02:00:00Z, 2026-10-01T03:00:00Z to 2026-10-01T04:00:00Z, 2026-10-01T05:00:00Z to 2026-10-01T06:00:00Z, " +
			"2026-10-01T07:00:00Z to 2026-10-01T08:00:00Z, 2026-10-01T09:00:00Z to 2026-10-01T10:00:00Z, 3 more times. What was used then is in the next sample, but while no operator led, nothing was counted."}},
		"many gaps, and no end": {func(in *Input) {
			for i := range 6 {
				in.Use.Gaps = append(in.Use.Gaps, gap(float64(2*i+1), float64(2*i+2)))
			}
			in.Use.Gaps = append(in.Use.Gaps, gap(40, 48))
		}, []string{"Prometheus has no samples after 2026-10-02T16:00:00Z. What was used since then is not in this report.",
			"Prometheus has no samples of 2026-10-01T01:00:00Z to 2026-10-01T02:00:00Z, 2026-10-01T03:00:00Z to 2026-10-01T04:00:00Z, 2026-10-01T05:00:00Z to 2026-10-01T06:00:00Z, " +
				"2026-10-01T07:00:00Z to 2026-10-01T08:00:00Z, 2026-10-01T09:00:00Z to 2026-10-01T10:00:00Z, 1 more time. What was used then is in the next sample, but while no operator led, nothing was counted."}},
		"no samples": {func(in *Input) { in.Use.Gaps, in.Tenants = []carduse.Gap{gap(0, 48)}, []string{"labb"} }, []string{
			"Prometheus has no samples of this time, so nothing is known: either it did not scrape the operator, or no card had been used for seven days."}},
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
	idle, none := used(0, "idle", "", "q", "none", "A")
	for name, tc := range map[string]struct {
		tenants []string
		gaps    []carduse.Gap
		want    string
	}{
		"an idle tenant":               {[]string{"idle"}, nil, "\nNo card was used.\n"},
		"an idle and a misspelt one":   {[]string{"idle", "labb"}, nil, "\nNo card was used.\n"},
		"a misspelt tenant":            {[]string{"labb"}, nil, "\nNothing is known of the cards that were used.\n"},
		"no samples in the whole time": {nil, []carduse.Gap{{From: begin, To: hours(48)}}, "\nNothing is known of the cards that were used.\n"},
	} {
		in := inputOf(map[cardseconds.Series]carduse.Milli{idle: none})
		in.Tenants, in.Use.Gaps = tc.tenants, tc.gaps
		var text bytes.Buffer
		check.NoError(t, NewDocument(in).Write(&text, output.Style{}))
		check.Contains(t, name, text.String(), tc.want)
	}
}

// TestNoCellIsAFormula: Prometheus may have any text in a label.
func TestNoCellIsAFormula(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`=HYPERLINK("x")`, "+1", "-1", "@a", "\t=1", "\r\n=1", "a,b", `a"b`, "\x1b[31m"})).Draw(t, "label")
		series, milli := used(3600*1000, text, text, text, text, text)
		in := inputOf(map[cardseconds.Series]carduse.Milli{series: milli})
		in.By = ByQueue
		var written bytes.Buffer
		check.NoError(t, NewDocument(in).WriteCSV(&written))
		lines, err := csv.NewReader(&written).ReadAll()
		check.NoError(t, err)
		check.Must(t, len(lines) == 2 && len(lines[1]) == len(header), "%q", lines)
		for i, cell := range lines[1] {
			check.That(t, cell == "" || !strings.ContainsAny(cell[:1], "=+-@\t\r"), "column %s is a formula: %q", header[i], cell)
			check.That(t, !strings.ContainsAny(cell, "\n\r\x1b"), "column %s has control characters: %q", header[i], cell)
		}
	})
}

func TestTableHas80Columns(t *testing.T) {
	prices, err := ParsePrices([]byte("currency: GPUcredits\nprices: [{card: " + strings.Repeat("A", 60) + ", perCardHour: 1234.5678}]"))
	check.NoError(t, err)
	series, milli := used(1<<45, strings.Repeat("t", 63), strings.Repeat("p", 63), strings.Repeat("q", 63), strings.Repeat("s", 63), strings.Repeat("A", 60))
	for _, by := range Groupings {
		in := inputOf(map[cardseconds.Series]carduse.Milli{series: milli})
		in.Prices, in.By = prices, by
		var text bytes.Buffer
		check.NoError(t, NewDocument(in).Write(&text, output.Style{}))
		for line := range strings.Lines(text.String()) {
			check.That(t, output.Width(strings.TrimRight(line, "\n")) <= output.Columns, "a long line by %s: %s", by, line)
		}
		check.Contains(t, "table", text.String(), "9773436.691", "1234.5678") // the numbers are never shortened
	}
}
