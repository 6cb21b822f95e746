package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"
)

// Bounds of the texts that users write.
const (
	MaxCount         = 1_000_000
	maxNameLength    = 160
	maxAlternatives  = 16
	maxRequestLength = 4 << 10
	maxQuotaLength   = 64 << 10
	maxTotalsLength  = 8 << 10
	maxQuotaEntries  = 256
)

// cardName is the pattern of spec.cards[].name in docs/api.md: a model, a MIG
// slice of it, or an MPS share of it.
var cardName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?(/(mig-[a-z0-9][-a-z0-9_.]{0,40}-mixed(-SHARED)?|mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}))?$`)

// IsCardName reports whether a text is a card name.
func IsCardName(text string) bool {
	return len(text) <= maxNameLength && cardName.MatchString(text)
}

// ParseRequest parses volcano.sh/card.name: alternatives in order of preference. A whole card,
// a MIG profile and an MPS share are different resources, so one request cannot mix them.
func ParseRequest(text string) ([]string, error) {
	var names []string
	for _, name := range strings.Split(text, "|") {
		name = strings.TrimSpace(name)
		switch {
		case !IsCardName(name):
			return nil, fmt.Errorf("<%s> is no card name", name)
		case slices.Contains(names, name):
			return nil, fmt.Errorf("<%s> is named twice", name)
		case len(names) > 0 && formOf(name) != formOf(names[0]):
			return nil, fmt.Errorf("<%s> and <%s> are different resources", names[0], name)
		}
		names = append(names, name)
	}

	if len(names) > maxAlternatives || len(text) > maxRequestLength {
		return nil, fmt.Errorf("%d alternatives in %d bytes", len(names), len(text))
	}

	return names, nil
}

// formOf returns "" for a whole card, the profile of a MIG slice, or "mps".
func formOf(card string) string {
	_, form, _ := strings.Cut(card, "/")
	if strings.HasPrefix(form, "mps-") {
		return "mps"
	}
	return form
}

// Quota is a number of cards by name.
type Quota map[string]int64

// ParseQuota parses volcano.sh/card.quota and volcano.sh/card.allocated.
func ParseQuota(text string) (Quota, error) {
	quota := Quota{}
	err := parseCounts(text, maxQuotaLength, func(key string, count int64) error {
		if !IsCardName(key) {
			return fmt.Errorf("<%s> is no card name", key)
		}
		quota[key] = count
		return nil
	})
	return quota, err
}

// Total is how many cards a whole job requests with one request.
type Total struct {
	Cards []string
	Count int64
}

// ParseTotals parses volcano.sh/card.request.
func ParseTotals(text string) ([]Total, error) {
	var totals []Total
	err := parseCounts(text, maxTotalsLength, func(key string, count int64) error {
		names, err := ParseRequest(key)
		if slices.ContainsFunc(totals, func(t Total) bool { return slices.Equal(t.Cards, names) }) {
			return fmt.Errorf("<%s> stands twice", key)
		}
		totals = append(totals, Total{Cards: names, Count: count})
		return err
	})
	return totals, err
}

// parseCounts parses one JSON object of whole numbers from 0 to MaxCount without duplicate
// keys.
func parseCounts(text string, maxLength int, take func(key string, count int64) error) error {
	if len(text) > maxLength {
		return fmt.Errorf("is %d bytes long", len(text))
	}

	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return errors.New("is no JSON object")
	}

	seen := map[string]bool{}
	for decoder.More() {
		key, count, err := readCount(decoder)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("<%v> stands twice", key)
		}

		seen[key] = true
		if err := take(key, count); err != nil {
			return err
		}
	}

	if _, err := decoder.Token(); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("goes on after the object")
	}
	if len(seen) > maxQuotaEntries {
		return fmt.Errorf("has %d entries", len(seen))
	}

	return nil
}

// readCount reads the next key of the object and its number.
func readCount(decoder *json.Decoder) (key string, count int64, err error) {
	token, err := decoder.Token()
	if err != nil {
		return "", 0, err
	}

	value, err := decoder.Token()
	if err != nil {
		return "", 0, err
	}

	key = token.(string)
	count, err = wholeNumber(value)
	if err != nil {
		return "", 0, fmt.Errorf("<%v>: %w", key, err)
	}

	return key, count, nil
}

// wholeNumber parses a value of the object.
func wholeNumber(value json.Token) (int64, error) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v is no number", value)
	}
	count, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || count < 0 || count > MaxCount {
		return 0, fmt.Errorf("%s is no whole number from 0 to %d", number, MaxCount)
	}
	return count, nil
}

// ParseSelector parses volcano.sh/namespace-selector: a metav1.LabelSelector without unknown or
// duplicate fields.
func ParseSelector(text string) (labels.Selector, error) {
	var selector *metav1.LabelSelector
	strict, err := kjson.UnmarshalStrict([]byte(text), &selector)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if selector == nil {
		return nil, errors.New("is no JSON object")
	}
	return metav1.LabelSelectorAsSelector(selector)
}
