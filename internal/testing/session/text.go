package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/words"
)

// GPU is the resource of a card.
const GPU = builder.GPU

// Add adds what a text describes, one object per line or between semicolons:
//
//	node NAME[,NAME…] …      model= (no label without it), cards= (8), mig= (the profile of its cards), taint=
//	queue NAME …             quota= ("none" as without the word: unmanaged), priority=, serviceType=, reclaimable=, parent=,
//	                         deserved=, guarantee=, weight=, stopPolicy=, parentOnly=, namespaceSelector=, state=,
//	                         cpu= (100; "unlimited" removes the limits of CPU and memory)
//	namespace NAME team=     a namespace that the session's lister knows
//	job NAME queue= min= …   a PodGroup and its pods, named NAME-0, NAME-1 … in the order of the words
//
// A queue is reclaimable unless its service type is inference or reclaimable= says so.
// The pods of a job are its words running=NODE[*N],… and pending=N. jobKeys has its other words.
// changes are applied to each pod of the text, except those that are nil. Add panics if a text is wrong.
func (c *Cluster) Add(text string, changes ...func(*corev1.Pod)) *Cluster {
	for _, line := range words.Lines(text) {
		c.AddLine(line, changes...)
	}
	return c
}

// AddLine adds what a line describes, see Add.
func (c *Cluster) AddLine(line words.Line, changes ...func(*corev1.Pod)) {
	if err := c.addLine(line, changes); err != nil {
		panic(err)
	}
}

func (c *Cluster) addLine(line words.Line, changes []func(*corev1.Pod)) error {
	if len(line.Names) != 1 {
		return line.Errorf("write one name behind the verb")
	}

	switch line.Verb {
	case "node":
		return c.addNodes(line)
	case "queue":
		return c.addQueue(line)
	case "namespace":
		made := builder.Namespace(line.Name())
		c.Namespaces = append(c.Namespaces, made)
		return words.Apply(line, made, namespaceKeys, "team")
	case "job":
		return c.addJob(line, changes)
	}

	return line.Errorf("%q is not node, queue, namespace or job", line.Verb)
}

var namespaceKeys = words.Keys[*corev1.Namespace]{
	"team": words.Text(func(n *corev1.Namespace, team string) { n.Labels = map[string]string{"team": team} }),
}

// node is what the words of a node say.
type node struct {
	model, mig, taint string
	cards             int
}

var nodeKeys = words.Keys[*node]{
	"model": words.Text(func(n *node, model string) { n.model = model }),
	"cards": words.Int(func(n *node, cards int) { n.cards = cards }),
	"mig":   words.Text(func(n *node, profile string) { n.mig = profile }),
	"taint": words.Text(func(n *node, key string) { n.taint = key }),
}

func (c *Cluster) addNodes(line words.Line) error {
	described := &node{cards: 8}
	if err := words.Apply(line, described, nodeKeys); err != nil {
		return err
	}

	for name := range strings.SplitSeq(line.Name(), ",") {
		made := Node(name, described.model, described.cards)
		if described.mig != "" {
			made = builder.Node(name).GPUs(described.model, 0).MIG(described.mig, described.cards).Label(corev1.LabelHostname, name).Obj()
		}

		if described.taint != "" {
			made.Spec.Taints = []corev1.Taint{{Key: described.taint, Effect: corev1.TaintEffectNoSchedule}}
		}

		c.Nodes = append(c.Nodes, made)
	}

	return nil
}

// Node returns a node with cards of a model, "" leaves it unlabelled.
func Node(name, model string, cards int) *corev1.Node {
	return builder.Node(name).GPUs(model, cards).Label(corev1.LabelHostname, name).Obj()
}

// Namespace returns a namespace with a team label.
func Namespace(name, team string) *corev1.Namespace { return builder.Namespace(name, "team", team) }

// Queue returns an open queue with a quota, unless that is "".
func Queue(name, quota string) *v1beta1.Queue {
	return builder.Queue(name).Quota(quota).Capability("100", "1Ti").With(ensureAnnotations).Obj()
}

// ensureAnnotations makes the annotations a map that a test can write.
func ensureAnnotations[Object metav1.Object](object Object) {
	if object.GetAnnotations() == nil {
		object.SetAnnotations(map[string]string{})
	}
}

// addQueue adds a queue, or replaces the one of its name.
func (c *Cluster) addQueue(line words.Line) error {
	q := Queue(line.Name(), "")
	if err := words.Apply(line, q, queueKeys); err != nil {
		return err
	}
	c.Queues = append(slices.DeleteFunc(c.Queues, func(other *v1beta1.Queue) bool { return other.Name == q.Name }), q)
	return nil
}

var queueKeys = words.Keys[*v1beta1.Queue]{
	"quota":             words.Text(setQuota),
	"deserved":          annotateQueue("volcano.sh/card.deserved"),
	"guarantee":         annotateQueue("volcano.sh/card.guarantee"),
	"stopPolicy":        annotateQueue("volcano.sh/stop-policy"),
	"unlimited":         annotateQueue("volcano.sh/unlimited.resources"),
	"namespaceSelector": annotateQueue("volcano.sh/namespace-selector"),
	"parentOnly":        annotateQueue("cardquota.dev/parent-only"),
	"parent":            words.Text(func(q *v1beta1.Queue, parent string) { q.Spec.Parent = parent }),
	"priority":          words.Int(func(q *v1beta1.Queue, priority int) { q.Spec.Priority = int32(priority) }),
	"weight":            words.Int(func(q *v1beta1.Queue, weight int) { q.Spec.Weight = int32(weight) }),
	"reclaimable":       words.OneOf(func(q *v1beta1.Queue, value string) { q.Spec.Reclaimable = ptr.To(value == "true") }, "true", "false"),
	"state":             words.Text(func(q *v1beta1.Queue, state string) { q.Status.State = v1beta1.QueueState(state) }),
	"serviceType":       words.Text(setServiceType),
	"cpu":               setCPULimit,
}

func setQuota(q *v1beta1.Queue, quota string) {
	q.Annotations["volcano.sh/card.quota"] = quota
	if quota == "none" {
		delete(q.Annotations, "volcano.sh/card.quota")
	}
}

func annotateQueue(key string) func(*v1beta1.Queue, string) error {
	return words.Text(func(q *v1beta1.Queue, value string) { q.Annotations[key] = value })
}

// setServiceType sets the service type of a queue, and whether it is reclaimable unless that is set.
func setServiceType(q *v1beta1.Queue, serviceType string) {
	q.Annotations["volcano.sh/service.type"] = serviceType
	if q.Spec.Reclaimable == nil {
		q.Spec.Reclaimable = ptr.To(serviceType != "inference")
	}
}

func setCPULimit(q *v1beta1.Queue, value string) error {
	if value == "unlimited" {
		q.Spec.Capability = nil
		return nil
	}

	quantity, err := resource.ParseQuantity(value)
	if err == nil {
		q.Spec.Capability[corev1.ResourceCPU] = quantity
	}

	return err
}

// OwnedBy sets the controller of a pod.
func OwnedBy(apiVersion, kind, name, uid string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr.To(true)}}
	}
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

func mustParseInt(text string) int {
	n, err := parseInt(text)
	if err != nil {
		panic(err)
	}
	return n
}
