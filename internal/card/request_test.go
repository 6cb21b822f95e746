package card

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestParseRequestKeepsTheOrderWritten: a pod's alternatives are in order of preference, so they keep it. Spaces
// around names are dropped. The request allows its alternatives alone; a request without names allows any card.
func TestParseRequestKeepsTheOrderWritten(t *testing.T) {
	request := check.Value(ParseRequest(" NVIDIA-GeForce-RTX-4090 | NVIDIA-GeForce-RTX-4090-D"))(t)
	check.Equal(t, "names", []Name{"NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D"}, request.Names())
	check.Equal(t, "text", "NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D", request.String())

	check.That(t, request.Allows("NVIDIA-GeForce-RTX-4090-D"), "an alternative is not allowed")
	check.That(t, !request.Allows("NVIDIA-H200"), "a card that is no alternative is allowed")
	check.That(t, !request.AllowsAny(), "any card is allowed")
	check.That(t, Request{}.Allows("NVIDIA-H200"), "a request without names does not allow any card")
}

// TestParseRequestAcceptsAlternativesOfOneKind: whole cards, shares, and slices of one MIG profile may be
// alternatives, because one resource of the pod can mean either.
func TestParseRequestAcceptsAlternativesOfOneKind(t *testing.T) {
	for _, text := range []string{"A|B", "A/mps-80g*1/2|B/mps-40g*1/4", "A/mig-1g.18gb-mixed|B/mig-1g.18gb-mixed"} {
		check.Value(ParseRequest(text))(t)
	}
}

// TestParseTotalsSortsByRequest: the annotation card.request of a job says how many cards it requests in total, for
// each card or list of alternatives. The order of a JSON object has no meaning, so the totals are sorted.
func TestParseTotalsSortsByRequest(t *testing.T) {
	totals := check.Value(ParseTotals(`{"B":1,"A|B":2}`))(t)
	check.Must(t, len(totals) == 2, "%v", totals)
	check.Equal(t, "first request", "A|B", totals[0].Request.String())
	check.Equal(t, "first count", 2, totals[0].Count)
	check.Equal(t, "second count", 1, totals[1].Count)
}

// FuzzParseRequest: an accepted request allows each of its names, all of them are valid card names, and its text is
// read back as the same request. A refused text gives a request without names, and an error that fits an event.
func FuzzParseRequest(f *testing.F) {
	f.Add("A|B")
	f.Add("NVIDIA-H800/mps-80g*1/2")

	f.Fuzz(func(t *testing.T, text string) {
		request, err := ParseRequest(text)
		if err != nil {
			check.Must(t, request.AllowsAny() && check.FitsEvent(err.Error()), "%q gave %s and the error %q", text, request, err)
			return
		}

		for _, name := range request.Names() {
			check.Value(ParseName(string(name)))(t)
			check.Must(t, request.Allows(name), "%q does not allow %s", text, name)
		}
		check.Equal(t, text, request.String(), check.Value(ParseRequest(request.String()))(t).String())
	})
}
