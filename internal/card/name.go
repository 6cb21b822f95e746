// Package card defines cards: their names and counts, the quota of a queue, the request of a
// pod, and the cards that a node offers.
//
// The package is pure: no client, clock or logger. The scheduler, the operator and the tests
// share it, so they recognise and count cards in one way.
package card

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Name is a card name, the unit of counts and quotas: a whole card ("NVIDIA-H200"), a MIG slice
// ("NVIDIA-H200/mig-1g.18gb-mixed"), a share of a slice ("NVIDIA-H200/mig-1g.18gb-mixed-SHARED") or
// a share of a card under a resource of its own ("NVIDIA-H800/mps-80g*1/2", half of an 80 GiB card).
type Name string

// MaxNameLength bounds a card name: a label value of 63 characters and the
// longest suffix that a profile can produce.
const MaxNameLength = 160

var (
	modelPattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	// sliceSuffix in sharing.go writes what migPattern reads.
	migPattern = regexp.MustCompile(`^mig-([a-z0-9][-a-z0-9_.]{0,40})-mixed(-SHARED)?$`)
	mpsPattern = regexp.MustCompile(`^mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}$`)
)

// Form is one of the three forms of a card name.
type Form string

// The forms of a card name.
const (
	Whole Form = "a whole card"
	MIG   Form = "a MIG slice"
	MPS   Form = "an MPS share"
)

// ParseName parses a card name. The model is a node label value (at most 63 letters, digits,
// "-", "_" and "."). The suffix of a slice or share is the one that Recognise writes.
func ParseName(text string) (Name, error) {
	model, suffix, cut := strings.Cut(text, "/")
	switch {
	case text == "":
		return "", fmt.Errorf("card name is empty: write the model as the node label says it, for example NVIDIA-H200")
	case len(text) > MaxNameLength:
		return "", fmt.Errorf("card name %s is longer than %d characters", quoteText(text), MaxNameLength)
	case !modelPattern.MatchString(model):
		return "", fmt.Errorf("card name %s: the model %s must be a label value (letters, digits, '-', '_', '.', at most 63)",
			quoteText(text), quoteText(model))
	case cut && !migPattern.MatchString(suffix) && !mpsPattern.MatchString(suffix):
		return "", fmt.Errorf("card name %s: after the model write mig-<profile>-mixed or mps-<memory>g*1/<replicas>, and for shares of slices mig-<profile>-mixed-SHARED, not %s",
			quoteText(text), quoteText(suffix))
	}

	return Name(text), nil
}

// Model returns the card model, the part before the first slash.
func (n Name) Model() string {
	model, _, _ := strings.Cut(string(n), "/")
	return model
}

// Form returns whether the name is that of a whole card, a slice or a share.
func (n Name) Form() Form {
	_, suffix, cut := strings.Cut(string(n), "/")
	switch {
	case !cut:
		return Whole
	case strings.HasPrefix(suffix, "mig-"):
		return MIG
	default:
		return MPS
	}
}

// migProfile returns the MIG profile of a slice, such as "1g.18gb", otherwise "".
func (n Name) migProfile() string {
	_, suffix, _ := strings.Cut(string(n), "/")
	if m := migPattern.FindStringSubmatch(suffix); m != nil {
		return m[1]
	}
	return ""
}

// Join joins names or resources to one text.
func Join[S ~string](items []S, separator string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, separator)
}

// quoteText quotes user text for an error. It escapes everything but plain ASCII, so that
// look-alike letters show, and truncates the text, so that one value cannot fill an event.
func quoteText(text string) string {
	const maxLength = 80
	quoted := strconv.QuoteToASCII(text[:min(len(text), maxLength)])
	if len(text) <= maxLength && len(quoted) <= maxLength+len(`""`) {
		return quoted
	}
	return quoted[:min(len(quoted)-1, maxLength)] + `…"`
}

// Count is a number of whole cards, slices or shares. It is never negative.
//
// Volcano stores scalar resources in thousandths; a Count is always the plain number, in
// messages too.
type Count int64

// MaxCount is the largest count of a quota, as in the schema of a CardQuota. It exceeds any real fleet, and
// no sum of counts overflows.
const MaxCount Count = 1_000_000

// UnknownLabel is the label of metrics for cards that no node and no quota has. Users write such names, so there could
// be any number of series.
const UnknownLabel = "unknown"

// NewCount converts a quantity of a card resource: it rounds up, and turns negative quantities
// into 0. Anything above MaxCount becomes MaxCount+1, which fits into no quota: the API server
// accepts quantities beyond 64 bits, which Quantity.Value turns into 0 or a negative number.
func NewCount(quantity resource.Quantity) Count {
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.AsApproximateFloat64() > float64(MaxCount):
		return MaxCount + 1
	}
	return Count(quantity.Value())
}

// Add returns c + o, at most the largest representable count.
func (c Count) Add(o Count) Count {
	if c > math.MaxInt64-o {
		return math.MaxInt64
	}
	return c + o
}

// Sub returns c - o, at least zero.
func (c Count) Sub(o Count) Count {
	if o >= c {
		return 0
	}
	return c - o
}

// Amount is a count of one card name.
type Amount struct {
	Name  Name
	Count Count
}
