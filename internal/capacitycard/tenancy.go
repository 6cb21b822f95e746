package capacitycard

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// tenants remembers what queues that choose their namespaces say to those that
// have jobs in them. It is brought up to date when a session opens and only read
// while one decides, so that a namespace whose labels change is judged alike from
// the first gate to the last. Queues that do not choose are not in it.
type tenants map[tenant]verdict

type tenant struct {
	queue     api.QueueID
	namespace string
}

// verdict is valid while the namespace's object and the queue's selector are the
// same.
type verdict struct {
	object   *corev1.Namespace
	selector string
	refusal  *workload.Refusal
	session  uint64
}

// welcome brings up to date whether a queue takes jobs of a namespace, and
// returns why not. An unchanged namespace costs a look-up.
func (p *plugin) welcome(queue api.QueueID, namespace string) *workload.Refusal {
	rules, exists := p.rules[queue]
	if !exists || rules.Namespaces == nil {
		return nil
	}
	key := tenant{queue, namespace}
	known, ok := p.memory.tenants[key]
	if ok && known.session == p.memory.session {
		return known.refusal
	}
	object, selector := p.namespace(namespace), p.ssn.Queues[queue].Queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if !ok || known.object != object || known.selector != selector {
		known = verdict{object: object, selector: selector, refusal: workload.MayUse(string(queue), rules.Namespaces, namespace, object)}
	}
	known.session = p.memory.session
	p.memory.tenants[key] = known
	return known.refusal
}

// leftOut tells why a queue takes nothing of a namespace, nil when it does. It
// changes nothing and may be asked by many goroutines.
func (p *plugin) leftOut(queue api.QueueID, namespace string, selector labels.Selector) *workload.Refusal {
	if selector == nil {
		return nil
	}
	if known, ok := p.memory.tenants[tenant{queue, namespace}]; ok && known.session == p.memory.session {
		return known.refusal
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

// sameNamespaces tells that two states of a queue select namespaces by the same
// text.
func sameNamespaces(a, b *scheduling.Queue) bool {
	was, chose := a.Annotations[v1alpha1.AnnotationNamespaceSelector]
	is, chooses := b.Annotations[v1alpha1.AnnotationNamespaceSelector]
	return was == is && chose == chooses
}

// tellUnreadable says once on a queue that nobody may use it, since its selector
// of namespaces cannot be read.
func (p *plugin) tellUnreadable(queue *scheduling.Queue, refusal *workload.Refusal) {
	if refusal != nil && refusal.Reason == workload.ReasonInvalidNamespaceSelector {
		p.sayOnQueue(queue, refusal)
	}
}

// sweep forgets what no job of this session asked for.
func (t tenants) sweep(session uint64) {
	for key, known := range t {
		if known.session != session {
			delete(t, key)
		}
	}
}
