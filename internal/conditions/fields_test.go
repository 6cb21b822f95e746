package conditions

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestFieldsThatTheSpecDoesNotHaveAreListed: the API server drops a field that this version of the API does not
// have, and the user expects an effect of it. Only metadata.managedFields still names it, so condition
// FieldsKnown lists such fields from there. If the object has no such field, SetFieldsKnown removes the condition.
//
// In managedFields "f:NAME" is a field, "k:{…}" an entry of a list by its key, and "." the entry itself.
func TestFieldsThatTheSpecDoesNotHaveAreListed(t *testing.T) {
	policy := v1alpha1.ServiceTypePolicySpec{}
	quota := v1alpha1.CardQuotaSpec{}
	for t, tc := range check.Cases(t, map[string]struct {
		spec          any
		managedFields string
		want          []string
	}{
		"no field is managed":                {spec: policy, managedFields: `{}`},
		"an entry that is not JSON is empty": {spec: policy, managedFields: `{`},
		"the policy has every field": {
			spec: policy,
			managedFields: `{"f:spec":{".":{},"f:reclaim":{},"f:admission":{"f:exemptServiceAccounts":{".":{},
				"k:{\"name\":\"a\",\"namespace\":\"b\"}":{".":{},"f:name":{}}}}}}`,
		},
		"three fields that an earlier version of the policy had": {
			spec:          policy,
			managedFields: `{"f:spec":{"f:overCommitFactor":{},"f:cardUnlimitedCPUMemory":{},"f:admission":{"f:bypass":{}}}}`,
			want:          []string{"spec.admission.bypass", "spec.cardUnlimitedCPUMemory", "spec.overCommitFactor"},
		},
		"unknown fields in entries of a list: one name for all entries": {
			spec: policy,
			managedFields: `{"f:spec":{"f:serviceTypes":{
				"k:{\"name\":\"training\"}":{".":{},"f:name":{},"f:reclaimable":{},"f:minimumRuntime":{}},
				"k:{\"name\":\"b\"}":{"f:reclaimable":{}}}}}`,
			want: []string{"spec.serviceTypes.minimumRuntime", "spec.serviceTypes.reclaimable"},
		},
		"a CardQuota with known fields, and with cohort and nominal": {
			spec: quota,
			managedFields: `{"f:spec":{"f:cohort":{},"f:cards":{"k:{\"name\":\"A\"}":{"f:nominal":{},"f:quota":{}}},
				"f:resources":{"f:cpu":{}},"f:namespaceSelector":{"f:matchLabels":{".":{},"f:team":{}}}}}`,
			want: []string{"spec.cards.nominal", "spec.cohort"},
		},
		"fields of metadata and status do not count": {
			spec:          quota,
			managedFields: `{"f:status":{"f:nothing":{}},"f:metadata":{"f:annotations":{"f:a":{}}}}`,
		},
	}) {
		object := &metav1.ObjectMeta{ // the first field manager has no fields
			ManagedFields: []metav1.ManagedFieldsEntry{{}, {FieldsV1: &metav1.FieldsV1{Raw: []byte(tc.managedFields)}}},
		}
		check.Equal(t, "unknown fields", tc.want, UnknownFields(object, tc.spec))

		list := []metav1.Condition{{Type: v1alpha1.ConditionFieldsKnown}} // set before, for other fields
		SetFieldsKnown(&list, object, tc.spec, time.Unix(1, 0))
		check.Equal(t, "number of conditions", min(1, len(tc.want)), len(list))
		check.Contains(t, "conditions", fmt.Sprint(list), tc.want...)
	}
}
