package cardquota

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// maxShared bounds how many different values of one kind are shared, maxSharedText how long they
	// are. Tenants can create any number of them.
	maxShared     = 10_000
	maxSharedText = 1024
)

// sharedParts shares equal parts between pods. They take more memory than the rest of what the cache
// keeps of a pod, and pods of a job have the same requests, annotations and owner. Nothing changes
// objects of the cache.
type sharedParts struct {
	mu          sync.Mutex
	containers  sharedValues[[]corev1.Container]
	annotations sharedValues[map[string]string]
	owners      sharedValues[[]metav1.OwnerReference]
}

// sharedValues keeps values by a text that is equal only for equal values.
type sharedValues[T any] map[string]T

// share returns the value with a key. It makes the value if it is not known.
func (s *sharedValues[T]) share(key string, makeValue func() T) T {
	if known, ok := (*s)[key]; ok {
		return known
	}
	value := makeValue()
	if len(key) > maxSharedText {
		return value
	}
	if *s == nil || len(*s) >= maxShared {
		*s = sharedValues[T]{} // pods keep what they have
	}
	(*s)[key] = value
	return value
}

// shareContainers returns stripped containers that are equal to the given ones.
func (s *sharedParts) shareContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers.share(containersKey(containers), func() []corev1.Container { return stripContainers(containers) })
}

// shareMeta replaces the annotations and owners of stripped metadata with equal ones. stripMeta keeps
// only the controller of an object, and of it what the key has.
func (s *sharedParts) shareMeta(meta *metav1.ObjectMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(meta.Annotations) > 0 {
		var key valueKey
		for _, name := range slices.Sorted(maps.Keys(meta.Annotations)) {
			key.add(name)
			key.add(meta.Annotations[name])
		}
		annotations := meta.Annotations
		meta.Annotations = s.annotations.share(string(key), func() map[string]string { return annotations })
	}
	if len(meta.OwnerReferences) == 1 {
		owners := meta.OwnerReferences
		var key valueKey
		for _, text := range []string{owners[0].APIVersion, owners[0].Kind, owners[0].Name, string(owners[0].UID)} {
			key.add(text)
		}
		meta.OwnerReferences = s.owners.share(string(key), func() []metav1.OwnerReference { return owners })
	}
}

// valueKey is a text that is equal only for equal texts. Tenants write any byte into annotations, so
// each text follows its length.
type valueKey []byte

func (k *valueKey) add(text string) {
	*k = append(binary.AppendUvarint(*k, uint64(len(text))), text...)
}

// containersKey returns a text that is equal only for containers that stripContainers makes equal.
func containersKey(containers []corev1.Container) string {
	var key valueKey
	for i := range containers {
		c := &containers[i]
		key.add(c.Name)
		key.add(string(ptr.Deref(c.RestartPolicy, "")))
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				quantity := list[name]
				key.add(string(name))
				key.add(quantity.String())
			}
			key.add("")
		}
		for _, claim := range c.Resources.Claims {
			key.add(claim.Name)
			key.add(claim.Request)
		}
		key.add("")
	}
	return string(key)
}
