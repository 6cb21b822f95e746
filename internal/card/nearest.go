package card

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// vendorWords are what vendors write before the name of a model, in lower case. Discovery writes them or
// not, by its version, and users leave them out.
var vendorWords = []string{"nvidia", "geforce", "tesla", "quadro", "amd", "instinct", "radeon", "intel", "huawei", "ascend", "cambricon", "hygon", "iluvatar", "metax"}

// Nearest returns the known card that a name most probably means, false if none is similar. The case of
// letters, separators and the words of a vendor do not count: H200 is NVIDIA-H200. Then come cards that
// have all parts of the name, such as NVIDIA-A100-SXM4-40GB for A100. Then comes the smallest edit distance,
// if that is at most a third of the length. Last come cards all of whose parts the name has.
func Nearest(name Name, known []Name) (Name, bool) {
	if len(known) == 0 {
		return "", false
	}

	wanted := newSpelling(name)
	others := make([]spelling, len(known))
	for i, other := range known {
		others[i] = newSpelling(other)
	}

	// The surest likeness comes first: a small edit distance can mean another generation of
	// cards.
	for _, find := range []func(spelling, []spelling) int{findSame, findWithAllParts, findBySmallestDistance, findPartOf} {
		if at := find(wanted, others); at >= 0 {
			return known[at], true
		}
	}

	return "", false
}

// AskForName asks the user whether another card was meant. count is how many of it the nodes have.
func AskForName(near Name, count Count) string {
	if count == 0 { // all are broken, or the device plugin shares them now
		return fmt.Sprintf("did you mean %s, of which no node has a card now?", near)
	}
	return fmt.Sprintf("did you mean %s?", near)
}

// spelling is a card name in forms that can be compared.
type spelling struct {
	// lower is the name in lower case, withoutVendor that without the words of vendors in front.
	lower, withoutVendor string
	// model is withoutVendor without separators, and with digits for the letters that look like them.
	model string
	// parts are the parts of withoutVendor between separators.
	parts []string
}

// digitsForLetters replaces the letters that look like digits.
var digitsForLetters = strings.NewReplacer("o", "0", "l", "1", "i", "1")

func isSeparator(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// newSpelling returns a name in the forms by which names are compared.
func newSpelling(name Name) spelling {
	s := spelling{lower: strings.ToLower(string(name))}
	s.withoutVendor = cutVendor(s.lower)
	s.parts = strings.FieldsFunc(s.withoutVendor, isSeparator)
	s.model = digitsForLetters.Replace(strings.Join(s.parts, ""))
	return s
}

// cutVendor cuts the words of vendors off the beginning of a name, unless nothing would be left.
func cutVendor(name string) string {
	for {
		at := slices.IndexFunc(vendorWords, func(word string) bool { return strings.HasPrefix(name, word) })
		if at < 0 {
			return name
		}
		rest := strings.TrimLeftFunc(name[len(vendorWords[at]):], isSeparator)
		if rest == "" {
			return name
		}
		name = rest
	}
}

// findSame returns the first card of the same model, -1 for none.
func findSame(wanted spelling, others []spelling) int {
	return slices.IndexFunc(others, func(other spelling) bool { return other.model == wanted.model })
}

// findWithAllParts returns the card with all parts of a name and the fewest others, -1 for none.
func findWithAllParts(wanted spelling, others []spelling) int {
	nearest := -1
	for i := range others {
		if hasPartsOf(others[i], wanted) && (nearest < 0 || len(others[i].parts) < len(others[nearest].parts)) {
			nearest = i
		}
	}
	return nearest
}

// findPartOf returns the card with most parts whose parts the name has all, -1 for none.
func findPartOf(wanted spelling, others []spelling) int {
	nearest := -1
	for i := range others {
		if hasPartsOf(wanted, others[i]) && (nearest < 0 || len(others[i].parts) > len(others[nearest].parts)) {
			nearest = i
		}
	}
	return nearest
}

// hasPartsOf reports whether a name has all parts of another one, of which one has a digit: a word alone
// names no model.
func hasPartsOf(s, part spelling) bool {
	namesModel := slices.ContainsFunc(part.parts, func(text string) bool { return strings.ContainsFunc(text, unicode.IsDigit) })
	isMissing := func(text string) bool { return !slices.Contains(s.parts, text) }
	return namesModel && !slices.ContainsFunc(part.parts, isMissing)
}

// findBySmallestDistance returns the card with the smallest edit distance, -1 if that is more than a third
// of the length. Of two equal ones that of the same length is nearer.
func findBySmallestDistance(wanted spelling, others []spelling) int {
	nearest := -1
	best := len(wanted.withoutVendor)/3 + 1
	for i := range others {
		distance := distanceBetween(wanted, others[i], best+1) // a tie with the nearest one shows, too
		isSameLength := nearest >= 0 && len(others[i].lower) == len(wanted.lower) && len(others[nearest].lower) != len(wanted.lower)
		if distance < best || (distance == best && isSameLength) {
			nearest = i
			best = distance
		}
	}
	return nearest
}

// distanceBetween returns the edit distance of two names, at most limit. Without a known vendor in front,
// a name may begin with a misspelt one, which the distance of the whole names finds. A known vendor does
// not count: two models of one vendor would always be near.
func distanceBetween(wanted, other spelling, limit int) int {
	distance := editDistance(wanted.withoutVendor, other.withoutVendor, limit)
	if wanted.withoutVendor == wanted.lower {
		distance = min(distance, editDistance(wanted.lower, other.lower, limit))
	}
	return distance
}

// editDistance returns how many bytes must be inserted, deleted or replaced to turn one text into
// the other (Levenshtein's distance), at most limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}

	// One row of the matrix is enough. Tenants write these names, so memory stays small.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}

	return min(row[len(b)], limit)
}
