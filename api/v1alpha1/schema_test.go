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
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
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

// foreign are parts of the schema that Kubernetes defines.
func foreign(path string) bool {
	return strings.Contains(path, ".conditions[]") || strings.Contains(path, ".namespaceSelector")
}

func TestEveryFieldIsExplainedAndBounded(t *testing.T) {
	for _, plural := range []string{"cardinventories", "cardquotas", "localcardquotas", "servicetypepolicies"} {
		root := schemaOf(t, plural)
		fields := 0
		for _, part := range []string{"spec", "status"} {
			if _, has := root.Properties[part]; !has {
				continue
			}

			walk(part, root.Properties[part], func(path string, s schema) {
				if foreign(path) {
					return
				}
				fields++
				check.That(t, len(s.Description) >= 20 || strings.HasSuffix(path, "[]"), "%s: %s has no description", plural, path)
				missing := unbounded(path, s)
				check.That(t, missing == "", "%s: %s is %s", plural, path, missing)
			})
		}

		check.That(t, fields >= 25, "%s: only %d fields were looked at", plural, fields)
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

func TestBoundsOfTheStatusAreThoseThatTheOperatorKeeps(t *testing.T) {
	status := cardQuotaSchema(t).Properties["status"]
	waiting := status.Properties["blocked"]
	entry := *waiting.Items.Schema
	lengths := map[string]struct {
		field schema
		want  int64
	}{
		"summary":         {status.Properties["summary"], maxSummaryLength},
		"pendingSummary":  {status.Properties["pendingSummary"], maxSummaryLength},
		"blocked.card":    {entry.Properties["card"], blocked.MaxCardLength},
		"blocked.reason":  {entry.Properties["reason"], cardquota.MaxReasonLength},
		"blocked.message": {entry.Properties["message"], conditions.MaxMessageLength},
	}

	for name, l := range lengths {
		check.That(t, l.field.MaxLength != nil && *l.field.MaxLength == l.want, "%s: the schema says %v, the operator %d", name, l.field.MaxLength, l.want)
	}

	if got := *waiting.MaxItems; got != cardquota.MaxBlocked {
		t.Errorf("blocked: the schema says %d, the operator %d", got, cardquota.MaxBlocked)
	}
	if got := *status.Properties["cards"].MaxItems; got != cardquota.MaxStatusCards {
		t.Errorf("cards: the schema says %d, the operator %d", got, cardquota.MaxStatusCards)
	}

	month := schemaOf(t, "localcardquotas").Properties["status"].Properties["cardHours"].Properties["thisMonth"]
	most := month.Properties["cards"].MaxItems
	summary := month.Properties["summary"].MaxLength
	check.That(t, *most == cardquota.MaxStatusCards && *summary == maxSummaryLength, "card-hours: the schema says %d cards and a summary of %d, the operator %d and %d", *most, *summary, cardquota.MaxStatusCards, maxSummaryLength)
}

func TestBoundsOfTheInventoryAreThoseThatTheOperatorKeeps(t *testing.T) {
	status := schemaOf(t, "cardinventories").Properties["status"]
	entry := *status.Properties["cards"].Items.Schema

	anomaly := *status.Properties["anomalies"].Items.Schema
	for name, l := range map[string]struct {
		got  *int64
		want int64
	}{
		"cards":        {status.Properties["cards"].MaxItems, cardinventory.MaxCards},
		"resources":    {entry.Properties["resources"].MaxItems, cardinventory.MaxResources},
		"serviceTypes": {entry.Properties["serviceTypes"].MaxItems, cardinventory.MaxServiceTypes},
		"anomalies":    {status.Properties["anomalies"].MaxItems, cardinventory.MaxAnomalies},
		"nodes":        {anomaly.Properties["nodes"].MaxItems, cardinventory.MaxAnomalyNodes},
		"summary":      {status.Properties["summary"].MaxLength, maxSummaryLength},
		"message":      {anomaly.Properties["message"].MaxLength, conditions.MaxMessageLength},
	} {
		check.That(t, l.got != nil && *l.got == l.want, "%s: the schema says %v, the operator %d", name, l.got, l.want)
	}
}

// TestCardNamesOfTheSchemaAreThoseOfTheScheduler: a name that the API accepts
// and the scheduler cannot read would close the whole queue.
func TestCardNamesOfTheSchemaAreThoseOfTheScheduler(t *testing.T) {
	name := cardQuotaSchema(t).Properties["spec"].Properties["cards"].Items.Schema.Properties["name"]
	pattern := regexp.MustCompile(name.Pattern)
	accepts := func(text string) bool {
		return pattern.MatchString(text) && int64(len(text)) <= *name.MaxLength && int64(len(text)) >= *name.MinLength
	}

	agree := func(text string) error {
		if _, err := card.ParseName(text); (err == nil) != accepts(text) {
			return fmt.Errorf("%q: the schema says %v, the scheduler %w", text, accepts(text), err)
		}
		return nil
	}
	for _, text := range []string{"", "NVIDIA-H200", "NVIDIA-H200/mig-1g.18gb-mixed", "NVIDIA-H800/mps-80g*1/2", "A/", "/A", "A/B",
		"A/mig--mixed", "A/mps-80g*2/2", "A/mps-80g*1/0", "-A", "A-", "a b", "NVIDIA-H200\n", strings.Repeat("A", 63), strings.Repeat("A", 64)} {
		if err := agree(text); err != nil {
			t.Error(err)
		}
	}

	seed.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_.-]{1,66}(/(mig-[a-z0-9_.-]{0,43}-mixed|mps-[0-9]{1,7}g\*1/[0-9]{1,5}))?`),
			rapid.StringMatching(name.Pattern),
			rapid.String(),
		).Draw(t, "name")
		check.NoError(t, agree(text))
	})
}

func TestQueueOfACardQuota(t *testing.T) {
	quota := v1alpha1.CardQuota{}
	quota.Name = "team"
	if got := quota.QueueName(); got != "team" {
		t.Errorf("without queueName the queue is %q, want the CardQuota's own name", got)
	}
	quota.Spec.QueueName = "other"
	if got := quota.QueueName(); got != "other" {
		t.Errorf("with queueName the queue is %q", got)
	}
}

// TestAStatusOfBeforeIsRead: a status that could not be read would keep the operator
// from seeing any CardQuota.
func TestAStatusOfBeforeIsRead(t *testing.T) {
	var status v1alpha1.CardQuotaStatus
	check.NoError(t, json.Unmarshal([]byte(`{"blocked":[{"workload":"vcjob/lab/train","count":1},{"workload":{"kind":"Pod","name":"a"}}]}`), &status))
	got := status.Blocked
	check.That(t, got[0].Workload == (v1alpha1.WorkloadReference{}) && got[0].Count == 1 && got[1].Workload.Name == "a", "read as %+v", got)
}
