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

// newQueue is an open Queue q with a quota and a capability of 4 CPU and 4 Gi.
func newQueue(quota string, options ...func(*v1beta1.Queue)) *v1beta1.Queue {
	q := builder.Queue("q").Annotation("volcano.sh/card.quota", quota).Capability("4", "4Gi").Obj()
	for _, o := range options {
		o(q)
	}
	return q
}

func inState(state v1beta1.QueueState) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Status.State = state }
}

func beingDeleted(q *v1beta1.Queue) { now := metav1.Now(); q.DeletionTimestamp = &now }

func withName(name string) func(*v1beta1.Queue) { return func(q *v1beta1.Queue) { q.Name = name } }

func withCapability(name corev1.ResourceName, quantity string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Spec.Capability[name] = resource.MustParse(quantity) }
}

func withUnlimited(text string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Annotations["volcano.sh/unlimited.resources"] = text }
}

func withoutQuota(q *v1beta1.Queue) { q.Annotations = nil }

// withCapabilities sets all CPU and memory that a queue may use, nil for nothing.
func withCapabilities(list corev1.ResourceList) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Spec.Capability = list }
}

// TestWhatAQueueAllows: a Queue with a quota allows those cards, and the CPU and memory of its capability, 0 where it
// has none and unlimited.resources does not name it. A Queue without a quota follows unmanagedQueues. Enforce allows no cards, Ignore any, and Deny only the
// CPU and memory of the capability. With Enforce and Ignore a capability that is missing, 0 or negative is no limit.
// Queue root follows unmanagedQueues, too, as if it had neither quota nor capability; Deny gives it nothing. newQueue
// has a capability of 4 CPU and 4 Gi. Rows without a mode are the same in all three. The observer, a second
// implementation of the rules from the documents alone, agrees with each row.
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

	invalidList := func(says ...string) []string {
		return append([]string{ReasonInvalidQuota, " has an invalid volcano.sh/unlimited.resources: "}, says...)
	}

	long := withName(strings.Repeat("q", 253))
	some := card.Amount{Name: "H200", Count: 8}
	noCapability := withCapabilities(nil)

	anyCard := quota.Limits{AnyCard: true, MilliCPU: endless, Memory: endless}
	for t, tc := range check.Cases(t, map[string]struct {
		queue       *v1beta1.Queue
		mode        v1alpha1.UnmanagedQueues // "" for a queue that is the same in all three
		wantLimits  quota.Limits
		wantRefusal []string // the reason and texts of the refusal
	}{
		"8 H200 and the capability": {
			queue:      newQueue(`{"H200":8}`),
			wantLimits: limits(cpu, memory, some),
		},
		"0 H200 and the capability": {
			queue:      newQueue(`{"H200":0}`),
			wantLimits: limits(cpu, memory, card.Amount{Name: "H200"}),
		},
		"8 H200 without a capability: no CPU and memory": {
			queue:      newQueue(`{"H200":8}`, noCapability),
			wantLimits: limits(0, 0, some),
		},
		"8 H200 without a capability, and unlimited.resources names both: CPU and memory without a limit": {
			queue:      newQueue(`{"H200":8}`, noCapability, withUnlimited("cpu,memory")),
			wantLimits: limits(endless, endless, some),
		},
		"unlimited.resources names memory, after a space: CPU is 0": {
			queue:      newQueue(`{"H200":8}`, noCapability, withUnlimited(" memory")),
			wantLimits: limits(0, endless, some),
		},
		"unlimited.resources names CPU twice: memory is 0": {
			queue:      newQueue(`{"H200":8}`, noCapability, withUnlimited("cpu, cpu")),
			wantLimits: limits(endless, 0, some),
		},
		"the capability beside unlimited.resources counts, because it is the smaller limit": {
			queue:      newQueue(`{"H200":8}`, withUnlimited("cpu,memory")),
			wantLimits: limits(cpu, memory, some),
		},
		"a capability of 0 CPU beside unlimited.resources counts, too": {
			queue:      newQueue(`{}`, withCapabilities(builder.Resources("0", "")), withUnlimited("memory,cpu")),
			wantLimits: limits(0, endless),
		},
		"unlimited.resources names ephemeral-storage: nothing": {
			queue:       newQueue(`{"H200":8}`, noCapability, withUnlimited("cpu,ephemeral-storage")),
			wantLimits:  quota.Limits{},
			wantRefusal: invalidList("Queue <q>", `"ephemeral-storage" is neither cpu nor memory`),
		},
		"unlimited.resources misspells memory: nothing, not even the capability": {
			queue:       newQueue(`{"H200":8}`, withUnlimited("cpu,Memory")),
			wantLimits:  quota.Limits{},
			wantRefusal: invalidList(`"Memory" is neither cpu nor memory: write it like cpu,memory`),
		},
		"unlimited.resources without text: nothing": {
			queue:       newQueue(`{"H200":8}`, withUnlimited("")),
			wantLimits:  quota.Limits{},
			wantRefusal: invalidList(`"" is neither cpu nor memory`),
		},
		"no quota, no capability, Deny: nothing, because unlimited.resources counts beside a quota only": {
			queue:      newQueue("", withoutQuota, noCapability, func(q *v1beta1.Queue) { q.Annotations = map[string]string{} }, withUnlimited("cpu,memory")),
			mode:       v1alpha1.UnmanagedDeny,
			wantLimits: limits(0, 0),
		},
		"an empty quota: no cards, and the capability": {
			queue:      newQueue(`{}`),
			wantLimits: limits(cpu, memory),
		},
		"no quota, no capability, Enforce: no cards, CPU and memory without a limit": {
			queue:      newQueue("", withoutQuota, noCapability),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(endless, endless),
		},
		"no quota, Enforce: no cards, and the capability": {
			queue:      newQueue("", withoutQuota),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(cpu, memory),
		},
		"no quota, no capability, Ignore: any card, CPU and memory without a limit": {
			queue:      newQueue("", withoutQuota, noCapability),
			mode:       v1alpha1.UnmanagedIgnore,
			wantLimits: anyCard,
		},
		"queue root, Enforce: its quota does not count, no cards": {
			queue:      newQueue(`{"H200":1}`, withName("root"), noCapability, inState("")),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(endless, endless),
		},
		"queue root, Ignore: any card": {
			queue:      newQueue(`{"H200":1}`, withName("root"), noCapability, inState("")),
			mode:       v1alpha1.UnmanagedIgnore,
			wantLimits: anyCard,
		},
		"queue root with an invalid quota, Enforce: no cards": {
			queue:      newQueue(`{`, withName("root")),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(endless, endless),
		},
		"no quota, no capability, Deny: nothing": {
			queue:      newQueue("", withoutQuota, noCapability),
			mode:       v1alpha1.UnmanagedDeny,
			wantLimits: limits(0, 0),
		},
		"no quota, Deny: only the capability": {
			queue:      newQueue("", withoutQuota),
			mode:       v1alpha1.UnmanagedDeny,
			wantLimits: limits(cpu, memory),
		},
		"no quota, 4 CPU and no memory, Deny: only 4 CPU": {
			queue:      newQueue("", withoutQuota, withCapabilities(builder.Resources("4", "0"))),
			mode:       v1alpha1.UnmanagedDeny,
			wantLimits: limits(cpu, 0),
		},
		"no quota, 8 GPUs in the capability, Deny: no cards": {
			queue:      newQueue("", withoutQuota, withCapability(gpu, "8")),
			mode:       v1alpha1.UnmanagedDeny,
			wantLimits: limits(cpu, memory),
		},
		"queue root with a quota, Deny: nothing": {
			queue:      newQueue(`{"H200":1}`, withName("root"), inState("")),
			mode:       v1alpha1.UnmanagedDeny,
			wantLimits: limits(0, 0),
		},

		// its state: a Queue that is being deleted, or else is not open, refuses, and its limits stay; root needs no state
		"closed": {
			queue:       newQueue(`{}`, inState("Closed")),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("Queue <q> is Closed, not Open"),
		},
		"closing": {
			queue:       newQueue(`{}`, inState("Closing")),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("Queue <q> is Closing, not Open"),
		},
		"no state yet": {
			queue:       newQueue(`{}`, inState("")),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("has no state yet"),
		},
		"state Unknown": {
			queue:       newQueue(`{}`, inState("Unknown")),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("Queue <q> is Unknown, not Open"),
		},
		"state open in small letters": {
			queue:       newQueue(`{}`, inState("open")),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("Queue <q> is open, not Open"),
		},
		"being deleted": {
			queue:       newQueue(`{"H200":8}`, beingDeleted),
			wantLimits:  limits(cpu, memory, some),
			wantRefusal: notOpen("Queue <q> is being deleted"),
		},
		"closed and being deleted": {
			queue:       newQueue(`{}`, inState("Closed"), beingDeleted),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("Queue <q> is being deleted"),
		},
		"no state yet, and being deleted": {
			queue:       newQueue(`{}`, inState(""), beingDeleted),
			wantLimits:  limits(cpu, memory),
			wantRefusal: notOpen("Queue <q> is being deleted"),
		},
		"queue root, being deleted, Ignore": {
			queue:       newQueue(`{}`, withName("root"), beingDeleted),
			mode:        v1alpha1.UnmanagedIgnore,
			wantLimits:  anyCard,
			wantRefusal: notOpen("Queue <root> is being deleted"),
		},
		"queue root, being deleted, Enforce": {
			queue:       newQueue(`{}`, withName("root"), beingDeleted),
			mode:        v1alpha1.UnmanagedEnforce,
			wantLimits:  limits(endless, endless),
			wantRefusal: notOpen("Queue <root> is being deleted"),
		},

		// its quota: one that is not valid refuses, whatever the state is, and leaves no limits in force
		"a quota of 1.5 cards": {
			queue:       newQueue(`{"H200":1.5}`),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid("Queue <q>", "write a whole number"),
		},
		"closed, and the quota is no JSON": {
			queue:       newQueue(`{"H200":`, inState("Closed")),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid("is not valid JSON"),
		},
		"being deleted, and the quota is no JSON object": {
			queue:       newQueue(`H200=8`, beingDeleted),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid("is not a JSON object"),
		},
		"a quota annotation without text": {
			queue:       newQueue(""),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid(`write it like {"NVIDIA-H200":8}`),
		},
		"a quota of 1 MiB": {
			queue:       newQueue(strings.Repeat("8", 1<<20)),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid("at most 65536 are read"),
		},
		"a long queue name, and a quota with 256 mistakes": {
			queue:       newQueue("{"+strings.Repeat(`"a b":1,`, 255)+`"a b":1}`, long),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid("more mistakes"),
		},
		"a long queue name, and a quota with many escapes": {
			queue:       newQueue("{\""+strings.Repeat(`\u0000`, 79)+"\":1}", long),
			wantLimits:  quota.Limits{},
			wantRefusal: invalid(`\x00`, "must be a label value"),
		},

		// its capability: parts of a unit are rounded up, and an amount beyond the largest number is no limit
		"1e30 CPU and memory: no limit": {
			queue:      newQueue(`{}`, withCapabilities(builder.Resources("1e30", "1e30"))),
			wantLimits: limits(endless, endless),
		},
		"-4 CPU: none": {
			queue:      newQueue(`{}`, withCapability("cpu", "-4")),
			wantLimits: limits(0, memory),
		},
		"-4 Gi of memory: none": {
			queue:      newQueue(`{}`, withCapability("memory", "-4Gi")),
			wantLimits: limits(cpu, 0),
		},
		"-1e31 CPU: none": {
			queue:      newQueue(`{}`, withCapability("cpu", "-10000000000000000000000000000000")),
			wantLimits: limits(0, memory),
		},
		"-1e31 of memory: none": {
			queue:      newQueue(`{}`, withCapability("memory", "-10000000000000000000000000000000")),
			wantLimits: limits(cpu, 0),
		},
		"8 Pi of memory": {
			queue:      newQueue(`{}`, withCapability("memory", "8Pi")),
			wantLimits: limits(cpu, 8<<50),
		},
		"0 CPU: none": {
			queue:      newQueue(`{}`, withCapability("cpu", "0")),
			wantLimits: limits(0, memory),
		},
		"half a CPU": {
			queue:      newQueue(`{}`, withCapability("cpu", "0.5")),
			wantLimits: limits(500, memory),
		},
		"a millionth of a CPU: rounded up to a thousandth": {
			queue:      newQueue(`{}`, withCapability("cpu", "1u")),
			wantLimits: limits(1, memory),
		},
		"1.5 bytes of memory: rounded up": {
			queue:      newQueue(`{}`, withCapability("memory", "1500m")),
			wantLimits: limits(cpu, 2),
		},
		"2^63-1 CPU: no limit": {
			queue:      newQueue(`{}`, withCapability("cpu", "9223372036854775807")),
			wantLimits: limits(endless, memory),
		},
		"8192 Pi of memory: no limit": {
			queue:      newQueue(`{}`, withCapability("memory", "8192Pi")),
			wantLimits: limits(cpu, endless),
		},
		"an empty quota, 8 GPUs in the capability: no cards": {
			queue:      newQueue(`{}`, withCapability(gpu, "8")),
			wantLimits: limits(cpu, memory),
		},
		"no quota, -4 CPU, Enforce: no limit of CPU": {
			queue:      newQueue("", withoutQuota, withCapability("cpu", "-4")),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(endless, memory),
		},
		"no quota, 0 memory, Enforce: no limit of memory": {
			queue:      newQueue("", withoutQuota, withCapability("memory", "0")),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(cpu, endless),
		},
		"no quota, 8 GPUs in the capability, Enforce: no cards": {
			queue:      newQueue("", withoutQuota, withCapability(gpu, "8")),
			mode:       v1alpha1.UnmanagedEnforce,
			wantLimits: limits(cpu, memory),
		},
	}) {
		modes := []v1alpha1.UnmanagedQueues{tc.mode}
		if tc.mode == "" {
			modes = []v1alpha1.UnmanagedQueues{v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny}
		}

		for _, mode := range modes {
			got := QueueRulesFor(tc.queue, mode, nil)
			expectLimitsOfObserver(t, tc.queue, mode, got)
			check.Equal(t, "limits", tc.wantLimits, got.Limits, cmpopts.EquateEmpty())
			if tc.wantRefusal == nil {
				check.Equal(t, "refusal", nil, got.Refusal)
			} else {
				expectRefusal(t, got.Refusal, tc.wantRefusal[0], tc.wantRefusal[1:]...)
			}
		}
	}
}

// TestAQueueHeldByTheOperatorSaysWhy: the operator holds a Queue whose CardQuota lost its path of parents to root,
// with a message. Its users cannot end that hold by a stop policy, so the refusal says that the operator holds it,
// also for queues below it. Any user may write the annotation, so its text is cut and cleaned. The scheduler resolves
// a tree again only if IsSameInTree is false for the rules of some queue. So it is false when the cause of a hold
// changes.
func TestAQueueHeldByTheOperatorSaysWhy(t *testing.T) {
	newHeldQueue := func(message string) *v1beta1.Queue {
		return newQueue(`{"H200":8}`, func(q *v1beta1.Queue) {
			q.Annotations[v1alpha1.AnnotationStopPolicy] = "Hold"
			if message != "" {
				q.Annotations[v1alpha1.AnnotationHoldMessage] = message
			}
		})
	}

	rules := QueueRulesFor(newHeldQueue("CardQuota q: no path"), "", nil)
	check.Says(t, rules.Refusal, "Queue <q> is held by the operator: nothing new starts in it; CardQuota q: no path")

	child := QueueRulesFor(newQueue(`{"H200":8}`, withName("child"), func(q *v1beta1.Queue) { q.Spec.Parent = "q" }), "", nil)
	resolved := quota.ResolveTree(map[string]quota.TreeQueue{"q": rules.Tree, "child": child.Tree})
	check.Says(t, child.InTree("child", resolved.Queue("child")).Refusal, "Queue <child> (its ancestor <q>) is held by the operator: nothing new "+
		"starts in it; CardQuota q: no path")

	// Without a message a stop policy of a user holds the queue.
	byUser := QueueRulesFor(newHeldQueue(""), "", nil)
	check.Says(t, byUser.Refusal, "Queue <q> is held by its stop policy")
	check.That(t, !rules.IsSameInTree(&byUser, resolved.Queue("q")), "IsSameInTree does not see the other cause of the hold")

	check.Says(t, QueueRulesFor(newHeldQueue("one\n\x1b[31mtwo\u202e"), "", nil).Refusal, "nothing new starts in it; one  [31mtwo ")

	longMessage := QueueRulesFor(newHeldQueue(strings.Repeat("x", 1<<20)), "", nil)
	check.That(t, len(longMessage.Refusal.Message()) < 1000, "the message has %d bytes", len(longMessage.Refusal.Message()))
}
