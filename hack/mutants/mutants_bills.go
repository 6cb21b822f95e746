package main

// The sums of days and months, for bills.
var billMutants = []mutant{
	{"internal/cardseconds/uncounted.go", `if closed := end.Begin(m.location()); closed.After(until)`, `if closed := end.Begin(m.location()); closed.Before(until)`, "bills: what an entry has is not credited again"},
	{"internal/cardseconds/uncounted.go", `if until.IsZero() { // an empty part`, `if true { // an empty part`, "bills: each part is credited since its own time"},
	{"internal/cardseconds/closed.go", `if period < today[:len(period)] &&`, `if period <= today[:len(period)] &&`, "bills: the running day is not closed"},
	{"internal/cardseconds/meter.go", `day = max(day, m.parts[part].closedDay.next())`, `_ = part`, "bills: a closed day never grows"},
	{"internal/cardseconds/meter.go", `behind < 0 || behind >= time.Millisecond {`, `behind < 0 || behind >= 0 {`, "bills: no count loses a part of a millisecond"},
	{"internal/cardseconds/meter.go", `behind < 0 || behind >= time.Millisecond {`, `behind >= time.Millisecond {`, "bills: time goes on after the clock was set back"},
	{"internal/cardseconds/stored.go", `			addSums(sums, entry)
			continue`, `			addSums(sums, entry)`, "bills: a day counts in its entry or in its part"},
}

// When LocalCardQuotas show card-hours.
var cardHoursMutants = []mutant{
	{"internal/cardhours/cardhours.go", `case age < refreshInterval && !isFromFuture:`, `case age < 0 && !isFromFuture:`, "bills: card-hours are written once an hour"},
	{"internal/cardhours/cardhours.go", `shown.ThisMonth.Month != next.Status.ThisMonth.Month`, `false`, "bills: card-hours follow the month at once"},
	{"internal/cardhours/cardhours.go", `case hasSameUse(shown, next.Status):`, `case false:`, "bills: card-hours without use are not written"},
	{"internal/cardhours/cardhours.go", `return bound * time.Duration(sum.Sum32()%1000) / 1000`, `return 0`, "bills: not all views are written in the same minute"},
}
