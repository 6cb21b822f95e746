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

// node is a CardQuota of a tree; a parent has no service type. Each card is "name quota deserved
// guarantee", where - leaves an amount out.
func node(name, parent, serviceType string, cards []string, changes ...change) *v1alpha1.CardQuota {
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

func cpu(limit, deserved, guarantee string) change {
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

func team(name string) change {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
}

func priority(n int32) change { return func(q *v1alpha1.CardQuota) { q.Spec.Priority = &n } }

func goes(q *v1alpha1.CardQuota) { q.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0))) }

var (
	treePolicy = &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{QueueHierarchy: v1alpha1.QueueHierarchyTree}}
	flatPolicy = &v1alpha1.ServiceTypePolicy{}
)

// chat is a tenant with 8 cards, of which search deserves 4.
func chat(changes ...change) *v1alpha1.CardQuota {
	return node("chat", "", "", []string{h200 + " 8 6 2"}, changes...)
}

func search(changes ...change) *v1alpha1.CardQuota {
	return node("search", "chat", "inference", []string{h200 + " 8 4 1"}, changes...)
}

func ads(cards string, changes ...change) *v1alpha1.CardQuota {
	return node("ads", "chat", "training", []string{cards}, changes...)
}

// chain is q1 at the top level, q2 below it and so on.
func chain(n int) (all []*v1alpha1.CardQuota) {
	parent := ""
	for i := range n {
		name := fmt.Sprint("q", i+1)
		all = append(all, node(name, parent, "", nil))
		parent = name
	}
	return all
}

func withPods(name string, pods string) []*v1beta1.Queue {
	return []*v1beta1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1beta1.QueueStatus{Allocated: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}}}}
}

type quotas = []*v1alpha1.CardQuota

// TestTreeOfCardQuotas: one line per rule.
func TestTreeOfCardQuotas(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, before    *v1alpha1.CardQuota
		all              quotas
		queues           []*v1beta1.Queue
		refusal, warning string
	}{
		"a child":                 {quota: search(), all: quotas{chat()}},
		"a parent before":         {quota: chat(), warning: "spec.serviceType: is not set, so this is a parent: no job starts in queue chat itself, only in those of CardQuotas that name chat as parent"},
		"a parent after":          {quota: chat(), all: quotas{search()}},
		"no parent yet":           {quota: search(), warning: "spec.parent: there is no CardQuota chat yet: queue search is created once it exists"},
		"a parent that goes":      {quota: search(), all: quotas{chat(goes)}, warning: "spec.parent: CardQuota chat is being deleted, and waits until this one is gone"},
		"a top-level leaf":        {quota: node("a", "", "training", []string{h200 + " 8"})},
		"a leaf without its type": {quota: node("a", "chat", "", []string{h200 + " 1 1"}), all: quotas{chat()}, warning: "spec.serviceType: is not set, so this is a parent"},

		"a cycle": {quota: node("a", "c", "", nil), all: quotas{node("b", "a", "", nil), node("c", "b", "", nil)},
			refusal: "spec.parent: Forbidden: the parents form a cycle: a names c names b names a again"},
		"a cycle above": {quota: node("a", "b", "training", nil), all: quotas{node("b", "c", "", nil), node("c", "b", "", nil)},
			refusal: "spec.parent: Forbidden: the parents form a cycle: a names b names c names b again"},
		"six levels": {quota: node("q6", "q5", "training", nil), all: chain(5)},
		"seven levels": {quota: node("q7", "q6", "training", nil), all: chain(6),
			refusal: "spec.parent: Forbidden: q1 > q2 > q3 > q4 > q5 > q6 > q7 would be 7 levels below the root, and at most 6 are possible"},
		"moved with what is below": {quota: node("q1", "top", "", nil), before: node("q1", "", "", nil), all: append(chain(6), node("top", "", "", nil)),
			refusal: "top > q1 > q2 > q3 > q4 > q5 > q6 would be 7 levels below the root"},

		"a card that the parent lacks": {quota: ads("NVIDIA-H800 2 2"), all: quotas{chat()},
			refusal: "spec.cards[NVIDIA-H800]: Forbidden: parent chat grants no NVIDIA-H800: grant it there first and apply this again, or remove it from ads"},
		"a slice of a whole card": {quota: ads(slice7 + " 2 2"), all: quotas{chat()},
			refusal: "parent chat grants no " + slice7 + " (it grants 8 NVIDIA-H200, but whole cards never cover their slices and shares)"},
		"none of a card that the parent lacks": {quota: ads("NVIDIA-H800 0 0"), all: quotas{chat()}},
		"an inherited card that it lacks":      {quota: ads("NVIDIA-H800 - 2"), all: quotas{chat()}, refusal: "parent chat grants no NVIDIA-H800"},
		"more than the parent": {quota: ads(h200 + " 9 2"), all: quotas{chat()},
			refusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is 9, but parent chat has 8: lower it, or raise the parent first and apply this again"},
		"more deserved than inherited": {quota: ads(h200 + " - 7"), all: quotas{node("chat", "", "", []string{h200 + " 6 9"})},
			refusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: is 7, but the quota inherited from parent chat is 6"},
		"inherited": {quota: ads(h200 + " - 2"), all: quotas{chat(), search()}},
		"inherited over two levels": {quota: node("x", "ads", "training", []string{h200 + " 7 1"}), all: quotas{node("chat", "", "", []string{h200 + " 6 6"}), node("ads", "chat", "", []string{h200 + " - 2"})},
			refusal: "is 7, but parent ads has 6"},
		"below what is not there yet": {quota: node("x", "ads", "training", []string{h200 + " 70 70"}), all: quotas{node("ads", "chat", "", []string{h200 + " - 99"})}},
		"together more deserved": {quota: ads(h200 + " 8 3"), all: quotas{chat(), search()},
			refusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: the children of chat have 7 together (3 here, 4 by search), but chat has 6, 1 too many: lower a child, or raise the parent first and apply this again"},
		"together more guaranteed": {quota: ads(h200 + " 8 2 2"), all: quotas{chat(), search()},
			refusal: "spec.cards[NVIDIA-H200].guarantee: Forbidden: the children of chat have 3 together (2 here, 1 by search), but chat has 2, 1 too many"},
		"beside a Queue without a CardQuota": {quota: ads(h200 + " 8 3"), all: quotas{chat()}, queues: []*v1beta1.Queue{builder.Queue("by-hand").Quota(`{"NVIDIA-H200":8}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":4}`).Parent("chat").Obj()},
			refusal: "the children of chat have 7 together (3 here, 4 by queue by-hand), but chat has 6, 1 too many"},
		"beside one that goes": {quota: ads(h200 + " 8 6"), all: quotas{chat(), search(goes)}},
		"no deserved": {quota: ads(h200 + " 2"), all: quotas{chat()},
			refusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: is not set: in a tree it says how much the queue takes back from others, so write it; 2, its quota, means what it means to a flat queue"},
		"nothing to inherit": {quota: node("a", "", "training", []string{h200 + " - 2"}), refusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is not set, and there is no parent to inherit it from"},

		"CPU":          {quota: ads(h200+" 1 1", cpu("4", "2", "1500m")), all: quotas{chat(cpu("8", "2", "2"))}},
		"no CPU above": {quota: ads(h200+" 1 1", cpu("4", "4", "")), all: quotas{chat()}, refusal: "spec.resources.cpu: Forbidden: parent chat grants no cpu"},
		"more CPU":     {quota: ads(h200+" 1 1", cpu("8500m", "1", "")), all: quotas{chat(cpu("8", "8", ""))}, refusal: "spec.resources.cpu: Forbidden: is 8500m, but parent chat has 8"},
		"together more CPU": {quota: ads(h200+" 1 1", cpu("4", "2", "")), all: quotas{chat(cpu("8", "2", "")), search(cpu("8", "500m", ""))},
			refusal: "spec.resources.deserved.cpu: Forbidden: the children of chat have 2500m together (2 here, 500m by search), but chat has 2, 500m too many"},
		"CPU ceilings": {quota: ads(h200+" 1 1", cpu("8", "", "")), all: quotas{chat(cpu("8", "", "")), search(cpu("8", "", ""))}},
		"a guarantee of CPU deserves the ceiling": {quota: ads(h200+" 1 1", cpu("8", "", "1")), all: quotas{chat(cpu("8", "", "1")), search(cpu("8", "1", ""))},
			refusal: "spec.resources.deserved.cpu: Forbidden: the children of chat have 9 together (8 here, 1 by search), but chat has 8, 1 too many"},

		"a parent with a type": {quota: chat(func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "training" }), all: quotas{search()},
			refusal: "spec.serviceType: Forbidden: it is the parent of search, and only leaves take jobs"},
		"a child of a leaf": {quota: ads(h200 + " 2 2"), all: quotas{chat(func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "training" })},
			refusal: "spec.parent: Forbidden: CardQuota chat has serviceType training and takes jobs, but a parent takes none: remove serviceType there first"},
		"a parent with pods":            {quota: search(), all: quotas{chat()}, queues: withPods("chat", "3"), refusal: "spec.parent: Forbidden: queue chat of CardQuota chat has 3 pods, and a queue with pods cannot become a parent"},
		"a parent with pods long ago":   {quota: ads(h200 + " 2 2"), all: quotas{chat(), search()}, queues: withPods("chat", "3")},
		"below the next service type":   {quota: node("a", "", "training", []string{h200 + " 8"}, priority(9999))},
		"selectors that cannot match":   {quota: ads(h200+" 2 2", team("ads")), all: quotas{chat(team("chat"))}, warning: "spec.namespaceSelector: no namespace can use queue ads: it needs label team=ads, and chat above it needs team=chat"},
		"an ancestor selects":           {quota: ads(h200+" 2 2", func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = nil }), all: quotas{chat(team("chat"))}},
		"no ancestor selects":           {quota: ads(h200+" 2 2", func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = nil }), all: quotas{chat()}, warning: "spec.namespaceSelector: is not set"},
		"what a parent's priority does": {quota: chat(priority(3)), all: quotas{search()}, warning: "spec.priority: has no effect on a parent"},

		"a parent that is too small": {quota: chat(), all: quotas{node("search", "chat", "training", []string{h200 + " 9 4"})},
			refusal: "spec.cards[NVIDIA-H200].quota: Forbidden: CardQuota search: is 9, but parent chat has 8"},
		"a parent that deserves too little": {quota: chat(), all: quotas{search(), ads(h200 + " 8 5")},
			refusal: "spec.cards[NVIDIA-H200].deserved: Forbidden: the children of chat have 9 together (5 by ads, 4 by search), but chat has 6, 3 too many"},
		"a grandparent that is too small": {quota: chat(), all: quotas{node("search", "chat", "", []string{h200 + " - 1"}), node("x", "search", "training", []string{h200 + " 9 1"})},
			refusal: "CardQuota x: is 9, but parent search has 8"},

		"a lowered parent": {quota: node("chat", "", "", []string{h200 + " 8 3 1"}), before: chat(), all: quotas{search()},
			warning: "spec: changes what counts in CardQuota search: NVIDIA-H200: deserved is 4, but parent chat has 3, so 3 is in force"},
		"a card less in the parent": {quota: node("chat", "", "", nil), before: chat(), all: quotas{search()},
			warning: "changes what counts in CardQuota search: NVIDIA-H200: quota is 8, but parent chat grants none, so it is 0"},
		"a lowered grandparent": {quota: node("top", "", "", []string{h200 + " 8 3 1"}), before: node("top", "", "", []string{h200 + " 8 6 2"}), all: quotas{node("chat", "top", "", []string{h200 + " 8 3 1"}), search(func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = ptr.To(int64(3)) })}},
		"as much too much as before": {quota: search(func(q *v1alpha1.CardQuota) { q.Spec.Project = "p" }), before: search(), all: quotas{node("chat", "", "", []string{h200 + " 8 3 2"})},
			warning: "as before: spec.cards[NVIDIA-H200].deserved: Forbidden: the children of chat have 4 together (4 here), but chat has 3, 1 too many"},
		"less too much": {quota: search(), before: search(func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = ptr.To(int64(5)) }), all: quotas{node("chat", "", "", []string{h200 + " 8 3 2"})}, warning: "as before: "},
		"more too much": {quota: search(func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Deserved = ptr.To(int64(5)) }), before: search(), all: quotas{node("chat", "", "", []string{h200 + " 8 3 2"})},
			refusal: "the children of chat have 5 together (5 here), but chat has 3, 2 too many"},
		"nothing beside too much":      {quota: ads(h200 + " 8 0"), all: quotas{node("chat", "", "", []string{h200 + " 8 3 2"}), search()}, warning: "as before: "},
		"a card added beside too much": {quota: ads(h200 + " 8 0"), before: node("ads", "chat", "training", nil), all: quotas{node("chat", "", "", []string{h200 + " 8 3 2"}), search()}, warning: "as before: "},
		"moved to where there is less": {quota: ads(h200 + " 8 3"), before: node("ads", "other", "training", []string{h200 + " 8 3"}), all: quotas{chat(), search(), node("other", "", "", []string{h200 + " 8 8"})}, refusal: "7 together"},
		"a type that was wrong before": {quota: chat(func(q *v1alpha1.CardQuota) {
			q.Spec.ServiceType = "training"

			q.Spec.Project = "p"
		}), before: chat(func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "training" }), all: quotas{search()}, warning: "as before: spec.serviceType"},
		"one that goes": {quota: ads(h200+" 99 99", goes), before: ads(h200 + " 9 9"), all: quotas{chat()}},
	}) {
		answers(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: treePolicy, Queues: tc.queues, Healthy: map[card.Name]card.Count{h200: 16, slice7: 7, "NVIDIA-H800": 8}}), tc.refusal, tc.warning)
	}
}

// TestTheOrderOfCreationDoesNotMatter: a tree of three is refused in every order, or in none.
func TestTheOrderOfCreationDoesNotMatter(t *testing.T) {
	for name, tc := range map[string]struct {
		quotas  quotas
		refused bool
	}{
		"sound":          {quotas{chat(), search(), ads(h200 + " 8 2 1")}, false},
		"too large":      {quotas{chat(), search(), ads(h200 + " 9 2 1")}, true},
		"too many":       {quotas{chat(), search(), ads(h200 + " 8 3 1")}, true},
		"a cycle":        {quotas{node("a", "b", "", nil), node("b", "c", "", nil), node("c", "a", "", nil)}, true},
		"a parent's job": {quotas{chat(func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "training" }), search(), ads(h200 + " 8 2 1")}, true},
		"a chain":        {quotas{chat(), node("search", "chat", "", []string{h200 + " - 4"}), node("x", "search", "training", []string{h200 + " 9 4"})}, true},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var all quotas
			refused := false
			for _, i := range order {
				result := ValidateCardQuota(tc.quotas[i], nil, CardQuotaInput{All: all, Policy: treePolicy, Healthy: map[card.Name]card.Count{h200: 16}})
				refused = refused || len(result.Errors) > 0
				all = append(all, tc.quotas[i])
			}

			check.That(t, refused == tc.refused, "%s in order %v: refused %v, want %v", name, order, refused, tc.refused)
		}
	}
}

func TestCardQuotasWhileQueuesAreFlat(t *testing.T) {
	typeless := func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = "" }

	for t, tc := range check.Cases(t, map[string]struct {
		quota, before    *v1alpha1.CardQuota
		all              quotas
		refusal, warning string
	}{
		"fields of a tree":     {quota: search(), warning: "spec: parent, cards[].deserved, cards[].guarantee: unused while queueHierarchy of the ServiceTypePolicy is Flat; set it to Tree"},
		"more than the parent": {quota: ads(h200 + " 9"), all: quotas{chat()}, warning: "spec: parent: unused"},
		"no quota":             {quota: node("a", "", "training", []string{h200 + " - 2"}), refusal: "spec.cards[NVIDIA-H200].quota: Forbidden: is not set: only a child in a tree of quotas inherits one, and queueHierarchy of the ServiceTypePolicy is Flat: write it", warning: "unused"},
		"no type":              {quota: node("a", "", "", []string{h200 + " 2"}), refusal: "spec.serviceType: Forbidden: is not set: only a parent in a tree of quotas has none"},
		"no type, as before":   {quota: node("a", "", "", []string{h200 + " 3"}), before: node("a", "", "", []string{h200 + " 2"}), warning: "as before: spec.serviceType"},
		"no type from now on":  {quota: node("a", "", "training", []string{h200 + " 2"}, typeless), before: node("a", "", "training", []string{h200 + " 2"}), refusal: "spec.serviceType"},
	}) {
		answers(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: flatPolicy, Healthy: map[card.Name]card.Count{h200: 16}}), tc.refusal, tc.warning)
	}
}

func TestPriorityStaysInItsBand(t *testing.T) {
	policy := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "low", Priority: 100}, {Name: "high", Priority: 105}}}}
	low := func(changes ...change) *v1alpha1.CardQuota {
		return node("a", "", "low", []string{h200 + " 2"}, changes...)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, before    *v1alpha1.CardQuota
		refusal, warning string
	}{
		"inside":            {quota: low(priority(4))},
		"into the next":     {quota: low(priority(5)), refusal: "spec.priority: Forbidden: service type low has priority 100, so its queues may have up to 104, and service type high begins at 105: write at most 4"},
		"less far, but out": {quota: low(priority(5)), before: low(priority(6)), warning: "as before: spec.priority"},
		"further out":       {quota: low(priority(7)), before: low(priority(6)), refusal: "spec.priority"},
		"the highest type":  {quota: node("a", "", "high", []string{h200 + " 2"}, priority(9999))},
	}) {
		answers(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{Policy: policy, Healthy: map[card.Name]card.Count{h200: 16}}), tc.refusal, tc.warning)
	}
}

// TestOnlyTheTopLevelGrantsCards: a child's quota is part of its parent's.
func TestOnlyTheTopLevelGrantsCards(t *testing.T) {
	input := CardQuotaInput{All: quotas{chat()}, Policy: treePolicy, Healthy: map[card.Name]card.Count{h200: 8},
		Queues: []*v1beta1.Queue{builder.Queue("by-hand").Quota(`{"NVIDIA-H200":4}`).Annotation(v1alpha1.AnnotationCardDeserved, `{"NVIDIA-H200":0}`).Parent("chat").Obj()}}
	answers(t, ValidateCardQuota(search(func(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationDeny }), nil, input), "", "")
	answers(t, ValidateCardQuota(node("a", "", "training", []string{h200 + " 1"}, func(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationWarn }), nil, input), "", "9 granted, 8 healthy, 1 too many (1 here, 8 by chat)")
}

func TestDeletionOfAParent(t *testing.T) {
	all := quotas{chat(), search(), ads(h200 + " 1 1")}
	answers(t, WarnCardQuotaDeletion(chat(), all, treePolicy), "", "metadata.name: it is the parent of ads, search; queue chat keeps its quota until their queues are gone")
	answers(t, WarnCardQuotaDeletion(chat(func(q *v1alpha1.CardQuota) { q.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }), all, treePolicy), "", "without it nothing new starts in them")
	answers(t, WarnCardQuotaDeletion(chat(), quotas{chat(), search(goes)}, treePolicy), "", "")
	answers(t, WarnCardQuotaDeletion(chat(), all, flatPolicy), "", "")
}
