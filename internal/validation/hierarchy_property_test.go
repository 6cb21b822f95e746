package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawCardQuota draws a CardQuota that the API server accepts.
func drawCardQuota(t *rapid.T, name string) *v1alpha1.CardQuota {
	parent := rapid.SampledFrom([]string{"", "", "a", "b", "b", "c", "d"}).Draw(t, "parent")
	if parent == name {
		parent = ""
	}

	var cards []string
	for _, card := range []string{h200, slice7} {
		limit := rapid.IntRange(-2, 6).Draw(t, "quota of "+card)
		deserved := rapid.IntRange(-2, 6).Draw(t, "deserved")
		if limit >= 0 {
			deserved = min(deserved, limit)
		}

		guarantee := rapid.IntRange(-3, 2).Draw(t, "guarantee")
		if guarantee > 0 {
			guarantee = min(guarantee, max(limit, deserved), max(deserved, 0))
		}

		if limit < 0 && deserved < 0 {
			continue
		}

		text := card
		for _, n := range []int{limit, deserved, guarantee} {
			if n < 0 {
				text += " -"
			} else {
				text += fmt.Sprint(" ", n)
			}
		}
		cards = append(cards, text)
	}

	c := newTreeQuota(name, parent, rapid.SampledFrom([]string{"", "", "training"}).Draw(t, "type"), cards)
	if rapid.IntRange(0, 2).Draw(t, "resources") == 0 {
		limit := rapid.IntRange(0, 6).Draw(t, "cpu")
		deserved := ""
		guarantee := ""
		if n := rapid.IntRange(-3, limit).Draw(t, "deserved cpu"); n >= 0 {
			deserved = fmt.Sprint(n)
			guarantee = fmt.Sprint(rapid.IntRange(0, n).Draw(t, "guarantee cpu"))
		}
		withCPU(fmt.Sprint(limit), deserved, guarantee)(c)
	}

	return c
}

// faultTexts returns what the operator says of a tree, without the CardQuotas whose parent does not
// exist, and those below them.
func faultTexts(all quotas) (found []string) {
	tree := cardquota.NewTree(all, nil, v1alpha1.UnmanagedEnforce)
	for _, c := range all {
		condition := tree.HierarchyCondition(c, nil)
		if condition.Status == metav1.ConditionFalse && condition.Reason != v1alpha1.ReasonParentNotFound {
			found = append(found, c.Name+": "+condition.Message)
		}
	}
	return found
}

// isRightlyRefused reports whether the operator finds something wrong with a tree that is refused. It
// accepts a card without deserved, and says nothing of the numbers below a missing parent.
func isRightlyRefused(result Result, all quotas) bool {
	tree := cardquota.NewTree(all, nil, v1alpha1.UnmanagedEnforce)
	for _, c := range all {
		if tree.Fault(c.Name).Kind == quota.ParentNotFound {
			return true
		}
	}
	return len(faultTexts(all)) > 0 || slices.ContainsFunc(texts(result.Errors), func(text string) bool { return strings.Contains(text, "is not set: in a tree") })
}

// TestAdmittedTreesAreSound: the webhook and the operator must agree on what is wrong in a tree of CardQuotas. Random
// CardQuotas are created one by one, in any order. Then one of those that the webhook accepted changes at random.
// (1) Where the webhook refuses a creation or the change, the operator finds a fault, or a parent is missing. Or a card
// has no deserved, which only the webhook requires.
// (2) After each accepted creation, the operator finds nothing wrong but missing parents.
// (3) After an accepted change, the operator finds nothing wrong with the changed CardQuota but a missing parent. The
// webhook warns of each other CardQuota in which the operator finds a fault.
func TestAdmittedTreesAreSound(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var all quotas
		for _, name := range rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, "order") {
			c := drawCardQuota(t, name)
			result := ValidateCardQuota(c, nil, CardQuotaInput{All: all, Policy: treePolicy, Healthy: map[card.Name]card.Count{}})

			with := append(slices.Clone(all), c)
			if len(result.Errors) > 0 {
				check.Must(t, isRightlyRefused(result, with), "(1) %s is refused, and nothing is wrong: %q", name, texts(result.Errors))
				continue
			}
			all = with
			check.Must(t, len(faultTexts(all)) == 0, "(2) %s is admitted, and wrong: %q", name, faultTexts(all))
		}

		if len(all) == 0 {
			return
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "changed")
		after := drawCardQuota(t, all[i].Name)
		result := ValidateCardQuota(after, all[i], CardQuotaInput{All: all, Policy: treePolicy, Healthy: map[card.Name]card.Count{}})

		changed := slices.Clone(all)
		changed[i] = after
		if len(result.Errors) > 0 {
			check.Must(t, isRightlyRefused(result, changed), "(1) the change of %s is refused, and nothing is wrong: %q", after.Name, texts(result.Errors))
			return
		}

		for _, text := range faultTexts(changed) {
			name, _, _ := strings.Cut(text, ":")
			check.Must(t, name != after.Name, "(3) the change of %s is admitted, and wrong: %s", name, text)
			check.Must(t, strings.Contains(strings.Join(result.Warnings, "\n"), text), "(3) the change of %s makes wrong: %s; warnings %q", after.Name, text, result.Warnings)
		}
	})
}
