// Package card knows what a card is: its name, how many there are, what a
// queue may use of it, what a pod asks for, and which cards a node offers.
//
// The package is pure: values in, values out, no client, clock or logger. The
// scheduler, the operator and the tests share it, so that a card can never be
// recognised or counted in two ways.
package card

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Name is what is counted and what a quota is written for: a whole card
// ("NVIDIA-H200"), a MIG slice ("NVIDIA-H200/mig-1g.18gb-mixed") or an MPS
// share ("NVIDIA-H800/mps-80g*1/2", an 80 GiB card cut in two).
type Name string

// MaxNameLength bounds a card name: a label value of 63 characters and the
// longest suffix that a profile can produce.
const MaxNameLength = 160

var (
	modelPattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	migPattern   = regexp.MustCompile(`^mig-([a-z0-9][-a-z0-9_.]{0,40})-mixed$`)
	mpsPattern   = regexp.MustCompile(`^mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}$`)
)

// Form tells the three forms of a card name apart.
type Form string

// The forms of a card name.
const (
	Whole Form = "a whole card"
	MIG   Form = "a MIG slice"
	MPS   Form = "an MPS share"
)

// ParseName checks that text has the form of a card name. The model is a node
// label value (at most 63 letters, digits, "-", "_" and "."), the suffix of a
// slice or share is the one that Recognise writes.
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
		return "", fmt.Errorf("card name %s: after the model write mig-<profile>-mixed or mps-<memory>g*1/<replicas>, not %s",
			quoteText(text), quoteText(suffix))
	}
	return Name(text), nil
}

// Model returns the card model, the part before the first slash.
func (n Name) Model() string {
	model, _, _ := strings.Cut(string(n), "/")
	return model
}

// Form tells whether the name stands for a whole card, a slice or a share.
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

// migProfile returns the MIG profile of a slice, "1g.18gb", and "" otherwise.
func (n Name) migProfile() string {
	_, suffix, _ := strings.Cut(string(n), "/")
	if m := migPattern.FindStringSubmatch(suffix); m != nil {
		return m[1]
	}
	return ""
}

// Join writes names or resources into one text.
func Join[S ~string](items []S, separator string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, separator)
}

// quoteText shows user text in an error: quoted, everything but plain ASCII
// escaped, so that a letter that only looks like the right one is seen, and cut
// so that one long value cannot fill an event.
func quoteText(text string) string {
	const maxLength = 80
	quoted := strconv.QuoteToASCII(text[:min(len(text), maxLength)])
	if len(text) <= maxLength && len(quoted) <= maxLength+len(`""`) {
		return quoted
	}
	return quoted[:min(len(quoted)-1, maxLength)] + `…"`
}

// Count is a number of whole cards (or of whole slices or shares, which are
// handed out one by one as well). It is never negative.
//
// Volcano keeps scalar resources in thousandths; a Count is always the plain
// number, in messages too.
type Count int64

// MaxCount is the largest count a quota may state. It is far above any real
// fleet and keeps every sum of counts away from an overflow.
const MaxCount Count = 1_000_000

// NewCount reads a quantity of a card resource: part of a card is rounded up,
// less than none is 0. Anything above MaxCount is MaxCount+1, which no quota
// has room for: the API server accepts quantities beyond 64 bits, and
// Quantity.Value turns those into 0 or a negative number.
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
