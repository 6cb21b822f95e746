package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// tenant is an open queue with a quota and a capability of 4 CPU and 4 Gi.
func tenant(quota string, options ...func(*v1beta1.Queue)) *v1beta1.Queue {
	q := builder.Queue("q").Annotation("volcano.sh/card.quota", quota).Capability("4", "4Gi").Obj()
	for _, o := range options {
		o(q)
	}
	return q
}

func in(state v1beta1.QueueState) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Status.State = state }
}

func leaving(q *v1beta1.Queue) { now := metav1.Now(); q.DeletionTimestamp = &now }

func called(name string) func(*v1beta1.Queue) { return func(q *v1beta1.Queue) { q.Name = name } }

func capable(name corev1.ResourceName, quantity string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Spec.Capability[name] = resource.MustParse(quantity) }
}

func unmanaged(q *v1beta1.Queue) { q.Annotations = nil }

// capability sets all that a queue may use, nil for nothing.
func capability(list corev1.ResourceList) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Spec.Capability = list }
}

// TestWhatAQueueAllows is the part of the table that reads a Queue. Capabilities that
// look odd are read so that no queue gets more than is written. What texts are no quota
// is tested with card.ParseQuota.
func TestWhatAQueueAllows(t *testing.T) {
	const (
		cpu     = int64(4000)
		memory  = int64(4 << 30)
		endless = quota.Unlimited
	)

	limits := func(milliCPU, memory int64, cards ...card.Amount) quota.Limits {
		l := quota.Limits{MilliCPU: milliCPU, Memory: memory}
		for _, of := range cards {
			l.Cards = card.Quota{of.Name: of.Count}
		}
		return l
	}

	notOpen := func(says string) []string { return []string{ReasonQueueNotOpen, says} }
	invalid := func(says ...string) []string {
		return append([]string{ReasonInvalidQuota, " has an invalid volcano.sh/card.quota: "}, says...)
	}

	long := called(strings.Repeat("q", 253))
	some := card.Amount{Name: "H200", Count: 8}
	nothing := capability(nil)

	anyCard := quota.Limits{AnyCard: true, MilliCPU: endless, Memory: endless}
	for t, tc := range check.Cases(t, map[string]struct {
		queue *v1beta1.Queue
		mode  v1alpha1.UnmanagedQueues // "" for a queue that is the same in all
		want  quota.Limits
		says  []string // the reason and texts of the refusal
	}{
		"quota and capability": {
			queue: tenant(`{"H200":8}`),
			want:  limits(cpu, memory, some),
		},
		"a quota of no cards": {
			queue: tenant(`{"H200":0}`),
			want:  limits(cpu, memory, card.Amount{Name: "H200"}),
		},
		"capability not set is 0 beside a quota": {
			queue: tenant(`{"H200":8}`, nothing),
			want:  limits(0, 0, some),
		},
		"an empty quota is a quota": {
			queue: tenant(`{}`),
			want:  limits(cpu, memory),
		},
		"unmanaged: no cards, CPU unlimited": {
			queue: tenant("", unmanaged, nothing),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(endless, endless),
		},
		"unmanaged with capability": {
			queue: tenant("", unmanaged),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(cpu, memory),
		},
		"unmanaged and ignored: any card": {
			queue: tenant("", unmanaged, nothing),
			mode:  v1alpha1.UnmanagedIgnore,
			want:  anyCard,
		},
		"root is no way around the quotas": {
			queue: tenant(`{"H200":1}`, called("root"), nothing, in("")),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(endless, endless),
		},
		"root while queues are being moved": {
			queue: tenant(`{"H200":1}`, called("root"), nothing, in("")),
			mode:  v1alpha1.UnmanagedIgnore,
			want:  anyCard,
		},
		"root with a quota that cannot be read": {
			queue: tenant(`{`, called("root")),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(endless, endless),
		},
		"unmanaged and denied": {
			queue: tenant("", unmanaged, nothing),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(0, 0),
		},
		"denied with capability": {
			queue: tenant("", unmanaged),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(cpu, memory),
		},
		"denied with CPU alone": {
			queue: tenant("", unmanaged, capability(builder.Resources("4", "0"))),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(cpu, 0),
		},
		"denied, and cards in the capability": {
			queue: tenant("", unmanaged, capable(gpu, "8")),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(cpu, memory),
		},
		"an empty quota is not denied": {
			queue: tenant(`{}`),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(cpu, memory),
		},
		"a quota is not denied": {
			queue: tenant(`{"H200":8}`),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(cpu, memory, some),
		},
		"root is denied, whatever it says": {
			queue: tenant(`{"H200":1}`, called("root"), in("")),
			mode:  v1alpha1.UnmanagedDeny,
			want:  limits(0, 0),
		},

		// its state
		"closed": {
			queue: tenant(`{}`, in("Closed")),
			want:  limits(cpu, memory),
			says:  notOpen("Queue <q> is Closed, not Open"),
		},
		"closing": {
			queue: tenant(`{}`, in("Closing")),
			want:  limits(cpu, memory),
			says:  notOpen("Queue <q> is Closing, not Open"),
		},
		"no state yet": {
			queue: tenant(`{}`, in("")),
			want:  limits(cpu, memory),
			says:  notOpen("has no state yet"),
		},
		"a state that Volcano does not know": {
			queue: tenant(`{}`, in("Unknown")),
			want:  limits(cpu, memory),
			says:  notOpen("Queue <q> is Unknown, not Open"),
		},
		"a state in small letters": {
			queue: tenant(`{}`, in("open")),
			want:  limits(cpu, memory),
			says:  notOpen("Queue <q> is open, not Open"),
		},
		"being deleted": {
			queue: tenant(`{"H200":8}`, leaving),
			want:  limits(cpu, memory, some),
			says:  notOpen("Queue <q> is being deleted"),
		},
		"closed and being deleted": {
			queue: tenant(`{}`, in("Closed"), leaving),
			want:  limits(cpu, memory),
			says:  notOpen("Queue <q> is being deleted"),
		},
		"no state and being deleted": {
			queue: tenant(`{}`, in(""), leaving),
			want:  limits(cpu, memory),
			says:  notOpen("Queue <q> is being deleted"),
		},
		"root being deleted, queues ignored": {
			queue: tenant(`{}`, called("root"), leaving),
			mode:  v1alpha1.UnmanagedIgnore,
			want:  anyCard,
			says:  notOpen("Queue <root> is being deleted"),
		},
		"root being deleted": {
			queue: tenant(`{}`, called("root"), leaving),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(endless, endless),
			says:  notOpen("Queue <root> is being deleted"),
		},

		// its quota
		"a quota that cannot be read": {
			queue: tenant(`{"H200":1.5}`),
			want:  quota.Limits{},
			says:  invalid("Queue <q>", "write a whole number"),
		},
		"closed, and its quota is no JSON": {
			queue: tenant(`{"H200":`, in("Closed")),
			want:  quota.Limits{},
			says:  invalid("is not valid JSON"),
		},
		"deleted, and its quota is none": {
			queue: tenant(`H200=8`, leaving),
			want:  quota.Limits{},
			says:  invalid("is not a JSON object"),
		},
		"an empty quota text": {
			queue: tenant(""),
			want:  quota.Limits{},
			says:  invalid(`write it like {"NVIDIA-H200":8}`),
		},
		"a quota of 1 MiB": {
			queue: tenant(strings.Repeat("8", 1<<20)),
			want:  quota.Limits{},
			says:  invalid("at most 65536 are read"),
		},
		"a long name and as many mistakes": {
			queue: tenant("{"+strings.Repeat(`"a b":1,`, 255)+`"a b":1}`, long),
			want:  quota.Limits{},
			says:  invalid("more mistakes"),
		},
		"a long name and many escapes": {
			queue: tenant("{\""+strings.Repeat(`\u0000`, 79)+"\":1}", long),
			want:  quota.Limits{},
			says:  invalid(`\x00`, "must be a label value"),
		},

		// its capability
		"a capability beyond 64 bits": {
			queue: tenant(`{}`, capability(builder.Resources("1e30", "1e30"))),
			want:  limits(endless, endless),
		},
		"negative CPU is none": {
			queue: tenant(`{}`, capable("cpu", "-4")),
			want:  limits(0, memory),
		},
		"negative memory is none": {
			queue: tenant(`{}`, capable("memory", "-4Gi")),
			want:  limits(cpu, 0),
		},
		"negative CPU beyond 64 bits is none": {
			queue: tenant(`{}`, capable("cpu", "-10000000000000000000000000000000")),
			want:  limits(0, memory),
		},
		"negative memory beyond 64 bits is none": {
			queue: tenant(`{}`, capable("memory", "-10000000000000000000000000000000")),
			want:  limits(cpu, 0),
		},
		"8Pi of memory is a limit": {
			queue: tenant(`{}`, capable("memory", "8Pi")),
			want:  limits(cpu, 8<<50),
		},
		"zero CPU is none": {
			queue: tenant(`{}`, capable("cpu", "0")),
			want:  limits(0, memory),
		},
		"part of a CPU": {
			queue: tenant(`{}`, capable("cpu", "0.5")),
			want:  limits(500, memory),
		},
		"less than a thousandth of a CPU": {
			queue: tenant(`{}`, capable("cpu", "1u")),
			want:  limits(1, memory),
		},
		"part of a byte": {
			queue: tenant(`{}`, capable("memory", "1500m")),
			want:  limits(cpu, 2),
		},
		"CPU of the largest number of 64 bits": {
			queue: tenant(`{}`, capable("cpu", "9223372036854775807")),
			want:  limits(endless, memory),
		},
		"memory beyond 64 bits": {
			queue: tenant(`{}`, capable("memory", "8192Pi")),
			want:  limits(cpu, endless),
		},
		"cards in the capability are not a quota": {
			queue: tenant(`{}`, capable(gpu, "8")),
			want:  limits(cpu, memory),
		},
		"without a quota, negative CPU is no limit": {
			queue: tenant("", unmanaged, capable("cpu", "-4")),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(endless, memory),
		},
		"without a quota, zero memory is no limit": {
			queue: tenant("", unmanaged, capable("memory", "0")),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(cpu, endless),
		},
		"without a quota, cards need one all the same": {
			queue: tenant("", unmanaged, capable(gpu, "8")),
			mode:  v1alpha1.UnmanagedEnforce,
			want:  limits(cpu, memory),
		},
	}) {
		modes := []v1alpha1.UnmanagedQueues{tc.mode}
		if tc.mode == "" {
			modes = []v1alpha1.UnmanagedQueues{v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny}
		}

		for _, mode := range modes {
			got := QueueRulesFor(tc.queue, mode, nil)
			agreeOnQueue(t, tc.queue, mode, got)
			check.Equal(t, "limits", tc.want, got.Limits, cmpopts.EquateEmpty())
			if tc.says == nil {
				check.Equal(t, "refusal", nil, got.Refusal)
			} else {
				refused(t, got.Refusal, tc.says[0], tc.says[1:]...)
			}
		}
	}
}

// TestAQueueHeldByTheOperatorSaysWhy: its users cannot end the hold with a stop policy, and neither
// can those of queues below it.
func TestAQueueHeldByTheOperatorSaysWhy(t *testing.T) {
	held := func(message string) *v1beta1.Queue {
		return tenant(`{"H200":8}`, func(q *v1beta1.Queue) {
			q.Annotations[v1alpha1.AnnotationStopPolicy] = "Hold"
			if message != "" {
				q.Annotations[v1alpha1.AnnotationHoldMessage] = message
			}
		})
	}

	rules := QueueRulesFor(held("CardQuota q: no path"), "", nil)
	check.Says(t, rules.Refusal, "Queue <q> is held by the operator: nothing new starts in it; CardQuota q: no path")

	child := QueueRulesFor(tenant(`{"H200":8}`, called("child"), func(q *v1beta1.Queue) { q.Spec.Parent = "q" }), "", nil)
	resolved := quota.ResolveTree(map[string]quota.TreeQueue{"q": rules.Tree, "child": child.Tree})
	below := resolved["child"]
	check.Says(t, child.InTree("child", &below).Refusal, "Queue <child> (its ancestor <q>) is held by the operator: nothing new "+
		"starts in it; CardQuota q: no path")

	byUser := QueueRulesFor(held(""), "", nil)
	byLength := QueueRulesFor(held(strings.Repeat("x", 1<<20)), "", nil)
	check.Says(t, byUser.Refusal, "Queue <q> is held by its stop policy")

	unprintable := QueueRulesFor(held("one\n\x1b[31mtwo\u202e"), "", nil)
	check.Says(t, unprintable.Refusal, "nothing new starts in it; one  [31mtwo ")
	check.That(t, len(byLength.Refusal.Message) < 1000, "the message has %d bytes", len(byLength.Refusal.Message))
	check.That(t, !rules.IsSameInTree(&byUser), "a queue whose hold has another cause is read as before")
}
