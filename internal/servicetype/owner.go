package servicetype

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cardquota.dev/operator/internal/clip"
)

// Owners tells the service type of pods by the kind of their owner, for
// workloads that name no service type. A key is a kind, "Job", which means that
// kind in every API group, or a kind with its group, "Job.batch.volcano.sh",
// which goes before the kind alone.
//
// A pod of a Deployment is owned by a ReplicaSet; a key Deployment means such
// pods and goes before ReplicaSet.
type Owners map[string]string

// shown is how many bytes of a wrong name a message repeats.
const shown = 80

// namePattern is what the name of a service type may be: a label value in
// lower case, as it stands in annotations and metrics.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// kindPattern is a kind with or without its API group.
var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}(\.[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$`)

// ValidateName refuses what cannot be the name of a service type.
func ValidateName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("service type %q is no name: write lower-case letters, digits and dashes, at most 63", clip.Text(name, shown))
	}
	return nil
}

// Validate refuses keys that are no kinds and values that are no names of
// service types. It returns all faults joined.
func (o Owners) Validate() error {
	var faults []error
	for _, kind := range slices.Sorted(maps.Keys(o)) {
		if !kindPattern.MatchString(kind) {
			faults = append(faults, fmt.Errorf("%q is no kind: write for example Job or Job.batch.volcano.sh", clip.Text(kind, shown)))
		}
		if err := ValidateName(o[kind]); err != nil {
			faults = append(faults, fmt.Errorf("kind %q: %w", clip.Text(kind, shown), err))
		}
	}
	return errors.Join(faults...)
}

// TypeOf returns the service type that the kind of the pod's controller stands
// for, "" when it stands for none.
func (o Owners) TypeOf(pod *corev1.Pod) string {
	if len(o) == 0 {
		return ""
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
	kinds := []string{owner.Kind}
	if _, ofDeployment := pod.Labels["pod-template-hash"]; ofDeployment && owner.Kind == "ReplicaSet" && group == "apps" {
		kinds = []string{"Deployment", "ReplicaSet"}
	}
	for _, kind := range kinds {
		if name, ok := o[strings.TrimSuffix(kind+"."+group, ".")]; ok {
			return name
		}
		if name, ok := o[kind]; ok {
			return name
		}
	}
	return ""
}
