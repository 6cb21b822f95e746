package importing

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/validation"
)

func below(parent string, q *builder.QueueBuilder) *v1beta1.Queue { return q.Parent(parent).Obj() }

// uses is the usage of a queue whose pods use cards, each name followed by the count.
func uses(counts ...any) queueusage.Usage {
	used := map[card.Name]card.Count{}
	for i := 0; i < len(counts); i += 2 {
		used[card.Name(counts[i].(string))] = card.Count(counts[i+1].(int))
	}
	return queueusage.Usage{Used: used}
}

// planFor returns the CardQuotas by name.
func planFor(in Input) (map[string]Import, Plan) {
	if in.ServiceType == "" {
		in.ServiceType = "training"
	}
	plan := NewPlan(in)
	byName := map[string]Import{}
	for _, imported := range plan.Imports {
		byName[imported.Quota.Name] = imported
	}
	return byName, plan
}

// TestQueuesWithCardsAreImported: import writes a CardQuota for each Volcano Queue that has cards: by its annotation, or
// because its pods use or request some. Queue root and the ones of CardQuotas are never imported, and parents of flat
// queues only where the user names them. A user who names queues gets also those without cards. The plan lists the
// other Queues, or the other named ones, as left out. The test compares their number.
func TestQueuesWithCardsAreImported(t *testing.T) {
	queues := []*v1beta1.Queue{
		builder.Queue("written").Quota(`{"A":1}`).Obj(),
		builder.Queue("used").Obj(),
		builder.Queue("waiting").Obj(),
		builder.Queue("idle").Obj(),
		builder.Queue("owned").Quota(`{"A":1}`).Obj(), // by a CardQuota
		builder.Queue("root").Obj(),
		builder.Queue("default").Obj(),
		below("above", builder.Queue("under")),
		builder.Queue("above").Obj(),
	}
	usage := map[string]queueusage.Usage{
		"used":    uses("A", 2),
		"waiting": {Pending: map[card.Name]card.Count{"A": 1}},
		"default": uses("A", 0),                                // none
		"above":   {Members: queueusage.Members{PodGroups: 1}}, // a workload without cards
	}

	for t, tc := range check.Cases(t, map[string]struct {
		usage map[string]queueusage.Usage // nil if the user may not list pods
		only  []string                    // the queues that the user names
		want  []string
	}{
		"all queues":                          {usage: usage, want: []string{"used", "waiting", "written"}},
		"all queues, the pods are unknown":    {want: []string{"written"}},
		"a queue without cards is named":      {usage: usage, only: []string{"idle", "used"}, want: []string{"idle", "used"}},
		"default and a flat parent are named": {usage: usage, only: []string{"default", "above"}, want: []string{"above", "default"}},
		"named, and the pods are unknown":     {only: []string{"idle", "used"}, want: []string{"idle", "used"}},
		"owned and root":                      {usage: usage, only: []string{"owned", "root"}},
	}) {
		owner := builder.CardQuota("owner").Queue("owned").Obj()
		got, plan := planFor(Input{Queues: queues, Quotas: []*v1alpha1.CardQuota{owner}, Usage: tc.usage, Only: tc.only})
		check.Equal(t, "imported", tc.want, slices.Sorted(maps.Keys(got)))

		considered := len(queues)
		if tc.only != nil {
			considered = len(tc.only)
		}
		check.Equal(t, "number of queues that are left out", considered-len(tc.want), len(plan.LeftOut))
	}
}

// TestACardQuotaTakesTheFieldsOfItsQueue: what administrators have written to a Queue is kept. The tenant comes from the
// label that the user names, here team. Deserved 9 is more than the quota of 8, which a CardQuota may not have, so it
// is 8. Pods use a card B of which the quota is 0, so a comment warns.
func TestACardQuotaTakesTheFieldsOfItsQueue(t *testing.T) {
	queue := builder.Queue("q").Quota(`{"A":8,"B":0}`).ServiceType("inference").Capability("64", "1Ti").Label("team", "vision").
		Annotation(v1alpha1.AnnotationCardDeserved, `{"A":9}`).
		Annotation(v1alpha1.AnnotationCardGuarantee, `{"A":2}`).
		Annotation(v1alpha1.AnnotationNamespaceSelector, `{"matchLabels":{"team":"vision"}}`).
		Annotation(v1alpha1.AnnotationStopPolicy, "Hold").
		With(func(q *v1beta1.Queue) { q.Spec.Weight = 3 }).Obj()

	got, _ := planFor(Input{Queues: []*v1beta1.Queue{queue}, TenantLabel: "team", Usage: map[string]queueusage.Usage{"q": uses("B", 1)}})
	resources := builder.Resources("64", "1Ti")
	want := v1alpha1.CardQuotaSpec{
		Tenant:            "vision",
		ServiceType:       "inference",
		StopPolicy:        v1alpha1.StopPolicyHold,
		Weight:            ptr.To(int32(3)),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "vision"}},
		Cards: []v1alpha1.Card{
			{Name: "A", Quota: ptr.To(int64(8)), Deserved: ptr.To(int64(8)), Guarantee: ptr.To(int64(2))},
			{Name: "B", Quota: ptr.To(int64(0))},
		},
		Resources: &v1alpha1.Resources{CPU: ptr.To(resources["cpu"]), Memory: ptr.To(resources["memory"])},
	}
	check.Equal(t, "spec", want, got["q"].Quota.Spec)
	check.Contains(t, "comments", strings.Join(got["q"].Comments, "\n"), "1 B, more than the quota of 0")
}

// TestATreeOfQueuesIsImportedWithItsParents: pods of queue a use 2 cards, and b has a quota of 3, so their parent top
// gets 5. A parent has no service type, and its children inherit its limit of 100 CPU, so theirs is left out. Flat, each
// gets that limit itself. Parents come before children,
// because the API server would refuse a child without its parent. If the user names only top, it is still a parent,
// without service type. Queue other is its own parent, which must not disturb the others.
func TestATreeOfQueuesIsImportedWithItsParents(t *testing.T) {
	in := Input{
		IsTree: true,
		Queues: []*v1beta1.Queue{
			below("root", builder.Queue("top").Capability("100", "")),
			below("top", builder.Queue("a")),
			below("top", builder.Queue("b").Quota(`{"A":3}`)),
			below("other", builder.Queue("other")),
		},
		Usage: map[string]queueusage.Usage{"a": uses("A", 2), "b": uses("A", 1), "other": uses("A", 1)},
	}

	got, plan := planFor(in)
	top := got["top"].Quota.Spec
	check.Equal(t, "service type of the parent", "", top.ServiceType)
	check.Equal(t, "parent of the parent", "", top.Parent)
	check.Equal(t, "quota of the parent", 5, *top.Cards[0].Quota)
	check.Contains(t, "comments of the parent", strings.Join(got["top"].Comments, "\n"),
		"cards: what the queues below it have, or what pods hold now if that is more")
	check.Equal(t, "parent of a", "top", got["a"].Quota.Spec.Parent)
	check.That(t, got["a"].Quota.Spec.Resources == nil, "a has limits of its own: %v", got["a"].Quota.Spec.Resources)
	check.Contains(t, "comments of a", strings.Join(got["a"].Comments, "\n"), "resources.cpu: left out, because the Queue has no limit: that of top above it counts.")

	var names []string
	for _, imported := range plan.Imports {
		names = append(names, imported.Quota.Name)
	}
	check.That(t, slices.Index(names, "top") < slices.Index(names, "a"), "a parent comes first: %v", names)

	in.IsTree = false
	flat, _ := planFor(in)
	check.Equal(t, "CPU of a while queues are flat", "100", flat["a"].Quota.Spec.Resources.CPU.String())
	check.That(t, flat["a"].Quota.Spec.Resources.Memory == nil, "the memory of a is limited")

	in.IsTree = true
	in.Only = []string{"top"}
	alone, _ := planFor(in)
	check.Equal(t, "CardQuotas if the user names top alone", []string{"top"}, slices.Collect(maps.Keys(alone)))
	check.Equal(t, "service type of top alone", "", alone["top"].Quota.Spec.ServiceType)
}

// TestFlatQueuesAreImportedWithoutParents: where the policy has flat queues, spec.parent of a Queue has no effect. The
// plan says that it drops the parent top of queues a and b. Queue top itself, which has no cards, is not imported.
func TestFlatQueuesAreImportedWithoutParents(t *testing.T) {
	queues := []*v1beta1.Queue{
		below("root", builder.Queue("top")),
		below("top", builder.Queue("a")),
		below("top", builder.Queue("b").Quota(`{"A":3}`)),
	}

	got, plan := planFor(Input{Queues: queues, Usage: map[string]queueusage.Usage{"a": uses("A", 2)}})
	check.Equal(t, "CardQuotas", []string{"a", "b"}, slices.Sorted(maps.Keys(got)))
	check.That(t, plan.DropsParents, "the plan does not say that it drops parents")
	check.Equal(t, "parent of a", "", got["a"].Quota.Spec.Parent)
	check.Equal(t, "deserved of a, which only a tree has", nil, got["a"].Quota.Spec.Cards[0].Deserved)
}

// drawQueue returns a Queue with any annotations and limits, or without.
func drawQueue(t *rapid.T, name, parent string) *v1beta1.Queue {
	queue := builder.Queue(name).Capability(rapid.SampledFrom([]string{"", "4", "8"}).Draw(t, "cpu of "+name), "")
	if rapid.Bool().Draw(t, name+" is written") {
		queue = queue.Quota(fmt.Sprintf(`{"A":%d}`, rapid.IntRange(0, 4).Draw(t, "quota of "+name)))
		for _, key := range []string{v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardGuarantee} {
			if rapid.Bool().Draw(t, name+" has "+key) {
				queue = queue.Annotation(key, fmt.Sprintf(`{"A":%d}`, rapid.IntRange(0, 4).Draw(t, key)))
			}
		}
	}
	return below(parent, queue)
}

// TestTheAPIServerTakesThePlan: a user applies the CardQuotas one after the other, and the webhook of the operator must
// refuse none. The exception is a CardQuota below a Queue whose own numbers are too small for its children. The plan
// keeps these numbers, and a comment at the CardQuota of that Queue says so. Four random queues with random parents,
// quotas and usage are planned.
// (1) The webhook refuses no CardQuota at the top.
// (2) A CardQuota whose children it refuses has the comment.
// (3) It refuses a child of each CardQuota with the comment, if it does not know the Queues. If it knows them, it only
// warns of numbers that a Queue has already.
func TestTheAPIServerTakesThePlan(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		in := Input{ServiceType: "training", Usage: map[string]queueusage.Usage{}, IsTree: rapid.Bool().Draw(t, "tree")}
		policy := builder.ServiceTypePolicy().Obj()
		policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyFlat
		if in.IsTree {
			policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
		}

		names := []string{"a", "b", "c", "d"}
		isLeaf := map[string]bool{"a": true, "b": true, "c": true, "d": true}
		for i, name := range names { // a parent comes before its children, so there is no cycle
			parent := rapid.SampledFrom(append([]string{"", "root"}, names[:i]...)).Draw(t, "parent of "+name)
			in.Queues = append(in.Queues, drawQueue(t, name, parent))
			isLeaf[parent] = false
		}

		for _, name := range names {
			if isLeaf[name] {
				in.Usage[name] = uses("A", rapid.IntRange(0, 4).Draw(t, "used by "+name), "B", rapid.IntRange(0, 1).Draw(t, "B used by "+name))
			}
		}

		imports := NewPlan(in).Imports
		for _, queues := range [][]*v1beta1.Queue{nil, in.Queues} { // that the webhook knows
			var applied []*v1alpha1.CardQuota
			refused := map[string][]string{}
			for _, imported := range imports {
				result := validation.ValidateCardQuota(imported.Quota, nil, validation.CardQuotaInput{All: applied, Policy: policy, Queues: queues})
				for _, err := range result.Errors {
					refused[imported.Quota.Spec.Parent] = append(refused[imported.Quota.Spec.Parent], imported.Quota.Name+": "+err.Error())
				}
				applied = append(applied, imported.Quota)
			}

			for _, imported := range imports {
				name := imported.Quota.Name
				isCommented := strings.Contains(strings.Join(imported.Comments, " "), "too little for the ")
				check.That(t, refused[name] == nil || isCommented, "(2) below %s, without a comment: %v", name, refused[name])
				check.That(t, refused[name] != nil || !isCommented || queues != nil, "(3) %s has a comment, and nothing is refused: %v", name, imported.Comments)
			}
			check.That(t, refused[""] == nil, "(1) at the top: %v", refused[""])
		}
	})
}

// TestThePlanSaysWhetherAllQueuesWithCardsAreCovered: an administrator may enforce quotas once each queue with cards
// has a CardQuota. The plan says so only if it knows all: the user names no queues and may list pods. Queue owned has
// a CardQuota. A name of 64 characters is too long for one.
func TestThePlanSaysWhetherAllQueuesWithCardsAreCovered(t *testing.T) {
	owned := builder.Queue("owned").Quota(`{"A":1}`).Obj()
	idle := builder.Queue("idle").Obj()
	long := builder.Queue(strings.Repeat("q", 64)).Obj()
	usage := map[string]queueusage.Usage{"owned": uses("A", 1), long.Name: uses("A", 1)}

	for t, tc := range check.Cases(t, map[string]struct {
		in   Input
		want bool
	}{
		"the only queue with cards has one":  {Input{Queues: []*v1beta1.Queue{owned, idle}, Usage: usage}, true},
		"a queue with cards has a long name": {Input{Queues: []*v1beta1.Queue{owned, long}, Usage: usage}, false},
		"the user may not list pods":         {Input{Queues: []*v1beta1.Queue{owned}}, false},
		"the user names the queue":           {Input{Queues: []*v1beta1.Queue{owned}, Usage: usage, Only: []string{"owned"}}, false},
	}) {
		tc.in.Quotas = []*v1alpha1.CardQuota{builder.CardQuota("owned").Obj()}
		_, plan := planFor(tc.in)
		check.Equal(t, "covers all", tc.want, plan.CoversAll)
	}
}

// TestTheOldestCardQuotaOfAQueueIsTheParent: two CardQuotas name Queue top. The older one owns it, so it is the parent of
// the CardQuota for Queue a below top, in whatever order the two are listed.
func TestTheOldestCardQuotaOfAQueueIsTheParent(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	owner := builder.CardQuota("owner").Queue("top").ServiceType("").Card("A", 2).Created(day).Obj()
	later := builder.CardQuota("later").Queue("top").ServiceType("").Card("A", 2).Created(day.Add(time.Hour)).Obj()

	for t, quotas := range check.Cases(t, map[string][]*v1alpha1.CardQuota{
		"the owner is listed first": {owner, later},
		"the owner is listed last":  {later, owner},
	}) {
		got, _ := planFor(Input{
			IsTree: true,
			Queues: []*v1beta1.Queue{builder.Queue("top").Obj(), below("top", builder.Queue("a"))},
			Quotas: quotas,
			Usage:  map[string]queueusage.Usage{"a": uses("A", 2)},
		})
		check.Equal(t, "parent of a", "owner", got["a"].Quota.Spec.Parent)
	}
}

// TestAnExistingParentThatIsTooSmallIsCommented: import never changes a CardQuota that exists. Here CardQuota above, of
// Queue top, has 3 of card A, and pods of its children a and b use 2 each, so 4 is too much. One comment says so, at
// the first child. The quota of B is inherited from further above, and not known here, so there is no comment on B.
func TestAnExistingParentThatIsTooSmallIsCommented(t *testing.T) {
	queues := []*v1beta1.Queue{builder.Queue("top").Obj(), below("top", builder.Queue("a")), below("top", builder.Queue("b"))}
	above := builder.CardQuota("above").Queue("top").ServiceType("").Resources("1000000", "1Ei").With(func(q *v1alpha1.CardQuota) {
		q.Spec.Cards = []v1alpha1.Card{{Name: "A", Quota: ptr.To(int64(3))}, {Name: "B", Deserved: ptr.To(int64(0))}}
	}).Obj()

	got, _ := planFor(Input{
		IsTree: true,
		Queues: queues,
		Quotas: []*v1alpha1.CardQuota{above},
		Usage:  map[string]queueusage.Usage{"a": uses("A", 2, "B", 1), "b": uses("A", 2)},
	})
	check.Equal(t, "parent", "above", got["a"].Quota.Spec.Parent)
	check.Text(t, "comments of a", strings.Join(got["a"].Comments, "\n")).
		Has("deserved of A: CardQuota above has 3, too little for the 4 of the queues below it.").
		Lacks("of B: CardQuota above")
	check.Text(t, "comments of b", strings.Join(got["b"].Comments, "\n")).Lacks("too little", "of B: CardQuota above")
}

// TestQueuesWithLongNamesAreNotImported: a CardQuota gets the name of its Queue. Volcano writes that name as a label
// on pods, and the values of labels have at most 63 characters. A Queue with a name of 64 is not imported, and the plan
// says why.
func TestQueuesWithLongNamesAreNotImported(t *testing.T) {
	long := builder.Queue(strings.Repeat("q", 64)).Quota(`{"A":1}`).Obj()
	got, plan := planFor(Input{Queues: []*v1beta1.Queue{long}, Usage: map[string]queueusage.Usage{}})
	check.Equal(t, "imports", map[string]Import{}, got)
	check.Contains(t, "reasons of the queues that are not imported", fmt.Sprint(plan.LeftOut), "at most 63")
}

// TestThePlanIsAFileToApply: the CardQuotas are YAML documents for kubectl apply. An annotation that cannot be read must
// not add a document of its own, so it is only in a comment. What a CardQuota cannot say of a Queue is in comments too:
// a limit of nvidia.com/gpu, a priority, reclaimable, a closed state. Where a Queue has no limit of CPU, the CardQuota
// has none either. Queue default takes every workload that names no
// queue, so a CardQuota has to name it in queueName.
func TestThePlanIsAFileToApply(t *testing.T) {
	queues := []*v1beta1.Queue{
		builder.Queue("bad").Quota("{\n---\nevil: true").Obj(),
		builder.Queue("default").Quota(`{"A":1}`).Obj(),
		builder.Queue("gpu").Quota(`{"A":1}`).With(func(q *v1beta1.Queue) {
			q.Spec.Capability = corev1.ResourceList{"nvidia.com/gpu": builder.Resources("8", "")["cpu"]}
			q.Spec.Priority = 5
			q.Spec.Reclaimable = ptr.To(false)
			q.Status.State = v1beta1.QueueStateClosed
		}).Obj(),
	}

	_, plan := planFor(Input{Queues: queues, Usage: map[string]queueusage.Usage{}})
	var text bytes.Buffer
	check.NoError(t, plan.Write(&text))

	quotas := parseManifests(t, text.String())
	check.Equal(t, "CardQuotas", []string{"bad", "default", "gpu"}, slices.Sorted(maps.Keys(quotas)))
	check.Equal(t, "queueName of default", "default", quotas["default"].Spec.QueueName)

	comments := strings.Join(strings.Fields(strings.ReplaceAll(text.String(), "#", "")), " ")
	check.Contains(t, "comments", comments, "cannot be read", "also limits nvidia.com/gpu", "priority 5 of the Queue",
		"reclaimable: false of the Queue", "The Queue is Closed", "resources.cpu: left out, because the Queue has no limit: it is not limited")
}

// parseManifests parses documents as the API server would, by name.
func parseManifests(t check.T, text string) map[string]*v1alpha1.CardQuota {
	quotas := map[string]*v1alpha1.CardQuota{}
	for document := range strings.SplitSeq(text, "---\n") {
		quota := &v1alpha1.CardQuota{}
		check.NoError(t, yaml.UnmarshalStrict([]byte(document), quota))
		if quota.Kind == "CardQuota" {
			quotas[quota.Name] = quota
		}
	}
	return quotas
}

// TestAnyQueuesCanBeImported: four queues have random annotations, also unreadable ones, random parents, also cycles
// and missing ones, and random usage.
// (1) The text can always be parsed, and no queue is imported twice or forgotten.
// (2) A quota that can be read is the same in the CardQuota.
// (3) Each Queue with such a quota is imported, except a parent of flat queues.
func TestAnyQueuesCanBeImported(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "default"}
		in := Input{ServiceType: "training", Usage: map[string]queueusage.Usage{}, IsTree: rapid.Bool().Draw(t, "tree")}
		for _, name := range names {
			quotas := []string{"", `{}`, `{"A":3}`, `{"A":1,"B/mig-1g.18gb-mixed":2}`, `{"A":-1}`, "no"}
			quota := rapid.SampledFrom(quotas).Draw(t, "quota of "+name)
			parent := rapid.SampledFrom(append(names, "", "root", "gone")).Draw(t, "parent of "+name)
			in.Queues = append(in.Queues, below(parent, builder.Queue(name).Quota(quota)))
			if rapid.Bool().Draw(t, name+" is used") {
				in.Usage[name] = uses("A", rapid.IntRange(0, 4).Draw(t, "used"))
			}
		}

		plan := NewPlan(in)
		var text bytes.Buffer
		check.NoError(t, plan.Write(&text))

		quotas := parseManifests(t, text.String())
		check.Equal(t, "(1) number of documents", len(plan.Imports), len(quotas))
		check.Equal(t, "(1) number of queues that are imported or left out", len(names), len(plan.Imports)+len(plan.LeftOut))

		for _, queue := range in.Queues {
			want, err := card.ParseQuota(queue.Annotations[v1alpha1.AnnotationCardQuota])
			if imported := quotas[queue.Name]; err == nil && imported != nil {
				got := card.Quota{}
				for _, c := range imported.Spec.Cards {
					got[card.Name(c.Name)] = card.Count(*c.Quota)
				}
				check.Equal(t, "(2) quota of "+queue.Name, want.String(), got.String())
			} else if err == nil && queue.Annotations[v1alpha1.AnnotationCardQuota] != "" && (in.IsTree || !isAbove(in.Queues, queue.Name)) {
				t.Fatalf("(3) %s has a quota and is not imported", queue.Name)
			}
		}
	})
}

// isAbove reports whether other queues are below a queue.
func isAbove(queues []*v1beta1.Queue, name string) bool {
	return slices.ContainsFunc(queues, func(q *v1beta1.Queue) bool { return q.Name != name && q.Spec.Parent == name })
}

// TestNotesNameQueuesByReason: queues that are left out for the same reason share a note, which names the first eight
// and counts the others.
func TestNotesNameQueuesByReason(t *testing.T) {
	plan := Plan{LeftOut: []LeftOut{{"root", "it belongs to Volcano"}}}
	for i := range 10 {
		plan.LeftOut = append(plan.LeftOut, LeftOut{fmt.Sprint("q", i), "it has no cards"})
	}
	check.Equal(t, "notes", []string{
		"Left out: root: it belongs to Volcano.",
		"Left out: q0, q1, q2, q3, q4, q5, q6, q7 and 2 more: it has no cards.",
	}, plan.Notes())
}
