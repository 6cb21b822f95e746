// Package builder builds valid objects for tests, which set only what they need. It depends on
// no test framework and no rule of card quota, so that every test may use it, including tests
// of the rules.
//
// The same calls always build the same object. The UID follows from kind, namespace and name,
// so an owner reference matches the owner that the package builds. A text or quantity of ""
// omits a field; an invalid quantity panics.
package builder

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// GPU is the resource of NVIDIA's whole cards.
const GPU = corev1.ResourceName("nvidia.com/gpu")

// object is the common part of all builders. Its methods return the builder B that embeds it. P
// is the pointer to the built object.
type object[B any, P interface {
	metav1.Object
	DeepCopy() P
}] struct {
	obj  P
	self B
}

func newObject[B any, P interface {
	metav1.Object
	DeepCopy() P
}](kind, namespace, name string, self B, obj P) object[B, P] {
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetUID(uidFor(kind, namespace, name))
	return object[B, P]{obj, self}
}

func uidFor(kind, namespace, name string) types.UID {
	return types.UID(strings.ToLower(kind) + "/" + namespace + "/" + name)
}

// Obj returns a copy of the object.
func (o object[B, P]) Obj() P { return o.obj.DeepCopy() }

// With changes fields for which the builder has no method.
func (o object[B, P]) With(change func(P)) B { change(o.obj); return o.self }

// Label sets a label.
func (o object[B, P]) Label(key, value string) B {
	o.obj.SetLabels(withEntry(o.obj.GetLabels(), key, value))
	return o.self
}

// Annotation sets an annotation, also to "".
func (o object[B, P]) Annotation(key, value string) B {
	o.obj.SetAnnotations(withEntry(o.obj.GetAnnotations(), key, value))
	return o.self
}

// annotateUnlessEmpty sets an annotation unless its value is "".
func (o object[B, P]) annotateUnlessEmpty(key, value string) B {
	if value == "" {
		return o.self
	}
	return o.Annotation(key, value)
}

// Owner adds the owner reference of a controller.
func (o object[B, P]) Owner(apiVersion, kind, name string) B {
	o.obj.SetOwnerReferences(append(o.obj.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: uidFor(kind, o.obj.GetNamespace(), name), Controller: ptr.To(true),
	}))
	return o.self
}

// UID overrides the UID that follows from the name.
func (o object[B, P]) UID(value types.UID) B { o.obj.SetUID(value); return o.self }

// Created sets the time of creation.
func (o object[B, P]) Created(at time.Time) B {
	o.obj.SetCreationTimestamp(metav1.NewTime(at))
	return o.self
}

// Deleted sets the time of deletion.
func (o object[B, P]) Deleted(at time.Time) B {
	o.obj.SetDeletionTimestamp(&metav1.Time{Time: at})
	return o.self
}

func withEntry[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

// addQuantity sets a quantity of a list, which may be nil, unless it is "".
func addQuantity(list corev1.ResourceList, name corev1.ResourceName, quantity string) corev1.ResourceList {
	if quantity == "" {
		return list
	}
	return withEntry(list, name, resource.MustParse(quantity))
}

// Resources returns a list of CPU and memory.
func Resources(cpu, memory string) corev1.ResourceList {
	return addQuantity(addQuantity(nil, corev1.ResourceCPU, cpu), corev1.ResourceMemory, memory)
}
