package admission

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// cardKeys are the annotations of ours that begin with cardPrefix.
var cardKeys = []string{
	v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardRequest, v1alpha1.AnnotationCardName, v1alpha1.AnnotationCardAllocated,
}

const cardPrefix = "volcano.sh/card."

// mostKeys is how many misspelt annotations of one object are named.
const mostKeys = 5

// unknownKeys warns of misspelt annotations: nobody reads them.
func unknownKeys(result *Result, at *field.Path, annotations map[string]string) {
	var named []string // the first in the alphabet
	more := 0
	for key := range annotations {
		if !strings.HasPrefix(key, cardPrefix) || slices.Contains(cardKeys, key) {
			continue
		}
		at, _ := slices.BinarySearch(named, key)
		named = slices.Insert(named, at, key)
		if len(named) > mostKeys {
			named, more = named[:mostKeys], more+1
		}
	}
	for _, key := range named {
		result.warn(at.Key(fmt.Sprintf("%.160s", key)), "nobody reads this annotation: there are %s", strings.Join(cardKeys, ", "))
	}
	if more > 0 {
		result.warn(at, "nobody reads %d more annotations that begin with %s", more, cardPrefix)
	}
}

// some names at most five of a list.
func some[S ~string](names []S) string {
	texts := make([]string, 0, 5)
	for _, name := range names[:min(len(names), 5)] {
		texts = append(texts, string(name))
	}
	text := strings.Join(texts, ", ")
	if len(names) > 5 {
		text += " and others"
	}
	return text
}

// offered says which cards there are.
func offered(inv *card.Inventory) string {
	names := inv.Names()
	if len(names) == 0 {
		return "no node offers a card yet"
	}
	return "nodes offer " + some(names)
}
