package capacitycard

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// tenant is whose jobs are, as far as a queue that chooses its namespaces goes.
type tenant struct {
	queue     api.QueueID
	namespace string
}

// welcome returns why a queue does not take jobs of a namespace, nil when it does. It
// remembers that for the session, so that a namespace whose labels change is judged alike
// from the first check to the last.
func (p *plugin) welcome(queue api.QueueID, namespace string) *workload.Refusal {
	rules, exists := p.rules[queue]
	if !exists || rules.Namespaces == nil {
		return nil
	}
	key := tenant{queue, namespace}
	refusal, known := p.tenants[key]
	if !known {
		refusal = workload.MayUse(string(queue), rules.Namespaces, namespace, p.namespace(namespace))
		p.tenants[key] = refusal
	}
	return refusal
}

// leftOut tells why a queue takes nothing of a namespace, nil when it does. It
// changes nothing and may be asked by many goroutines.
func (p *plugin) leftOut(queue api.QueueID, namespace string, selector labels.Selector) *workload.Refusal {
	if selector == nil {
		return nil
	}
	if refusal, known := p.tenants[tenant{queue, namespace}]; known {
		return refusal
	}
	return workload.MayUse(string(queue), selector, namespace, p.namespace(namespace))
}

// namespace finds a namespace in Volcano's lister; nil is one that is not known,
// or not yet.
func (p *plugin) namespace(name string) *corev1.Namespace {
	if p.namespaces == nil {
		return nil
	}
	object, err := p.namespaces.Get(name)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			klog.ErrorS(err, "Cannot look up a namespace", "namespace", name)
		}
		return nil
	}
	return object
}

// listNamespaces prepares for asking about namespaces, if any queue chooses.
func (p *plugin) listNamespaces() {
	if factory := p.ssn.InformerFactory(); p.choosing && factory != nil {
		p.namespaces = factory.Core().V1().Namespaces().Lister()
	}
}

// tellUnreadable says once on a queue that nobody may use it, since its selector
// of namespaces cannot be read.
func (p *plugin) tellUnreadable(queue *scheduling.Queue, refusal *workload.Refusal) {
	if refusal != nil && refusal.Reason == workload.ReasonInvalidNamespaceSelector {
		p.sayOnQueue(queue, refusal)
	}
}
