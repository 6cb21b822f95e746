package card

import (
	"fmt"
	"slices"
	"strings"
)

// Request is what a pod may run on: card names in order of preference, written
// "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D". All of them share one resource, because
// a container requests one.
//
// The zero Request names nothing: the pod may run on any card in its queue's quota.
type Request struct {
	names []Name
	text  string
}

// MaxAlternatives bounds the alternatives of one request, MaxRequestText the
// bytes of its text, spaces included. MaxTotalsText bounds the text of Totals: tenants write
// them into any number of PodGroups, and the operator keeps all PodGroups.
const (
	MaxAlternatives = 16
	MaxRequestText  = 4 << 10
	MaxTotalsText   = 8 << 10
)

// MixedResources is what the error says about a request for cards of different resources.
const MixedResources = "one resource request cannot mean either"

// ParseRequest parses the annotation volcano.sh/card.name. It ignores spaces around a name.
// Alternatives must share one resource: a whole card and a slice, or two MIG profiles, are
// refused.
func ParseRequest(text string) (Request, error) {
	parts := strings.Split(text, "|")
	if len(parts) > MaxAlternatives {
		return Request{}, fmt.Errorf("%d alternatives, at most %d are allowed", len(parts), MaxAlternatives)
	}

	names := make([]Name, 0, len(parts))
	var wrong []error
	for _, part := range parts {
		name, err := ParseName(strings.TrimSpace(part))
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case slices.Contains(names, name):
			wrong = append(wrong, fmt.Errorf("card %s is named twice", name))
		default:
			names = append(names, name)
		}
	}

	if len(wrong) > 0 {
		return Request{}, joinMistakes(wrong)
	}

	// Names are bounded in length and number, so only spaces can make a text without other mistakes so long.
	if len(text) > MaxRequestText {
		return Request{}, fmt.Errorf("text is %d bytes, at most %d are read", len(text), MaxRequestText)
	}

	for _, name := range names[1:] {
		if name.Form() != names[0].Form() || name.migProfile() != names[0].migProfile() {
			return Request{}, fmt.Errorf("%s is %s and %s is %s: %s, name cards of one resource",
				names[0], describeForm(names[0]), name, describeForm(name), MixedResources)
		}
	}

	return NewRequest(names...), nil
}

// NewRequest returns a request for valid names.
func NewRequest(names ...Name) Request { return Request{names: names, text: Join(names, "|")} }

// Names returns the alternatives in order of preference. The caller must not change them.
func (r Request) Names() []Name { return r.names }

// AllowsAny reports whether the request names no card.
func (r Request) AllowsAny() bool { return len(r.names) == 0 }

// Allows reports whether the request permits the card name.
func (r Request) Allows(name Name) bool { return r.AllowsAny() || slices.Contains(r.names, name) }

// String returns the text of the annotation, "" when the request names nothing.
func (r Request) String() string { return r.text }

// describeForm says of which form a card is, and of a MIG slice also the profile.
func describeForm(name Name) string {
	if profile := name.migProfile(); profile != "" {
		return fmt.Sprintf("%s of profile %s", MIG, profile)
	}
	return string(name.Form())
}

// Totals is the annotation volcano.sh/card.request: how many cards a whole job requests before
// its pods exist.
type Totals []Total

// Total is one entry of Totals.
type Total struct {
	Request Request
	Count   Count
}

// ParseTotals parses the annotation volcano.sh/card.request: one JSON object, card request to
// whole number, of at most MaxTotalsText bytes. It sorts the entries, so that equal annotations give equal results.
func ParseTotals(text string) (Totals, error) {
	var totals Totals
	err := parseCounts(text, MaxTotalsText, func(key string, count Count) error {
		request, err := ParseRequest(key)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(totals, func(t Total) bool { return t.Request.String() == request.String() }) {
			return fmt.Errorf("card request %s is named twice: keep one entry", request)
		}
		totals = append(totals, Total{Request: request, Count: count})
		return nil
	})
	if err != nil {
		return nil, err
	}

	slices.SortFunc(totals, func(a, b Total) int { return strings.Compare(a.Request.text, b.Request.text) })
	return totals, nil
}
