package policy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconf"
	"cardquota.dev/operator/internal/testing/check"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	textField = `{"f:data":{".":{},"f:conf":{}}}`
	markField = `{"f:metadata":{"f:annotations":{".":{},"f:cardquota.dev/scheduler-config-undo":{}}}}`
)

// wrote is what a manager wrote so many minutes after noon.
func wrote(manager string, minutes int, fields string) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute))
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func written(text string, entries ...metav1.ManagedFieldsEntry) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}, Data: map[string]string{"conf": text}}
}

func TestWriterOf(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
		ours    bool
	}{
		"nobody left a trace":         {want: "somebody"},
		"who wrote it, and when":      {entries: []metav1.ManagedFieldsEntry{wrote("helm", 0, textField)}, want: "helm at 2026-01-02T12:00:00Z"},
		"the last of several":         {entries: []metav1.ManagedFieldsEntry{wrote("helm", 0, textField), wrote("argocd", 5, textField), wrote("flux", 3, textField)}, want: "argocd at 2026-01-02T12:05:00Z"},
		"who wrote something else":    {entries: []metav1.ManagedFieldsEntry{wrote("helm", 0, `{"f:data":{"f:other":{}}}`)}, want: "somebody"},
		"the operator is not meant":   {entries: []metav1.ManagedFieldsEntry{wrote("cardquota", 9, textField)}, want: "somebody", ours: true},
		"nobody can read the entry":   {entries: []metav1.ManagedFieldsEntry{wrote("helm", 0, "nonsense")}, want: "somebody"},
		"an entry without fields":     {entries: []metav1.ManagedFieldsEntry{{Manager: "helm"}}, want: "somebody"},
		"an entry without a time":     {entries: []metav1.ManagedFieldsEntry{{Manager: "helm", FieldsV1: &metav1.FieldsV1{Raw: []byte(textField)}}}, want: "helm"},
		"the same value of two hands": {entries: []metav1.ManagedFieldsEntry{wrote("cardquota", 9, textField), wrote("helm", 0, textField)}, want: "helm at 2026-01-02T12:00:00Z", ours: true},
	}) {
		live := written("", tc.entries...)
		check.Equal(t, "writer", tc.want, WriterOf(live, "data", "conf").String())
		check.Equal(t, "Wrote", tc.ours, Wrote(live, "data", "conf"))
	}
}

func TestDisturbed(t *testing.T) {
	change := Edit{Changes: []string{"action cardreclaim is missing"}}
	cases := map[string]struct {
		generation int64
		hash       string
		text       string
		entries    []metav1.ManagedFieldsEntry
		edit       Edit
		want       string // "" when nobody disturbed
	}{
		"somebody wrote over it":                   {1, "x", "theirs", []metav1.ManagedFieldsEntry{wrote("helm", 0, textField), wrote("cardquota", 0, markField)}, change, "helm"},
		"somebody who left no trace":               {1, "x", "theirs", nil, change, "somebody"},
		"nothing was written yet":                  {1, "", "theirs", []metav1.ManagedFieldsEntry{wrote("helm", 0, textField)}, change, ""},
		"the spec has changed":                     {2, "x", "theirs", []metav1.ManagedFieldsEntry{wrote("helm", 0, textField)}, change, ""},
		"the operator wrote it before it stopped":  {1, "x", "ours", []metav1.ManagedFieldsEntry{wrote("cardquota", 0, textField)}, change, ""},
		"a newer operator wants more":              {1, schedulerconf.Hash("theirs"), "theirs", []metav1.ManagedFieldsEntry{wrote("helm", 0, textField)}, change, ""},
		"the record was taken off":                 {1, "x", "ours", []metav1.ManagedFieldsEntry{wrote("cardquota", 0, textField)}, Edit{}, "somebody"},
		"the record was changed":                   {1, "x", "ours", []metav1.ManagedFieldsEntry{wrote("cardquota", 0, textField), wrote("kubectl", 0, markField)}, Edit{}, "kubectl"},
		"a harmless change needs a new record":     {1, "x", "theirs", []metav1.ManagedFieldsEntry{wrote("helm", 0, textField), wrote("cardquota", 0, markField)}, Edit{}, "helm"},
		"the operator itself needs another record": {1, "x", "ours", []metav1.ManagedFieldsEntry{wrote("cardquota", 0, textField), wrote("cardquota", 0, markField)}, Edit{}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Generation: tc.generation}}
			policy.Status.ConfigHash, policy.Status.ObservedGeneration = tc.hash, 1
			got := ""
			if by, disturbed := Disturbed(policy, written(tc.text, tc.entries...), "conf", tc.edit); disturbed {
				got = by.name()
			}
			check.Equal(t, "disturbed by", tc.want, got)
		})
	}
}
