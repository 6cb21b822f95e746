package conditions

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestUnknownFields(t *testing.T) {
	policy := v1alpha1.ServiceTypePolicySpec{}
	quota := v1alpha1.CardQuotaSpec{}
	for t, tc := range check.Cases(t, map[string]struct {
		spec any
		raw  string
		want []string
	}{
		"nothing":                 {policy, `{}`, nil},
		"no JSON":                 {policy, `{`, nil},
		"every field is known":    {policy, `{"f:spec":{".":{},"f:reclaim":{},"f:admission":{"f:exemptServiceAccounts":{".":{},"k:{\"name\":\"a\",\"namespace\":\"b\"}":{".":{},"f:name":{}}}}}}`, nil},
		"fields of before":        {policy, `{"f:spec":{"f:overCommitFactor":{},"f:cardUnlimitedCPUMemory":{},"f:admission":{"f:bypass":{}}}}`, []string{"spec.admission.bypass", "spec.cardUnlimitedCPUMemory", "spec.overCommitFactor"}},
		"in an entry of a list":   {policy, `{"f:spec":{"f:serviceTypes":{"k:{\"name\":\"training\"}":{".":{},"f:name":{},"f:reclaimable":{},"f:minimumRuntime":{}},"k:{\"name\":\"b\"}":{"f:reclaimable":{}}}}}`, []string{"spec.serviceTypes.minimumRuntime", "spec.serviceTypes.reclaimable"}},
		"of a CardQuota":          {quota, `{"f:spec":{"f:cohort":{},"f:cards":{"k:{\"name\":\"A\"}":{"f:nominal":{},"f:quota":{}}},"f:resources":{"f:cpu":{}},"f:namespaceSelector":{"f:matchLabels":{".":{},"f:team":{}}}}}`, []string{"spec.cards.nominal", "spec.cohort"}},
		"what is not of the spec": {quota, `{"f:status":{"f:nothing":{}},"f:metadata":{"f:annotations":{"f:a":{}}}}`, nil},
	}) {
		object := &metav1.ObjectMeta{Generation: 3, ManagedFields: []metav1.ManagedFieldsEntry{{}, {FieldsV1: &metav1.FieldsV1{Raw: []byte(tc.raw)}}}}
		check.Equal(t, "unknown fields", tc.want, UnknownFields(object, tc.spec))

		list := []metav1.Condition{{Type: v1alpha1.ConditionFieldsKnown}}
		SetFieldsKnown(&list, object, tc.spec, time.Unix(1, 0))
		check.That(t, (len(list) == 0) == (tc.want == nil), "conditions are %+v", list)
		if tc.want != nil {
			check.Contains(t, "message", list[0].Message, tc.want...)
		}
	}
}
