package report

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

const samplePrices = `
currency: EUR
prices:
- {card: NVIDIA-H200, perCardHour: 4.20}
- {card: NVIDIA-H200, serviceType: training, perCardHour: "2.10"}
- {card: NVIDIA-H200, tenant: lab, perCardHour: 3}
- {card: NVIDIA-H200, tenant: lab, serviceType: training, perCardHour: 0.000000001}
- {card: "NVIDIA-H200/mig-1g.18gb-mixed", perCardHour: 0}
`

// TestTheNarrowestPriceCounts: a file of prices can name a card for all, for a service type, for a tenant, or for both.
// The price with most of these names counts, and that of the tenant before that of the service type. In samplePrices an
// H200 costs 4.20 for all, 2.10 for training, 3 for tenant lab, and 0.000000001 for training of lab; a MIG slice costs 0.
// An Ascend-910B costs 5 for training and 6 for lab. NVIDIA-H800 is not in the file, so it has no price. A
// price has at least the two decimals of the currency.
func TestTheNarrowestPriceCounts(t *testing.T) {
	const ofAscend = `- {card: Ascend-910B, serviceType: training, perCardHour: 5}
- {card: Ascend-910B, tenant: lab, perCardHour: 6}
`
	prices := check.Value(ParsePrices([]byte(samplePrices + ofAscend)))(t)
	check.Equal(t, "currency", "EUR", prices.Currency)
	check.Equal(t, "decimals", 2, prices.Decimals)

	for t, tc := range check.Cases(t, map[string]struct{ tenant, serviceType, card, want string }{
		"a price for all":             {"chat", "inference", "NVIDIA-H200", "4.20"},
		"a price of the service type": {"chat", "training", "NVIDIA-H200", "2.10"},
		"a price of the tenant":       {"lab", "inference", "NVIDIA-H200", "3.00"},
		"a price of both":             {"lab", "training", "NVIDIA-H200", "0.000000001"},
		"a price of the service type and one of the tenant: that of the tenant": {"lab", "training", "Ascend-910B", "6.00"},
		"a price of zero":      {"chat", "none", "NVIDIA-H200/mig-1g.18gb-mixed", "0.00"},
		"a card without price": {"chat", "none", "NVIDIA-H800", ""},
	}) {
		got := ""
		if i := prices.find(cardseconds.Series{Tenant: tc.tenant, ServiceType: tc.serviceType, Card: tc.card}); i >= 0 {
			got = formatPrice(prices.prices[i].PerCardHour.Rat, prices.Decimals)
		}
		check.Equal(t, "price", tc.want, got)
	}
}

// TestWrongPricesAreRefused: a price that is misread makes a wrong bill, so a file with anything that is unknown,
// missing or ambiguous is refused. Each text is followed by what the error says about it.
func TestWrongPricesAreRefused(t *testing.T) {
	const head = "currency: EUR\nprices:\n"

	for text, want := range map[string]string{
		"":                                    "the file is empty",
		"currency: EUR\n":                     "has no prices",
		"- a\n":                               "cannot unmarshal",
		"prices: [{card: A, perCardHour: 1}]": `currency "": write`,
		"currency: '€'\nprices: [{card: A, perCardHour: 1}]":              "write 1 to 12 letters",
		"currency: EUR\ndecimals: 9\nprices: [{card: A, perCardHour: 1}]": "not between 0 and 6",
		head + "- {card: A, perCardHour: 1}\n---\na: b\n":                 "more than one document",
		head + "- {card: A, perCardHour: 1, project: x}":                  "field project not found",
		head + "- {cards: A, perCardHour: 1}":                             "field cards not found",
		head + "- {perCardHour: 1}":                                       "name a card",
		head + "- {card: A}":                                              `card "A" has no perCardHour`,
		head + "- {card: A, perCardHour: }":                               `card "A" has no perCardHour`,
		head + "- {card: A, perCardHour: -1}":                             `"-1" is no price`,
		head + "- {card: A, perCardHour: 1e3}":                            "is no price",
		head + "- {card: A, perCardHour: 1,5}":                            "5", // YAML reads a key 5
		head + "- {card: A, perCardHour: .inf}":                           "is no price",
		head + "- {card: A, perCardHour: [1]}":                            "is no price",
		head + "- {card: A, perCardHour: 0x10}":                           "is no price",
		head + "- {card: A, perCardHour: 1}\n- {card: A, perCardHour: 2}": `card "A" has two prices`,
		head + "- {card: A, tenant: t, serviceType: s, perCardHour: 1}\n- {card: A, serviceType: s, tenant: t, perCardHour: 1}": `card "A" of tenant "t" for service type "s" has two prices`,
	} {
		_, err := ParsePrices([]byte(text))
		check.Must(t, err != nil, "accepted: %q", text)
		check.Contains(t, "error", err.Error(), want)
	}
}

// FuzzPrices: any file that is accepted has one price for a card, tenant and service type. So each price of the file is
// the one that counts for the card, tenant and service type that it names. The second sample has two prices of card A,
// and is refused.
func FuzzPrices(f *testing.F) {
	f.Add(samplePrices)
	f.Add("{currency: EUR, prices: [{card: A, perCardHour: 1}, {card: A, perCardHour: 2}]}")

	f.Fuzz(func(t *testing.T, text string) {
		prices, err := ParsePrices([]byte(text))
		if err != nil {
			return
		}

		for i, price := range prices.prices {
			found := prices.find(cardseconds.Series{Card: price.Card, Tenant: price.Tenant, ServiceType: price.ServiceType})
			check.Equal(t, fmt.Sprintf("index of the price for %+v", price), i, found)
		}
	})
}
