package card

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseQuotaReadsWholeCounts(t *testing.T) {
	got, err := ParseQuota(`{"NVIDIA-H200":8,"NVIDIA-H800/mps-80g*1/2":2,"NVIDIA-H200/mig-1g.18gb-mixed":0}`)
	want := Quota{"NVIDIA-H200": 8, "NVIDIA-H800/mps-80g*1/2": 2, "NVIDIA-H200/mig-1g.18gb-mixed": 0}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("ParseQuota: %v, diff %s", err, diff)
	}
}

func TestParseQuotaRefusesAndSaysWhatToWrite(t *testing.T) {
	tests := map[string]struct{ text, wantError string }{
		"empty text":               {``, `write it like {"NVIDIA-H200":8}`},
		"not JSON":                 {`NVIDIA-H200=8`, "not a JSON object"},
		"a list":                   {`["NVIDIA-H200"]`, "not a JSON object"},
		"null":                     {`null`, "not a JSON object"},
		"a number":                 {`8`, "not a JSON object"},
		"cut off after the key":    {`{"A"`, "not valid JSON"},
		"cut off after the value":  {`{"A":1`, "not valid JSON"},
		"no comma":                 {`{"A":1 "B":2}`, "not valid JSON"},
		"trailing comma":           {`{"A":1,}`, "not valid JSON"},
		"text after the object":    {`{"A":1} {"B":2}`, "goes on after the JSON object"},
		"negative":                 {`{"A":-1}`, "a quota is 0 or more"},
		"fraction":                 {`{"A":1.5}`, "write a whole number"},
		"whole number as fraction": {`{"A":8.0}`, "write a whole number"},
		"exponent":                 {`{"A":1e2}`, "write a whole number"},
		"text instead of number":   {`{"A":"8"}`, "write a whole number"},
		"null instead of number":   {`{"A":null}`, "write a whole number"},
		"boolean":                  {`{"A":true}`, "write a whole number"},
		"object":                   {`{"A":{"quota":1}}`, "write a whole number"},
		"above the bound":          {`{"A":1000001}`, "at most 1000000 cards"},
		"beyond 64 bits":           {`{"A":99999999999999999999}`, "at most 1000000 cards"},
		"the same card twice":      {`{"A":1,"A":2}`, "named twice"},
		"the same card escaped":    {`{"A":1,"\u0041":2}`, "named twice"},
		"empty card name":          {`{"":1}`, "card name is empty"},
		"resource name":            {`{"nvidia.com/gpu":1}`, "after the model write mig-<profile>-mixed"},
		"blank in the name":        {`{"NVIDIA H200":1}`, "must be a label value"},
		"alternatives":             {`{"A|B":1}`, "must be a label value"},
		"pure MIG profile":         {`{"A/mig-1g.18gb":1}`, "after the model write"},
		"MPS with no replicas":     {`{"A/mps-80g*1/0":1}`, "after the model write"},
		"model of 64 characters":   {`{"` + strings.Repeat("a", 64) + `":1}`, "at most 63"},
		"very long name":           {`{"` + strings.Repeat("a", 200) + `":1}`, "longer than 160"},
		"huge text":                {strings.Repeat(" ", MaxQuotaText) + `{}`, "at most 65536 are read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			quota, err := ParseQuota(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("error %v, want one with %q", err, tc.wantError)
			}
			if quota != nil {
				t.Fatalf("a refused text gave the quota %v", quota)
			}
		})
	}
}

func TestParseQuotaBoundsEntries(t *testing.T) {
	var entries []string
	for i := range MaxQuotaEntries + 1 {
		entries = append(entries, fmt.Sprintf(`"C%d":1`, i))
	}
	if _, err := ParseQuota("{" + strings.Join(entries, ",") + "}"); err == nil {
		t.Fatal("257 entries were read")
	}
	if q, err := ParseQuota("{" + strings.Join(entries[1:], ",") + "}"); err != nil || len(q) != MaxQuotaEntries {
		t.Fatalf("256 entries: %d read, error %v", len(q), err)
	}
}

func TestParseQuotaListsEveryMistake(t *testing.T) {
	_, err := ParseQuota(`{"A":-1,"B":1.5,"":1}`)
	for _, want := range []string{`"A"`, `"B"`, "empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not mention %s", err, want)
		}
	}
}

func TestQuotaSurvivesWritingAndReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[A-Z][a-z0-9]{0,5}(/mig-1g\.[0-9]{1,2}gb-mixed|/mps-[1-9]g\*1/[1-9])?`), rapid.ID[string]).Draw(t, "names")
		want := Quota{}
		for _, n := range names {
			want[Name(n)] = Count(rapid.Int64Range(0, int64(MaxCount)).Draw(t, "count"))
		}
		got, err := ParseQuota(want.String())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s: %v %s", want, err, diff)
		}
	})
}

func FuzzParseQuota(f *testing.F) {
	for _, seed := range []string{`{}`, `{"A":1}`, `{"A":1,"A":2}`, `{"A":`, `[]`, `{"A|B":1}`, `{"A":1e9}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quota, err := ParseQuota(text)
		if err != nil {
			if quota != nil || !tellable(err.Error()) {
				t.Fatalf("%q gave %v and the error %q", text, quota, err)
			}
			return
		}
		again, err := ParseQuota(quota.String())
		if diff := cmp.Diff(quota, again); err != nil || diff != "" {
			t.Fatalf("%q → %s: %v %s", text, quota, err, diff)
		}
		for name, count := range quota {
			if count < 0 || count > MaxCount || len(name) > MaxNameLength {
				t.Fatalf("%q gave %s: %d", text, name, count)
			}
		}
	})
}
