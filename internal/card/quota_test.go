package card

import (
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestParseQuotaReadsWholeCounts: a quota is any JSON object of card names and whole numbers from 0 to a million,
// with up to 256 entries. It may be spelled in unusual ways: with white space, with escaped letters, or with -0.
// Names differ by case and form.
func TestParseQuotaReadsWholeCounts(t *testing.T) {
	for text, want := range map[string]Quota{
		`{"NVIDIA-H200":8,"NVIDIA-H800/mps-80g*1/2":2,"NVIDIA-H200/mig-1g.18gb-mixed":0}`: {
			"NVIDIA-H200":                   8,
			"NVIDIA-H800/mps-80g*1/2":       2,
			"NVIDIA-H200/mig-1g.18gb-mixed": 0,
		},
		`{"A":-0}`:                          {"A": 0},
		`{"A":1000000}`:                     {"A": MaxCount},
		" {\r\n\t\"A\" : 1 ,\n \"B\":2 }\n": {"A": 1, "B": 2},
		`{"\u0041":1}`:                      {"A": 1},
		`{"a":1,"A":2}`:                     {"a": 1, "A": 2},
		`{"A":1,"A/mig-1g.18gb-mixed":2}`:   {"A": 1, "A/mig-1g.18gb-mixed": 2},
	} {
		check.Equal(t, text, want, check.Value(ParseQuota(text))(t))
	}

	check.Equal(t, "entries of the longest quota", 256, len(check.Value(ParseQuota(quotaText(256)))(t)))
}

// TestQuotaSurvivesWritingAndReading: the operator writes quotas into annotations, and the scheduler reads them.
// Random quotas of cards, slices and shares are read as they were written.
func TestQuotaSurvivesWritingAndReading(t *testing.T) {
	name := rapid.StringMatching(`[A-Z][a-z0-9]{0,5}(/mig-1g\.[0-9]{1,2}gb-mixed|/mps-[1-9]g\*1/[1-9])?`)
	seed.Check(t, func(t *rapid.T) {
		want := Quota{}
		for _, n := range rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "names") {
			want[Name(n)] = Count(rapid.Int64Range(0, int64(MaxCount)).Draw(t, "count"))
		}
		check.Equal(t, "read again", want, check.Value(ParseQuota(want.String()))(t))
	})
}

// FuzzParseQuota: an accepted quota is read back the same after it was written, and its counts and names are within
// their bounds. A refused text gives no quota, and an error that fits an event.
func FuzzParseQuota(f *testing.F) {
	for _, seed := range []string{`{}`, `{"A":1}`, `{"A":1,"A":2}`, `{"A":`, `[]`, `{"A|B":1}`, `{"A":1e9}`} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		quota, err := ParseQuota(text)
		if err != nil {
			check.Must(t, quota == nil && check.FitsEvent(err.Error()), "%q gave %v and the error %q", text, quota, err)
			return
		}

		check.Equal(t, text, quota, check.Value(ParseQuota(quota.String()))(t))
		for name, count := range quota {
			check.Must(t, count >= 0 && count <= MaxCount && len(name) <= MaxNameLength, "%q gave %s: %d", text, name, count)
		}
	})
}
