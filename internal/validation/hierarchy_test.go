package validation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	h200   = "NVIDIA-H200"
	slice7 = "NVIDIA-H200/mig-1g.18gb-mixed"
)

type change = func(*v1alpha1.CardQuota)

// newTreeQuota returns a CardQuota of a tree; a parent has no service type. Each card is "name quota deserved guarantee",
// where - leaves an amount out.
func newTreeQuota(name, parent, serviceType string, cards []string, changes ...change) *v1alpha1.CardQuota {
	b := builder.CardQuota(name).Tenant(name).ServiceType(serviceType)
	b.With(func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{}
		q.Spec.Parent = parent
		q.Spec.Cards = nil

		for _, text := range cards {
			words := strings.Fields(text)
			c := v1alpha1.Card{Name: words[0]}
			for i, into := range []**int64{&c.Quota, &c.Deserved, &c.Guarantee} {
				var n int64
				if i+1 < len(words) && words[i+1] != "-" {
					if _, err := fmt.Sscan(words[i+1], &n); err != nil {
						panic(err)
					}
					*into = &n
				}
			}

			q.Spec.Cards = append(q.Spec.Cards, c)
		}
	})

	for _, change := range changes {
		b.With(change)
	}

	return b.Obj()
}

func withCPU(limit, deserved, guarantee string) change {
	return func(q *v1alpha1.CardQuota) {
		amount := func(text string) *v1alpha1.ResourceAmounts {
			if text == "" {
				return nil
			}
			return &v1alpha1.ResourceAmounts{CPU: ptr.To(resource.MustParse(text))}
		}

		q.Spec.Resources = &v1alpha1.Resources{Deserved: amount(deserved), Guarantee: amount(guarantee)}
		if limit != "" {
			q.Spec.Resources.CPU = ptr.To(resource.MustParse(limit))
		}
	}
}

func selectingTeam(name string) change {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
}

func withPriority(n int32) change { return func(q *v1alpha1.CardQuota) { q.Spec.Priority = &n } }

func withServiceType(name string) change {
	return func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = name }
}

func withQueue(name string) change {
	return func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name }
}

// deserving changes how many of its first card a queue deserves.
func deserving(n int64) change { return func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = &n } }

func setNoSelector(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = nil }

// setProject is any other change.
func setProject(q *v1alpha1.CardQuota) { q.Spec.Project = "p" }

func setDeleting(q *v1alpha1.CardQuota) {
	q.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
}

var (
	treePolicy = &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: v1alpha1.QueueHierarchyTree}}
	flatPolicy = &v1alpha1.ServiceTypePolicy{}
)

// newChat returns the parent chat with a quota of 8 H200, of which it deserves 6 and is guaranteed 2. newSearch returns its
// child search, which deserves 4 and is guaranteed 1. newAds returns its child ads with a card.
func newChat(changes ...change) *v1alpha1.CardQuota {
	return newTreeQuota("chat", "", "", []string{h200 + " 8 6 2"}, changes...)
}

func newSearch(changes ...change) *v1alpha1.CardQuota {
	return newTreeQuota("search", "chat", "inference", []string{h200 + " 8 4 1"}, changes...)
}

func newAds(cards string, changes ...change) *v1alpha1.CardQuota {
	return newTreeQuota("ads", "chat", "training", []string{cards}, changes...)
}

// chain returns q1 at the top level, q2 below it and so on.
func chain(n int) (all []*v1alpha1.CardQuota) {
	parent := ""
	for i := range n {
		name := fmt.Sprint("q", i+1)
		all = append(all, newTreeQuota(name, parent, "", nil))
		parent = name
	}
	return all
}

func newQueueWithPods(name string, pods string) []*v1beta1.Queue {
	return []*v1beta1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1beta1.QueueStatus{Allocated: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}}}}
}

type quotas = []*v1alpha1.CardQuota

// treeCase is a validation of one CardQuota in a tree.
type treeCase struct {
	quota, before            *v1alpha1.CardQuota // before is nil for a new one
	all                      quotas              // the other CardQuotas
	queues                   []*v1beta1.Queue
	wantRefusal, wantWarning string // the only ones, "" for none
}

// checkTreeCases validates the CardQuota of each case. Nodes have 16 H200, 7 of its slices, and 8 H800.
func checkTreeCases(t *testing.T, cases map[string]treeCase) {
	healthy := map[card.Name]card.Count{h200: 16, slice7: 7, "NVIDIA-H800": 8}
	for t, tc := range check.Cases(t, cases) {
		input := CardQuotaInput{All: tc.all, Policy: treePolicy, Queues: tc.queues, Healthy: healthy}
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, input), tc.wantRefusal, tc.wantWarning)
	}
}

// TestTheOrderOfCreationDoesNotMatter: users apply a directory of CardQuotas in any order. Of three CardQuotas that
// do not fit together, at least one is refused in every order. Of three that fit, none is refused in any order.
// Parent chat has 8 H200, deserves 6 and is guaranteed 2; its child search deserves 4 and is guaranteed 1. Child ads
// has the cards of the row, written "name quota deserved guarantee". newTreeQuota takes name, parent, service type, cards.
func TestTheOrderOfCreationDoesNotMatter(t *testing.T) {
	for name, tc := range map[string]struct {
		quotas  quotas
		refused bool
	}{
		"valid: all are accepted":                       {quotas{newChat(), newSearch(), newAds(h200 + " 8 2 1")}, false},
		"a child of 9, the parent has 8: refused":       {quotas{newChat(), newSearch(), newAds(h200 + " 9 2 1")}, true},
		"children deserve 4 + 3, the parent 6: refused": {quotas{newChat(), newSearch(), newAds(h200 + " 8 3 1")}, true},
		"three CardQuotas that name each other: refused": {
			quotas:  quotas{newTreeQuota("a", "b", "", nil), newTreeQuota("b", "c", "", nil), newTreeQuota("c", "a", "", nil)},
			refused: true,
		},
		"a parent with a service type: refused": {
			quotas:  quotas{newChat(withServiceType("training")), newSearch(), newAds(h200 + " 8 2 1")},
			refused: true,
		},
		"a grandchild of 9 below an inherited quota of 8: refused": {
			quotas:  quotas{newChat(), newTreeQuota("search", "chat", "", []string{h200 + " - 4"}), newTreeQuota("x", "search", "training", []string{h200 + " 9 4"})},
			refused: true,
		},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var all quotas
			refused := false
			for _, i := range order {
				result := ValidateCardQuota(tc.quotas[i], nil, CardQuotaInput{All: all, Policy: treePolicy, Healthy: map[card.Name]card.Count{h200: 16}})
				refused = refused || len(result.Errors) > 0
				all = append(all, tc.quotas[i]) // even if it was refused
			}

			check.That(t, refused == tc.refused, "%s in order %v: refused %v, want %v", name, order, refused, tc.refused)
		}
	}
}

// TestFieldsOfATreeHaveNoEffectWhileQueuesAreFlat: while the policy says that queues are flat, the webhook warns of
// fields that only a tree uses: parent, deserved and guarantee. What only a tree allows is refused: a card without a
// quota, and a CardQuota without a service type. A fault from before the change gets only a warning. newTreeQuota takes
// name, parent, service type and cards. Cards are written "name quota deserved guarantee"; "-" is no quota.
func TestFieldsOfATreeHaveNoEffectWhileQueuesAreFlat(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, before            *v1alpha1.CardQuota
		all                      quotas
		wantRefusal, wantWarning string
	}{
		"a parent, deserved and guarantee": {
			quota:       newSearch(),
			wantWarning: "spec: parent, cards[].deserved, cards[].guarantee: unused while queueHierarchy of the ServiceTypePolicy is Flat; set it to Tree",
		},
		"a quota of 9, the parent's is 8: only the unused parent is warned of": {
			quota:       newAds(h200 + " 9"),
			all:         quotas{newChat()},
			wantWarning: "spec: parent: unused",
		},
		"a card without a quota: refused": {
			quota:       newTreeQuota("a", "", "training", []string{h200 + " - 2"}),
			wantRefusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is not set: only a child in a tree of quotas inherits one, and queueHierarchy of the ServiceTypePolicy is Flat: write it",
			wantWarning: "unused",
		},
		"no service type: refused": {
			quota:       newTreeQuota("a", "", "", []string{h200 + " 2"}),
			wantRefusal: "spec.serviceType: Forbidden: is not set: only a parent in a tree of quotas has none",
		},
		"another change, no service type before": {
			quota:       newTreeQuota("a", "", "", []string{h200 + " 3"}),
			before:      newTreeQuota("a", "", "", []string{h200 + " 2"}),
			wantWarning: "as before: spec.serviceType",
		},
		"the service type is removed: refused": {
			quota:       newTreeQuota("a", "", "", []string{h200 + " 2"}),
			before:      newTreeQuota("a", "", "training", []string{h200 + " 2"}),
			wantRefusal: "spec.serviceType",
		},
	}) {
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: flatPolicy, Healthy: map[card.Name]card.Count{h200: 16}}), tc.wantRefusal, tc.wantWarning)
	}
}

// TestPriorityOfACardQuotaStaysBelowTheNextServiceType: the priority of a queue is that of its service type plus that
// of its CardQuota. Type low has priority 100, type high 105, and the built-in type training 20,000. So a CardQuota of
// type low may write at most 4: with 5 its queue would be among those of the next type. A change is refused only if it
// makes that worse. The cards of all rows are 2 H200.
func TestPriorityOfACardQuotaStaysBelowTheNextServiceType(t *testing.T) {
	policy := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "low", Priority: 100}, {Name: "high", Priority: 105}}}}
	low := func(changes ...change) *v1alpha1.CardQuota {
		return newTreeQuota("a", "", "low", []string{h200 + " 2"}, changes...)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, before            *v1alpha1.CardQuota
		wantRefusal, wantWarning string
	}{
		"priority 4 of type low, 100 + 4": {quota: low(withPriority(4))},
		"priority 5 of type low, 100 + 5: refused": {
			quota:       low(withPriority(5)),
			wantRefusal: "spec.priority: Forbidden: service type low has priority 100, so its queues may have up to 104, and service type high begins at 105: write at most 4",
		},
		"priority 5 instead of 6": {
			quota:       low(withPriority(5)),
			before:      low(withPriority(6)),
			wantWarning: "as before: spec.priority",
		},
		"priority 7 instead of 6: refused": {
			quota:       low(withPriority(7)),
			before:      low(withPriority(6)),
			wantRefusal: "spec.priority",
		},
		"priority 9999 of type training, 20,000 + 9999, below the built-in inference with 80,000": {
			quota: newTreeQuota("a", "", "training", []string{h200 + " 2"}, withPriority(9999)),
		},
		"priority 9999 of type high, 105 + 9999": {quota: newTreeQuota("a", "", "high", []string{h200 + " 2"}, withPriority(9999))},
	}) {
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{Policy: policy, Healthy: map[card.Name]card.Count{h200: 16}}), tc.wantRefusal, tc.wantWarning)
	}
}

// TestOnlyTopLevelQuotasCountAsGranted: the nodes have 8 H200, and parent chat has a quota of 8. What its children
// have is part of that: search with 8, even with overAllocation Deny, and a Queue with 4 that has no CardQuota. A
// further CardQuota at the top level grants a ninth card.
func TestOnlyTopLevelQuotasCountAsGranted(t *testing.T) {
	withOverAllocation := func(policy v1alpha1.OverAllocation) change {
		return func(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = policy }
	}

	withoutCardQuota := builder.Queue("by-hand").Quota(`{"NVIDIA-H200":4}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":0}`).Parent("chat").Obj()
	input := CardQuotaInput{
		All:     quotas{newChat()},
		Policy:  treePolicy,
		Healthy: map[card.Name]card.Count{h200: 8},
		Queues:  []*v1beta1.Queue{withoutCardQuota},
	}

	child := newSearch(withOverAllocation(v1alpha1.OverAllocationDeny))
	checkAnswer(t, ValidateCardQuota(child, nil, input), "", "") // neither a refusal nor a warning
	topLevel := newTreeQuota("a", "", "training", []string{h200 + " 1"}, withOverAllocation(v1alpha1.OverAllocationWarn))
	checkAnswer(t, ValidateCardQuota(topLevel, nil, input), "", "9 granted, 8 healthy, 1 too many (1 here, 8 by chat)")
}

// TestDeletionOfAParentWarnsOfItsChildren: the user who deletes the CardQuota of a parent reads which children it has. The
// operator keeps the queue of the parent until the queues of its children are gone. With deletionPolicy Retain the queue
// stays without an owner. Children that are being deleted too do not count. While queues are flat, there are no parents.
func TestDeletionOfAParentWarnsOfItsChildren(t *testing.T) {
	setRetain := func(q *v1alpha1.CardQuota) { q.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }
	withChildren := quotas{newChat(), newSearch(), newAds(h200 + " 1 1")}
	withDeletedChild := quotas{newChat(), newSearch(setDeleting)}

	for t, tc := range check.Cases(t, map[string]struct {
		quota       *v1alpha1.CardQuota
		all         quotas
		policy      *v1alpha1.ServiceTypePolicy
		wantWarning string
	}{
		"two children": {
			quota: newChat(), all: withChildren, policy: treePolicy,
			wantWarning: "metadata.name: it is the parent of ads, search; queue chat keeps its quota until their queues are gone",
		},
		"two children, deletionPolicy Retain, which leaves the queue without an owner": {
			quota: newChat(setRetain), all: withChildren, policy: treePolicy,
			wantWarning: "without it nothing new starts in them",
		},
		"a child that is being deleted too": {quota: newChat(), all: withDeletedChild, policy: treePolicy},
		"two children, queues are flat":     {quota: newChat(), all: withChildren, policy: flatPolicy},
	}) {
		checkAnswer(t, WarnCardQuotaDeletion(tc.quota, tc.all, tc.policy), "", tc.wantWarning)
	}
}
