package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/waiting"
)

type schema = apiextensionsv1.JSONSchemaProps

// schemaOf reads the schema that is shipped.
func schemaOf(t *testing.T, plural string) schema {
	content := check.Value(os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "cardquota.dev_"+plural+".yaml")))(t)
	var crd apiextensionsv1.CustomResourceDefinition
	check.NoError(t, yaml.UnmarshalStrict(content, &crd))
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func cardQuotaSchema(t *testing.T) schema { return schemaOf(t, "cardquotas") }

// walk visits every field of spec and status.
func walk(path string, s schema, visit func(path string, s schema)) {
	visit(path, s)
	for name, field := range s.Properties {
		walk(path+"."+name, field, visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", *s.Items.Schema, visit)
	}
}

// isOfKubernetes reports whether Kubernetes defines a part of the schema.
func isOfKubernetes(path string) bool {
	return strings.Contains(path, ".conditions[]") || strings.Contains(path, ".namespaceSelector")
}

// TestEveryFieldIsExplainedAndBounded: kubectl explain prints the description of a field, and a field without
// a bound could make an object too large for a cache or a scheduler. So each field of spec and status of our
// kinds has a description of at least 20 characters, which for the entries of a list is that of the list. No
// number is a fraction. A list has a largest number of entries. A text has a largest length, listed values or
// the format of a date. A number has a least value, and in a spec also a largest one. Quantities have their
// pattern. Fields that Kubernetes defines are not checked.
func TestEveryFieldIsExplainedAndBounded(t *testing.T) {
	for _, plural := range []string{"cardinventories", "cardquotas", "localcardquotas", "servicetypepolicies"} {
		root := schemaOf(t, plural)
		fields := 0
		for _, part := range []string{"spec", "status"} {
			if _, has := root.Properties[part]; !has {
				continue
			}

			walk(part, root.Properties[part], func(path string, s schema) {
				if isOfKubernetes(path) {
					return
				}
				fields++
				check.That(t, len(s.Description) >= 20 || strings.HasSuffix(path, "[]"), "%s: %s has no description", plural, path)
				missing := unbounded(path, s)
				check.That(t, missing == "", "%s: %s is %s", plural, path, missing)
			})
		}

		// Each kind has more, so this shows that walk visits the fields.
		check.That(t, fields >= 25, "%s has only %d fields, the walk does not see all", plural, fields)
	}
}

// unbounded says what bound a field lacks, "" when it lacks none. The numbers of a
// status end with their format.
func unbounded(path string, s schema) string {
	switch {
	case s.XIntOrString: // a quantity, bounded by its pattern
		return ""
	case s.Type == "array" && s.MaxItems == nil:
		return "a list without an end"
	case s.Type == "string" && !isBoundedText(s):
		return "a text without an end"
	case s.Type == "integer" && !isBoundedNumber(path, s):
		return "a number without bounds"
	case s.Type == "number":
		return "a fraction: cards are whole"
	default:
		return ""
	}
}

func isBoundedText(s schema) bool {
	return s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time"
}

func isBoundedNumber(path string, s schema) bool {
	isInSpec := strings.HasPrefix(path, "spec")
	return s.Minimum != nil && (!isInSpec || s.Maximum != nil)
}

// maxSummaryLength is the most bytes of a summary. A test of package cardquota checks that the operator's are shorter.
const maxSummaryLength = 1024

// TestBoundsOfTheStatusAreThoseThatTheOperatorKeeps: the operator cuts lists and texts of the status by its own
// constants. The schema has the same bounds: if it allowed less, the API server would refuse the whole status.
func TestBoundsOfTheStatusAreThoseThatTheOperatorKeeps(t *testing.T) {
	status := cardQuotaSchema(t).Properties["status"]

	blocked := status.Properties["blocked"]
	entry := *blocked.Items.Schema
	month := schemaOf(t, "localcardquotas").Properties["status"].Properties["cardHours"].Properties["thisMonth"]
	checkBounds(t, map[string]bound{
		"summary":                     {status.Properties["summary"].MaxLength, maxSummaryLength},
		"pendingSummary":              {status.Properties["pendingSummary"].MaxLength, maxSummaryLength},
		"cards":                       {status.Properties["cards"].MaxItems, cardquota.MaxStatusCards},
		"blocked":                     {blocked.MaxItems, waiting.MaxBlocked},
		"blocked.card":                {entry.Properties["card"].MaxLength, waiting.MaxCardLength},
		"blocked.reason":              {entry.Properties["reason"].MaxLength, cardquota.MaxReasonLength},
		"blocked.message":             {entry.Properties["message"].MaxLength, conditions.MaxMessageLength},
		"cardHours.thisMonth.cards":   {month.Properties["cards"].MaxItems, cardquota.MaxStatusCards},
		"cardHours.thisMonth.summary": {month.Properties["summary"].MaxLength, maxSummaryLength},
	})
}

// bound is what the schema says of the length of a field, and what the operator keeps.
type bound struct {
	inSchema   *int64
	ofOperator int64
}

func checkBounds(t *testing.T, bounds map[string]bound) {
	for name, b := range bounds {
		check.Equal(t, "bound of "+name+" in the schema", &b.ofOperator, b.inSchema)
	}
}

// TestBoundsOfTheInventoryAreThoseThatTheOperatorKeeps: the operator cuts lists and texts in the status of the
// CardInventory by its own constants. The schema has the same bounds: if it allowed less, the API server would refuse
// the whole status.
func TestBoundsOfTheInventoryAreThoseThatTheOperatorKeeps(t *testing.T) {
	status := schemaOf(t, "cardinventories").Properties["status"]
	entry := *status.Properties["cards"].Items.Schema

	anomaly := *status.Properties["anomalies"].Items.Schema
	checkBounds(t, map[string]bound{
		"cards":        {status.Properties["cards"].MaxItems, cardinventory.MaxCards},
		"resources":    {entry.Properties["resources"].MaxItems, cardinventory.MaxResources},
		"serviceTypes": {entry.Properties["serviceTypes"].MaxItems, cardinventory.MaxServiceTypes},
		"anomalies":    {status.Properties["anomalies"].MaxItems, cardinventory.MaxAnomalies},
		"nodes":        {anomaly.Properties["nodes"].MaxItems, cardinventory.MaxAnomalyNodes},
		"summary":      {status.Properties["summary"].MaxLength, maxSummaryLength},
		"message":      {anomaly.Properties["message"].MaxLength, conditions.MaxMessageLength},
	})
}

// TestCardNamesOfTheSchemaAreThoseOfTheScheduler: the schema has a pattern for card names, and the scheduler parses
// them. If the API server accepted a name that the scheduler cannot parse, the scheduler would withhold all cards
// of the queue. Both must agree on a list of names and on random ones.
func TestCardNamesOfTheSchemaAreThoseOfTheScheduler(t *testing.T) {
	name := cardQuotaSchema(t).Properties["spec"].Properties["cards"].Items.Schema.Properties["name"]
	pattern := regexp.MustCompile(name.Pattern)
	accepts := func(text string) bool {
		return pattern.MatchString(text) && int64(len(text)) <= *name.MaxLength && int64(len(text)) >= *name.MinLength
	}

	checkName := func(t check.T, text string) {
		_, err := card.ParseName(text)
		check.Equal(t, fmt.Sprintf("%q: the schema accepts it, and the scheduler says %v", text, err), err == nil, accepts(text))
	}

	for _, text := range []string{"", "NVIDIA-H200", "NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H800/mps-80g*1/2", "A/", "/A", "A/B",
		"A/mig--mixed", "A/mps-80g*2/2", "A/mps-80g*1/0", "-A", "A-", "a b", "NVIDIA-H200\n", strings.Repeat("A", 63), strings.Repeat("A", 64)} {
		checkName(t, text)
	}

	seed.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_.-]{1,66}(/(mig-[a-z0-9_.-]{0,43}-mixed|mps-[0-9]{1,7}g\*1/[0-9]{1,5}))?`),
			rapid.StringMatching(name.Pattern),
			rapid.String(),
		).Draw(t, "name")
		checkName(t, text)
	})
}

// TestQueueIsNamedLikeItsCardQuota: the queue has the name of the CardQuota unless spec.queueName says another one.
func TestQueueIsNamedLikeItsCardQuota(t *testing.T) {
	quota := v1alpha1.CardQuota{}
	quota.Name = "team"
	check.Equal(t, "queue without queueName", "team", quota.QueueName())

	quota.Spec.QueueName = "other"
	check.Equal(t, "queue with queueName", "other", quota.QueueName())
}

// TestStatusOfAnOlderVersionIsRead: in an earlier version the workload of a blocked entry was a text, and now it is an
// object. A status that could not be decoded would keep the operator from listing any CardQuota. So the text is read as
// no workload, and the rest of the entry, here its count, is kept.
func TestStatusOfAnOlderVersionIsRead(t *testing.T) {
	var status v1alpha1.CardQuotaStatus
	check.NoError(t, json.Unmarshal([]byte(`{"blocked":[{"workload":"vcjob/lab/train","count":1},{"workload":{"kind":"Pod","name":"a"}}]}`), &status))
	check.Equal(t, "blocked", []v1alpha1.BlockedStatus{{Count: 1}, {Workload: v1alpha1.WorkloadReference{Kind: "Pod", Name: "a"}}}, status.Blocked)
}
