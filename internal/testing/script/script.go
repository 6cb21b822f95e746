// Package script builds the objects of tests that describe in a text, step by step, what
// happens in a cluster. It depends on no rule of card quota, so that the observer may use it.
package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// Namespace is the namespace of all pods and PodGroups.
const Namespace = "test"

// Began is when CardQuotas are created and pods deleted.
var Began = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

var models = strings.NewReplacer("H200", "NVIDIA-H200", "RTX4090", "NVIDIA-GeForce-RTX-4090")

// Steps splits a text into steps and their words, one step per line or between semicolons. H200
// and RTX4090 stand for the full names of these cards.
func Steps(text string) [][]string {
	var steps [][]string
	for _, step := range strings.FieldsFunc(models.Replace(text), func(r rune) bool { return r == '\n' || r == ';' }) {
		if words := strings.Fields(step); len(words) > 0 {
			steps = append(steps, words)
		}
	}
	return steps
}

// Objects are the objects that the steps have named so far.
type Objects struct {
	defaults map[string]string
	known    map[string]client.Object
}

// New returns no objects. The defaults are options of each new object, by its kind.
func New(defaults map[string]string) *Objects { return &Objects{defaults, map[string]client.Object{}} }

// Object creates the object of a kind and name, or changes it when it exists. An option is
// name=value; "" omits a field. An option with a slash is an annotation.
func (o *Objects) Object(kind, name string, options ...string) client.Object {
	object, known := o.known[kind+"/"+name]
	if !known {
		object = newObject(kind, name)
		o.known[kind+"/"+name] = object
		options = append(strings.Fields(o.defaults[kind]), options...)
	}

	for _, option := range options {
		option, value, _ := strings.Cut(option, "=")
		label, isLabel := strings.CutPrefix(option, "label:")
		switch name, isResource := strings.CutPrefix(option, "resource:"); {
		case isResource:
			setQuantity(resourcesOf(object), corev1.ResourceName(name), value)
		case isLabel:
			object.SetLabels(withEntry(object.GetLabels(), label, value))
		case strings.Contains(option, "/"):
			object.SetAnnotations(withEntry(object.GetAnnotations(), option, value))
		case option == "deleted":
			object.SetDeletionTimestamp(&metav1.Time{Time: Began})
		default:
			setOption(object, option, value)
		}
	}

	return object.DeepCopyObject().(client.Object)
}

// Pod is Object for a pod.
func (o *Objects) Pod(name string, options ...string) *corev1.Pod {
	return o.Object("pod", name, options...).(*corev1.Pod)
}

// Queue is Object for a queue.
func (o *Objects) Queue(name string, options ...string) *v1beta1.Queue {
	return o.Object("queue", name, options...).(*v1beta1.Queue)
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
	case "class":
		return builder.PriorityClass(name, 0)
	case "namespace":
		return builder.Namespace(name)
	}

	panic("no kind " + kind)
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

func setQuantity(list *corev1.ResourceList, name corev1.ResourceName, value string) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	delete(*list, name)
	if value != "" {
		(*list)[name] = resource.MustParse(value)
	}
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

// setOption applies an option according to the kind of the object.
func setOption(object client.Object, option, value string) {
	annotate := func(key string) { object.SetAnnotations(withEntry(object.GetAnnotations(), key, value)) }
	switch name, isResource := resources[option]; object := object.(type) {
	case *v1alpha1.CardQuota:
		setCardQuota(object, option, value)
	case *schedulingv1.PriorityClass:
		object.Value = int32(parseNumber(value))
	case *corev1.Namespace:
		object.Labels = withEntry(object.Labels, option, value)
	default:
		if key, isAnnotation := annotations[option]; isAnnotation {
			if option != "checkpoint" {
				value = quotaJSON(value)
			}

			annotate(key)
		} else if isResource {
			setQuantity(resourcesOf(object), name, value)
		} else {
			setField(object, option, value)
		}
	}
}

var resources = map[string]corev1.ResourceName{"cards": builder.GPU, "cpu": "cpu", "memory": "memory", "pods": "pods"}

var annotations = map[string]string{
	"card": v1alpha1.AnnotationCardName, "in": v1beta1.QueueNameAnnotationKey, "group": v1beta1.KubeGroupNameAnnotationKey,
	"charged": v1alpha1.AnnotationChargedQueue, "type": v1alpha1.AnnotationServiceType, "quota": v1alpha1.AnnotationCardQuota,
	"allocated": v1alpha1.AnnotationCardAllocated, "request": v1alpha1.AnnotationCardRequest, "for": v1alpha1.AnnotationNamespaceSelector,
	"deserved": "volcano.sh/card.deserved", "guarantee": "volcano.sh/card.guarantee", "stop": "volcano.sh/stop-policy", "checkpoint": v1alpha1.AnnotationCheckpointTime, "parentonly": "cardquota.dev/parent-only",
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

func parseNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		panic(err)
	}
	return n
}

func setField(object client.Object, option, value string) {
	switch object := object.(type) {
	case *corev1.Pod:
		setPod(object, option, value)
	case *corev1.Node:
		setNode(object, option, value)
	case *v1beta1.Queue:
		setQueue(object, option, value)
	case *v1beta1.PodGroup:
		setPodGroup(object, option, value)
	}
}

func setNode(n *corev1.Node, option, value string) {
	switch option {
	case "model":
		n.Labels = withEntry(withEntry(n.Labels, "nvidia.com/gpu.product", value), "nvidia.com/gpu.memory", strings.Repeat("1024", min(1, len(value))))
	case "ready":
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(value)}}
	case "cordoned":
		n.Spec.Unschedulable = true
	case "tainted":
		n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	default:
		panic("a node has no " + option)
	}
}

func setQueue(q *v1beta1.Queue, option, value string) {
	switch option {
	case "priority":
		q.Spec.Priority = int32(parseNumber(value))
	case "reclaimable":
		q.Spec.Reclaimable = ptr.To(value == "true")
	case "parent":
		q.Spec.Parent = value
	case "cpudeserved":
		setQuantity(&q.Spec.Deserved, corev1.ResourceCPU, value)
	case "cpuguarantee":
		setQuantity(&q.Spec.Guarantee.Resource, corev1.ResourceCPU, value)
	case "state":
		q.Status.State = v1beta1.QueueState(value)
	default:
		panic("a queue has no " + option)
	}
}

func setPodGroup(g *v1beta1.PodGroup, option, value string) {
	switch option {
	case "queue":
		g.Spec.Queue = value
	case "members":
		g.Spec.MinMember = int32(parseNumber(value))
	case "tasks":
		g.Spec.MinTaskMember = map[string]int32{}

		for _, task := range strings.Split(value, ",") {
			name, least, _ := strings.Cut(task, ":")
			g.Spec.MinTaskMember[name] = int32(parseNumber(least))
		}
	case "class":
		g.Spec.PriorityClassName = value
	case "phase":
		g.Status.Phase = v1beta1.PodGroupPhase(value)
	case "says":
		g.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Message: value}}
	default:
		panic("a PodGroup has no " + option)
	}
}

func setPod(p *corev1.Pod, option, value string) {
	switch option {
	case "phase":
		p.Status.Phase = corev1.PodPhase(value)
	case "nominated":
		p.Status.NominatedNodeName = value
	case "owner":
		p.OwnerReferences = []metav1.OwnerReference{{Kind: value, Controller: ptr.To(true)}}
	case "created", "started", "scheduled":
		setPodTime(p, option, metav1.NewTime(Began.Add(time.Duration(parseNumber(value))*time.Second)))
	case "says", "evicted":
		setPodConditions(p, option, value)
	default:
		setPodSpec(&p.Spec, option, value)
	}
}

func setPodSpec(spec *corev1.PodSpec, option, value string) {
	switch option {
	case "on":
		spec.NodeName = value
	case "scheduler":
		spec.SchedulerName = value
	case "class":
		spec.PriorityClassName = value
	case "selector":
		key, wanted, _ := strings.Cut(value, "=")
		spec.NodeSelector = map[string]string{key: wanted}
	case "priority":
		spec.Priority = ptr.To(int32(parseNumber(value)))
	case "grace":
		spec.TerminationGracePeriodSeconds = ptr.To(parseNumber(value))
	case "preempts":
		spec.PreemptionPolicy = ptr.To(corev1.PreemptionPolicy(value))
	case "gated":
		spec.SchedulingGates = nil

		if value != "no" {
			spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
		}
	default:
		panic("a pod has no " + option)
	}
}

func setPodConditions(p *corev1.Pod, option, value string) {
	switch option {
	case "says":
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: value},
		}
	case "evicted": // as Volcano marks it, by an action
		const preempted = "volcano: preempting to accommodate a higher priority pod"

		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: preempted},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of " + value},
		}
	}
}

func setPodTime(p *corev1.Pod, option string, at metav1.Time) {
	switch option {
	case "created":
		p.CreationTimestamp = at
	case "started":
		p.Status.StartTime = &at
	case "scheduled":
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	}
}

// setCardQuota changes a CardQuota of one card, H200. All options except limit, in, created and
// over-allocation are its status.
func setCardQuota(q *v1alpha1.CardQuota, option, value string) {
	if field, isNumber := statusNumbers[option]; isNumber {
		if len(q.Status.Cards) == 0 {
			q.Status.Cards = []v1alpha1.CardStatus{{Name: models.Replace("H200"), Quota: ptr.Deref(q.Spec.Cards[0].Quota, 0), Physical: 8}}
		}
		*field(&q.Status.Cards[0]) = parseNumber(value)
		return
	}

	switch option {
	case "limit":
		q.Spec.Cards = []v1alpha1.Card{{Name: models.Replace("H200"), Quota: ptr.To(parseNumber(value))}}
	case "in":
		q.Spec.QueueName = value
	case "created":
		q.CreationTimestamp = metav1.NewTime(Began.Add(time.Duration(parseNumber(value)) * time.Second))
	case "over-allocation":
		q.Spec.OverAllocation = v1alpha1.OverAllocation(value)
	case "cpu":
		q.Status.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse(value)}
	case "memory":
		q.Status.Memory = &v1alpha1.ResourceStatus{Used: resource.MustParse(value)}
	case "blocked":
		setBlocked(q, value)
	default:
		panic("a CardQuota has no " + option)
	}
}

// statusNumbers are the options of a card's status.
var statusNumbers = map[string]func(*v1alpha1.CardStatus) *int64{
	"used":      func(c *v1alpha1.CardStatus) *int64 { return &c.Used },
	"free":      func(c *v1alpha1.CardStatus) *int64 { return &c.Free },
	"pending":   func(c *v1alpha1.CardStatus) *int64 { return &c.Pending },
	"deserved":  func(c *v1alpha1.CardStatus) *int64 { return &c.Deserved },
	"guarantee": func(c *v1alpha1.CardStatus) *int64 { return &c.Guarantee },
	"borrowed":  func(c *v1alpha1.CardStatus) *int64 { return &c.Borrowed },
	"physical":  func(c *v1alpha1.CardStatus) *int64 { return &c.Physical },
	"over":      func(c *v1alpha1.CardStatus) *int64 { return &c.OverQuotaBy },
}

// setBlocked sets status.blocked: "POD:CARD:COUNT:REASON,…", or podgroup/NAME for POD. Holders follow an entry:
// "…:REASON:POD:QUEUE:COUNT:…", where QUEUE/TYPE is a queue with a service type.
func setBlocked(q *v1alpha1.CardQuota, value string) {
	q.Status.Blocked = nil
	for entry := range strings.SplitSeq(value, ",") {
		words := strings.Split(entry, ":")
		if len(words) < 4 {
			continue
		}

		b := v1alpha1.BlockedStatus{Workload: podReference(words[0]), Card: words[1], Count: parseNumber(words[2]), Reason: v1alpha1.BlockedReason(words[3])}
		for at := 4; at+2 < len(words); at += 3 {
			queue, serviceType, isTyped := strings.Cut(words[at+1], "/")
			if !isTyped {
				serviceType = "none"
			}
			b.Holders = append(b.Holders, v1alpha1.CardHolder{
				Workload: podReference(words[at]), Queue: queue, ServiceType: serviceType, Card: models.Replace("H200"), Count: parseNumber(words[at+2]),
			})
		}
		q.Status.Blocked = append(q.Status.Blocked, b)
	}

	waiting := map[v1alpha1.WorkloadReference]bool{}
	for _, entry := range q.Status.Blocked {
		waiting[entry.Workload] = true
	}
	q.Status.BlockedTotal = int32(len(waiting))
}

func podReference(name string) v1alpha1.WorkloadReference {
	if group, isGroup := strings.CutPrefix(name, "podgroup/"); isGroup {
		return v1alpha1.WorkloadReference{APIGroup: v1beta1.GroupName, Kind: "PodGroup", Namespace: Namespace, Name: group}
	}
	return v1alpha1.WorkloadReference{Kind: "Pod", Namespace: Namespace, Name: name}
}
