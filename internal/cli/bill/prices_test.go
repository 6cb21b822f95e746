package bill

import (
	"strings"
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

func TestTheNarrowestPriceCounts(t *testing.T) {
	prices := check.Value(ParsePrices([]byte(samplePrices)))(t)
	check.That(t, prices.Currency == "EUR" && prices.Decimals == 2, "%+v", prices)
	for _, tc := range []struct{ tenant, serviceType, card, want string }{
		{"chat", "inference", "NVIDIA-H200", "4.20"}, {"chat", "training", "NVIDIA-H200", "2.10"}, {"lab", "inference", "NVIDIA-H200", "3.00"},
		{"lab", "training", "NVIDIA-H200", "0.000000001"}, {"chat", "none", "NVIDIA-H200/mig-1g.18gb-mixed", "0.00"}, {"chat", "none", "NVIDIA-H800", ""},
	} {
		got := ""
		if i := prices.find(cardseconds.Series{Tenant: tc.tenant, ServiceType: tc.serviceType, Card: tc.card}); i >= 0 {
			got = formatPrice(prices.prices[i].PerCardHour.Rat, prices.Decimals)
		}

		check.Equal(t, "price of "+tc.tenant+" "+tc.serviceType+" "+tc.card, tc.want, got)
	}
}

func TestWrongPricesAreRefused(t *testing.T) {
	head := "currency: EUR\nprices:\n"

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
		head + "- {card: A, perCardHour: 1,5}":                            "5",
		head + "- {card: A, perCardHour: .inf}":                           "is no price",
		head + "- {card: A, perCardHour: [1]}":                            "is no price",
		head + "- {card: A, perCardHour: 0x10}":                           "is no price",
		head + "- {card: A, perCardHour: 1}\n- {card: A, perCardHour: 2}": `card "A" has two prices`,
		head + "- {card: A, tenant: t, serviceType: s, perCardHour: 1}\n- {card: A, serviceType: s, tenant: t, perCardHour: 1}": `card "A" of tenant "t" for service type "s" has two prices`,
	} {
		_, err := ParsePrices([]byte(text))
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %s", text, err, want)
	}
}

func FuzzPrices(f *testing.F) {
	f.Add(samplePrices)
	f.Fuzz(func(t *testing.T, text string) {
		prices, err := ParsePrices([]byte(text))
		check.That(t, err != nil || prices.find(cardseconds.Series{Card: prices.prices[0].Card, Tenant: prices.prices[0].Tenant, ServiceType: prices.prices[0].ServiceType}) >= 0, "a price that is never found")
	})
}
