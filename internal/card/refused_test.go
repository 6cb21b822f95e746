package card

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// textsByError are texts that users and broken tools write, by a part of the error that refuses them. The first
// element of an entry is such a text. The others are further parts of its error.
type textsByError map[string][][]string

// expectRefused expects that parse returns the zero value and an error for each text.
func expectRefused[V any](t *testing.T, parse func(text string) (V, error), texts textsByError) {
	for part, entries := range texts {
		for _, entry := range entries {
			got, err := parse(entry[0])
			check.Must(t, err != nil && reflect.ValueOf(got).IsZero(), "%.80q gave %v, error %v", entry[0], got, err)
			check.Refused(t, err, append(entry[1:], part)...)
		}
	}
}

// Parts of errors.
const (
	noLabelValue      = "must be a label value"
	wrongSuffix       = "after the model write mig-<profile>-mixed or mps-<memory>g*1/<replicas>"
	notJSON           = "is not valid JSON"
	notObject         = "is not a JSON object"
	exampleOfJSON     = `write it like {"NVIDIA-H200":8}`
	noWholeNumber     = "write a whole number of cards"
	mixedResources    = "one resource request cannot mean either"
	moreThanTheObject = "goes on after the JSON object"
	tooMany           = "at most 1000000 cards"
)

// TestParseNameRefusesAndSaysWhy: users write card names into quotas and pods. A name has the model as the node's
// label spells it, and behind a slash the MIG slice or MPS share. Any other text is refused with the reason, and
// with look-alike letters escaped, so that the user sees them. The texts stand below a part of their error; further
// parts of it follow the text in its braces.
func TestParseNameRefusesAndSaysWhy(t *testing.T) {
	expectRefused(t, ParseName, textsByError{
		"card name is empty": {{"", "for example NVIDIA-H200"}},
		noLabelValue: {
			{" ", `" "`}, {"NVIDIA-H200\t", `"NVIDIA-H200\t"`}, {"NVIDIA-H200\n", `"NVIDIA-H200\n"`},
			{"NVIDIA\x00H200", `"NVIDIA\x00H200"`},
			{"\x1b[31mNVIDIA-H200", `\x1b[31m`}, {"NV\u0406DIA-H200", `"NV\u0406DIA-H200"`}, {"NVIDIA\u2011H200", `"NVIDIA\u2011H200"`},
			{"NVIDIA\u2013H200", `"NVIDIA\u2013H200"`}, {"NVIDIA-H200\u200b", `"NVIDIA-H200\u200b"`}, {"\uff28200", `"\uff28200"`},
			{"\ufeffNVIDIA-H200", `"\ufeffNVIDIA-H200"`}, {"NVIDIA-\xff", `"NVIDIA-\xff"`}, {"NVIDIA H200", `"NVIDIA H200"`},
			{"NVIDIA-H200-"},
			{"-NVIDIA-H200"}, {"NVIDIA-H200."}, {`"NVIDIA-H200"`, `"\"NVIDIA-H200\""`}, {"${CARD}"}, {"NVIDIA-*"}, {"NVIDIA-H200:8"},
			{strings.Repeat("a", 64), "at most 63"}, {"/mig-1g.18gb-mixed", `the model ""`},
			{"NVIDIA-H200|NVIDIA-H800", "NVIDIA-H200|NVIDIA-H800"},
			{"NVIDIA-H200,NVIDIA-H800"}, {`NVIDIA-H200\mig-1g.18gb-mixed`, `"NVIDIA-H200\\mig-1g.18gb-mixed"`},
			{"NVIDIA-H200%2Fmig-1g.18gb-mixed", "%2F"}, {"NVIDIA-H200 # the new ones", "# the new ones"},
			{"NVIDIA-A100(80GB)", "NVIDIA-A100(80GB)"},
			{"NVIDIA\u00ae-H200", `"NVIDIA\u00ae-H200"`}, {"\u6607\u817e910B", `"\u6607\u817e910B"`},
		},
		wrongSuffix: {
			{"nvidia.com/gpu.product=NVIDIA-H200", "gpu.product=NVIDIA-H200"}, {"NVIDIA-H200/", `not ""`},
			{"NVIDIA-H200//mig-1g.18gb-mixed"},
			{"NVIDIA-H200/mig-3g.71gb-mixed/mig-1g.18gb-mixed"}, {"NVIDIA-H200/1g.18gb-mixed", `not "1g.18gb-mixed"`},
			{"NVIDIA-H200/mig-1g.18gb", `not "mig-1g.18gb"`}, {"NVIDIA-H200/mig-1g.18gb-single"}, {"NVIDIA-H200/MIG-1G.18GB-mixed"},
			{"NVIDIA-H100/mig-1g.10gb+me-mixed"}, {"NVIDIA-H200/mig--mixed"}, {"NVIDIA-H200/mig-" + strings.Repeat("a", 42) + "-mixed"},
			{"NVIDIA-H800/mps-1/2"}, {"NVIDIA-H800/mps-80Gi*1/2"}, {"NVIDIA-H800/mps-80g\u00d71/2", `mps-80g\u00d71/2`},
			{"NVIDIA-H800/mps-80g*2/4"},
			{"NVIDIA-H800/mps-80g*1/0"}, {"NVIDIA-H800/mps-80g"}, {"NVIDIA-H800/mps-0.5g*1/160"}, {"NVIDIA-H800/mps-80g*1/10000"},
			{"NVIDIA-H800/shared-1/2"}, {"nvidia.com/gpu", `not "gpu"`}, {"nvidia.com/mig-1g.18gb", `not "mig-1g.18gb"`},
			{"mig-1g.18gb-mixed/1", `not "1"`},
		},
		"is longer than 160 characters": {{strings.Repeat("a", MaxNameLength+1), "…"}},
	})
}

// TestTextsOfCountsAreRefused: a quota and a card.request are JSON objects of card names and counts. ParseQuota and
// ParseTotals refuse any other text and say why; textsWithoutCounts has the texts with parts of their errors. Long
// texts are refused, too, with an error that fits an event.
func TestTextsOfCountsAreRefused(t *testing.T) {
	t.Run("quota", func(t *testing.T) { expectRefused(t, ParseQuota, textsWithoutCounts(MaxQuotaText)) })
	t.Run("request", func(t *testing.T) { expectRefused(t, ParseTotals, textsWithoutCounts(MaxTotalsText)) })
}

// textsWithoutCounts are texts that are no JSON object of card names and counts. Some have maxText bytes, the most
// that are read, and some are longer.
func textsWithoutCounts(maxText int) textsByError {
	repeated := func(entry string) string { return "{" + strings.Repeat(entry+",", MaxQuotaEntries-1) + entry + "}" }

	return textsByError{
		notObject: {
			{"", exampleOfJSON}, {"\n", exampleOfJSON}, {"NVIDIA-H200: 8", exampleOfJSON}, {`NVIDIA-H200=8`},
			{"NVIDIA-H200|NVIDIA-H800", exampleOfJSON}, {`"NVIDIA-H200"`},
			{`map[NVIDIA-H200:8]`, exampleOfJSON}, {`["NVIDIA-H200"]`}, {`null`}, {`8`}, {`true`, exampleOfJSON},
			{`"{\"NVIDIA-H200\":8}"`}, {`[{"NVIDIA-H200":8}]`},
			{`eyJOVklESUEtSDIwMCI6OH0=`}, {"\ufeff{\"A\":1}", `"\ufeff{\"A\":1}"`}, {strings.Repeat("a", maxText)},
			{strings.Repeat("[", maxText)},
		},
		notJSON: {
			{`{"A"`}, {`{"A":1`}, {`{"A":1 "B":2}`}, {`{"A":1,}`}, {`{null:8}`}, {`{"A":8.}`},
			{strings.Repeat(`{"A":`, min(10001, maxText/5))},
			{`{"A":` + strings.Repeat("[", maxText-5)}, {`{"A":1` + strings.Repeat(" ", maxText-6)},
			{"{NVIDIA-H200: 8}", exampleOfJSON}, {`{'NVIDIA-H200': 8}`, `'\''`, exampleOfJSON},
			{"{\u201cNVIDIA-H200\u201d:8}", `{\u201cNVIDIA-H200\u201d:8}`},
			{`{"NVIDIA-H200"=8}`, "colon"}, {"{\"NVIDIA-H200\"\uff1a8}", `\uff1a`}, {`{"A":1;"B":2}`, "';'"}, {`{NVIDIA-H200:8}`, "'N'"},
			{`{4090:8}`, "'4'"}, {`{:8}`, "':'"}, {`{"NVIDIA-H200":}`, "'}'"}, {`{,"A":1}`, "','"}, {`{"A":1,,"B":2}`, "','"},
			{`{"NVIDIA-H200":8]`, "']'"}, {`{/* eight */"A":1}`, "'/'"}, {`{"NVIDIA-H200":{{ .Values.quota }}}`, "Values.quota"},
			{`{"NVIDIA-H200":$QUOTA}`, "'$'"}, {`{\"NVIDIA-H200\":8}`, `'\\'`}, {"{\"A\":\x001}", `\x00`},
			{"{\"A\x01\":1}", "in string literal"},
			{"{\"NVIDIA-\nH200\":1}", "in string literal"}, {`{"A\q":1}`, "escape"}, {`{"A":+8}`, "'+'"}, {`{"A":08}`, "'8'"},
			{`{"A":0x8}`, "'x'"},
			{`{"A":1_000}`, "'_'"}, {`{"A":.5}`, "'.'"}, {"{\"A\":\uff18}", `\uff18`}, {`{"A":Infinity}`, "'I'"}, {`{"A":NaN}`, "'N'"},
			{`{"A":4+4}`, "'+'"},
		},
		moreThanTheObject: {
			{`{"A":1} {"B":2}`}, {`{"A":1} // eight`}, {"{\"A\":1}\x00", `\x00`}, {`{"A":1}}`},
			{`{"A":1}` + strings.Repeat("x", maxText-7)},
		},
		noWholeNumber: {
			{`{"A":8.0}`}, {`{"A":1e2}`}, {`{"A":"8"}`}, {`{"A":null}`}, {`{"A":true}`}, {`{"A":{"quota":1}}`}, {`{"A":"8Gi"}`},
			{`{"A":[1,1]}`},
			{`{"A":"` + strings.Repeat("\u202e", maxText/4) + `"}`}, {`{"A":0.5}`, `is "0.5"`}, {`{"A":-0.5}`, `count of "A" is "-0.5"`},
			{`{"A":1e-2}`, `is "1e-2"`}, {`{"A":1e999}`, `is "1e999"`}, {`{"A":"8000m"}`, `"\"8000m\""`},
			{`{"A":"unlimited"}`, "unlimited"},
			{`{"A":""}`, `is "\"\""`}, {`{"A":[]}`, `is "[]"`}, {`{"A":[8]}`, `is "[8]"`}, {`{"cpu":"4"}`, `count of "cpu"`},
			{`{"volcano.sh/card.quota":{"NVIDIA-H200":8}}`, `count of "volcano.sh/card.quota"`},
			{`{"NVIDIA-H200":8,"NVIDIA-H800":"2"}`, `count of "NVIDIA-H800"`},
			{`{"cards":[{"name":"NVIDIA-H200","quota":8}]}`, `count of "cards"`},
		},
		"a quota is 0 or more": {{`{"A":-1}`}, {`{"A":-9223372036854775808}`}},
		tooMany: {
			{`{"A":1000001}`}, {`{"A":99999999999999999999}`}, {`{"A":-9223372036854775809}`},
			{`{"A":9223372036854775807}`, "is 9223372036854775807"},
			{`{"A":` + strings.Repeat("9", 1000) + `}`, "…"}, {`{"A":` + strings.Repeat("9", maxText-6) + `}`},
		},
		"named twice": {
			{`{"A":1,"A":2}`}, {`{"A":1,"A":1}`, "A is named twice"}, {`{"A":1,"\u0041":2}`},
			{`{"A/mig-1g.18gb-mixed":1,"A/mig-1g.18gb-mixed":2}`, "A/mig-1g.18gb-mixed is named twice"},
		},
		"card name is empty": {{`{"":1}`}, {`{"A":-1,"B":1.5,"":1}`, `"A"`, `"B"`}},
		wrongSuffix:          {{`{"nvidia.com/gpu":1}`}, {`{"A/mig-1g.18gb":1}`}, {`{"A/mps-80g*1/0":1}`}, {`{"nvidia.com/mig-1g.18gb":8}`}},
		noLabelValue: {
			{`{"NVIDIA H200":1}`}, {`{"NVIDIA-H200,NVIDIA-H800":2}`}, {`{"` + strings.Repeat("a", 64) + `":1}`, "at most 63"},
			{`{"A":2,"B C":1}`, `"B C"`},
			{`{"B C":1,"A":1.5}`, `"B C"`, `count of "A" is "1.5"`}, {`{"A\ud800":8}`, `"A\ufffd"`},
			{`{"NV\u0406DIA-H200":8}`, `"NV\u0406DIA-H200"`},
		},
		"longer than 160": {
			{`{"` + strings.Repeat("a", 200) + `":1}`}, {`{"` + strings.Repeat("a", maxText-6) + `":1}`},
			{`{"` + strings.Repeat("\u200b", maxText/4) + `":1}`}, {`{"` + strings.Repeat("\U0001f600", 63) + `":1}`},
		},
		fmt.Sprintf("at most %d are read", maxText): {
			{strings.Repeat(" ", maxText) + `{}`}, {strings.Repeat("a", 1<<20)}, {strings.Repeat("\x00", 1<<20)},
		},
		"more than 256 entries": {{quotaText(MaxQuotaEntries + 1)}},
		"more mistakes": {
			{repeated(`"A B":1`)}, {repeated(`"` + strings.Repeat(`\u0000`, maxText/MaxQuotaEntries/8) + `":1`)}, {repeated(`"A":1`)},
		},
	}
}

// quotaText writes a quota for n cards, 1 of each.
func quotaText(n int) string {
	quota := Quota{}
	for i := range n {
		quota[Name(fmt.Sprintf("C%d", i))] = 1
	}
	return quota.String()
}

// TestOnlyTotalsMayNameAlternatives: a card.request (ParseTotals) may name alternatives "A|B", with spaces around the
// names. A quota is for one card, so ParseQuota refuses alternatives and spaces. Alternatives must be different cards
// of one resource, because a whole card, a slice and a share are requested in different ways. The texts stand below a
// part of their error; further parts of it follow the text in its braces.
func TestOnlyTotalsMayNameAlternatives(t *testing.T) {
	expectRefused(t, ParseQuota, textsByError{noLabelValue: {
		{`{"A|B":1}`}, {`{" NVIDIA-H200":8}`, `" NVIDIA-H200"`}, {`{"NVIDIA-H200\n":8}`, `"NVIDIA-H200\n"`},
	}})

	expectRefused(t, ParseTotals, textsByError{
		"card name is empty":              {{`{"NVIDIA-H200|":2}`}, {`{"|||":2}`}},
		"card A is named twice":           {{`{"A|A":2}`}},
		"card request A|B is named twice": {{`{"A|B":2,"A|B":1}`, "keep one entry"}, {`{"A|B":2," A | B ":1}`}},
		mixedResources: {
			{`{"A|A/mig-1g.18gb-mixed":2}`}, {`{"A/mig-1g.18gb-mixed|A/mig-3g.71gb-mixed":2}`}, {`{"A/mps-80g*1/2|B":2}`},
		},
		"17 alternatives, at most 16 are allowed": {{`{"` + strings.Repeat("A|", 16) + `A":2}`}},
		noLabelValue: {{"{\"NVIDIA-H200|\u039dVIDIA-H800\":2}", `\u039dVIDIA-H800`}},
	})
}

// TestParseRequestRefusesAndSaysWhy: a pod's annotation card.name has one card or alternatives, "A|B". At most 16
// different ones are allowed, all of one resource. Anything else is refused with the reason. The texts stand below a
// part of their error; further parts of it follow the text in its braces.
func TestParseRequestRefusesAndSaysWhy(t *testing.T) {
	longest := strings.Repeat("A", 63) + "/mig-" + strings.Repeat("x", 41) + "-mixed"

	expectRefused(t, ParseRequest, textsByError{
		"card name is empty": {{""}, {"   "}, {"A|"}, {"|"}, {"|NVIDIA-H200"}, {"NVIDIA-H200||NVIDIA-H800"}, {"NVIDIA-H200| |NVIDIA-H800"}},
		noLabelValue: {
			{`{"A":1}`}, {"A,B"}, {"A\n\x00", `"A\n\x00"`}, {"A\x00B", `"A\x00B"`}, {"*", `"*"`}, {"!NVIDIA-H200"}, {"2xNVIDIA H200"},
			{"NVIDIA-H200 or NVIDIA-H800", "NVIDIA-H200 or NVIDIA-H800"}, {"NVIDIA-H200;NVIDIA-H800"},
			{"NVIDIA-H200\uff5cNVIDIA-H800", `\uff5c`},
			{"NVIDIA-H200\nNVIDIA-H800", `"NVIDIA-H200\nNVIDIA-H800"`}, {`["NVIDIA-H200","NVIDIA-H800"]`},
			{"NVIDIA-H200*2", "NVIDIA-H200*2"},
			{"NVIDIA-H200|NVIDIA H800", `"NVIDIA H800"`}, {"NVIDIA H200|NVIDIA H800", `"NVIDIA H200"`, `"NVIDIA H800"`},
		},
		wrongSuffix:             {{"NVIDIA-H200/NVIDIA-H800", `not "NVIDIA-H800"`}, {"A100-SXM4-40GB/mig-1g.5gb"}, {"nvidia.com/gpu"}},
		"card A is named twice": {{"A|A"}, {"A | A "}},
		mixedResources: {
			{"A|A/mig-1g.18gb-mixed"}, {"A/mig-1g.18gb-mixed|A/mig-3g.71gb-mixed"}, {"A/mig-1g.18gb-mixed|A/mps-80g*1/2"},
			{"B/mps-80g*1/2|A"},
			{"A|A/mps-80g*1/2", "A is a whole card", "A/mps-80g*1/2 is an MPS share"}, {"A|B|C/mig-1g.18gb-mixed", "C/mig-1g.18gb-mixed"},
			{"NVIDIA-H20/mig-1g.24gb-mixed|NVIDIA-GeForce-RTX-4090", "MIG slice of profile 1g.24gb", "whole card"},
			{longest + "|" + strings.Repeat("B", 63) + "/mps-999999g*1/9999"},
		},
		"text is 4097 bytes, at most 4096 are read": {{strings.Repeat(" ", 4096) + "A"}},
		"at most 16":      {{strings.Repeat("A|", 16) + "A"}, {strings.Repeat("|", 1<<20)}},
		"longer than 160": {{strings.Repeat("a", 1<<20)}},
		"more mistakes": {
			{strings.Repeat(strings.Repeat("a", 65536)+"|", 15) + "a"},
			{strings.Repeat(strings.Repeat("\x00", 80)+"|", 15) + "a"},
		},
	})
}

// TestAnErrorListsMistakesInTheirOrderAndCountsTheRest: the mistakes are listed as the text has them. An error must
// fit an event, so it lists 600 bytes of mistakes. One takes about 100: of 100 wrong names it lists 6 and counts 94.
func TestAnErrorListsMistakesInTheirOrderAndCountsTheRest(t *testing.T) {
	_, err := ParseQuota(`{"B 1":1,"A 2":1,"C":1.5}`)
	check.Equal(t, "error", `card name "B 1": the model "B 1" must be a label value (letters, digits, '-', '_', '.', at most 63); `+
		`card name "A 2": the model "A 2" must be a label value (letters, digits, '-', '_', '.', at most 63); `+
		`count of "C" is "1.5": write a whole number of cards, such as 8`, err.Error())

	_, err = ParseQuota("{" + strings.Repeat(`"A B":1,`, 99) + `"A B":1}`)
	check.That(t, strings.HasSuffix(err.Error(), "; and 94 more mistakes"), "error %v", err)
}
