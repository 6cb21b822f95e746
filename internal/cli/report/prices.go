package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"

	"go.yaml.in/yaml/v3"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/cardseconds"
)

// Prices are what card-hours cost.
type Prices struct {
	// Currency is the unit of the amounts.
	Currency string
	// Decimals is how many decimals amounts have.
	Decimals int
	prices   []price
}

// price is what an hour of a card costs, for all tenants and service types or for one.
type price struct {
	Card        string  `yaml:"card"`
	Tenant      string  `yaml:"tenant"`
	ServiceType string  `yaml:"serviceType"`
	PerCardHour decimal `yaml:"perCardHour"`
}

// priceFile is the content of a file of prices.
type priceFile struct {
	Currency string  `yaml:"currency"`
	Decimals *int    `yaml:"decimals"`
	Prices   []price `yaml:"prices"`
}

// decimal is an exact decimal number.
type decimal struct{ *big.Rat }

// maxPriceDecimals is how many decimals a price may have.
const maxPriceDecimals = 9

// decimalPattern has the prices that a file may write. It has maxPriceDecimals decimals at most.
var decimalPattern = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,9})?$`)

// UnmarshalYAML reads the digits as they are written: a float would change them.
func (d *decimal) UnmarshalYAML(node *yaml.Node) error {
	value := new(big.Rat)
	ok := false
	if node.Kind == yaml.ScalarNode && decimalPattern.MatchString(node.Value) {
		value, ok = value.SetString(node.Value)
	}
	if !ok {
		return fmt.Errorf("line %d: %.40q is no price: write a number such as 4.20", node.Line, node.Value)
	}
	d.Rat = value
	return nil
}

const (
	defaultDecimals = 2
	maxDecimals     = 6
)

var currencyPattern = regexp.MustCompile(`^[A-Za-z]{1,12}$`)

// ParsePrices reads a file of prices. It refuses what it cannot read, unknown fields, and two prices for the
// same.
func ParsePrices(text []byte) (*Prices, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var file priceFile
	if err := decoder.Decode(&file); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: write currency and prices")
	} else if err != nil {
		return nil, err
	}

	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one document")
	}
	p := &Prices{Currency: file.Currency, Decimals: ptr.Deref(file.Decimals, defaultDecimals), prices: file.Prices}
	if !currencyPattern.MatchString(p.Currency) {
		return nil, fmt.Errorf("currency %.40q: write 1 to 12 letters, such as EUR", p.Currency)
	}

	if p.Decimals < 0 || p.Decimals > maxDecimals {
		return nil, fmt.Errorf("decimals: %d is not between 0 and %d", p.Decimals, maxDecimals)
	}
	if len(p.prices) == 0 {
		return nil, errors.New("the file has no prices")
	}

	return p, p.check()
}

// check refuses a price without a card or a number, and a second price for the same.
func (p *Prices) check() error {
	type key struct{ card, tenant, serviceType string }
	seen := map[key]bool{}
	for i, entry := range p.prices {
		k := key{entry.Card, entry.Tenant, entry.ServiceType}
		switch {
		case entry.Card == "":
			return fmt.Errorf("prices[%d]: name a card, such as NVIDIA-H200", i)
		case entry.PerCardHour.Rat == nil:
			return fmt.Errorf("prices[%d]: %s has no perCardHour", i, entry.name())
		case seen[k]:
			return fmt.Errorf("prices[%d]: %s has two prices", i, entry.name())
		}
		seen[k] = true
	}

	return nil
}

// name returns what a price is for, as prose.
func (e price) name() string {
	text := fmt.Sprintf("card %.100q", e.Card)
	if e.Tenant != "" {
		text += fmt.Sprintf(" of tenant %.63q", e.Tenant)
	}
	if e.ServiceType != "" {
		text += fmt.Sprintf(" for service type %.63q", e.ServiceType)
	}
	return text
}

// find returns the index of the price for card-hours of a series, -1 if there is none. A price for the tenant
// and the service type comes first, then one for the tenant, then one for the service type, then one for the
// card alone.
func (p *Prices) find(series cardseconds.Series) int {
	best := -1
	bestRank := -1
	for i, entry := range p.prices {
		isForTenant := entry.Tenant == "" || entry.Tenant == series.Tenant
		isForType := entry.ServiceType == "" || entry.ServiceType == series.ServiceType
		if entry.Card != series.Card || !isForTenant || !isForType {
			continue
		}

		// 3 for tenant and service type, 2 for the tenant, 1 for the service type, 0 for the card alone.
		rank := 0
		if entry.Tenant != "" {
			rank += 2
		}

		if entry.ServiceType != "" {
			rank++
		}

		if rank > bestRank {
			best = i
			bestRank = rank
		}
	}

	return best
}
