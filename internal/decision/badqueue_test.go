package decision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
)

// tenant is an open queue with a quota and a capability of 4 CPU and 4 Gi.
func tenant(quota string, options ...func(*v1beta1.Queue)) *v1beta1.Queue {
	q := &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Annotations: map[string]string{"volcano.sh/card.quota": quota}},
		Spec:       v1beta1.QueueSpec{Capability: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi")}},
		Status:     v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	}
	for _, o := range options {
		o(q)
	}
	return q
}

func in(state v1beta1.QueueState) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Status.State = state }
}

func leaving(q *v1beta1.Queue) { now := metav1.Now(); q.DeletionTimestamp = &now }

func called(name string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Name = name }
}

func capable(name corev1.ResourceName, quantity string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Spec.Capability[name] = resource.MustParse(quantity) }
}

// A queue that takes nothing says why, beside the cases of TestWhatAQueueAllows.
func TestRulesOfRefusesAndSaysWhy(t *testing.T) {
	const invalid = "Queue <q> has an invalid volcano.sh/card.quota: "
	tests := map[string]struct {
		queue      *v1beta1.Queue
		wantReason string
		wants      []string
	}{
		// its state
		"a state that Volcano does not know":    {tenant(`{"H200":8}`, in("Unknown")), ReasonQueueNotOpen, []string{"Queue <q> is Unknown, not Open"}},
		"a state in small letters":              {tenant(`{"H200":8}`, in("open")), ReasonQueueNotOpen, []string{"Queue <q> is open, not Open"}},
		"closed and being deleted":              {tenant(`{"H200":8}`, in("Closed"), leaving), ReasonQueueNotOpen, []string{"Queue <q> is being deleted"}},
		"no state and being deleted":            {tenant(`{}`, in(""), leaving), ReasonQueueNotOpen, []string{"Queue <q> is being deleted"}},
		"root being deleted":                    {tenant(`{}`, called("root"), leaving), ReasonQueueNotOpen, []string{"Queue <root> is being deleted"}},
		"closed, and its quota cannot be read":  {tenant(`{"H200":`, in("Closed")), ReasonInvalidQuota, []string{invalid, "is not valid JSON"}},
		"deleted, and its quota cannot be read": {tenant(`H200=8`, leaving), ReasonInvalidQuota, []string{invalid, "is not a JSON object"}},

		// its quota
		"an empty quota text":                  {tenant(""), ReasonInvalidQuota, []string{invalid, `write it like {"NVIDIA-H200":8}`}},
		"a quota in YAML":                      {tenant("H200: 8"), ReasonInvalidQuota, []string{invalid, "is not a JSON object"}},
		"one good and one bad card":            {tenant(`{"H200":8,"40 90":1}`), ReasonInvalidQuota, []string{invalid, `"40 90"`}},
		"a quota of 1 MiB":                     {tenant(strings.Repeat("8", 1<<20)), ReasonInvalidQuota, []string{invalid, "at most 65536 are read"}},
		"a long name and as many mistakes":     {tenant("{"+strings.Repeat(`"a b":1,`, 255)+`"a b":1}`, called(strings.Repeat("q", 253))), ReasonInvalidQuota, []string{"more mistakes"}},
		"a long name and a mistake of escapes": {tenant("{\""+strings.Repeat(`\u0000`, 79)+"\":1}", called(strings.Repeat("q", 253))), ReasonInvalidQuota, []string{`\x00`, "must be a label value"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, unmanaged := range []Unmanaged{Enforce, Ignore} {
				got := RulesOf(tc.queue, unmanaged)
				if got.Refusal == nil {
					t.Fatal("not refused")
				}
				if got.Refusal.Reason != tc.wantReason {
					t.Errorf("reason %s, want %s", got.Refusal.Reason, tc.wantReason)
				}
				for _, want := range tc.wants {
					if !strings.Contains(got.Refusal.Message, want) {
						t.Errorf("refusal is\n  %s\nwant\n  …%s…", got.Refusal.Message, want)
					}
				}
				if !tellable(got.Refusal.Message) {
					t.Errorf("no event can hold %q", got.Refusal.Message)
				}
				if tc.wantReason == ReasonInvalidQuota && !cmp.Equal(got.Limits, account.Limits{}) {
					t.Errorf("a quota that cannot be read allows %+v", got.Limits)
				}
			}
		})
	}
}

// Capabilities that look odd are read so that nobody gets more than is written.
func TestRulesOfReadsOddCapabilities(t *testing.T) {
	unmanaged := func(options ...func(*v1beta1.Queue)) *v1beta1.Queue {
		q := tenant("", options...)
		q.Annotations = nil
		return q
	}
	const cpu, memory = int64(4000), int64(4 << 30)
	tests := map[string]struct {
		queue *v1beta1.Queue
		want  account.Limits
	}{
		"negative CPU is none":                         {tenant(`{}`, capable("cpu", "-4")), account.Limits{Memory: memory}},
		"negative memory is none":                      {tenant(`{}`, capable("memory", "-4Gi")), account.Limits{MilliCPU: cpu}},
		"zero CPU is none":                             {tenant(`{}`, capable("cpu", "0")), account.Limits{Memory: memory}},
		"part of a CPU":                                {tenant(`{}`, capable("cpu", "0.5")), account.Limits{MilliCPU: 500, Memory: memory}},
		"less than a thousandth of a CPU":              {tenant(`{}`, capable("cpu", "1u")), account.Limits{MilliCPU: 1, Memory: memory}},
		"part of a byte":                               {tenant(`{}`, capable("memory", "1500m")), account.Limits{MilliCPU: cpu, Memory: 2}},
		"CPU of the largest number of 64 bits":         {tenant(`{}`, capable("cpu", "9223372036854775807")), account.Limits{MilliCPU: account.Unlimited, Memory: memory}},
		"memory beyond 64 bits":                        {tenant(`{}`, capable("memory", "8192Pi")), account.Limits{MilliCPU: cpu, Memory: account.Unlimited}},
		"cards in the capability are not a quota":      {tenant(`{}`, capable("nvidia.com/gpu", "8")), account.Limits{MilliCPU: cpu, Memory: memory}},
		"without a quota, negative CPU is no limit":    {unmanaged(capable("cpu", "-4")), account.Limits{MilliCPU: account.Unlimited, Memory: memory}},
		"without a quota, zero memory is no limit":     {unmanaged(capable("memory", "0")), account.Limits{MilliCPU: cpu, Memory: account.Unlimited}},
		"without a quota, cards need one all the same": {unmanaged(capable("nvidia.com/gpu", "8")), account.Limits{MilliCPU: cpu, Memory: memory}},
		"root with a quota that cannot be read":        {tenant(`{`, called("root")), account.Limits{MilliCPU: account.Unlimited, Memory: account.Unlimited}},
		"a quota of no cards":                          {tenant(`{"H200":0}`), account.Limits{Cards: card.Quota{"H200": 0}, MilliCPU: cpu, Memory: memory}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := RulesOf(tc.queue, Enforce)
			if diff := cmp.Diff(tc.want, got.Limits, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if got.Refusal != nil {
				t.Errorf("refused: %v", got.Refusal)
			}
		})
	}
}
