package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// choosing writes a selector of namespaces on a queue.
func choosing(selector string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Annotations["volcano.sh/namespace-selector"] = selector }
}

// TestWhichNamespacesMayUseAQueue is the part of the table that reads a Queue and
// a namespace.
func TestWhichNamespacesMayUseAQueue(t *testing.T) {
	chat := map[string]string{"kubernetes.io/metadata.name": "chat-1", "team": "chat", "stage": "test"}

	// The refused tenant reads it, so it leaves out which labels the queue wants.
	const leftOut = "Namespace <chat-1> may not use queue <q>: ask an administrator to allow it, or name another queue"
	for t, tc := range check.Cases(t, map[string]struct {
		selector string
		labels   map[string]string // of the namespace, nil for one that is not known
		want     string            // the refusal, "" when the namespace may
	}{
		"by a label": {
			selector: `{"matchLabels":{"team":"chat"}}`,
			labels:   chat,
		},
		"by its name": {
			selector: `{"matchLabels":{"kubernetes.io/metadata.name":"chat-1"}}`,
			labels:   chat,
		},
		"one of several names": {
			selector: `{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["lab","chat-1"]}]}`,
			labels:   chat,
		},
		"all that have a label": {
			selector: `{"matchExpressions":[{"key":"team","operator":"Exists"}]}`,
			labels:   chat,
		},
		"all that have not another": {
			selector: `{"matchExpressions":[{"key":"team","operator":"NotIn","values":["lab"]}]}`,
			labels:   chat,
		},
		"everything": {
			selector: `{}`,
			labels:   chat,
		},
		"everything, with white space": {
			selector: " { } ",
			labels:   chat,
		},
		"everything, written out": {
			selector: `{"matchLabels":{},"matchExpressions":[]}`,
			labels:   chat,
		},
		"everything, without a known namespace": {
			selector: `{}`,
		},
		"labels and expressions together": {
			selector: `{"matchLabels":{"team":"chat"},"matchExpressions":[{"key":"stage","operator":"NotIn","values":["live"]}]}`,
			labels:   chat,
		},
		"another value": {
			selector: `{"matchLabels":{"team":"lab"}}`,
			labels:   chat,
			want:     leftOut,
		},
		"another name": {
			selector: `{"matchLabels":{"kubernetes.io/metadata.name":"chat"}}`,
			labels:   chat,
			want:     leftOut,
		},
		"one label of two is not enough": {
			selector: `{"matchLabels":{"team":"chat","stage":"live"}}`,
			labels:   chat,
			want:     leftOut,
		},
		"a label that is there must not be": {
			selector: `{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}`,
			labels:   chat,
			want:     leftOut,
		},
		"a namespace without labels": {
			selector: `{"matchLabels":{"team":"chat"}}`,
			labels:   map[string]string{},
			want:     leftOut,
		},
		"case counts": {
			selector: `{"matchLabels":{"team":"Chat"}}`,
			labels:   chat,
			want:     leftOut,
		},
		"an unknown namespace": {
			selector: `{"matchLabels":{"team":"chat"}}`,
			want:     "Namespace <chat-1> is not known yet, and queue <q> is only for certain namespaces: wait, or name another queue",
		},
		"a namespace whose labels are unknown": {
			selector: `{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}`,
			want:     "Namespace <chat-1> is not known yet",
		},
	}) {
		q := tenant(`{"H200":8}`, choosing(tc.selector))
		selector, refusal := NamespaceSelectorFor(q)
		check.Equal(t, "refusal of the queue's rules", refusal, QueueRulesFor(q, v1alpha1.UnmanagedEnforce, nil).Refusal)
		check.Equal(t, "refusal of the selector", nil, refusal)

		var namespace *corev1.Namespace
		if tc.labels != nil {
			namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chat-1", Labels: tc.labels}}
		}

		if got := CheckNamespace("q", selector, "chat-1", namespace); tc.want == "" {
			check.Equal(t, "refusal", nil, got)
		} else {
			refused(t, got, ReasonNamespaceNotAllowed, tc.want)
		}
	}
}

// TestASelectorThatCannotBeRead: no namespace may use the queue, and it says what of
// the text is wrong.
func TestASelectorThatCannotBeRead(t *testing.T) {
	const invalid = "Queue <q> has an invalid volcano.sh/namespace-selector, so no namespace may use it: "
	for says, texts := range map[string][]string{
		"is not valid JSON":      {`{"matchLabels":{"team":"chat"`, `{}{}`},
		"null is no selector":    {`null`},
		"matchLabel":             {`{"matchLabel":{"team":"chat"}}`},
		"team":                   {`{"team":"chat"}`, `{"matchLabels":{"team":"lab","team":"chat"}}`},
		"matchLabels":            {`{"matchLabels":{"team":"chat"},"matchLabels":{}}`},
		"Like":                   {`{"matchExpressions":[{"key":"team","operator":"Like","values":["c*"]}]}`},
		"in":                     {`{"matchExpressions":[{"key":"team","operator":"in","values":["chat"]}]}`},
		"te am":                  {`{"matchLabels":{"te am":"chat"}}`},
		"chat!":                  {`{"matchLabels":{"team":"chat!"}}`},
		"at most 65536 are read": {`{"matchLabels":{"team":"` + strings.Repeat("c", 1<<20) + `"}}`},
		"values": {`{"matchExpressions":[{"key":"team","operator":"In"}]}`,
			`{"matchExpressions":[{"key":"team","operator":"Exists","values":["chat"]}]}`},
		`"team=chat" is not valid JSON: write it like {"matchLabels":{"team":"chat"}}`: {"team=chat"},
		"": {"", "matchLabels:\n  team: chat", `[]`, `"team=chat"`, "{\"matchLabels\":{\"team\":\"\\u0000\\u001b[31m\"}}", `{"":""}`,
			`{"matchLabels":{"team":"` + strings.Repeat("c", 5000) + `"}}`,
			strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)},
	} {
		for _, text := range texts {
			q := tenant(`{"H200":8}`, choosing(text))
			selector, refusal := NamespaceSelectorFor(q)
			refused(t, refusal, ReasonInvalidNamespaceSelector, invalid, says)

			check.Equal(t, "refusal of the queue's rules", refusal, QueueRulesFor(q, v1alpha1.UnmanagedEnforce, nil).Refusal)
			check.That(t, selector != nil && !selector.Matches(nil), "%.80s selects something", text)
		}
	}
}

func TestAQueueWithoutASelectorIsForAllNamespaces(t *testing.T) {
	selector, refusal := NamespaceSelectorFor(tenant(`{"H200":8}`))
	check.Must(t, selector == nil && refusal == nil, "selector %v, refusal %v", selector, refusal)
	if refusal := CheckNamespace("q", nil, "nowhere", nil); refusal != nil {
		t.Error(refusal)
	}
}

// A selector that cannot be read closes a queue of any kind, and takes nothing of
// its limits: what runs stays charged by them.
func TestAnUnreadableSelectorClosesAnyQueue(t *testing.T) {
	for name, q := range map[string]*v1beta1.Queue{
		"with a quota": tenant(`{"H200":8}`, choosing("?")),
		"without a quota": {
			ObjectMeta: metav1.ObjectMeta{Name: "q", Annotations: map[string]string{"volcano.sh/namespace-selector": "?"}},
			Status:     v1beta1.QueueStatus{State: "Open"},
		},
		"root":   tenant(`{}`, called("root"), choosing("?")),
		"closed": tenant(`{}`, in("Closed"), choosing("?")),
	} {
		for _, unmanaged := range []v1alpha1.UnmanagedQueues{v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny} {
			got := QueueRulesFor(q, unmanaged, nil)
			check.That(t, got.Refusal != nil && got.Refusal.Reason == ReasonInvalidNamespaceSelector, "%s: refusal %v", name, got.Refusal)

			delete(q.Annotations, "volcano.sh/namespace-selector")
			want := QueueRulesFor(q, unmanaged, nil).Limits
			check.That(t, got.Limits.MilliCPU == want.MilliCPU && len(got.Limits.Cards) == len(want.Cards),
				"%s: limits %+v, without the selector %+v", name, got.Limits, want)
			choosing("?")(q)
		}
	}
}

// FuzzNamespaceSelector: whatever the annotation says, a queue is refused to
// all namespaces, to one or to none, and a refusal is fit for an event.
func FuzzNamespaceSelector(f *testing.F) {
	for _, seed := range []string{`{}`, `{"matchLabels":{"team":"chat"}}`, `{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}`, `null`, `{"<<":{}}`, "{\"a\":\"\ufeff\"}", `[[[`} {
		f.Add(seed, "chat")
	}

	f.Fuzz(func(t *testing.T, text, label string) {
		selector, refusal := NamespaceSelectorFor(tenant(`{}`, choosing(text)))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": label}}}
		if refusal == nil {
			refusal = CheckNamespace("q", selector, "ns", namespace)
			unknown := CheckNamespace("q", selector, "ns", nil)
			check.Must(t, selector == nil || unknown != nil, "%q admits an unknown namespace", text)
		} else if selector.Matches(nil) {
			t.Fatalf("%q is refused and selects something", text)
		}
		check.Must(t, refusal == nil || check.FitsEvent(refusal.Message), "no event can hold %+v", refusal)
	})
}
