package cardquota

import (
	"fmt"
	"strings"
)

// Members counts the unfinished pods and PodGroups of a queue. A pod and its PodGroup are counted both.
type Members struct {
	Pods, PodGroups int
}

// Any reports whether there is a member.
func (m Members) Any() bool { return m != Members{} }

// String returns what there is, such as "2 unfinished pods and 1 unfinished PodGroup".
func (m Members) String() string {
	var parts []string
	if m.Pods > 0 || m.PodGroups == 0 {
		parts = append(parts, nameCount(m.Pods, "unfinished pod"))
	}
	if m.PodGroups > 0 {
		parts = append(parts, nameCount(m.PodGroups, "unfinished PodGroup"))
	}

	return strings.Join(parts, " and ")
}

// nameCount returns a number with the name of what is counted.
func nameCount(count int, name string) string {
	if count == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", count, name)
}
