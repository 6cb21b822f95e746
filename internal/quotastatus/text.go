package quotastatus

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
)

// lineWidth is the most characters of a summary that names several cards: what
// a terminal shows beside the other columns.
const lineWidth = 100

// summary is used/quota per card in one line. Cards over quota come first, so
// that they are seen in a line that had to be shortened.
func summary(cards []v1alpha1.CardStatus) string {
	parts := make([]string, 0, len(cards))
	for _, over := range []bool{true, false} {
		for _, c := range cards {
			if (c.OverQuotaBy > 0) == over {
				parts = append(parts, fmt.Sprintf("%d/%d %s", c.Used, c.Quota, c.Name))
			}
		}
	}
	return line(parts, "none")
}

// pendingSummary is what waits per card in one line.
func pendingSummary(cards []v1alpha1.CardStatus) string {
	var parts []string
	for _, c := range cards {
		if c.Pending > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.Pending, c.Name))
		}
	}
	return line(parts, "0")
}

// line joins parts with commas. What does not fit is counted, never cut in the
// middle of a name.
func line(parts []string, empty string) string {
	if len(parts) == 0 {
		return empty
	}
	if whole := strings.Join(parts, ", "); len(whole) <= lineWidth {
		return whole
	}
	short := parts[0]
	for i, part := range parts[1:] {
		more := fmt.Sprintf(", and %d more", len(parts)-1-i)
		if len(short)+len(", ")+len(part)+len(more) > lineWidth {
			return short + more
		}
		short += ", " + part
	}
	return short
}
