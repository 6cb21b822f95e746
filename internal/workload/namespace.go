package workload

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// maxSelectorText bounds the annotation text that is read, so that no object can
// make a reader slow.
const maxSelectorText = 64 << 10

// NamespaceSelectorOf reads which namespaces may use a queue from its annotation
// volcano.sh/namespace-selector. nil without a refusal is every namespace: the
// queue does not choose, or chooses all of them with {}. A selector that cannot be read selects nobody: the
// refusal is for every namespace, and says what is wrong with the annotation.
func NamespaceSelectorOf(queue *v1beta1.Queue) (labels.Selector, *Refusal) {
	text, chosen := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if !chosen {
		return nil, nil
	}
	selector, err := ParseNamespaceSelector(text)
	if err != nil {
		return labels.Nothing(), &Refusal{Reason: ReasonInvalidNamespaceSelector, Message: fmt.Sprintf(
			"Queue <%s> has an invalid %s, so no namespace may use it: %.300s",
			queue.Name, v1alpha1.AnnotationNamespaceSelector, err)}
	}
	if selector.Empty() {
		return nil, nil
	}
	return selector, nil
}

// ParseNamespaceSelector reads one JSON object with the fields of a
// metav1.LabelSelector. {} selects everything, as in Kubernetes. A field that a
// LabelSelector does not have, or that stands there twice, is an error: a
// misspelt matchLabels would otherwise select everything.
func ParseNamespaceSelector(text string) (labels.Selector, error) {
	const example = `write it like {"matchLabels":{"team":"chat"}}`
	switch {
	case len(text) > maxSelectorText:
		return nil, fmt.Errorf("text is %d bytes, at most %d are read", len(text), maxSelectorText)
	case !json.Valid([]byte(text)):
		return nil, fmt.Errorf("%.100q is not valid JSON: %s", text, example)
	}
	// encoding/json keeps the last of two equal keys silently; this does not.
	var selector *metav1.LabelSelector
	if err := yaml.UnmarshalStrict([]byte(text), &selector); err != nil {
		return nil, fmt.Errorf("%.150q: %s", err.Error(), example)
	}
	if selector == nil { // null, which Kubernetes reads as no selector at all
		return nil, errors.New("null is no selector: " + example)
	}
	return SelectNamespaces(selector)
}

// SelectNamespaces makes the selector that a metav1.LabelSelector describes. The
// error names the key, operator or value that Kubernetes does not accept.
func SelectNamespaces(selector *metav1.LabelSelector) (labels.Selector, error) {
	made, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("namespace selector: %.300q", err.Error())
	}
	return made, nil
}

// MayUse refuses a namespace that a queue's selector leaves out, and returns nil
// when pods of the namespace may use the queue. A nil selector is every
// namespace. namespace is nil when it is not known: then nothing is given away,
// except where the queue does not choose.
func MayUse(queue string, selector labels.Selector, name string, namespace *corev1.Namespace) *Refusal {
	switch {
	case selector == nil:
		return nil
	case namespace == nil:
		return &Refusal{Reason: ReasonNamespaceNotAllowed, Message: fmt.Sprintf(
			"Namespace <%s> is not known yet, and queue <%s> is only for namespaces with <%.300s>: wait, or name another queue",
			name, queue, selector)}
	case selector.Matches(labels.Set(namespace.Labels)):
		return nil
	default:
		return &Refusal{Reason: ReasonNamespaceNotAllowed, Message: fmt.Sprintf(
			"Namespace <%s> may not use queue <%s>, which is only for namespaces with <%.300s>: have the namespace labelled so, or name a queue that is for it",
			name, queue, selector)}
	}
}
