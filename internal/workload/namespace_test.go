package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// withNamespaceSelector writes the annotation that selects the namespaces of a queue.
func withNamespaceSelector(selector string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Annotations["volcano.sh/namespace-selector"] = selector }
}

// TestWhichNamespacesMayUseAQueue: the annotation namespace-selector of a Queue says which namespaces may use it, by
// their labels. Namespace chat-1 has team=chat and stage=test. If a namespace may not use the queue, the refusal does
// not say which labels the queue wants, because a tenant without access reads it. A namespace that the scheduler does
// not know yet waits, unless the queue takes all namespaces. The name of a row says what the selector requires.
func TestWhichNamespacesMayUseAQueue(t *testing.T) {
	chat := map[string]string{"kubernetes.io/metadata.name": "chat-1", "team": "chat", "stage": "test"}

	const notAllowed = "Namespace <chat-1> may not use queue <q>: ask an administrator to allow it, or name another queue"
	for t, tc := range check.Cases(t, map[string]struct {
		selector string
		labels   map[string]string // of the namespace, nil for one that is not known
		want     string            // the refusal, "" when the namespace may
	}{
		"team is chat": {
			selector: `{"matchLabels":{"team":"chat"}}`,
			labels:   chat,
		},
		"the name is chat-1": {
			selector: `{"matchLabels":{"kubernetes.io/metadata.name":"chat-1"}}`,
			labels:   chat,
		},
		"the name is lab or chat-1": {
			selector: `{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["lab","chat-1"]}]}`,
			labels:   chat,
		},
		"team exists": {
			selector: `{"matchExpressions":[{"key":"team","operator":"Exists"}]}`,
			labels:   chat,
		},
		"team is not lab": {
			selector: `{"matchExpressions":[{"key":"team","operator":"NotIn","values":["lab"]}]}`,
			labels:   chat,
		},
		"all namespaces": {
			selector: `{}`,
			labels:   chat,
		},
		"all namespaces, with white space": {
			selector: " { } ",
			labels:   chat,
		},
		"all namespaces, with empty lists": {
			selector: `{"matchLabels":{},"matchExpressions":[]}`,
			labels:   chat,
		},
		"all namespaces, and the namespace is not known": {
			selector: `{}`,
		},
		"team is chat, and stage is not live": {
			selector: `{"matchLabels":{"team":"chat"},"matchExpressions":[{"key":"stage","operator":"NotIn","values":["live"]}]}`,
			labels:   chat,
		},
		"team is lab: refused": {
			selector: `{"matchLabels":{"team":"lab"}}`,
			labels:   chat,
			want:     notAllowed,
		},
		"the name is chat: refused": {
			selector: `{"matchLabels":{"kubernetes.io/metadata.name":"chat"}}`,
			labels:   chat,
			want:     notAllowed,
		},
		"team is chat, and stage is live: refused": {
			selector: `{"matchLabels":{"team":"chat","stage":"live"}}`,
			labels:   chat,
			want:     notAllowed,
		},
		"team does not exist: refused": {
			selector: `{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}`,
			labels:   chat,
			want:     notAllowed,
		},
		"team is chat, and the namespace has no labels: refused": {
			selector: `{"matchLabels":{"team":"chat"}}`,
			labels:   map[string]string{},
			want:     notAllowed,
		},
		"team is Chat: refused": {
			selector: `{"matchLabels":{"team":"Chat"}}`,
			labels:   chat,
			want:     notAllowed,
		},
		"team is chat, and the namespace is not known: waits": {
			selector: `{"matchLabels":{"team":"chat"}}`,
			want:     "Namespace <chat-1> is not known yet, and queue <q> is only for certain namespaces: wait, or name another queue",
		},
		"team does not exist, and the namespace is not known: waits": {
			selector: `{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}`,
			want:     "Namespace <chat-1> is not known yet, and queue <q> is only for certain namespaces: wait, or name another queue",
		},
	}) {
		queue := newQueue(`{"H200":8}`, withNamespaceSelector(tc.selector))
		selector, refusal := NamespaceSelectorFor(queue)
		check.Equal(t, "refusal of the queue's rules", refusal, QueueRulesFor(queue, v1alpha1.UnmanagedEnforce, nil).Refusal)
		check.Equal(t, "refusal of the selector", nil, refusal)

		var namespace *corev1.Namespace
		if tc.labels != nil {
			namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chat-1", Labels: tc.labels}}
		}

		if got := CheckNamespace("q", selector, "chat-1", namespace); tc.want == "" {
			check.Equal(t, "refusal", nil, got)
		} else {
			expectRefusal(t, got, ReasonNamespaceNotAllowed)
			check.Equal(t, "the whole message", tc.want, got.Message())
		}
	}
}

// TestASelectorThatCannotBeRead: a selector that is not valid selects no namespace, so that no tenant gets in by a
// mistake. The refusal says what of the text is wrong. The keys of the table are parts of it, with quotes escaped.
func TestASelectorThatCannotBeRead(t *testing.T) {
	const invalid = "Queue <q> has an invalid volcano.sh/namespace-selector, so no namespace may use it: "
	for part, texts := range map[string][]string{
		`is not valid JSON: write it like {"matchLabels":{"team":"chat"}}`: {
			`{"matchLabels":{"team":"chat"`, `{}{}`, "", "matchLabels:\n  team: chat",
		},
		`"team=chat" is not valid JSON`:   {"team=chat"},
		"null is no selector":             {`null`},
		"json: cannot unmarshal array":    {`[]`},
		"json: cannot unmarshal string":   {`"team=chat"`},
		`unknown field \"matchLabel\"`:    {`{"matchLabel":{"team":"chat"}}`},
		`unknown field \"team\"`:          {`{"team":"chat"}`},
		`unknown field \"\"`:              {`{"":""}`},
		`unknown field \"a\"`:             {strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)},
		`key \"team\" already set in map`: {`{"matchLabels":{"team":"lab","team":"chat"}}`},
		`key \"matchLabels\" already set`: {`{"matchLabels":{"team":"chat"},"matchLabels":{}}`},
		`\"Like\" is not a valid label selector operator`: {
			`{"matchExpressions":[{"key":"team","operator":"Like","values":["c*"]}]}`,
		},
		`\"in\" is not a valid label selector operator`: {
			`{"matchExpressions":[{"key":"team","operator":"in","values":["chat"]}]}`,
		},
		`values set can't be empty`:              {`{"matchExpressions":[{"key":"team","operator":"In"}]}`},
		`values set must be empty for exists`:    {`{"matchExpressions":[{"key":"team","operator":"Exists","values":["chat"]}]}`},
		`\"te am\": name part must consist of`:   {`{"matchLabels":{"te am":"chat"}}`},
		`\"chat!\": a valid label must`:          {`{"matchLabels":{"team":"chat!"}}`},
		`\"\\x00\\x1b[31m\": a valid label must`: {"{\"matchLabels\":{\"team\":\"\\u0000\\u001b[31m\"}}"},
		`values[0][team]: Invalid value: \"ccc`:  {`{"matchLabels":{"team":"` + strings.Repeat("c", 5000) + `"}}`},
		"at most 65536 are read":                 {`{"matchLabels":{"team":"` + strings.Repeat("c", 1<<20) + `"}}`},
	} {
		for _, text := range texts {
			queue := newQueue(`{"H200":8}`, withNamespaceSelector(text))
			selector, refusal := NamespaceSelectorFor(queue)
			expectRefusal(t, refusal, ReasonInvalidNamespaceSelector, invalid, part)

			check.Equal(t, "refusal of the queue's rules", refusal, QueueRulesFor(queue, v1alpha1.UnmanagedEnforce, nil).Refusal)
			check.Equal(t, "selector of "+part, labels.Nothing(), selector)
		}
	}
}

// TestAQueueWithoutASelectorIsForAllNamespaces: most queues have no selector. Then any namespace may use the queue,
// also one that is not known yet.
func TestAQueueWithoutASelectorIsForAllNamespaces(t *testing.T) {
	selector, refusal := NamespaceSelectorFor(newQueue(`{"H200":8}`))
	check.Must(t, selector == nil && refusal == nil, "selector %v, refusal %v", selector, refusal)
	check.Equal(t, "refusal of an unknown namespace", nil, CheckNamespace("q", nil, "nowhere", nil))
}

// TestAnUnreadableSelectorClosesAnyQueue: a selector that is not valid closes a queue with or without a quota, root,
// and a closed one, whatever unmanagedQueues says. Its limit of CPU and its number of cards with a quota stay as
// without the selector, because running pods are charged by them.
func TestAnUnreadableSelectorClosesAnyQueue(t *testing.T) {
	for name, q := range map[string]*v1beta1.Queue{
		"with a quota": newQueue(`{"H200":8}`, withNamespaceSelector("?")),
		"without a quota": {
			ObjectMeta: metav1.ObjectMeta{Name: "q", Annotations: map[string]string{"volcano.sh/namespace-selector": "?"}},
			Status:     v1beta1.QueueStatus{State: "Open"},
		},
		"root":   newQueue(`{}`, withName("root"), withNamespaceSelector("?")),
		"closed": newQueue(`{}`, inState("Closed"), withNamespaceSelector("?")),
	} {
		for _, unmanaged := range []v1alpha1.UnmanagedQueues{v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny} {
			got := QueueRulesFor(q, unmanaged, nil)
			check.That(t, got.Refusal != nil && got.Refusal.Reason() == ReasonInvalidNamespaceSelector, "%s: refusal %v", name, got.Refusal)

			delete(q.Annotations, "volcano.sh/namespace-selector")
			want := QueueRulesFor(q, unmanaged, nil).Limits
			check.That(t, got.Limits.MilliCPU == want.MilliCPU && len(got.Limits.Cards) == len(want.Cards),
				"%s: limits %+v, without the selector %+v", name, got.Limits, want)
			withNamespaceSelector("?")(q)
		}
	}
}

// FuzzNamespaceSelector: an annotation with any text is refused or valid. One that is refused selects nothing. A
// valid one refuses a namespace that is not known exactly if it does not select all namespaces, for which the
// selector is nil. Each message fits an event.
func FuzzNamespaceSelector(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"matchLabels":{"team":"chat"}}`, `{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}`, `null`,
		`{"<<":{}}`, "{\"a\":\"\ufeff\"}", `[[[`,
	} {
		f.Add(seed, "chat")
	}

	f.Fuzz(func(t *testing.T, text, label string) {
		selector, refusal := NamespaceSelectorFor(newQueue(`{}`, withNamespaceSelector(text)))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": label}}}
		if refusal == nil {
			refusal = CheckNamespace("q", selector, "ns", namespace)
			unknown := CheckNamespace("q", selector, "ns", nil)
			check.Must(t, (selector == nil) == (unknown == nil), "%q selects %v, and an unknown namespace gets %v", text, selector, unknown)
		} else {
			check.Must(t, !selector.Matches(nil), "%q is refused and selects something", text)
		}
		check.Must(t, refusal == nil || check.FitsEvent(refusal.Message()), "no event can have %+v", refusal)
	})
}
