package decision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
)

// TestWhatIsBelievedOfAPod is the part of the table about pods that nobody may have
// let in. Queue q is for namespace lab, queue open for all.
func TestWhatIsBelievedOfAPod(t *testing.T) {
	const record, written = "cardquota.dev/charged-queue", "scheduling.volcano.sh/queue-name"
	in := func(namespace string) podOption { return func(p *corev1.Pod) { p.Namespace = namespace } }
	nowhere := func(more ...podOption) *corev1.Pod {
		return pod(append(more, asks("evil.example/x", "1000"), note("volcano.sh/card.name", "H200"))...)
	}
	last := func(queue string, held ...card.Amount) *account.Charge {
		return &account.Charge{Queue: queue, Cards: held}
	}
	tests := map[string]struct {
		pod       *corev1.Pod
		group     *v1beta1.PodGroup
		last      *account.Charge
		ours      bool
		wantQueue string
		wantCards []card.Amount
	}{
		// which queue
		"its own word, admitted":                     {pod: pod(gpus("1"), in("lab"), note(written, "q")), wantQueue: "q", wantCards: held("H200", 1)},
		"its own word, left out":                     {pod: pod(gpus("1"), in("evil"), note(written, "q")), wantCards: held("H200", 1)},
		"its own word, a queue for all":              {pod: pod(gpus("1"), in("evil"), note(written, "open")), wantQueue: "open", wantCards: held("H200", 1)},
		"a vcjob's word, left out":                   {pod: pod(gpus("1"), in("evil"), note("volcano.sh/queue-name", "q")), wantCards: held("H200", 1)},
		"no word":                                    {pod: pod(gpus("1"), in("evil")), wantCards: held("H200", 1)},
		"ours by its own word, left out":             {pod: pod(gpus("1"), in("evil"), note(written, "q")), ours: true, wantCards: held("H200", 1)},
		"ours with a record, left out since":         {pod: pod(gpus("1"), in("evil"), note(record, "q")), ours: true, wantQueue: "q", wantCards: held("H200", 1)},
		"ours in a PodGroup, left out since":         {pod: pod(gpus("1"), in("evil")), group: group("q"), ours: true, wantQueue: "q", wantCards: held("H200", 1)},
		"another's with a record, left out":          {pod: pod(gpus("1"), in("evil"), note(record, "q")), wantCards: held("H200", 1)},
		"another's with a record, admitted":          {pod: pod(gpus("1"), in("lab"), note(record, "q")), wantQueue: "q", wantCards: held("H200", 1)},
		"another's in a PodGroup, left out":          {pod: pod(gpus("1"), in("evil")), group: group("q"), wantCards: held("H200", 1)},
		"another's that was charged, left out since": {pod: pod(gpus("1"), in("evil")), last: last("q"), wantQueue: "q", wantCards: held("H200", 1)},
		"another's that was charged to no queue":     {pod: pod(gpus("1"), in("evil"), note(written, "q")), last: last("", held("H200", 1)...), wantCards: held("H200", 1)},
		"CPU and memory alone, its own word":         {pod: pod(asks("cpu", "30"), in("evil"), note(record, "q"))},
		"CPU and memory alone, ours, left out since": {pod: pod(asks("cpu", "30"), in("evil"), note(record, "q")), ours: true, wantQueue: "q"},

		// a resource that is a card nowhere
		"ours with a record: the card it names":                {pod: nowhere(in("lab"), note(record, "q")), ours: true, wantQueue: "q", wantCards: held("H200", 1000)},
		"ours without a record: no card":                       {pod: nowhere(in("lab"), note(written, "q")), ours: true, wantQueue: "q"},
		"another's with a record: no card":                     {pod: nowhere(in("lab"), note(record, "q")), wantQueue: "q"},
		"another's with a record, left out: nothing":           {pod: nowhere(in("evil"), note(record, "q"))},
		"another's that was charged: what it was charged":      {pod: nowhere(in("lab")), last: last("q", held("MI300X", 2)...), wantQueue: "q", wantCards: held("MI300X", 1000)},
		"another's that was charged for what is another's now": {pod: nowhere(in("lab")), last: last("q", held("H200", 2)...), wantQueue: "q"},
		"another's that was charged no card":                   {pod: nowhere(in("lab"), note(record, "q")), last: last("q"), wantQueue: "q"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			trust := Trust{Ours: tc.ours, Admits: func(queue, namespace string) bool { return queue != "q" || namespace == "lab" }}
			got, ok := trust.ChargeOf(tc.pod, tc.group, cluster(), tc.last)
			if !ok || got.Queue != tc.wantQueue {
				t.Errorf("counted %v in queue %q, want %q", ok, got.Queue, tc.wantQueue)
			}
			if diff := cmp.Diff(tc.wantCards, got.Cards, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
	if got := (Trust{}).PayerOf(pod(in("evil"), note(written, "q")), nil, ""); got != "q" {
		t.Errorf("charged to %q where no queue chooses, want q", got)
	}
	if _, counts := (Trust{Ours: true}).ChargeOf(pod(gpus("1"), on("")), nil, cluster(), nil); counts {
		t.Error("a pod without a node holds something")
	}
}
