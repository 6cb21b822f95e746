package enforcement

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provenance is how a pod came to its node, as far as metadata.managedFields
// tells. A binding through pods/binding, which is what schedulers do, leaves no
// owner of spec.nodeName there; who creates a pod with a node name of its own
// becomes the owner of the field.
type Provenance struct {
	// Preset tells that the node name came with the pod, By names the field
	// manager that wrote it.
	Preset bool
	By     string
	// Erased tells that nobody owns the containers of the pod: the record was
	// taken away, and nothing can be said of the node name any more. The API
	// server writes it for every pod.
	Erased bool
}

// The reduced records. They are shared by all pods and never changed.
var (
	presetFields = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{},"f:nodeName":{}}}`)}
	boundFields  = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)}
	boundRecord  = []metav1.ManagedFieldsEntry{{FieldsV1: boundFields}}
)

// ProvenanceOf reads where the pod's node name came from. It reads the whole
// record and the one that Reduce leaves alike.
func ProvenanceOf(pod *corev1.Pod) Provenance {
	p := Provenance{Erased: true}
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		containers, nodeName := owned(entry.FieldsV1)
		if nodeName {
			return Provenance{Preset: true, By: entry.Manager}
		}
		p.Erased = p.Erased && !containers
	}
	return p
}

// Reduce returns the managedFields of a pod without everything that
// ProvenanceOf does not read: a cache holds every pod of the cluster, and the
// whole record is about a kilobyte each.
func Reduce(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	switch p := ProvenanceOf(pod); {
	case p.Preset:
		return []metav1.ManagedFieldsEntry{{Manager: p.By, FieldsV1: presetFields}}
	case p.Erased:
		return nil
	default:
		return boundRecord
	}
}

// owned tells whether the fields hold spec.containers and spec.nodeName. A
// record that cannot be read holds nothing.
func owned(fields *metav1.FieldsV1) (containers, nodeName bool) {
	switch {
	case fields == nil:
		return false, false
	case fields == boundFields:
		return true, false
	case fields == presetFields:
		return true, true
	case !bytes.Contains(fields.Raw, []byte(`"f:containers"`)) && !bytes.Contains(fields.Raw, []byte(`"f:nodeName"`)):
		return false, false
	}
	var record struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(fields.Raw, &record) != nil {
		return false, false
	}
	_, containers = record.Spec["f:containers"]
	_, nodeName = record.Spec["f:nodeName"]
	return containers, nodeName
}
