package admission

import (
	"maps"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/clip"
)

// shown is how many bytes of one value a sentence repeats.
const shown = 160

// cardKeys are the annotations of ours that begin with cardPrefix.
var cardKeys = []string{
	v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardRequest, v1alpha1.AnnotationCardName, v1alpha1.AnnotationCardAllocated,
}

const cardPrefix = "volcano.sh/card."

// unknownKeys warns of misspelt annotations: nobody reads them.
func unknownKeys(answer *Answer, who string, annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, cardPrefix) && !slices.Contains(cardKeys, key) {
			answer.warn("%s: nobody reads the annotation %s: there are %s", who, clip.Text(key, shown), strings.Join(cardKeys, ", "))
		}
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
