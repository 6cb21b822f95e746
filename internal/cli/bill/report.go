// Package bill makes the report of kubectl cardquota: card-hours and money by tenant, card and service
// type. It is pure. Numbers are exact: card-seconds are thousandths, prices are decimals, and only
// what a row shows is rounded.
package bill

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/cli/carduse"
	"cardquota.dev/operator/internal/cli/output"
)

// Grouping is what a report has rows for, beside card and service type.
type Grouping string

// The groupings. Each has the columns of those before it.
const (
	ByTenant  Grouping = "tenant"
	ByProject Grouping = "project"
	ByQueue   Grouping = "queue"
)

// Groupings are all groupings.
var Groupings = []Grouping{ByTenant, ByProject, ByQueue}

// Document is the document of kubectl cardquota report.
type Document struct {
	output.TypeMeta `json:",inline"`
	// From and To are the time of the report.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// GroupedBy is tenant, project or queue.
	GroupedBy Grouping `json:"groupedBy"`
	// Currency is that of the prices. It is empty without prices.
	Currency string `json:"currency,omitempty"`
	// Items are sorted by tenant, project, queue, service type and card.
	Items []Row `json:"items"`
	// Total has the sums of the rounded numbers of all items.
	Total Total `json:"total"`
	// Gaps are times without samples.
	Gaps []carduse.Gap `json:"gaps,omitempty"`
	// Notes say what the report lacks.
	Notes []string `json:"notes,omitempty"`
	// isKnown reports whether an empty report means that no card was used.
	isKnown bool
}

// Row is what is used of a card. All numbers are decimals in a text, so that none is changed.
type Row struct {
	Tenant      string `json:"tenant"`
	Project     string `json:"project,omitempty"`
	Queue       string `json:"queue,omitempty"`
	ServiceType string `json:"serviceType"`
	Card        string `json:"card"`
	// CardSeconds are cards × seconds, and CardHours are rounded to three decimals.
	CardSeconds string `json:"cardSeconds"`
	CardHours   string `json:"cardHours"`
	// PerCardHour is the price. It and Amount are empty without a price.
	PerCardHour string `json:"perCardHour,omitempty"`
	// Amount is CardHours × PerCardHour, rounded half away from zero.
	Amount string `json:"amount,omitempty"`
}

// Total is the sum of all items.
type Total struct {
	CardHours string `json:"cardHours"`
	// Amount leaves out items without a price.
	Amount string `json:"amount,omitempty"`
}

// Input is what a report is made from.
type Input struct {
	Window  carduse.Window
	Use     carduse.Use
	By      Grouping
	Tenants []string
	// Prices may be nil.
	Prices *Prices
	// Notes say what the numbers lack.
	Notes []string
}

const hourDecimals = 3

var milliPerHour = big.NewRat(3600*1000, 1)

// NewDocument returns the report.
func NewDocument(in Input) Document {
	d := Document{
		TypeMeta: output.NewTypeMeta("CardBill"), From: in.Window.From, To: in.Window.To, GroupedBy: in.By, Items: []Row{}, Gaps: in.Use.Gaps,
	}
	sums := in.sumRows()
	totalHours, totalAmount := new(big.Rat), new(big.Rat)
	unpriced, used := map[string]*big.Rat{}, map[int]bool{}
	for _, series := range slices.SortedFunc(maps.Keys(sums), compareSeries) {
		milli := sums[series]
		hours := roundTo(new(big.Rat).Quo(new(big.Rat).SetInt64(int64(milli)), milliPerHour), hourDecimals)
		row := Row{
			Tenant: series.Tenant, Project: series.Project, Queue: series.Queue, ServiceType: series.ServiceType, Card: series.Card,
			CardSeconds: trimZeros(big.NewRat(int64(milli), 1000).FloatString(3)), CardHours: hours.FloatString(hourDecimals),
		}
		totalHours.Add(totalHours, hours)
		if in.Prices != nil {
			if i := in.Prices.find(series); i >= 0 {
				used[i] = true
				perHour := in.Prices.prices[i].PerCardHour.Rat
				amount := roundTo(new(big.Rat).Mul(hours, perHour), in.Prices.Decimals)
				row.PerCardHour, row.Amount = formatPrice(perHour, in.Prices.Decimals), amount.FloatString(in.Prices.Decimals)
				totalAmount.Add(totalAmount, amount)
			} else {
				if unpriced[series.Card] == nil {
					unpriced[series.Card] = new(big.Rat)
				}
				unpriced[series.Card].Add(unpriced[series.Card], hours)
			}
		}
		d.Items = append(d.Items, row)
	}
	d.Total.CardHours = totalHours.FloatString(hourDecimals)
	if in.Prices != nil {
		d.Currency, d.Total.Amount = in.Prices.Currency, totalAmount.FloatString(in.Prices.Decimals)
		d.Notes = append(d.Notes, unpricedNotes(unpriced)...)
		if len(in.Tenants) == 0 {
			d.Notes = append(d.Notes, in.Prices.unusedNotes(used)...)
		}
	}
	d.isKnown = !in.knowsNothing()
	if unknown := in.unknownTenants(); d.isKnown && len(unknown) > 0 {
		d.isKnown = len(unknown) < len(in.Tenants)
		d.Notes = append(d.Notes, "There is no sum of tenant "+strings.Join(unknown, ", ")+" in this time. Check how --tenant is written.")
	}
	d.Notes = append(append(d.Notes, in.Notes...), in.sampleNotes()...)
	return d
}

// sumRows sums up what belongs into one row. Rows without use are left out.
func (in Input) sumRows() map[cardseconds.Series]carduse.Milli {
	sums := map[cardseconds.Series]carduse.Milli{}
	for series, milli := range in.Use.CardSeconds {
		if len(in.Tenants) > 0 && !slices.Contains(in.Tenants, series.Tenant) || milli == 0 {
			continue
		}
		if in.By != ByQueue {
			series.Queue = ""
		}
		if in.By == ByTenant {
			series.Project = ""
		}
		series.Namespace = ""
		sums[series] += milli
	}
	return sums
}

func compareSeries(a, b cardseconds.Series) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Queue, b.Queue),
		cmp.Compare(a.ServiceType, b.ServiceType), cmp.Compare(a.Card, b.Card))
}

// roundTo rounds half away from zero.
func roundTo(value *big.Rat, decimals int) *big.Rat {
	rounded, _ := new(big.Rat).SetString(value.FloatString(decimals))
	return rounded
}

// formatPrice returns all digits of a price, and at least those of an amount.
func formatPrice(value *big.Rat, decimals int) string {
	text := value.FloatString(9)
	for len(text)-strings.IndexByte(text, '.')-1 > decimals && strings.HasSuffix(text, "0") {
		text = strings.TrimSuffix(text, "0")
	}
	return strings.TrimSuffix(text, ".")
}

func trimZeros(text string) string {
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// unpricedNotes say which cards have no price.
func unpricedNotes(unpriced map[string]*big.Rat) []string {
	var cards []string
	for _, name := range slices.Sorted(maps.Keys(unpriced)) {
		cards = append(cards, fmt.Sprintf("%s (%s card-hours)", name, unpriced[name].FloatString(hourDecimals)))
	}
	if len(cards) == 0 {
		return nil
	}
	return []string{"No price, so no amount, and not in the total: " + strings.Join(cards, ", ") + "."}
}

// unusedNotes say which prices were for nothing: a card may be misspelt.
func (p *Prices) unusedNotes(used map[int]bool) []string {
	var unused []string
	for i, entry := range p.prices {
		if !used[i] {
			unused = append(unused, entry.name())
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return []string{"Nothing was used at the price of " + strings.Join(unused, ", ") + "."}
}

// maxGaps is how many gaps the notes name.
const maxGaps = 5

// sampleNotes say of which time Prometheus lacks samples, and what that means.
func (in Input) sampleNotes() []string {
	if in.knowsNothing() {
		return []string{"Prometheus has no samples of this time, so nothing is known: either it did not scrape the operator, or no card had been used for seven days."}
	}
	var notes []string
	gaps := in.Use.Gaps
	if first := in.Use.FirstSample; !first.IsZero() {
		if len(gaps) > 0 && gaps[0].From.Equal(in.Window.From) {
			first, gaps = gaps[0].To, gaps[1:]
		}
		notes = append(notes, fmt.Sprintf("Prometheus has no samples before %s. What was used before that is not in this report.", formatTime(first)))
	}
	var times []string
	for _, gap := range gaps {
		switch {
		case gap.To.Equal(in.Window.To):
			notes = append(notes, fmt.Sprintf("Prometheus has no samples after %s. What was used since then is not in this report.", formatTime(gap.From)))
		case gap.From.Equal(in.Window.From):
			notes = append(notes, fmt.Sprintf("Prometheus has no samples of the time before %s. What was used since the last sample before --from is in this report.", formatTime(gap.To)))
		default:
			times = append(times, formatTime(gap.From)+" to "+formatTime(gap.To))
		}
	}
	if more := len(times) - maxGaps; more == 1 {
		times = append(times[:maxGaps], "1 more time")
	} else if more > 1 {
		times = append(times[:maxGaps], fmt.Sprintf("%d more times", more))
	}
	if len(times) > 0 {
		notes = append(notes, "Prometheus has no samples of "+strings.Join(times, ", ")+". What was used then is in the next sample, but while no operator led, nothing was counted.")
	}
	return notes
}

// knowsNothing reports whether there is no sample in the whole window.
func (in Input) knowsNothing() bool {
	return slices.Contains(in.Use.Gaps, carduse.Gap(in.Window))
}

// unknownTenants returns the tenants that no series has: one may be misspelt.
func (in Input) unknownTenants() []string {
	known := map[string]bool{}
	for series := range in.Use.CardSeconds {
		known[series.Tenant] = true
	}
	var unknown []string
	for _, tenant := range in.Tenants {
		if !known[tenant] {
			unknown = append(unknown, fmt.Sprintf("%.63q", tenant))
		}
	}
	return unknown
}

func formatTime(at time.Time) string { return at.Format(time.RFC3339) }
