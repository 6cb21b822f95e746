package queueusage

import (
	"strings"

	"cardquota.dev/operator/internal/conditions"
)

// Members counts the unfinished pods and PodGroups of a queue, which keep it from being deleted. A pod and its PodGroup
// are counted both.
type Members struct {
	Pods, PodGroups int
}

// Any reports whether there is a member.
func (m Members) Any() bool { return m != Members{} }

// String returns what there is, such as "2 unfinished pods and 1 unfinished PodGroup", "0 unfinished pods" for nothing.
func (m Members) String() string {
	var parts []string
	if m.Pods > 0 || m.PodGroups == 0 {
		parts = append(parts, conditions.CountThings(m.Pods, "unfinished pod"))
	}
	if m.PodGroups > 0 {
		parts = append(parts, conditions.CountThings(m.PodGroups, "unfinished PodGroup"))
	}

	return strings.Join(parts, " and ")
}
