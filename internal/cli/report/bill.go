package report

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"cardquota.dev/operator/internal/cardseconds"
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
	// Items are sorted by tenant, project, queue, namespace, service type and card.
	Items []Row `json:"items"`
	// Total has the sums of the rounded numbers of all items.
	Total Total `json:"total"`
	// Notes say what the report lacks.
	Notes []string `json:"notes,omitempty"`
	// isKnown reports whether an empty report means that no card was used.
	isKnown bool
}

// Row is what is used of a card. All numbers are decimals in a text, so that none is changed.
type Row struct {
	Tenant  string `json:"tenant"`
	Project string `json:"project,omitempty"`
	Queue   string `json:"queue,omitempty"`
	// Namespace is that of pods without a queue, which have no tenant. It is empty for all others.
	Namespace   string `json:"namespace,omitempty"`
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
	// From and To are the time that the user asks for.
	From, To time.Time
	// Since is when the operator began to sum up days and months, and CountedUntil until when it did. Both
	// are zero if it has stored no sums.
	Since, CountedUntil time.Time
	// Used are the card-seconds in this time, in thousandths.
	Used map[cardseconds.Series]cardseconds.Milli
	By   Grouping
	// Tenants are those to show, all if there are none. Known are all tenants that have sums.
	Tenants []string
	Known   map[string]bool
	// Prices may be nil.
	Prices *Prices
}

// hourDecimals are the decimals of card-hours, which bills have too.
const hourDecimals = 3

// milliPerHour are the thousandths of card-seconds, which the sums count, in a card-hour.
var milliPerHour = big.NewRat(3600*1000, 1)

// NewDocument returns the report: rows with card-hours and, with prices, amounts, their totals, and notes on what
// it lacks. It ends where the operator has counted last, if the user asks for a later end.
func NewDocument(in Input) Document {
	d := Document{
		TypeMeta: output.NewTypeMeta("CardBill"), From: in.From, To: in.countedEnd(), GroupedBy: in.By, Items: []Row{},
	}

	// Bills must add up to the cent, so all sums are exact fractions, and the total is that of
	// rounded rows.
	sums := in.sumRows()
	totalHours := new(big.Rat)
	bill := amounts{Prices: in.Prices, total: new(big.Rat), unpriced: map[string]*big.Rat{}, isUsed: map[int]bool{}}
	for _, series := range slices.SortedFunc(maps.Keys(sums), compareSeries) {
		milli := sums[series] // thousandths of card-seconds
		hours := roundTo(new(big.Rat).Quo(new(big.Rat).SetInt64(int64(milli)), milliPerHour), hourDecimals)
		row := Row{
			Tenant: series.Tenant, Project: series.Project, Queue: series.Queue, Namespace: series.Namespace, ServiceType: series.ServiceType, Card: series.Card,
			CardSeconds: trimZeros(big.NewRat(int64(milli), 1000).FloatString(3)), CardHours: hours.FloatString(hourDecimals),
		}

		totalHours.Add(totalHours, hours)
		if in.Prices != nil {
			bill.addAmount(&row, series, hours)
		}
		d.Items = append(d.Items, row)
	}

	d.Total.CardHours = totalHours.FloatString(hourDecimals)
	if in.Prices != nil {
		d.Currency = in.Prices.Currency
		d.Total.Amount = bill.total.FloatString(in.Prices.Decimals)
		d.Notes = append(d.Notes, unpricedNotes(bill.unpriced)...)

		// A report of some tenants uses only some prices, so the others are no mistake.
		if len(in.Tenants) == 0 {
			d.Notes = append(d.Notes, in.Prices.unusedNotes(bill.isUsed)...)
		}
	}

	d.Notes = append(d.Notes, in.coverageNotes()...)
	unknown := in.unknownTenants()
	if len(unknown) > 0 {
		d.Notes = append(d.Notes, "There is no sum of tenant "+strings.Join(unknown, ", ")+" in this time. Check how --tenant is written.")
	}

	// A report without rows means that no card was used, if part of the time was counted, and one of the
	// tenants has sums. Otherwise nothing is known.
	isCounted := d.From.Before(d.To) && in.Since.Before(d.To)
	d.isKnown = isCounted && (len(in.Tenants) == 0 || len(unknown) < len(in.Tenants))
	return d
}

// amounts are what card-hours cost while a report is made.
type amounts struct {
	*Prices
	total *big.Rat
	// unpriced are card-hours by card without a price.
	unpriced map[string]*big.Rat
	// isUsed reports which prices are, by their place in the file.
	isUsed map[int]bool
}

// addAmount sets the price and the amount of a row, and adds the amount to the total. A row without a price gets neither:
// a note says for how many card-hours there is none.
func (a *amounts) addAmount(row *Row, series cardseconds.Series, hours *big.Rat) {
	i := a.find(series)
	if i < 0 {
		sum := cmp.Or(a.unpriced[series.Card], new(big.Rat))
		a.unpriced[series.Card] = sum.Add(sum, hours)
		return
	}

	a.isUsed[i] = true
	perHour := a.prices[i].PerCardHour.Rat
	amount := roundTo(new(big.Rat).Mul(hours, perHour), a.Decimals)
	row.PerCardHour = formatPrice(perHour, a.Decimals)
	row.Amount = amount.FloatString(a.Decimals)
	a.total.Add(a.total, amount)
}

// countedEnd returns the end of what was counted of the time, its beginning if nothing was.
func (in Input) countedEnd() time.Time {
	switch {
	case in.CountedUntil.After(in.To):
		return in.To
	case in.CountedUntil.After(in.From):
		return in.CountedUntil.In(in.From.Location()).Truncate(time.Second)
	default:
		return in.From
	}
}

// coverageNotes say which part of the time was not counted. They leave out the time since the operator counted last,
// which every report of this month lacks.
func (in Input) coverageNotes() []string {
	since := in.Since.In(in.From.Location())
	until := in.CountedUntil.In(in.From.Location())

	switch {
	case in.Since.IsZero():
		return []string{"The operator has stored no sums yet. It does so when the first card is used."}
	case in.Since.After(in.From):
		return []string{fmt.Sprintf("The operator sums up days and months since %s. What was used before that is not in this report.", formatTime(since))}
	case in.CountedUntil.Before(in.From):
		return []string{fmt.Sprintf("The operator has counted until %s only. kubectl cardquota doctor finds out why.", formatTime(until))}
	default:
		return nil
	}
}

// sumRows sums up what belongs into one row: without a column for it, series that differ in queue or project only
// are one row. Rows without use are left out.
func (in Input) sumRows() map[cardseconds.Series]cardseconds.Milli {
	sums := map[cardseconds.Series]cardseconds.Milli{}
	for series, milli := range in.Used {
		if (len(in.Tenants) > 0 && !slices.Contains(in.Tenants, series.Tenant)) || milli == 0 {
			continue
		}

		if in.By != ByQueue {
			series.Queue = ""
		}
		if in.By == ByTenant {
			series.Project = ""
		}
		sums[series] += milli
	}

	return sums
}

// compareSeries orders rows by their columns, from left to right.
func compareSeries(a, b cardseconds.Series) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Queue, b.Queue),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ServiceType, b.ServiceType), cmp.Compare(a.Card, b.Card))
}

// roundTo rounds to some decimals, half away from zero, as FloatString does.
func roundTo(value *big.Rat, decimals int) *big.Rat {
	rounded, _ := new(big.Rat).SetString(value.FloatString(decimals))
	return rounded
}

// formatPrice returns all digits of a price, and at least the decimals of an amount.
func formatPrice(value *big.Rat, decimals int) string {
	text := value.FloatString(maxPriceDecimals)
	for len(text)-strings.IndexByte(text, '.')-1 > decimals && strings.HasSuffix(text, "0") {
		text = strings.TrimSuffix(text, "0")
	}
	return strings.TrimSuffix(text, ".")
}

// trimZeros returns a decimal number without zeros at its end.
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

// unusedNotes say at which prices nothing was used: a card may be misspelt.
func (p *Prices) unusedNotes(isUsed map[int]bool) []string {
	var unused []string
	for i, entry := range p.prices {
		if !isUsed[i] {
			unused = append(unused, entry.name())
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return []string{"Nothing was used at the price of " + strings.Join(unused, ", ") + "."}
}

// unknownTenants returns the tenants that have no sums: one may be misspelt.
func (in Input) unknownTenants() []string {
	var unknown []string
	for _, tenant := range in.Tenants {
		if !in.Known[tenant] {
			unknown = append(unknown, fmt.Sprintf("%.63q", tenant))
		}
	}
	return unknown
}

func formatTime(at time.Time) string { return at.Format(time.RFC3339) }
