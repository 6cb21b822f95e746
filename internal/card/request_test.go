package card

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRequestKeepsTheOrderWritten(t *testing.T) {
	r, err := ParseRequest(" NVIDIA-GeForce-RTX-4090 | NVIDIA-GeForce-RTX-4090-D")
	if err != nil {
		t.Fatal(err)
	}
	want := []Name{"NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D"}
	if diff := cmp.Diff(want, r.Names()); diff != "" || r.String() != "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D" {
		t.Fatalf("%s: %s", r, diff)
	}
	if !r.Allows("NVIDIA-GeForce-RTX-4090-D") || r.Allows("NVIDIA-H200") || r.Any() || !(Request{}).Allows("NVIDIA-H200") {
		t.Fatal("Allows does not follow the alternatives")
	}
}

func TestParseRequest(t *testing.T) {
	tests := map[string]struct{ text, wantError string }{
		"whole cards of one vendor":         {"A|B", ""},
		"MPS shares of different size":      {"A/mps-80g*1/2|B/mps-40g*1/4", ""},
		"one MIG profile of two models":     {"A/mig-1g.18gb-mixed|B/mig-1g.18gb-mixed", ""},
		"empty":                             {"", "card name is empty"},
		"empty alternative":                 {"A|", "card name is empty"},
		"named twice":                       {"A|A", "named twice"},
		"whole card and MIG slice":          {"A|A/mig-1g.18gb-mixed", "one resource request cannot mean either"},
		"two MIG profiles":                  {"A/mig-1g.18gb-mixed|A/mig-3g.71gb-mixed", "one resource request cannot mean either"},
		"MIG slice and MPS share":           {"A/mig-1g.18gb-mixed|A/mps-80g*1/2", "one resource request cannot mean either"},
		"with a count":                      {`{"A":1}`, "must be a label value"},
		"comma instead of a bar":            {"A,B", "must be a label value"},
		"control characters are not echoed": {"A\n\x00", `"A\n\x00"`},
		"more than 4 KiB of spaces":         {strings.Repeat(" ", 4096) + "A", "text is 4097 bytes, at most 4096 are read"},
		"seventeen alternatives":            {strings.Repeat("A|", 16) + "A", "at most 16"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(tc.text)
			if (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("error %v, want %q", err, tc.wantError)
			}
		})
	}
}

func TestParseTotals(t *testing.T) {
	got, err := ParseTotals(`{"B":1,"A|B":2}`)
	if err != nil || len(got) != 2 || got[0].Request.String() != "A|B" || got[0].Count != 2 || got[1].Count != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, text := range []string{`{"A|B":1,"A | B":2}`, `{"A":-1}`, `{"A|A":1}`, `"A"`} {
		if got, err := ParseTotals(text); err == nil {
			t.Errorf("%s was read as %v", text, got)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("A|B")
	f.Add("NVIDIA-H800/mps-80g*1/2")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRequest(text)
		if err != nil {
			if !r.Any() || !tellable(err.Error()) {
				t.Fatalf("%q gave %s and the error %q", text, r, err)
			}
			return
		}
		for _, name := range r.Names() {
			if _, err := ParseName(string(name)); err != nil || !r.Allows(name) {
				t.Fatalf("%q allows %s: %v", text, name, err)
			}
		}
		if again, err := ParseRequest(r.String()); err != nil || again.String() != r.String() {
			t.Fatalf("%q → %q → %v, %v", text, r, again, err)
		}
	})
}
