package card

import (
	"strings"
	"testing"
)

// What people write into volcano.sh/card.name, beside the cases of
// TestParseRequest.
func TestParseRequestRefusesWhatPeopleWrite(t *testing.T) {
	const notALabel, either = "must be a label value", "one resource request cannot mean either"
	tests := map[string]struct {
		text  string
		wants []string
	}{
		"only spaces":                          {"   ", []string{"card name is empty"}},
		"a bar alone":                          {"|", []string{"card name is empty"}},
		"a bar at the start":                   {"|NVIDIA-H200", []string{"card name is empty"}},
		"two bars, as in a program":            {"NVIDIA-H200||NVIDIA-H800", []string{"card name is empty"}},
		"a space between two bars":             {"NVIDIA-H200| |NVIDIA-H800", []string{"card name is empty"}},
		"the word or":                          {"NVIDIA-H200 or NVIDIA-H800", []string{notALabel, "NVIDIA-H200 or NVIDIA-H800"}},
		"a slash between the alternatives":     {"NVIDIA-H200/NVIDIA-H800", []string{"after the model write", `not "NVIDIA-H800"`}},
		"a semicolon between the alternatives": {"NVIDIA-H200;NVIDIA-H800", []string{notALabel}},
		"a full-width bar":                     {"NVIDIA-H200\uff5cNVIDIA-H800", []string{notALabel, `\uff5c`}},
		"line ends between the alternatives":   {"NVIDIA-H200\nNVIDIA-H800", []string{notALabel, `"NVIDIA-H200\nNVIDIA-H800"`}},
		"a JSON list":                          {`["NVIDIA-H200","NVIDIA-H800"]`, []string{notALabel}},
		"a count behind the name":              {"NVIDIA-H200*2", []string{notALabel, "NVIDIA-H200*2"}},
		"a count before the name":              {"2xNVIDIA H200", []string{notALabel}},
		"the same card with spaces around":     {"A | A ", []string{"card A is named twice"}},
		"a card and its own MPS share":         {"A|A/mps-80g*1/2", []string{either, "A is a whole card", "A/mps-80g*1/2 is an MPS share"}},
		"an MPS share and a card":              {"B/mps-80g*1/2|A", []string{either}},
		"a slice and a card of another model":  {"NVIDIA-H20/mig-1g.24gb-mixed|NVIDIA-GeForce-RTX-4090", []string{either, "MIG slice of profile 1g.24gb", "whole card"}},
		"a third alternative of another kind":  {"A|B|C/mig-1g.18gb-mixed", []string{either, "C/mig-1g.18gb-mixed"}},
		"a slice of the single strategy":       {"A100-SXM4-40GB/mig-1g.5gb", []string{"after the model write"}},
		"one good and one bad alternative":     {"NVIDIA-H200|NVIDIA H800", []string{`"NVIDIA H800"`, notALabel}},
		"two bad alternatives":                 {"NVIDIA H200|NVIDIA H800", []string{`"NVIDIA H200"`, `"NVIDIA H800"`}},
		"a NUL between the alternatives":       {"A\x00B", []string{notALabel, `"A\x00B"`}},
		"the resource for the card":            {"nvidia.com/gpu", []string{"after the model write"}},
		"any card, as a star":                  {"*", []string{notALabel, `"*"`}},
		"everything but one card":              {"!NVIDIA-H200", []string{notALabel}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRequest(tc.text)
			mustRefuse(t, err, tc.wants...)
			if !got.Any() || got.String() != "" {
				t.Errorf("a refused text gave the request %s", got)
			}
		})
	}
}

// What people write into volcano.sh/card.request.
func TestParseTotalsRefusesAndSaysWhatToWrite(t *testing.T) {
	tests := map[string]struct {
		text  string
		wants []string
	}{
		"nothing":                             {"", []string{"is not a JSON object"}},
		"the form of card.name":               {"NVIDIA-H200|NVIDIA-H800", []string{"is not a JSON object", `write it like {"NVIDIA-H200":8}`}},
		"a text":                              {`"NVIDIA-H200"`, []string{"is not a JSON object"}},
		"a count in quotes":                   {`{"NVIDIA-H200":"2"}`, []string{`count of "NVIDIA-H200"`, "write a whole number"}},
		"half a card":                         {`{"NVIDIA-H200":0.5}`, []string{`is "0.5"`, "write a whole number"}},
		"a negative count":                    {`{"NVIDIA-H200":-2}`, []string{"0 or more"}},
		"more cards than can be":              {`{"NVIDIA-H200":1000001}`, []string{"at most 1000000 cards"}},
		"counts per pod in a list":            {`{"NVIDIA-H200":[1,1]}`, []string{"write a whole number"}},
		"no name":                             {`{"":2}`, []string{"card name is empty"}},
		"alternatives with an empty one":      {`{"NVIDIA-H200|":2}`, []string{"card name is empty"}},
		"alternatives with a comma":           {`{"NVIDIA-H200,NVIDIA-H800":2}`, []string{"must be a label value"}},
		"one card twice in the alternatives":  {`{"A|A":2}`, []string{"card A is named twice"}},
		"the same alternatives twice":         {`{"A|B":2,"A|B":1}`, []string{"card request A|B is named twice", "keep one entry"}},
		"the same alternatives, other spaces": {`{"A|B":2," A | B ":1}`, []string{"card request A|B is named twice"}},
		"alternatives of different kinds":     {`{"A|A/mig-1g.18gb-mixed":2}`, []string{"one resource request cannot mean either"}},
		"two profiles as alternatives":        {`{"A/mig-1g.18gb-mixed|A/mig-3g.71gb-mixed":2}`, []string{"one resource request cannot mean either"}},
		"the resource for the card":           {`{"nvidia.com/gpu":2}`, []string{"after the model write"}},
		"seventeen alternatives":              {`{"` + strings.Repeat("A|", 16) + `A":2}`, []string{"17 alternatives, at most 16 are allowed"}},
		"text behind the object":              {`{"A":2} please`, []string{"goes on after the JSON object"}},
		"one good and one bad request":        {`{"A":2,"B C":1}`, []string{`"B C"`, "must be a label value"}},
		"a name that fails and a count, too":  {`{"B C":1,"A":1.5}`, []string{`"B C"`, `count of "A" is "1.5"`}},
		"totals per task":                     {`{"worker":{"NVIDIA-H200":2}}`, []string{`count of "worker"`, "write a whole number"}},
		"more requests than are read":         {manyCards(MaxQuotaEntries + 1), []string{"more than 256 entries"}},
		"an alternative that is a look-alike": {"{\"NVIDIA-H200|\u039dVIDIA-H800\":2}", []string{`\u039dVIDIA-H800`, "must be a label value"}},
		"a request that is only bars":         {`{"|||":2}`, []string{"card name is empty"}},
		"a share and a card as alternatives":  {`{"A/mps-80g*1/2|B":2}`, []string{"one resource request cannot mean either"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTotals(tc.text)
			mustRefuse(t, err, tc.wants...)
			if got != nil {
				t.Errorf("a refused text gave the totals %v", got)
			}
		})
	}
}
