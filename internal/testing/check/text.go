package check

import "strings"

// TextChecks check one text, one call after the other.
type TextChecks struct {
	t         T
	what, got string
}

// Text begins the checks of a text:
//
//	check.Text(t, "advice", advice).Has("kubectl edit").Lacks("delete")
func Text(t T, what, got string) TextChecks { return TextChecks{t, what, got} }

// Has is Contains.
func (c TextChecks) Has(wants ...string) TextChecks {
	Contains(c.t, c.what, c.got, wants...)
	return c
}

// Lacks reports each text that is there.
func (c TextChecks) Lacks(unwanted ...string) TextChecks {
	for _, text := range unwanted {
		That(c.t, !strings.Contains(c.got, text), "%s:\n%s\nhas %s", c.what, c.got, text)
	}
	return c
}
