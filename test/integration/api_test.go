package integration

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// cardQuotaObject returns a CardQuota with a spec of JSON-like values, which may be values that
// the Go type cannot have.
func cardQuotaObject(name string, spec map[string]any) *unstructured.Unstructured {
	full := map[string]any{"tenant": "t", "serviceType": "training"}
	for key, value := range spec {
		if value == nil {
			delete(full, key)
			continue
		}
		full[key] = value
	}

	u := &unstructured.Unstructured{Object: map[string]any{"spec": full}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CardQuota"))
	u.SetName(name)
	return u
}

func cardsOf(entries ...any) map[string]any {
	return map[string]any{"cards": entries}
}

func cardEntry(name, quota any) map[string]any {
	return map[string]any{"name": name, "quota": quota}
}

// TestTheAPIRefusesCardQuotasThatCannotWork: the API server itself refuses a CardQuota that can never work, by the
// schema and the rules of the CustomResourceDefinition. Each row creates one by a dry run, with tenant t and service
// type training unless the row says otherwise. Without wantError the API server accepts it.
func TestTheAPIRefusesCardQuotasThatCannotWork(t *testing.T) {
	startParallelTest(t)
	// many returns n cards.
	many := func(n int) map[string]any {
		entries := make([]any, n)
		for i := range entries {
			entries[i] = cardEntry(fmt.Sprintf("MODEL-%d", i), int64(1))
		}
		return cardsOf(entries...)
	}

	name63 := strings.Repeat("n", 63)
	name64 := strings.Repeat("n", 64)

	for t, tc := range check.Cases(t, map[string]struct {
		name string
		spec map[string]any
		// wantError is a part of the error, "" when the API server accepts the object.
		wantError string
	}{
		"tenant and service type alone":       {},
		"a name with dots":                    {name: "chat.inference"},
		"a name that fits a label":            {name: name63},
		"a name too long for a queue":         {name: name64, wantError: "at most 63 characters, or set spec.queueName"},
		"a long name with a short queue name": {name: name64, spec: map[string]any{"queueName": "short"}},
		"the name root":                       {name: "root", wantError: "the queue root belongs to Volcano"},
		"the name root for another queue":     {name: "root", spec: map[string]any{"queueName": "other"}},
		"the name default without queueName":  {name: "default", wantError: "say so with spec.queueName: default"},
		"the name default with queueName":     {name: "default", spec: map[string]any{"queueName": "default"}},
		"another name with queueName default": {spec: map[string]any{"queueName": "default"}},
		"the root queue":                      {spec: map[string]any{"queueName": "root"}, wantError: "the queue root belongs to Volcano"},
		"a queue name in capitals":            {spec: map[string]any{"queueName": "Team"}, wantError: "spec.queueName in body should match"},
		"a queue name that is too long":       {spec: map[string]any{"queueName": name64}, wantError: "Too long"},
		"an empty queue name":                 {spec: map[string]any{"queueName": ""}, wantError: "spec.queueName in body should be at least 1 chars"},

		"no tenant":                    {spec: map[string]any{"tenant": nil}, wantError: "spec.tenant: Required value"},
		"an empty tenant":              {spec: map[string]any{"tenant": ""}, wantError: "spec.tenant in body should be at least 1 chars"},
		"a tenant with a space":        {spec: map[string]any{"tenant": "a b"}, wantError: "spec.tenant in body should match"},
		"a long tenant":                {spec: map[string]any{"tenant": name64}, wantError: "Too long"},
		"a project":                    {spec: map[string]any{"project": "Search_v2"}},
		"a project with a slash":       {spec: map[string]any{"project": "a/b"}, wantError: "spec.project in body should match"},
		"no service type, as a parent": {spec: map[string]any{"serviceType": nil}},
		"service type notebook":        {spec: map[string]any{"serviceType": "notebook"}},
		"a service type in capitals":   {spec: map[string]any{"serviceType": "Training"}, wantError: "spec.serviceType in body should match"},

		"no cards":                 {spec: cardsOf()},
		"whole, MIG and MPS cards": {spec: cardsOf(cardEntry("NVIDIA-H200", int64(8)), cardEntry("NVIDIA-H200/mig-1g.18gb-mixed", int64(3)), cardEntry("NVIDIA-H800/mps-80g*1/2", int64(2)), cardEntry("Ascend-910B", int64(1)))},
		"64 cards":                 {spec: many(64)},
		"65 cards":                 {spec: many(65), wantError: "must have at most 64 items"},
		"one card twice":           {spec: cardsOf(cardEntry("A", int64(1)), cardEntry("A", int64(2))), wantError: `Duplicate value: {"name":"A"}`},
		"a card without a name":    {spec: cardsOf(map[string]any{"quota": int64(1)}), wantError: "spec.cards[0].name: Required value"},
		"a card without a quota":   {spec: cardsOf(map[string]any{"name": "A"}), wantError: "write quota, or in a tree deserved with the quota of the parent"},
		"a resource name as card":  {spec: cardsOf(cardEntry("nvidia.com/gpu", int64(1))), wantError: "spec.cards[0].name in body should match"},
		"alternatives as a card":   {spec: cardsOf(cardEntry("A|B", int64(1))), wantError: "spec.cards[0].name in body should match"},
		"a MIG card without mixed": {spec: cardsOf(cardEntry("A/mig-1g.18gb", int64(1))), wantError: "spec.cards[0].name in body should match"},
		"a model of 64 characters": {spec: cardsOf(cardEntry(name64, int64(1))), wantError: "spec.cards[0].name in body should match"},
		"a quota of 0":             {spec: cardsOf(cardEntry("A", int64(0)))},
		"a quota of 1,000,000":     {spec: cardsOf(cardEntry("A", int64(1000000)))},
		"a quota of 1,000,001":     {spec: cardsOf(cardEntry("A", int64(1000001))), wantError: "should be less than or equal to 1000000"},
		"a negative quota":         {spec: cardsOf(cardEntry("A", int64(-1))), wantError: "should be greater than or equal to 0"},
		"half a card":              {spec: cardsOf(cardEntry("A", 1.5)), wantError: "must be of type integer"},
		"a quota as a text":        {spec: cardsOf(cardEntry("A", "8")), wantError: "must be of type integer"},
		"a huge quota":             {spec: cardsOf(cardEntry("A", 1e300)), wantError: "must be of type integer"},

		"CPU as a number, memory with a unit": {spec: map[string]any{"resources": map[string]any{"cpu": int64(96), "memory": "1Ti"}}},
		"a limit of 0 CPU":                    {spec: map[string]any{"resources": map[string]any{"cpu": "0"}}},
		"a part of a CPU":                     {spec: map[string]any{"resources": map[string]any{"cpu": "1500m"}}},
		"negative CPU":                        {spec: map[string]any{"resources": map[string]any{"cpu": "-1"}}, wantError: "cpu must be between 0 and 1000000000"},
		"2,000,000,000 CPU":                   {spec: map[string]any{"resources": map[string]any{"cpu": "2G"}}, wantError: "cpu must be between 0 and 1000000000"},
		"negative memory":                     {spec: map[string]any{"resources": map[string]any{"memory": "-1Gi"}}, wantError: "memory must be between 0 and 4Ei"},
		"5Ei of memory":                       {spec: map[string]any{"resources": map[string]any{"memory": "5Ei"}}, wantError: "memory must be between 0 and 4Ei"},
		"memory that is a word":               {spec: map[string]any{"resources": map[string]any{"memory": "lots"}}, wantError: "spec.resources.memory in body should match"},
		"memory of 1000 digits":               {spec: map[string]any{"resources": map[string]any{"memory": "1e999"}}, wantError: "memory"},

		"a weight of 65,535":    {spec: map[string]any{"weight": int64(65535)}},
		"a weight of 0":         {spec: map[string]any{"weight": int64(0)}, wantError: "should be greater than or equal to 1"},
		"a weight of 65,536":    {spec: map[string]any{"weight": int64(65536)}, wantError: "should be less than or equal to 65535"},
		"overAllocation Allow":  {spec: map[string]any{"overAllocation": "Allow"}},
		"overAllocation Deny":   {spec: map[string]any{"overAllocation": "Deny"}},
		"overAllocation Maybe":  {spec: map[string]any{"overAllocation": "Maybe"}, wantError: `supported values: "Allow", "Warn", "Deny"`},
		"deletionPolicy Retain": {spec: map[string]any{"deletionPolicy": "Retain"}},
		"deletionPolicy Orphan": {spec: map[string]any{"deletionPolicy": "Orphan"}, wantError: `supported values: "Delete", "Retain"`},
		"card instead of cards": {spec: map[string]any{"card": "A"}, wantError: `unknown field "spec.card"`},
	}) {
		expectAPIAnswer(t, cardQuotaObject(cmp.Or(tc.name, "rule"), tc.spec), tc.wantError)
	}
}

// expectAPIAnswer expects that the API server denies an object with a text, or accepts it for
// "".
func expectAPIAnswer(t *testing.T, o client.Object, text string) {
	check.Says(t, admin.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict")), text)
}

// TestAPIDefaultsAreVisible: a user who reads a CardQuota sees which defaults apply, because the API server writes
// them into the stored spec.
func TestAPIDefaultsAreVisible(t *testing.T) {
	g, _ := startParallelTest(t)
	u := cardQuotaObject("rule", nil)
	g.Expect(admin.Create(t.Context(), u, client.DryRunAll)).To(gomega.Succeed())
	g.Expect(u.Object["spec"]).To(gomega.Equal(map[string]any{
		"tenant": "t", "serviceType": "training", "overAllocation": "Warn", "deletionPolicy": "Delete", "stopPolicy": "None",
	}))
}

// TestQueueNameCannotBeChanged: spec.queueName names the Queue of a CardQuota, by default the one with its own
// name, here "rename". A change would leave the old Queue without an owner, so the API server refuses it. To write
// the default out, or to leave it out again, is no change. Each row also changes the project, which is allowed.
func TestQueueNameCannotBeChanged(t *testing.T) {
	startParallelTest(t)
	const refusal = "spec.queueName cannot be changed"
	for t, tc := range check.Cases(t, map[string]struct {
		before, after string
		wantError     string
	}{
		"from one queue to another":         {before: "rename-a", after: "rename-b", wantError: refusal},
		"from the default to another queue": {after: "rename-b", wantError: refusal},
		"from another queue to the default": {before: "rename-a", wantError: refusal},
		"the default is written out":        {after: "rename"},
		"the default is removed again":      {before: "rename"},
		"the same queue, not the default":   {before: "rename-a", after: "rename-a"},
	}) {
		quota := newQuota("rename", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = tc.before })
		admin.CreateWithCleanup(t, quota)
		base := quota.DeepCopy()
		quota.Spec.QueueName = tc.after
		quota.Spec.Project = "changed"

		check.Says(t, admin.Patch(t.Context(), quota, client.MergeFrom(base)), tc.wantError)
	}
}

// TestCardQuotasAreSelectedByTenant: administrators list the CardQuotas of one tenant with a field selector. Two
// tenants have one CardQuota each, and the list has that of select-a.
func TestCardQuotasAreSelectedByTenant(t *testing.T) {
	g, _ := startParallelTest(t)
	for _, name := range []string{"select-a", "select-b"} {
		admin.CreateWithCleanup(t, newQuota(name, func(q *v1alpha1.CardQuota) { q.Spec.Tenant = name }))
	}
	var list v1alpha1.CardQuotaList
	g.Expect(admin.List(t.Context(), &list, client.MatchingFields{"spec.tenant": "select-a"})).To(gomega.Succeed())
	g.Expect(list.Items).To(gomega.HaveLen(1))
	g.Expect(list.Items[0].Name).To(gomega.Equal("select-a"))
}

// TestSamplesAreAccepted: the API server accepts each CardQuota and ServiceTypePolicy in config/samples, which
// users copy.
func TestSamplesAreAccepted(t *testing.T) {
	g, _ := startParallelTest(t)
	files := check.Value(filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml")))(t)

	trees := check.Value(filepath.Glob(filepath.Join(root, "config", "samples", "tree", "[^k]*.yaml")))(t) // all but kustomization.yaml
	g.Expect(trees).To(gomega.HaveLen(2))

	files = append(files, trees...)
	seen := map[string]int{}
	for _, file := range files {
		for _, o := range check.Value(readObjects(file))(t) {
			switch o.GetKind() {
			case "CardQuota", "ServiceTypePolicy":
				seen[o.GetKind()]++
				expectAPIAnswer(t, o, "")
			}
		}
	}

	g.Expect(seen["CardQuota"]).To(gomega.BeNumerically(">=", 3), "samples")
	g.Expect(seen["ServiceTypePolicy"]).To(gomega.BeNumerically(">=", 1))
}
