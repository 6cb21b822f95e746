package differential

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/test/observer/rule"
)

type ownersOf = servicetype.OwnerKinds

var (
	types         = []string{"inference", "training", "batch", ""}
	defaultMatrix = servicetype.DefaultMatrix()
	builtIn       = servicetype.BuiltIn
)

func drawMatrix(t *rapid.T) (matrix servicetype.Matrix, reclaimFrom map[string][]string, reclaimable []string) {
	matrix = servicetype.Matrix{}
	reclaimFrom = map[string][]string{}
	for _, name := range types[:3] {
		if drawInt(t, 1, 3, "defined") == 1 {
			continue
		}

		r := servicetype.Rule{Reclaimable: rapid.Bool().Draw(t, "reclaimable"), ReclaimFrom: rapid.SliceOfN(rapid.SampledFrom(types[:3]), 0, 2).Draw(t, "reclaimFrom")}
		matrix[name] = r
		reclaimFrom[name] = r.ReclaimFrom
		if r.Reclaimable {
			reclaimable = append(reclaimable, name)
		}
	}

	return matrix, reclaimFrom, reclaimable
}

// drawText concatenates pieces, most of them valid.
func drawText(t *rapid.T, most int, pieces ...string) string {
	var text strings.Builder
	for range drawInt(t, 0, most, "pieces") {
		text.WriteString(oneOf(t, "piece", pieces...))
	}
	return text.String()
}

// drawName draws a card name: of a node, of an unusual form, or anything.
func drawName(t *rapid.T) string {
	switch drawInt(t, 0, 2, "kind of name") {
	case 0:
		return oneOf(t, "name", cards...)
	case 1:
		model := oneOf(t, "model", "H200", "A", strings.Repeat("x", 63), strings.Repeat("x", 64), "a-b_c.d", "H200-", ".A", "")
		return model + oneOf(t, "suffix", "", "", "/", "/mig-1g.18gb-mixed", "/mig-1g.18gb", "/mig-1G-mixed", "/mig--mixed", "/mig-"+strings.Repeat("p", 41)+"-mixed",
			"/mig-"+strings.Repeat("p", 42)+"-mixed", "/mps-80g*1/2", "/mps-80g*1/0", "/mps-80g*1/02", "/mps-80g*1/9999", "/mps-80g*1/10000", "/mps-123456g*1/2", "/mps-1234567g*1/2", "/x", "/mps-80g*1/2/3")
	}
	return drawText(t, 6, "H200", "/", "mig-", "1g.18gb", "-mixed", "mps-", "80g*1/", "2", "0", "-", "_", ".", "é", " ", "A")
}

// drawQuotaText draws a JSON object of counts, mostly valid.
func drawQuotaText(t *rapid.T) string {
	if drawInt(t, 1, 4, "a broken text") == 1 {
		return oneOf(t, "text", "", "null", "[]", "{", `{"H200":8`, `{"H200":8,}`, `{"H200":8} {}`, `{"H200":8}x`, `"H200"`, `{"H200":{}}`, `{H200:8}`,
			`{"H200":`+strings.Repeat(" ", 8<<10)+`8}`, `{"H200":`+strings.Repeat(" ", 64<<10)+`8}`, manyEntries(256), manyEntries(257))
	}
	var entries []string
	for range drawInt(t, 0, 3, "entries") {
		count := oneOf(t, "count", "0", "1", "8", "1000000", "1000000", "1000001", "-1", "1.5", "8.0", "1e3", `"8"`, "null", "true", "[]", "99999999999999999999", "08", "4", "3", "2")
		entries = append(entries, `"`+drawKey(t)+`":`+count)
	}
	return "{" + strings.Join(entries, ",") + "}"
}

func manyEntries(n int) string {
	var entries []string
	for i := range n {
		entries = append(entries, `"C`+strings.Repeat("x", i%60)+string(rune('a'+i/60))+`":1`)
	}
	return "{" + strings.Join(entries, ",") + "}"
}

func drawKey(t *rapid.T) string {
	if drawInt(t, 1, 5, "a key of its own") > 1 {
		return oneOf(t, "key", cards...)
	}
	return drawName(t)
}

// TestProductAndObserverParseTextsAlike: users write card names, requests such as "H200|4090", quotas and totals as
// texts. The product and the observer, a tool of the tests, must accept the same of random texts, valid and invalid,
// and read the same from them.
func TestProductAndObserverParseTextsAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			name := drawName(t)
			_, err := card.ParseName(name)
			equal(t, "a card name: "+name, err == nil, rule.IsCardName(name))

			text := drawCardName(t)
			if rapid.Bool().Draw(t, "another text") {
				text = drawName(t) + drawText(t, 20, "|", " ", "H200", "|4090", "|B300", "|H200/mig-1g.18gb-mixed", "|A", "|C", "|D", "|E") + sometimes(t, 9, "long", func() string { return strings.Repeat(" ", 4<<10) })
			}

			request, err := card.ParseRequest(text)
			names, wrong := rule.ParseRequest(text)
			equal(t, "a request: "+text, err == nil, wrong == nil)
			equal(t, "cards of "+text, quoted(request.Names()), quoted(names))

			text = drawQuotaText(t)
			quota, err := card.ParseQuota(text)
			observed, wrong := rule.ParseQuota(text)
			equal(t, "a quota: "+text, err == nil, wrong == nil)

			if err == nil {
				read := rule.Quota{}
				for name, count := range quota {
					read[string(name)] = int64(count)
				}
				equal(t, "quota of "+text, read.String(), observed.String())
			}

			compareTotals(t, drawTotalsText(t))
		}
	})
}

func drawTotalsText(t *rapid.T) string {
	if rapid.Bool().Draw(t, "as a quota") {
		return drawQuotaText(t)
	}
	var entries []string
	for range drawInt(t, 0, 3, "entries") {
		entries = append(entries, `"`+drawCardName(t)+`":`+oneOf(t, "count", "1", "8", "0", "-1", "x"))
	}
	return "{" + strings.Join(entries, ",") + "}"
}

func compareTotals(t *rapid.T, text string) {
	totals, err := card.ParseTotals(text)
	observed, wrong := rule.ParseTotals(text)
	equal(t, "totals: "+text, err == nil, wrong == nil)
	if err != nil || wrong != nil {
		return
	}

	read := map[string]int64{}
	for _, total := range observed {
		read[quoted(total.Cards)] = total.Count
	}

	equal(t, "entries of "+text, len(totals), len(observed))
	for _, total := range totals {
		equal(t, "total of "+total.Request.String(), int64(total.Count), read[quoted(total.Request.Names())])
	}
}
