package main

import (
	"fmt"
	"strconv"
	"strings"
)

// table returns the figures beside their limits, and the packages of the areas.
func (t tree) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%-52s %9s %9s %13s %9s\n", "", "product", "limit", "tests, tools", "limit")
	for _, m := range measures {
		fmt.Fprintf(&text, "%-52s %9s %9s %13s %9s\n", m.name,
			number(m.value(t.product)), number(m.product), number(m.value(t.others)), number(m.others))
	}

	fmt.Fprintf(&text, "\n%-52s %9s %9s %13s %9s %9s\n", "arrows between files (~: perhaps not the best order)", "arrows", "limit", "against", "files", "longest")
	for i, a := range areas {
		fmt.Fprintf(&text, "%-52s %9s %9d %13d\n", a.folder, "", a.limit, t.againstIn(i))
		for _, p := range t.packages {
			if p.inArea == i {
				fmt.Fprintf(&text, "  %-50s %9d %9s %13s %9d %9d\n", p.name, p.arrows, "", p.describeAgainst(), p.files, p.longest)
			}
		}
	}

	return text.String()
}

func (p areaPackage) describeAgainst() string {
	sign := ""
	if !p.isExact {
		sign = "~"
	}
	return fmt.Sprintf("%s%d (%.0f %%)", sign, p.against, ratio(p.against, p.arrows, 100))
}

// againstIn returns the arrows against the best orders of the packages of an area.
func (t tree) againstIn(inArea int) int {
	sum := 0
	for _, p := range t.packages {
		if p.inArea == inArea {
			sum += p.against
		}
	}

	return sum
}

func number(value float64) string {
	if value == unlimited {
		return ""
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0")
}

// beyondLimits returns a line for each figure beyond its limit.
func (t tree) beyondLimits() []string {
	var lines []string
	for _, m := range measures {
		lines = append(lines, m.beyondLimit("product", m.value(t.product), m.product)...)
		lines = append(lines, m.beyondLimit("tests and tools", m.value(t.others), m.others)...)
	}

	for i, a := range areas {
		if against := t.againstIn(i); against > a.limit {
			lines = append(lines, fmt.Sprintf("%s: %d arrows against the best order of files, more than %d", a.folder, against, a.limit))
		}
	}

	return lines
}

func (m measure) beyondLimit(of string, value, limit float64) []string {
	switch {
	case limit == unlimited:
		return nil
	case m.isLeast && value < limit:
		return []string{fmt.Sprintf("%s: %s: %s, less than %s", of, m.name, number(value), number(limit))}
	case !m.isLeast && value > limit:
		return []string{fmt.Sprintf("%s: %s: %s, more than %s", of, m.name, number(value), number(limit))}
	}

	return nil
}
