package card

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Name is what is counted and what a quota is written for: a whole card
// ("NVIDIA-H200"), a MIG slice ("NVIDIA-H200/mig-1g.18gb-mixed") or an MPS
// share ("NVIDIA-H800/mps-80g*1/2", an 80 GiB card cut in two).
type Name string

// MaxNameLength bounds a card name: a label value of 63 characters and the
// longest suffix that a profile can produce.
const MaxNameLength = 160

var (
	modelForm = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	migForm   = regexp.MustCompile(`^mig-([a-z0-9][-a-z0-9_.]{0,40})-mixed$`)
	mpsForm   = regexp.MustCompile(`^mps-[0-9]{1,6}g\*1/[1-9][0-9]{0,3}$`)
)

// Form tells the three forms of a card name apart.
type Form string

// The forms of a card name.
const (
	Whole Form = "whole card"
	MIG   Form = "MIG slice"
	MPS   Form = "MPS share"
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
		return "", fmt.Errorf("card name %s is longer than %d characters", quote(text), MaxNameLength)
	case !modelForm.MatchString(model):
		return "", fmt.Errorf("card name %s: the model %s must be a label value (letters, digits, '-', '_', '.', at most 63)",
			quote(text), quote(model))
	case cut && !migForm.MatchString(suffix) && !mpsForm.MatchString(suffix):
		return "", fmt.Errorf("card name %s: after the model write mig-<profile>-mixed or mps-<memory>g*1/<replicas>, not %s",
			quote(text), quote(suffix))
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

// profile returns the MIG profile of a slice, "1g.18gb", and "" otherwise.
func (n Name) profile() string {
	_, suffix, _ := strings.Cut(string(n), "/")
	if m := migForm.FindStringSubmatch(suffix); m != nil {
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

// quote shows user text in an error: quoted, everything but plain ASCII
// escaped, so that a letter that only looks like the right one is seen, and cut
// so that one long value cannot fill an event.
func quote(text string) string {
	const most = 80
	quoted := strconv.QuoteToASCII(text[:min(len(text), most)])
	if len(text) <= most && len(quoted) <= most+len(`""`) {
		return quoted
	}
	return quoted[:min(len(quoted)-1, most)] + `…"`
}
