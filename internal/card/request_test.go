package card

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cardquota.dev/operator/internal/testing/check"
)

func TestParseRequestKeepsTheOrderWritten(t *testing.T) {
	r := check.Value(ParseRequest(" NVIDIA-GeForce-RTX-4090 | NVIDIA-GeForce-RTX-4090-D"))(t)
	want := []Name{"NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D"}
	diff := cmp.Diff(want, r.Names())
	check.Must(t, diff == "" && r.String() == "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D", "%s: %s", r, diff)
	check.Must(t, r.Allows("NVIDIA-GeForce-RTX-4090-D") && !r.Allows("NVIDIA-H200") && !r.AllowsAny() && (Request{}).Allows("NVIDIA-H200"),
		"Allows does not follow the alternatives")
}

func TestParseRequestAcceptsAlternativesOfOneKind(t *testing.T) {
	for _, text := range []string{"A|B", "A/mps-80g*1/2|B/mps-40g*1/4", "A/mig-1g.18gb-mixed|B/mig-1g.18gb-mixed"} {
		check.Value(ParseRequest(text))(t)
	}
}

func TestParseTotals(t *testing.T) {
	got, err := ParseTotals(`{"B":1,"A|B":2}`)
	check.Must(t, err == nil && len(got) == 2, "%v, %v", got, err)
	check.Must(t, got[0].Request.String() == "A|B" && got[0].Count == 2 && got[1].Count == 1, "%v", got)
}

func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{"A|B", "NVIDIA-H800/mps-80g*1/2"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRequest(text)
		if err != nil {
			check.Must(t, r.AllowsAny() && check.FitsEvent(err.Error()), "%q gave %s and the error %q", text, r, err)
			return
		}

		for _, name := range r.Names() {
			_, err := ParseName(string(name))
			check.Must(t, err == nil && r.Allows(name), "%q allows %s: %v", text, name, err)
		}

		if again, err := ParseRequest(r.String()); err != nil || again.String() != r.String() {
			t.Fatalf("%q → %q → %v, %v", text, r, again, err)
		}
	})
}
