// Package script builds the objects of tests that describe in a text, step by step, what
// happens in a cluster. It depends on no rule of card quota, so that the observer may use it.
package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/words"
)

// Namespace is the namespace of all pods and PodGroups.
const Namespace = "test"

// Began is when CardQuotas are created and pods deleted.
var Began = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

var models = strings.NewReplacer("H200", "NVIDIA-H200", "RTX4090", "NVIDIA-GeForce-RTX-4090")

// Steps returns the steps of a text, one a line or between semicolons. H200 and RTX4090 stand for the
// full names of these cards.
func Steps(text string) []words.Line { return words.Lines(models.Replace(text)) }

// Objects are the objects that the steps have named so far.
type Objects struct {
	defaults map[string]string
	known    map[string]client.Object
}

// New returns no objects. The defaults are words of each new object, by its kind.
func New(defaults map[string]string) *Objects { return &Objects{defaults, map[string]client.Object{}} }

// Object creates the object of a kind and name, or changes it when it exists. A word is key=value; ""
// omits a field.
func (o *Objects) Object(kind, name string, described ...string) client.Object {
	return o.Apply(words.Line{Verb: "object", Names: []string{kind, name}, Words: words.Words(described)})
}

// Pod is Object for a pod.
func (o *Objects) Pod(name string, described ...string) *corev1.Pod {
	return o.Object("pod", name, described...).(*corev1.Pod)
}

// Queue is Object for a queue.
func (o *Objects) Queue(name string, described ...string) *v1beta1.Queue {
	return o.Object("queue", name, described...).(*v1beta1.Queue)
}

// Apply is Object for a line whose names are the kind and the object's. It panics if the line is wrong.
func (o *Objects) Apply(line words.Line) client.Object {
	object, err := o.apply(line)
	if err != nil {
		panic(err)
	}
	return object
}

func (o *Objects) apply(line words.Line) (client.Object, error) {
	if len(line.Names) != 2 {
		return nil, line.Errorf("write a kind and a name behind the verb")
	}

	kind := line.Names[0]
	id := kind + "/" + line.Names[1]
	object, known := o.known[id]
	described := line.Words
	if !known {
		object = newObject(kind, line.Names[1])
		if object == nil {
			return nil, line.Errorf("%q is not a kind", kind)
		}
		o.known[id] = object
		described = append(words.Words(strings.Fields(o.defaults[kind])), described...)
	}

	if slices.ContainsFunc(described, func(word words.Word) bool { return word.Key == "blocked" }) {
		object.(*v1alpha1.CardQuota).Status.Blocked = nil // a step says all of it
	}

	for _, word := range described {
		if err := setWord(line, object, word); err != nil {
			return nil, err
		}
	}

	return object.DeepCopyObject().(client.Object), nil
}

func newObject(kind, name string) client.Object {
	switch kind {
	case "pod":
		return builder.Pod(Namespace, name).Obj()
	case "group":
		return builder.PodGroup(Namespace, name).Obj()
	case "queue":
		return builder.Queue(name).Obj()
	case "node":
		return builder.Node(name).Obj()
	case "quota":
		return builder.CardQuota(name).Created(Began).Obj()
	case "priorityClass":
		return builder.PriorityClass(name, 0)
	case "namespace":
		return builder.Namespace(name)
	}

	return nil
}

// setWord applies a word to an object. "label:KEY=", "resource:NAME=" and a key with a slash, which is an
// annotation, apply to objects of each kind.
func setWord(line words.Line, object client.Object, word words.Word) error {
	label, isLabel := strings.CutPrefix(word.Key, "label:")
	name, isResource := strings.CutPrefix(word.Key, "resource:")
	switch {
	case isResource:
		return setQuantity(resourcesOf(object), corev1.ResourceName(name), word.Value)
	case isLabel:
		object.SetLabels(withEntry(object.GetLabels(), label, word.Value))
		return nil
	case strings.Contains(word.Key, "/"):
		object.SetAnnotations(withEntry(object.GetAnnotations(), word.Key, word.Value))
		return nil
	case word.Key == "deleted":
		object.SetDeletionTimestamp(&metav1.Time{Time: Began})
		return nil
	}

	switch object := object.(type) {
	case *corev1.Pod:
		return podKeys.Set(line, object, word)
	case *corev1.Node:
		return nodeKeys.Set(line, object, word)
	case *v1beta1.Queue:
		return queueKeys.Set(line, object, word)
	case *v1beta1.PodGroup:
		return groupKeys.Set(line, object, word)
	case *v1alpha1.CardQuota:
		return quotaKeys.Set(line, object, word)
	case *schedulingv1.PriorityClass:
		return classKeys.Set(line, object, word)
	case *corev1.Namespace:
		return namespaceKeys.Set(line, object, word)
	}

	return line.Errorf("%T has no words", object)
}

func resourcesOf(object client.Object) *corev1.ResourceList {
	switch object := object.(type) {
	case *corev1.Pod:
		return &object.Spec.Containers[0].Resources.Requests
	case *corev1.Node:
		return &object.Status.Allocatable
	case *v1beta1.PodGroup:
		if object.Spec.MinResources == nil {
			object.Spec.MinResources = &corev1.ResourceList{}
		}
		return object.Spec.MinResources
	}

	return &object.(*v1beta1.Queue).Spec.Capability
}

func setQuantity(list *corev1.ResourceList, name corev1.ResourceName, value string) error {
	if *list == nil {
		*list = corev1.ResourceList{}
	}

	delete(*list, name)
	if value == "" {
		return nil
	}

	quantity, err := resource.ParseQuantity(value)
	if err == nil {
		(*list)[name] = quantity
	}

	return err
}

func withEntry(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	delete(values, key)
	if value != "" {
		values[key] = value
	}
	return values
}

// quotaJSON converts "A:2,B:1" into a JSON object, and leaves every other text unchanged.
func quotaJSON(value string) string {
	if !strings.Contains(value, ":") || strings.HasPrefix(value, "{") {
		return value
	}
	var entries []string
	for _, entry := range strings.Split(value, ",") {
		name, count, _ := strings.Cut(entry, ":")
		entries = append(entries, fmt.Sprintf("%q:%s", name, count))
	}
	return "{" + strings.Join(entries, ",") + "}"
}
