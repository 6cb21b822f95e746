package decision

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// choosing writes a selector of namespaces on a queue.
func choosing(selector string) func(*v1beta1.Queue) {
	return func(q *v1beta1.Queue) { q.Annotations["volcano.sh/namespace-selector"] = selector }
}

// TestWhichNamespacesMayUseAQueue is the part of the table that reads a Queue and
// a namespace.
func TestWhichNamespacesMayUseAQueue(t *testing.T) {
	chat := map[string]string{"kubernetes.io/metadata.name": "chat-1", "team": "chat", "stage": "test"}
	const invalid = "Queue <q> has an invalid volcano.sh/namespace-selector, so no namespace may use it: "
	leftOut := func(requirement string) string {
		return "Namespace <chat-1> may not use queue <q>, which is only for namespaces with <" + requirement + ">: have the namespace labelled so, or name a queue that is for it"
	}
	tests := map[string]struct {
		selector string
		labels   map[string]string // of the namespace, nil for one that is not known
		want     string            // the refusal, "" when the namespace may
	}{
		"by a label":                           {`{"matchLabels":{"team":"chat"}}`, chat, ""},
		"by its name":                          {`{"matchLabels":{"kubernetes.io/metadata.name":"chat-1"}}`, chat, ""},
		"one of several names":                 {`{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["lab","chat-1"]}]}`, chat, ""},
		"all that have a label":                {`{"matchExpressions":[{"key":"team","operator":"Exists"}]}`, chat, ""},
		"all that have not another":            {`{"matchExpressions":[{"key":"team","operator":"NotIn","values":["lab"]}]}`, chat, ""},
		"everything":                           {`{}`, chat, ""},
		"everything, with white space":         {" { } ", chat, ""},
		"everything, written out":              {`{"matchLabels":{},"matchExpressions":[]}`, chat, ""},
		"everything, and nobody knows it":      {`{}`, nil, ""},
		"labels and expressions together":      {`{"matchLabels":{"team":"chat"},"matchExpressions":[{"key":"stage","operator":"NotIn","values":["live"]}]}`, chat, ""},
		"another value":                        {`{"matchLabels":{"team":"lab"}}`, chat, leftOut("team=lab")},
		"another name":                         {`{"matchLabels":{"kubernetes.io/metadata.name":"chat"}}`, chat, leftOut("kubernetes.io/metadata.name=chat")},
		"one label of two is not enough":       {`{"matchLabels":{"team":"chat","stage":"live"}}`, chat, leftOut("stage=live,team=chat")},
		"a label that is there must not be":    {`{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}`, chat, leftOut("!team")},
		"a namespace without labels":           {`{"matchLabels":{"team":"chat"}}`, map[string]string{}, leftOut("team=chat")},
		"case counts":                          {`{"matchLabels":{"team":"Chat"}}`, chat, leftOut("team=Chat")},
		"a namespace that nobody knows":        {`{"matchLabels":{"team":"chat"}}`, nil, "Namespace <chat-1> is not known yet, and queue <q> is only for namespaces with <team=chat>: wait, or name another queue"},
		"nobody knows whether it has no label": {`{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}`, nil, "Namespace <chat-1> is not known yet"},

		"empty":                            {"", chat, invalid},
		"no JSON":                          {"team=chat", chat, invalid + `"team=chat" is not valid JSON: write it like {"matchLabels":{"team":"chat"}}`},
		"YAML":                             {"matchLabels:\n  team: chat", chat, invalid},
		"cut off":                          {`{"matchLabels":{"team":"chat"`, chat, "is not valid JSON"},
		"going on":                         {`{}{}`, chat, "is not valid JSON"},
		"null":                             {`null`, chat, "null is no selector"},
		"a list":                           {`[]`, chat, invalid},
		"a string":                         {`"team=chat"`, chat, invalid},
		"a misspelt field":                 {`{"matchLabel":{"team":"chat"}}`, chat, "matchLabel"},
		"the labels alone":                 {`{"team":"chat"}`, chat, "team"},
		"a field twice":                    {`{"matchLabels":{"team":"chat"},"matchLabels":{}}`, chat, "matchLabels"},
		"a label twice":                    {`{"matchLabels":{"team":"lab","team":"chat"}}`, chat, "team"},
		"an operator of another kind":      {`{"matchExpressions":[{"key":"team","operator":"Like","values":["c*"]}]}`, chat, "Like"},
		"an operator in small letters":     {`{"matchExpressions":[{"key":"team","operator":"in","values":["chat"]}]}`, chat, "in"},
		"In without values":                {`{"matchExpressions":[{"key":"team","operator":"In"}]}`, chat, "values"},
		"Exists with values":               {`{"matchExpressions":[{"key":"team","operator":"Exists","values":["chat"]}]}`, chat, "values"},
		"a key that is none":               {`{"matchLabels":{"te am":"chat"}}`, chat, "te am"},
		"a value that is none":             {`{"matchLabels":{"team":"chat!"}}`, chat, "chat!"},
		"a value of control characters":    {"{\"matchLabels\":{\"team\":\"\\u0000\\u001b[31m\"}}", chat, invalid},
		"a long value":                     {`{"matchLabels":{"team":"` + strings.Repeat("c", 5000) + `"}}`, chat, invalid},
		"a field called by no name at all": {`{"":""}`, chat, invalid},
		"a text of 1 MiB":                  {`{"matchLabels":{"team":"` + strings.Repeat("c", 1<<20) + `"}}`, chat, "at most 65536 are read"},
		"very deep":                        {strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000), chat, invalid},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := tenant(`{"H200":8}`, choosing(tc.selector))
			selector, refusal := NamespaceSelectorOf(q)
			if rules := RulesOf(q, Enforce); (refusal == nil) != (rules.Refusal == nil) || refusal != nil && *rules.Refusal != *refusal {
				t.Errorf("the queue's rules say %v, its selector %v", rules.Refusal, refusal)
			}
			wantReason := ReasonInvalidNamespaceSelector
			if refusal == nil {
				var namespace *corev1.Namespace
				if tc.labels != nil {
					namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chat-1", Labels: tc.labels}}
				}
				refusal, wantReason = MayUse("q", selector, "chat-1", namespace), ReasonNamespaceNotAllowed
			} else if selector == nil || selector.Matches(nil) {
				t.Error("a selector that cannot be read selects something")
			}
			if (refusal == nil) != (tc.want == "") {
				t.Fatalf("refused %v, want %q", refusal, tc.want)
			}
			if refusal != nil && (!strings.Contains(refusal.Message, tc.want) || refusal.Reason != wantReason || !tellable(refusal.Message)) {
				t.Errorf("refused by %+v, want %s: …%s…", refusal, wantReason, tc.want)
			}
		})
	}
}

func TestAQueueWithoutASelectorIsForEverybody(t *testing.T) {
	selector, refusal := NamespaceSelectorOf(tenant(`{"H200":8}`))
	if selector != nil || refusal != nil {
		t.Fatalf("selector %v, refusal %v", selector, refusal)
	}
	if refusal := MayUse("q", nil, "nowhere", nil); refusal != nil {
		t.Error(refusal)
	}
}

// A selector that cannot be read closes a queue of any kind, and takes nothing of
// its limits: what runs stays charged by them.
func TestAnUnreadableSelectorClosesAnyQueue(t *testing.T) {
	for name, q := range map[string]*v1beta1.Queue{
		"with a quota":    tenant(`{"H200":8}`, choosing("?")),
		"without a quota": {ObjectMeta: metav1.ObjectMeta{Name: "q", Annotations: map[string]string{"volcano.sh/namespace-selector": "?"}}, Status: v1beta1.QueueStatus{State: "Open"}},
		"root":            tenant(`{}`, called("root"), choosing("?")),
		"closed":          tenant(`{}`, in("Closed"), choosing("?")),
	} {
		for _, unmanaged := range []Unmanaged{Enforce, Ignore} {
			got := RulesOf(q, unmanaged)
			if got.Refusal == nil || got.Refusal.Reason != ReasonInvalidNamespaceSelector {
				t.Errorf("%s: refusal %v", name, got.Refusal)
			}
			delete(q.Annotations, "volcano.sh/namespace-selector")
			if want := RulesOf(q, unmanaged).Limits; got.Limits.MilliCPU != want.MilliCPU || len(got.Limits.Cards) != len(want.Cards) {
				t.Errorf("%s: limits %+v, without the selector %+v", name, got.Limits, want)
			}
			choosing("?")(q)
		}
	}
}

// FuzzNamespaceSelector: whatever the annotation says, a queue is refused to
// everybody, or a namespace is, or nobody; and a refusal is fit for an event.
func FuzzNamespaceSelector(f *testing.F) {
	for _, seed := range []string{`{}`, `{"matchLabels":{"team":"chat"}}`, `{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}`, `null`, `{"<<":{}}`, "{\"a\":\"\ufeff\"}", `[[[`} {
		f.Add(seed, "chat")
	}
	f.Fuzz(func(t *testing.T, text, label string) {
		selector, refusal := NamespaceSelectorOf(tenant(`{}`, choosing(text)))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": label}}}
		if refusal == nil {
			refusal = MayUse("q", selector, "ns", namespace)
			if unknown := MayUse("q", selector, "ns", nil); selector != nil && unknown == nil {
				t.Fatalf("%q lets a namespace in that nobody knows", text)
			}
		} else if selector.Matches(nil) {
			t.Fatalf("%q is refused and selects something", text)
		}
		if refusal != nil && !tellable(refusal.Message) {
			t.Fatalf("no event can hold %q", refusal.Message)
		}
	})
}
