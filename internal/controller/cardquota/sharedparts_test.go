package cardquota

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawContainers draws containers that differ in few ways, so that many are equal.
func drawContainers(t *rapid.T) []corev1.Container {
	list := func(label string) corev1.ResourceList {
		return rapid.MapOfN(rapid.SampledFrom([]corev1.ResourceName{"cpu", "nvidia.com/gpu", "a"}), rapid.Map(rapid.SampledFrom([]string{"1", "1000m", "2"}), resource.MustParse), 0, 2).Draw(t, label)
	}
	containers := make([]corev1.Container, rapid.IntRange(0, 2).Draw(t, "containers"))
	for i := range containers {
		c := corev1.Container{Name: rapid.SampledFrom([]string{"main", "a"}).Draw(t, "name"), Image: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "image")}
		if rapid.Bool().Draw(t, "sidecar") {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		c.Resources.Requests, c.Resources.Limits = list("requests"), list("limits")
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"claim", "a"}), 0, 2).Draw(t, "claims") {
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: name, Request: rapid.SampledFrom([]string{"", "r"}).Draw(t, "request")})
		}
		containers[i] = c
	}
	return containers
}

// TestSharedContainersAreEqual: whatever other pods have, a pod keeps what its own containers say.
func TestSharedContainersAreEqual(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		s := &sharedParts{}
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			containers := drawContainers(t)
			got, want := s.shareContainers(containers), stripContainers(containers)
			check.Must(t, len(got) == len(want), "%d containers, want %d", len(got), len(want))
			for i := range got {
				// Quantities may be written in different ways: 1 and 1000m.
				check.Equal(t, "container", fmt.Sprint(normalise(want[i])), fmt.Sprint(normalise(got[i])))
			}
		}
	})
}

// normalise returns what is written of a container.
func normalise(c corev1.Container) (parts []string) {
	policy := ""
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	}
	parts = append(parts, c.Name, c.Image, policy, fmt.Sprint(c.Resources.Claims))
	for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for _, name := range []corev1.ResourceName{"cpu", "nvidia.com/gpu", "a"} {
			quantity, exists := list[name]
			parts = append(parts, fmt.Sprint(name, exists, quantity.MilliValue()))
		}
	}
	return parts
}

func TestEqualContainersAreStoredOnce(t *testing.T) {
	s := &sharedParts{}
	containers := func(cpu string) []corev1.Container {
		return []corev1.Container{{Name: "main", Image: cpu, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	}
	one, again, two := s.shareContainers(containers("1")), s.shareContainers(containers("1")), s.shareContainers(containers("2"))
	check.That(t, &one[0] == &again[0] && &one[0] != &two[0], "equal containers are not shared, or others are")
	for i := range 2 * maxShared {
		s.shareContainers(containers(fmt.Sprint(i + 10)))
		check.Must(t, len(s.containers) <= maxShared, "%d lists are shared", len(s.containers))
	}
}

// drawMeta draws metadata of few different texts, as stripMeta leaves it.
func drawMeta(t *rapid.T) metav1.ObjectMeta {
	text := rapid.SampledFrom([]string{"a", "b", "", "b\x00a\x00b", "\x01a", "a\x01b\x01a"})
	meta := metav1.ObjectMeta{Annotations: rapid.MapOfN(text, text, 0, 2).Draw(t, "annotations")}
	if rapid.Bool().Draw(t, "owned") {
		meta.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"), Kind: rapid.SampledFrom([]string{"Job", "Pod"}).Draw(t, "kind"),
			Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), UID: types.UID(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid")), Controller: ptr.To(true),
		}}
	}
	return meta
}

// TestSharedMetadataIsEqual: whatever other pods have, a pod keeps its own annotations and owner.
func TestSharedMetadataIsEqual(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		s := &sharedParts{}
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			want := drawMeta(t)
			got := want
			s.shareMeta(&got)
			check.Equal(t, "metadata", want, got)
		}
	})
}

func TestALongTextIsNotShared(t *testing.T) {
	s := &sharedParts{}
	for _, tc := range []struct{ length, want int }{{maxSharedText / 2, 1}, {2 * maxSharedText, 1}} {
		s.shareMeta(&metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", tc.length)}})
		check.Equal(t, "shared", tc.want, len(s.annotations))
	}
}
