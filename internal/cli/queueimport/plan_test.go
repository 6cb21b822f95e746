package queueimport

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/webhook/validation"
)

func below(parent string, q *builder.QueueBuilder) *v1beta1.Queue {
	return q.Parent(parent).Obj()
}

func holds(counts ...any) cardquota.Usage {
	used := map[card.Name]card.Count{}
	for i := 0; i < len(counts); i += 2 {
		used[card.Name(counts[i].(string))] = card.Count(counts[i+1].(int))
	}
	return cardquota.Usage{Used: used}
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

func TestWhichQueuesAreImported(t *testing.T) {
	queues := []*v1beta1.Queue{
		builder.Queue("written").Quota(`{"A":1}`).Obj(), builder.Queue("used").Obj(), builder.Queue("waiting").Obj(), builder.Queue("idle").Obj(),
		builder.Queue("owned").Quota(`{"A":1}`).Obj(), builder.Queue("root").Obj(), builder.Queue("default").Obj(),
	}

	queues = append(queues, below("above", builder.Queue("under")), builder.Queue("above").Obj())
	usage := map[string]cardquota.Usage{
		"used": holds("A", 2), "waiting": {Pending: map[card.Name]card.Count{"A": 1}}, "default": holds("A", 0), "above": {Members: cardquota.Members{PodGroups: 1}},
	}

	owner := builder.CardQuota("owner").Queue("owned").Obj()
	for t, tc := range check.Cases(t, map[string]struct {
		usage map[string]cardquota.Usage
		only  []string
		want  []string
	}{
		"those with cards":                     {usage, nil, []string{"used", "waiting", "written"}},
		"named ones":                           {usage, []string{"idle", "used"}, []string{"idle", "used"}},
		"one without cards, and a flat parent": {usage, []string{"default", "above"}, []string{"above", "default"}},
		"without a count":                      {nil, nil, []string{"written"}},
		"named ones without a count":           {nil, []string{"idle", "used"}, []string{"idle", "used"}},
		"an owned one":                         {usage, []string{"owned", "root", "gone"}, nil},
	}) {
		got, plan := planFor(Input{Queues: queues, Quotas: []*v1alpha1.CardQuota{owner}, Usage: tc.usage, Only: tc.only})
		check.Equal(t, "imported", tc.want, slices.Sorted(maps.Keys(got)))
		considered := len(queues)
		if tc.only != nil {
			considered = len(tc.only)
		}
		check.That(t, len(plan.LeftOut) == considered-len(tc.want), "each Queue that is left out has a reason: %v", plan.LeftOut)
	}
}

func TestFieldsOfAnImport(t *testing.T) {
	queue := builder.Queue("q").Quota(`{"A":8,"B":0}`).ServiceType("inference").Capability("64", "1Ti").Label("team", "vision").
		Annotation(v1alpha1.AnnotationCardDeserved, `{"A":9}`).Annotation(v1alpha1.AnnotationCardGuarantee, `{"A":2}`).
		Annotation(v1alpha1.AnnotationNamespaceSelector, `{"matchLabels":{"team":"vision"}}`).Annotation(v1alpha1.AnnotationStopPolicy, "Hold").
		With(func(q *v1beta1.Queue) { q.Spec.Weight = 3 }).Obj()

	got, _ := planFor(Input{Queues: []*v1beta1.Queue{queue}, TenantLabel: "team", Usage: map[string]cardquota.Usage{"q": holds("B", 1)}})
	spec := got["q"].Quota.Spec
	check.Equal(t, "tenant, type, stop policy", []string{"vision", "inference", "Hold"}, []string{spec.Tenant, spec.ServiceType, string(spec.StopPolicy)})
	check.That(t, *spec.Weight == 3 && spec.QueueName == "" && spec.Parent == "", "spec %+v", spec)
	check.Equal(t, "namespaces", map[string]string{"team": "vision"}, spec.NamespaceSelector.MatchLabels)
	check.That(t, *spec.Cards[0].Quota == 8 && *spec.Cards[0].Deserved == 8 && *spec.Cards[0].Guarantee == 2, "deserved is at most the quota: %+v", spec.Cards[0])
	check.That(t, spec.Resources.CPU.String() == "64" && spec.Resources.Memory.String() == "1Ti", "resources %v", spec.Resources)
	check.Contains(t, "comments", strings.Join(got["q"].Comments, "\n"), "1 B, more than the quota of 0")
}

func TestATreeOfQueues(t *testing.T) {
	queues := []*v1beta1.Queue{
		below("root", builder.Queue("top").Capability("100", "")), below("top", builder.Queue("a")), below("top", builder.Queue("b").Quota(`{"A":3}`)),
		below("other", builder.Queue("other")), // its own parent
	}
	usage := map[string]cardquota.Usage{"a": holds("A", 2), "b": holds("A", 1), "other": holds("A", 1)}
	got, plan := planFor(Input{Queues: queues, Usage: usage, IsTree: true})

	top := got["top"].Quota.Spec
	check.That(t, top.ServiceType == "" && top.Parent == "" && *top.Cards[0].Quota == 5, "a parent has no type and what is granted below it, 2 and 3: %+v", top)
	check.Contains(t, "comments", strings.Join(got["top"].Comments, "\n"), "cards: what the queues below it have, or what pods hold now if that is more")
	check.That(t, got["a"].Quota.Spec.Parent == "top" && got["a"].Quota.Spec.Resources.CPU.String() == "100", "a child: %+v", got["a"].Quota.Spec)

	names := make([]string, len(plan.Imports))
	for i, imported := range plan.Imports {
		names[i] = imported.Quota.Name
	}

	check.That(t, slices.Index(names, "top") < slices.Index(names, "a"), "a parent comes first: %v", names)
	alone, _ := planFor(Input{Queues: queues, Usage: usage, IsTree: true, Only: []string{"top"}})
	check.That(t, len(alone) == 1 && alone["top"].Quota.Spec.ServiceType == "", "a parent alone stays a parent: %+v", alone)

	flat, plan := planFor(Input{Queues: queues, Usage: usage})
	check.Equal(t, "flat queues", []string{"a", "b", "other"}, slices.Sorted(maps.Keys(flat)))
	check.That(t, plan.DropsParents && flat["a"].Quota.Spec.Parent == "" && flat["a"].Quota.Spec.Cards[0].Deserved == nil, "flat: %+v", flat["a"].Quota.Spec)
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

// TestTheAPIServerTakesThePlan: the webhook refuses no CardQuota, except below a Queue whose own numbers
// are too small. The comments of that one say so.
func TestTheAPIServerTakesThePlan(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		in := Input{ServiceType: "training", Usage: map[string]cardquota.Usage{}, IsTree: rapid.Bool().Draw(t, "tree")}
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
				in.Usage[name] = holds("A", rapid.IntRange(0, 4).Draw(t, "held by "+name), "B", rapid.IntRange(0, 1).Draw(t, "B held by "+name))
			}
		}

		imports := NewPlan(in).Imports
		for _, queues := range [][]*v1beta1.Queue{nil, in.Queues} { // what Queues say already is only warned of
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
				check.That(t, refused[name] == nil || isCommented, "below %s, without a comment: %v", name, refused[name])
				check.That(t, refused[name] != nil || !isCommented || queues != nil, "%s has a comment, and nothing is refused: %v", name, imported.Comments)
			}
			check.That(t, refused[""] == nil, "at the top: %v", refused[""])
		}
	})
}

// TestAllQueuesAreCovered: only if all is known, and each queue with cards has a CardQuota.
func TestAllQueuesAreCovered(t *testing.T) {
	owned := builder.Queue("owned").Quota(`{"A":1}`).Obj()
	owner := builder.CardQuota("owned").Obj()

	long := builder.Queue(strings.Repeat("q", 64)).Obj()
	usage := map[string]cardquota.Usage{"owned": holds("A", 1), long.Name: holds("A", 1)}
	for name, tc := range map[string]struct {
		in   Input
		want bool
	}{
		"all have one":    {Input{Queues: []*v1beta1.Queue{owned, builder.Queue("idle").Obj()}, Usage: usage}, true},
		"a name too long": {Input{Queues: []*v1beta1.Queue{owned, long}, Usage: usage}, false},
		"not counted":     {Input{Queues: []*v1beta1.Queue{owned}}, false},
		"one is named":    {Input{Queues: []*v1beta1.Queue{owned}, Usage: usage, Only: []string{"owned"}}, false},
	} {
		tc.in.Quotas = []*v1alpha1.CardQuota{owner}
		_, plan := planFor(tc.in)
		check.Equal(t, name, tc.want, plan.CoversAll)
	}
}

// A parent that exists is not changed, so a comment says what it lacks.
func TestAnExistingParentThatIsTooSmall(t *testing.T) {
	queues := []*v1beta1.Queue{builder.Queue("top").Obj(), below("top", builder.Queue("a")), below("top", builder.Queue("b"))}
	parent := builder.CardQuota("above").Queue("top").ServiceType("").Card("A", 3).Card("B", 2).Resources("1000000", "1Ei").With(func(q *v1alpha1.CardQuota) {
		q.Spec.Cards[1].Quota = nil
		q.Spec.Cards[1].Deserved = ptr.To[int64](0) // inherited
	}).Obj()
	got, _ := planFor(Input{Queues: queues, Quotas: []*v1alpha1.CardQuota{parent}, Usage: map[string]cardquota.Usage{"a": holds("A", 2, "B", 1), "b": holds("A", 2)}, IsTree: true})
	check.Equal(t, "parent", "above", got["a"].Quota.Spec.Parent)
	check.Contains(t, "comments of the first", strings.Join(got["a"].Comments, "\n"), "deserved of A: CardQuota above has 3, too little for the 4 of the queues below it.")
	check.That(t, !strings.Contains(strings.Join(got["a"].Comments, "\n")+strings.Join(got["b"].Comments, "\n"), "of B: CardQuota above"), "an inherited quota is not known: %v", got["a"].Comments)
	check.That(t, !strings.Contains(strings.Join(got["b"].Comments, "\n"), "too little"), "it is said once: %v", got["b"].Comments)
}

func TestQueuesWithLongNamesAreNotImported(t *testing.T) {
	long := strings.Repeat("q", 64)
	got, plan := planFor(Input{Queues: []*v1beta1.Queue{builder.Queue(long).Quota(`{"A":1}`).Obj()}, Usage: map[string]cardquota.Usage{}})
	check.That(t, len(got) == 0 && len(plan.LeftOut) == 1 && strings.Contains(plan.LeftOut[0].Why, "at most 63"), "%v", plan.LeftOut)
}

func TestThePlanIsAFileToApply(t *testing.T) {
	queues := []*v1beta1.Queue{
		builder.Queue("bad").Quota("{\n---\nevil: true").Obj(), builder.Queue("default").Quota(`{"A":1}`).Obj(),
		builder.Queue("gpu").Quota(`{"A":1}`).With(func(q *v1beta1.Queue) {
			q.Spec.Capability = corev1.ResourceList{"nvidia.com/gpu": builder.Resources("8", "")["cpu"]}
			no := false
			q.Spec.Priority = 5
			q.Spec.Reclaimable = &no
			q.Status.State = v1beta1.QueueStateClosed
		}).Obj(),
	}

	_, plan := planFor(Input{Queues: queues, Usage: map[string]cardquota.Usage{}})
	var text bytes.Buffer
	check.NoError(t, plan.Write(&text))

	quotas := parseManifests(t, text.String())
	check.Equal(t, "CardQuotas", []string{"bad", "default", "gpu"}, slices.Sorted(maps.Keys(quotas)))
	check.That(t, quotas["default"].Spec.QueueName == "default", "the queue default must be named")

	comments := strings.Join(strings.Fields(strings.ReplaceAll(text.String(), "#", "")), " ")
	check.Contains(t, "comments", comments, "cannot be read", "also limits nvidia.com/gpu", "priority 5 of the Queue",
		"reclaimable: false of the Queue", "The Queue is Closed", "Left out, it would be 0")
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

// Whatever the Queues say: the text can be applied, no queue is imported twice, a parent comes before
// its children, and a quota that can be read is the same in the CardQuota.
func TestAnyQueuesCanBeImported(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "default"}
		var in Input
		in.ServiceType = "training"
		in.Usage = map[string]cardquota.Usage{}
		in.IsTree = rapid.Bool().Draw(t, "tree")
		for _, name := range names {
			quota := rapid.SampledFrom([]string{"", `{}`, `{"A":3}`, `{"A":1,"B/mig-1g.18gb-mixed":2}`, `{"A":-1}`, "no"}).Draw(t, "quota of "+name)
			parent := rapid.SampledFrom(append(names, "", "root", "gone")).Draw(t, "parent of "+name)
			in.Queues = append(in.Queues, below(parent, builder.Queue(name).Quota(quota)))
			if rapid.Bool().Draw(t, name+" is used") {
				in.Usage[name] = holds("A", rapid.IntRange(0, 4).Draw(t, "held"))
			}
		}

		plan := NewPlan(in)
		var text bytes.Buffer
		check.NoError(t, plan.Write(&text))

		quotas := parseManifests(t, text.String())
		check.That(t, len(quotas) == len(plan.Imports), "%d documents, %d imports", len(quotas), len(plan.Imports))
		check.That(t, len(plan.Imports)+len(plan.LeftOut) == len(names), "every Queue is imported or left out: %d and %v", len(plan.Imports), plan.LeftOut)
		for _, queue := range in.Queues {
			want, err := card.ParseQuota(queue.Annotations[v1alpha1.AnnotationCardQuota])
			if imported := quotas[queue.Name]; err == nil && imported != nil {
				got := card.Quota{}
				for _, c := range imported.Spec.Cards {
					got[card.Name(c.Name)] = card.Count(*c.Quota)
				}
				check.Equal(t, "quota of "+queue.Name, want.String(), got.String())
			} else if err == nil && queue.Annotations[v1alpha1.AnnotationCardQuota] != "" && (in.IsTree || !isAbove(in.Queues, queue.Name)) {
				t.Fatalf("%s has a quota and is not imported", queue.Name)
			}
		}
	})
}

// isAbove reports whether other queues are below a queue.
func isAbove(queues []*v1beta1.Queue, name string) bool {
	return slices.ContainsFunc(queues, func(q *v1beta1.Queue) bool { return q.Name != name && q.Spec.Parent == name })
}

func TestNotesNameQueuesByReason(t *testing.T) {
	plan := Plan{LeftOut: []LeftOut{{"root", "it belongs to Volcano"}}}
	for i := range 10 {
		plan.LeftOut = append(plan.LeftOut, LeftOut{fmt.Sprint("q", i), "it has no cards"})
	}
	check.Equal(t, "notes", []string{
		"Left out: root: it belongs to Volcano.", "Left out: q0, q1, q2, q3, q4, q5, q6, q7 and 2 more: it has no cards.",
	}, plan.Notes())
}
