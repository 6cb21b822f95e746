package card

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// tellable tells whether an event can hold a message and a terminal can show
// it: short, and without control or formatting characters.
func tellable(message string) bool {
	return message != "" && len(message) <= longestMessage && utf8.ValidString(message) &&
		strings.IndexFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Whatever is wrong with a long text, the message about it fits into an event.
func TestMistakesInALongTextAreToldBriefly(t *testing.T) {
	many := func(entry string) string { return "{" + strings.Repeat(entry+",", MaxQuotaEntries-1) + entry + "}" }
	quotas := map[string]struct{ text, want string }{
		"1 MiB of one letter":                    {strings.Repeat("a", 1<<20), "at most 65536 are read"},
		"1 MiB of NULs":                          {strings.Repeat("\x00", 1<<20), "at most 65536 are read"},
		"64 KiB of one letter":                   {strings.Repeat("a", MaxQuotaText), "not a JSON object"},
		"64 KiB of brackets":                     {strings.Repeat("[", MaxQuotaText), "not a JSON object"},
		"a deep value":                           {`{"A":` + strings.Repeat("[", MaxQuotaText-5), "not valid JSON"},
		"a long name":                            {`{"` + strings.Repeat("a", MaxQuotaText-6) + `":1}`, "longer than 160"},
		"a long name of characters to escape":    {`{"` + strings.Repeat("\u200b", 21000) + `":1}`, "longer than 160"},
		"a long number":                          {`{"A":` + strings.Repeat("9", MaxQuotaText-6) + `}`, "at most 1000000 cards"},
		"a long string in place of the number":   {`{"A":"` + strings.Repeat("\u202e", 21000) + `"}`, "write a whole number"},
		"256 mistakes":                           {many(`"A B":1`), "more mistakes"},
		"256 mistakes full of escapes":           {many(`"` + strings.Repeat(`\u0000`, 30) + `":1`), "more mistakes"},
		"256 entries of one card":                {many(`"A":1`), "more mistakes"},
		"text behind the object, 64 KiB of it":   {`{"A":1}` + strings.Repeat("x", MaxQuotaText-7), "goes on after the JSON object"},
		"an object that never ends, 64 KiB":      {`{"A":1` + strings.Repeat(" ", MaxQuotaText-6), "not valid JSON"},
		"a name of 63 emoji, four bytes of each": {`{"` + strings.Repeat("\U0001f600", 63) + `":1}`, "longer than 160"},
	}
	for name, tc := range quotas {
		t.Run(name, func(t *testing.T) {
			_, err := ParseQuota(tc.text)
			mustRefuse(t, err, tc.want)
			_, err = ParseTotals(tc.text)
			mustRefuse(t, err, tc.want)
		})
	}
	requests := map[string]struct{ text, want string }{
		"1 MiB of one letter":                  {strings.Repeat("a", 1<<20), "longer than 160"},
		"1 MiB of bars":                        {strings.Repeat("|", 1<<20), "at most 16"},
		"sixteen long alternatives":            {strings.Repeat(strings.Repeat("a", 65536)+"|", 15) + "a", "more mistakes"},
		"sixteen alternatives full of escapes": {strings.Repeat(strings.Repeat("\x00", 80)+"|", 15) + "a", "more mistakes"},
		"two long cards of different kinds":    {longest("A") + "|" + strings.Repeat("B", 63) + "/mps-999999g*1/9999", "one resource request cannot mean either"},
	}
	for name, tc := range requests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(tc.text)
			mustRefuse(t, err, tc.want)
		})
	}
}

// longest is the longest card name of a model that starts with a letter.
func longest(letter string) string {
	return strings.Repeat(letter, 63) + "/mig-" + strings.Repeat("x", 41) + "-mixed"
}

func TestMistakesKeepsTheirOrderAndCountsTheRest(t *testing.T) {
	_, err := ParseQuota(`{"B 1":1,"A 2":1,"C":1.5}`)
	want := `card name "B 1": the model "B 1" must be a label value (letters, digits, '-', '_', '.', at most 63); ` +
		`card name "A 2": the model "A 2" must be a label value (letters, digits, '-', '_', '.', at most 63); ` +
		`count of "C" is "1.5": write a whole number of cards, such as 8`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v, want\n%s", err, want)
	}
	_, err = ParseQuota("{" + strings.Repeat(`"A B":1,`, 99) + `"A B":1}`)
	if err == nil || !strings.HasSuffix(err.Error(), "; and 94 more mistakes") {
		t.Errorf("error %v", err)
	}
}
