package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/cli/output"
)

// findGaps says what the user may not read. That is no fault of the installation.
func findGaps(c *Cluster) []Finding {
	if len(c.Gaps) == 0 {
		return nil
	}
	return []Finding{{Severity: Info, Object: "user", Problem: "Not everything could be checked: " + describeGaps(c.Gaps) + ".", Command: "kubectl auth can-i --list"}}
}

// missingRight has the words of a gap that is a missing right: who, which verb, which resource, where, and
// what grants it, such as `user "a" may not list pods at the cluster scope: a ClusterRoleBinding to x grants it`.
var missingRight = regexp.MustCompile(`^(user "[^"]*") may not (\w+) (\S+?)( at the cluster scope| in the namespace "[^"]*")?(?:: (.*))?$`)

// missingVerb is a verb that a user lacks on some resources.
type missingVerb struct{ user, verb, where string }

// describeGaps returns all gaps, the texts about what could not be read, in one line. It states the resources
// of each verb together, and what grants them once. Gaps that are no missing rights stay as they are.
func describeGaps(gaps []string) string {
	var verbs []missingVerb
	resources := map[missingVerb][]string{}
	var texts, hints []string
	for _, gap := range gaps {
		found := missingRight.FindStringSubmatch(gap)
		if found == nil {
			texts = append(texts, gap)
			continue
		}

		missing := missingVerb{user: found[1], verb: found[2], where: found[4]}
		if !slices.Contains(verbs, missing) {
			verbs = append(verbs, missing)
		}
		if resource := found[3]; !slices.Contains(resources[missing], resource) {
			resources[missing] = append(resources[missing], resource)
		}
		if hint := describeHint(found[5]); hint != "" && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}

	// Missing rights come first, because they can be the cause of the other gaps.
	if len(verbs) > 0 {
		texts = slices.Insert(texts, 0, describeMissingRights(verbs, resources))
	}

	return strings.Join(append(texts, hints...), ". ")
}

// describeMissingRights says what each user may not do. Rights of one user follow each other, so it names the user
// once.
func describeMissingRights(verbs []missingVerb, resources map[missingVerb][]string) string {
	var rights []string
	for i, m := range verbs {
		text := fmt.Sprintf("may not %s %s%s", m.verb, output.JoinWords(resources[m], "and"), m.where)
		if i == 0 || verbs[i-1].user != m.user {
			text = m.user + " " + text
		}
		rights = append(rights, text)
	}
	return strings.Join(rights, ", and ")
}

// describeHint makes the hint of one gap, what grants a right, into a sentence about all of them. It names the API group,
// because our roles grant no right on other objects. The hint ends with "grants it" where a ClusterRoleBinding is
// missing, and else with "may".
func describeHint(hint string) string {
	if hint == "" {
		return ""
	}
	hint = strings.ToUpper(hint[:1]) + hint[1:]
	if before, grants := strings.CutSuffix(hint, " grants it"); grants {
		return before + " grants what is of cardquota.dev"
	}
	return hint + " read what is of cardquota.dev"
}
