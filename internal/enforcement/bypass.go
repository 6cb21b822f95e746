package enforcement

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Bypass is a pod that holds cards without having passed our scheduler.
type Bypass struct {
	// Pod is namespace/name.
	Pod string
	// Queue is the queue that pays for it, "" for none.
	Queue string
	// Cards are what it holds: the card of its node, every card that it may be
	// when the node does not tell, the bare resource when nothing is known.
	Cards []card.Amount
	// Why says in a few words how it came past.
	Reason string
}

// Equal tells whether both say the same.
func (b Bypass) Equal(o Bypass) bool {
	return b.Pod == o.Pod && b.Queue == o.Queue && b.Reason == o.Reason && slices.Equal(b.Cards, o.Cards)
}

// bypassesOfQueue are those of one queue.
func bypassesOfQueue(queue string, all []Bypass) []Bypass {
	return slices.DeleteFunc(slices.Clone(all), func(b Bypass) bool { return b.Queue != queue })
}

// ChangedQueues lists the queues whose bypasses differ.
func ChangedQueues(before, after []Bypass) []string {
	var queues []string
	for _, b := range slices.Concat(before, after) {
		if b.Queue != "" && !slices.EqualFunc(bypassesOfQueue(b.Queue, before), bypassesOfQueue(b.Queue, after), Bypass.Equal) {
			queues = append(queues, b.Queue)
		}
	}
	return queues
}

// FindBypasses lists, by name, the pods that hold a card and that another
// scheduler than those named placed, or that brought their node name with them.
// charges is what was charged for each pod. Pods that are being deleted hold
// nothing any more, as everywhere. What a pod's record of its writers said first
// stays true: seen remembers it, because whoever may change a pod can rewrite its
// record later, to hide a node name or to raise an alarm.
func FindBypasses(pods []*corev1.Pod, charges map[types.UID]quota.Charge, inv *card.Inventory, schedulers []string, seen FirstProvenance) []Bypass {
	var out []Bypass
	seen.recordNew(pods)
	for _, pod := range pods {
		if !workload.IsAssigned(pod) {
			continue
		}
		charge := charges[pod.UID]
		if len(charge.Cards) == 0 && !requestsCard(pod, inv) {
			continue
		}
		why := bypassReason(pod, schedulers, seen)
		if why == "" {
			continue
		}
		cards := charge.Cards
		if len(cards) == 0 {
			cards = requestedAmounts((&workload.Resolver{Inventory: inv}).Request(pod))
		}
		if len(cards) > 0 {
			out = append(out, Bypass{Pod: pod.Namespace + "/" + pod.Name, Queue: charge.Queue, Cards: cards, Reason: why})
		}
	}
	slices.SortFunc(out, func(a, b Bypass) int { return cmp.Compare(a.Pod, b.Pod) })
	return out
}

// FirstProvenance remembers by the UID of a pod, until the pod is gone, what its record
// said when it was first seen: who brought a node name along, and who did not.
type FirstProvenance map[types.UID]Provenance

func (s FirstProvenance) recordNew(pods []*corev1.Pod) {
	for _, pod := range pods {
		first, seen := s[pod.UID]
		if seen && !first.ManagedFieldsRemoved {
			continue
		}
		// A record that was taken away at first and is back proves nothing, unless
		// it tells of a node name.
		if now := ProvenanceOf(pod); !seen || now.NodeNameSetByCreator {
			s[pod.UID] = now
		}
	}
	if len(s) == len(pods) { // every pod is known now, so nobody else is
		return
	}
	there := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		there[pod.UID] = true
	}
	maps.DeleteFunc(s, func(uid types.UID, _ Provenance) bool { return !there[uid] })
}

// bypassReason says how a placed pod came past our scheduler, "" when it did not. Whoever may
// change a pod can take its record of writers away, at once after creating it, to
// raise an alarm. The queue that our scheduler writes when it binds a pod tells then
// that it did. That is sound only where admission refuses that queue on a pod that
// comes with its node (package admissionpolicy): where it does not, condition BypassGuarded
// says that nothing is proven.
func bypassReason(pod *corev1.Pod, schedulers []string, seen FirstProvenance) string {
	if !slices.Contains(schedulers, pod.Spec.SchedulerName) {
		return fmt.Sprintf("schedulerName is %s", pod.Spec.SchedulerName)
	}
	switch first := seen[pod.UID]; {
	case first.NodeNameSetByCreator:
		return fmt.Sprintf("nodeName was set by %s", cmp.Or(first.Manager, "its creator"))
	case first.ManagedFieldsRemoved && workload.ChargedQueue(pod) == "":
		return "managedFields were taken away, so nobody can tell who placed it"
	}
	return ""
}

// requestsCard tells quickly whether a pod names a card resource at all: most pods of
// other schedulers do not.
func requestsCard(pod *corev1.Pod, inv *card.Inventory) bool {
	names := func(c corev1.Container) bool {
		for resource := range c.Resources.Requests {
			if inv.IsCard(resource) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, names) || slices.ContainsFunc(pod.Spec.InitContainers, names)
}

// requestedAmounts is what an ask holds when no node tells which card it is.
func requestedAmounts(ask workload.Request) []card.Amount {
	var out []card.Amount
	for _, held := range append([]workload.ResourceCount{{Resource: ask.Resource, Count: ask.Count}}, ask.ExtraResources...) {
		if held.Count > 0 {
			out = append(out, card.Amount{Name: card.Name(held.Resource), Count: held.Count})
		}
	}
	return out
}

// Provenance is how a pod came to its node, as far as metadata.managedFields
// tells. A binding through pods/binding, which is what schedulers do, leaves no
// owner of spec.nodeName there; who creates a pod with a node name of its own
// becomes the owner of the field.
type Provenance struct {
	// Preset tells that the node name came with the pod, By names the field
	// manager that wrote it.
	NodeNameSetByCreator bool
	Manager              string
	// Erased tells that nobody owns the containers of the pod: the record was
	// taken away, and nothing can be said of the node name any more. The API
	// server writes it for every pod.
	ManagedFieldsRemoved bool
}

// The reduced records. They are shared by all pods and never changed.
var (
	creatorSetFields = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{},"f:nodeName":{}}}`)}
	boundFields      = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)}
	boundRecord      = []metav1.ManagedFieldsEntry{{FieldsV1: boundFields}}
)

// ProvenanceOf reads where the pod's node name came from. It reads the whole
// record and the one that Reduce leaves alike.
func ProvenanceOf(pod *corev1.Pod) Provenance {
	p := Provenance{ManagedFieldsRemoved: true}
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		containers, nodeName := ownedFields(entry.FieldsV1)
		if nodeName {
			return Provenance{NodeNameSetByCreator: true, Manager: entry.Manager}
		}
		p.ManagedFieldsRemoved = p.ManagedFieldsRemoved && !containers
	}
	return p
}

// ReducedManagedFields returns the managedFields of a pod without everything that
// ProvenanceOf does not read: a cache holds every pod of the cluster, and the
// whole record is about a kilobyte each.
func ReducedManagedFields(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	switch p := ProvenanceOf(pod); {
	case p.NodeNameSetByCreator:
		return []metav1.ManagedFieldsEntry{{Manager: p.Manager, FieldsV1: creatorSetFields}}
	case p.ManagedFieldsRemoved:
		return nil
	default:
		return boundRecord
	}
}

// ownedFields tells whether the fields hold spec.containers and spec.nodeName. A
// record that cannot be read holds nothing.
func ownedFields(fields *metav1.FieldsV1) (containers, nodeName bool) {
	switch {
	case fields == nil:
		return false, false
	case fields == boundFields:
		return true, false
	case fields == creatorSetFields:
		return true, true
	case !bytes.Contains(fields.Raw, []byte(`"f:containers"`)) && !bytes.Contains(fields.Raw, []byte(`"f:nodeName"`)):
		return false, false
	}
	var record struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(fields.Raw, &record) != nil {
		return false, false
	}
	_, containers = record.Spec["f:containers"]
	_, nodeName = record.Spec["f:nodeName"]
	return containers, nodeName
}
