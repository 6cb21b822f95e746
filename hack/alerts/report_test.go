package alerts

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReportAsksForWhatItMeans runs the queries of kubectl cardquota report. The leader changes after 20
// minutes, and the one of another cluster counts, too.
func TestReportAsksForWhatItMeans(t *testing.T) {
	const own = `cluster="east",job="a",tenant="lab",project="llm",queue="q",card="A",service_type="training"`
	world := newWorld(t,
		`cardquota_card_seconds_total{pod="m",`+own+`} 1000+10x39 stale`, `cardquota_card_seconds_total{pod="n",`+own+`} _x41 1400+10x60`,
		`cardquota_card_seconds_total{pod="m",`+strings.Replace(own, `"q"`, `"old"`, 1)+`} 7x39 stale`,
		`cardquota_card_seconds_total{pod="o",`+strings.Replace(own, "east", "west", 1)+`} 9000+10x100`)
	queries := strings.Split(strings.TrimSpace(readFile(t, "internal/cli/carduse/testdata/queries.golden")), "\n")
	const labels = `project="llm", queue="q", service_type="training", tenant="lab"}`
	old := strings.Replace(labels, `"q"`, `"old"`, 1)
	for i, want := range map[int][]string{
		0: {`{card="A", ` + old + " => 7", `{card="A", ` + labels + " => 1580"},
		1: {`{card="A", ` + old + " => 7", `{card="A", ` + labels + " => 1000"},
		2: {`{cluster="east", job="a", pod="n"} => 1`},
		3: {`{card="A", ` + old + " => 7", `{card="A", ` + labels + " => 9590"},
	} {
		var got []string
		for _, sample := range world.runQuery(queries[i], 59*step) {
			sample.DropName, sample.T = false, 0
			text, _, _ := strings.Cut(sample.String(), " @")
			got = append(got, text)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", queries[i], diff)
		}
	}
	if answer := world.runQuery(queries[2], 30*step); len(answer) != 1 || answer[0].Metric.Get("pod") != "m" || answer[0].F != 2 {
		t.Errorf("before the change of the leader: %v", answer)
	}
}
