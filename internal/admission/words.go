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
	var unknown []string
	for key := range annotations {
		if strings.HasPrefix(key, cardPrefix) && !slices.Contains(cardKeys, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	named := unknown[:min(len(unknown), mostKeys)]
	for _, key := range named {
		result.warn(at.Key(fmt.Sprintf("%.160s", key)), "nobody reads this annotation: there are %s", strings.Join(cardKeys, ", "))
	}
	if more := len(unknown) - len(named); more > 0 {
		result.warn(at, "nobody reads %d more annotations that begin with %s", more, cardPrefix)
	}
}

// some names at most five of a list.
func some[S ~string](names []S) string {
	text := card.Join(names[:min(len(names), 5)], ", ")
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
