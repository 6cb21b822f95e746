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
// what grants it.
var missingRight = regexp.MustCompile(`^(user "[^"]*") may not (\w+) (\S+?)( at the cluster scope| in the namespace "[^"]*")?(?:: (.*))?$`)

// missingRights are the resources on which a user lacks a verb.
type missingRights struct {
	user, verb, where string
	resources         []string
}

// describeGaps returns all gaps in one line: the resources of each verb together, and what grants them
// once.
func describeGaps(gaps []string) string {
	var all []*missingRights
	var texts, hints []string
	for _, gap := range gaps {
		found := missingRight.FindStringSubmatch(gap)
		if found == nil {
			texts = append(texts, gap)
			continue
		}

		user := found[1]
		verb := found[2]
		resource := found[3]
		where := found[4]
		hint := found[5]

		at := slices.IndexFunc(all, func(m *missingRights) bool { return m.user == user && m.verb == verb && m.where == where })
		if at < 0 {
			at = len(all)
			all = append(all, &missingRights{user: user, verb: verb, where: where})
		}

		if !slices.Contains(all[at].resources, resource) {
			all[at].resources = append(all[at].resources, resource)
		}

		hint = describeHint(hint)
		if hint != "" && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}

	// Missing rights come first, because everything else may be missing for want of them.
	if len(all) > 0 {
		texts = append([]string{describeMissingRights(all)}, texts...)
	}

	return strings.Join(append(texts, hints...), ". ")
}

// describeMissingRights names each user once.
func describeMissingRights(all []*missingRights) string {
	var rights []string
	for i, m := range all {
		text := fmt.Sprintf("may not %s %s%s", m.verb, output.JoinWords(m.resources, "and"), m.where)
		if i == 0 || all[i-1].user != m.user {
			text = m.user + " " + text
		}
		rights = append(rights, text)
	}
	return strings.Join(rights, ", and ")
}

// describeHint returns what grants a right as a sentence of its own, about several rights.
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
