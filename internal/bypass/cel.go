package bypass

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// asks is the rule that container c asks for resource r.
func asks() string {
	return `has(c.resources) && (` + moreThanNone("limits") + ` || ` + moreThanNone("requests") + `)`
}

// moreThanNone is the rule that a container's limits or requests hold some of
// resource r. A request of 0 takes no card.
func moreThanNone(field string) string {
	return fmt.Sprintf(`(has(c.resources.%[1]s) && r in c.resources.%[1]s && quantity(string(c.resources.%[1]s[r])).isGreaterThan(quantity('0')))`, field)
}

// list writes strings as a list of CEL.
func list[S ~string](values []S) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.QuoteToASCII(string(value))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Join writes resources as AnnotationCardResources holds them.
func Join(resources []corev1.ResourceName) string {
	texts := make([]string, len(resources))
	for i, resource := range resources {
		texts[i] = string(resource)
	}
	return strings.Join(texts, ",")
}

// ResourcesOf reads which resources a ValidatingAdmissionPolicy takes for cards,
// sorted; none for one that says nothing.
func ResourcesOf(object metav1.Object) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, text := range strings.Split(object.GetAnnotations()[v1alpha1.AnnotationCardResources], ",") {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, corev1.ResourceName(text))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
