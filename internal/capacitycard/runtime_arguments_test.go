package capacitycard

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// runtimeText is the argument serviceTypes with a minimumRuntime as it stands in
// a YAML text.
func runtimeText(value string) string {
	return "serviceTypes:\n  inference: {reclaimFrom: [training]}\n  training: {reclaimable: true, minimumRuntime: " + value + "}\n"
}

// TestMinimumRuntimeIsReadByBothReaders: Volcano's own reader and that of the
// configuration gate come to the same duration.
func TestMinimumRuntimeIsReadByBothReaders(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10m": 10 * time.Minute, `"10m"`: 10 * time.Minute, "10m0s": 10 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"0s": 0, `"0"`: 0, "1s": time.Second, "168h": 168 * time.Hour, "1ms": time.Millisecond,
	} {
		for name, read := range map[string]func(string) (map[string]any, error){"Volcano": volcanoReads, "the gate": gateReads} {
			raw, err := read(runtimeText(text))
			if err != nil {
				t.Fatalf("%s does not read %s: %v", name, text, err)
			}
			args, err := parseArguments(raw)
			if err != nil {
				t.Errorf("%s from %s is refused: %v", text, name, err)
			}
			if got := args.serviceTypes["training"].MinimumRuntime; got != want {
				t.Errorf("%s from %s is %s, want %s", text, name, got, want)
			}
		}
	}
}

func TestMinimumRuntimeRefusesWhatPeopleWrite(t *testing.T) {
	const write = "minimumRuntime: write a duration, for example 10m"
	tests := map[string]struct{ text, want string }{
		"a bare number":              {"600", write},
		"nothing":                    {"", write},
		"a flag":                     {"true", write},
		"a list":                     {"[10m]", write},
		"a number in quotes":         {`"600"`, write},
		"words":                      {"ten minutes", write},
		"a unit that is none":        {"10min", write},
		"days":                       {"1d", write},
		"a space":                    {`"10 m"`, write},
		"as ISO 8601 writes it":      {"PT10M", write},
		"an empty text":              {`""`, write},
		"less than none":             {"-1s", `type "training" has a minimum runtime of -1s: write 0s to 168h0m0s`},
		"longer than a week":         {"168h1s", "has a minimum runtime of 168h0m1s: write 0s to 168h0m0s"},
		"longer than time itself":    {"9999999999h", write},
		"the longest duration there": {"2562047h", "write 0s to 168h0m0s"},
		"a long text":                {strings.Repeat("9", 3000) + "h", write},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, read := range []func(string) (map[string]any, error){volcanoReads, gateReads} {
				raw, err := read(runtimeText(tc.text))
				if err != nil {
					t.Fatal(err)
				}
				mustRefuse(t, raw, "training", tc.want)
			}
		})
	}
}

// TestReclaimGrantsTheMinimumRuntime: Volcano's own action takes no pod of a job
// that has not run for as long as its service type grants it.
func TestReclaimGrantsTheMinimumRuntime(t *testing.T) {
	args := framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": "1h"},
	}}
	began := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			start := metav1.NewTime(time.Now().Add(-ago))
			p.Status.StartTime = &start
		}
	}
	oldest := func(p *corev1.Pod) {
		began(time.Minute)(p)
		if p.Name == "new-h2000" {
			began(2 * time.Hour)(p)
		}
	}
	tests := map[string]struct {
		args              framework.Arguments
		old, young        func(*corev1.Pod)
		evicted, promised string
	}{
		"the younger job goes when there is no minimum": {nil, began(2 * time.Hour), began(time.Minute), "new-h2003", "i-0@h200"},
		"the older one when the younger may not":        {args, began(61 * time.Minute), began(59 * time.Minute), "old-h2003", "i-0@h200"},
		"nobody when neither may":                       {args, began(59 * time.Minute), began(time.Minute), "", ""},
		"the oldest pod of a job counts":                {args, began(59 * time.Minute), oldest, "new-h2003", "i-0@h200"},
		"nobody when nothing has started":               {args, func(*corev1.Pod) {}, func(*corev1.Pod) {}, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := evictWith(t, &uthelper.TestCommonStruct{
				Nodes: []*corev1.Node{cardNode("h200", "NVIDIA-H200")}, Queues: tide(fullTide, fullTide),
				PodGroups: []*v1beta1.PodGroup{group("old", "tra", 1, "Running", "1"), group("new", "tra", 1, "Running", "1"), group("i", "inf", 1, "Inqueue", "1")},
				Pods: aged(concat(each(pods(4, "old", "1", "NVIDIA-H200", "h200"), tc.old), each(pods(4, "new", "1", "NVIDIA-H200", "h200"), tc.young),
					pods(1, "i", "1", "NVIDIA-H200", ""))),
			}, tc.args, reclaim.New())
			expect(t, ssn, tc.evicted, tc.promised)
		})
	}
}
