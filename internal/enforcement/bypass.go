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

// Bypass is a pod that uses cards that our scheduler did not assign.
type Bypass struct {
	// Pod is namespace/name.
	Pod string
	// Queue is the queue that is charged for it, "" for none.
	Queue string
	// Cards are what it uses: the card of its node, every possible card if the node does
	// not tell, or the resource if none is known.
	Cards []card.Amount
	// Reason says in a few words how it bypassed the scheduler.
	Reason string
}

// Equal reports whether two bypasses are equal.
func (b Bypass) Equal(o Bypass) bool {
	return b.Pod == o.Pod && b.Queue == o.Queue && b.Reason == o.Reason && slices.Equal(b.Cards, o.Cards)
}

// BypassesByQueue are bypasses by the queue that is charged for them.
type BypassesByQueue map[string][]Bypass

// GroupByQueue groups bypasses, except those without a queue. Those of a queue keep their order.
func GroupByQueue(all []Bypass) BypassesByQueue {
	groups := BypassesByQueue{}
	for _, b := range all {
		if b.Queue != "" {
			groups[b.Queue] = append(groups[b.Queue], b)
		}
	}
	return groups
}

// FindBypasses returns, sorted by name, the pods with cards that another scheduler placed, or that were
// created with a node name. charges has the charge of each pod, schedulers are the names of ours. A
// terminating pod is no bypass, because its charge is released. seen keeps what managedFields said first, and
// this call adds new pods to it: a tenant who may update a pod can rewrite them later, to hide a node name or
// to raise a false alarm.
func FindBypasses(pods []*corev1.Pod, charges map[types.UID]quota.Charge, inv *card.Inventory, schedulers []string, seen FirstProvenance) []Bypass {
	var out []Bypass
	for _, pod := range pods {
		first := seen.recordFirst(pod) // also of pods that wait
		if !workload.IsAssigned(pod) { // it has no node, has finished or is terminating
			continue
		}

		why := bypassReason(pod, schedulers, first)
		if why == "" {
			continue
		}

		// A pod without charged cards, as on a node whose cards are unknown, can still use some. Most pods
		// request none, and this cheap check leaves those out.
		charge := charges[pod.UID]
		if len(charge.Cards) == 0 && !requestsCard(pod, inv) {
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

	seen.dropGone(pods)
	slices.SortFunc(out, func(a, b Bypass) int { return cmp.Compare(a.Pod, b.Pod) })
	return out
}

// FirstProvenance is the provenance of each pod when the operator first saw it, by UID. Some pods
// that are gone may be left in it.
type FirstProvenance map[types.UID]Provenance

// recordFirst returns the first provenance of a pod, and records it for a new one.
func (f FirstProvenance) recordFirst(pod *corev1.Pod) Provenance {
	first, seen := f[pod.UID]
	if seen && !first.ManagedFieldsRemoved {
		return first
	}
	// Managed fields that were removed at first and are back prove nothing in favour of the pod. If they have a node
	// name, that is proof of a bypass.
	if now := ProvenanceOf(pod); !seen || now.NodeNameSetByCreator {
		f[pod.UID] = now
		return now
	}
	return first
}

// dropGone drops pods that are gone, once there are a sixteenth more entries than pods. So a deleted pod
// alone does not cost a look at every entry.
func (f FirstProvenance) dropGone(pods []*corev1.Pod) {
	if len(f) <= len(pods)+len(pods)/16 {
		return
	}
	existing := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		existing[pod.UID] = true
	}
	maps.DeleteFunc(f, func(uid types.UID, _ Provenance) bool { return !existing[uid] })
}

// bypassReason returns how an assigned pod bypassed our scheduler, "" if it did not. A
// tenant can remove managedFields right after creating a pod, to raise a false alarm. Then
// the charged queue, which our scheduler writes when it binds a pod, proves that our
// scheduler bound it. This requires that admission refuses that annotation on a pod created
// with a node name (package admissionpolicy). Where it does not, condition BypassGuarded
// says so. first is the provenance of the pod when the operator first saw it.
func bypassReason(pod *corev1.Pod, schedulers []string, first Provenance) string {
	if !slices.Contains(schedulers, pod.Spec.SchedulerName) {
		return fmt.Sprintf("schedulerName is %s", pod.Spec.SchedulerName)
	}
	switch {
	case first.NodeNameSetByCreator:
		return fmt.Sprintf("nodeName was set by %s", cmp.Or(first.Manager, "its creator"))
	case first.ManagedFieldsRemoved && workload.ChargedQueue(pod) == "":
		return "managedFields were removed, so it is unknown who placed it"
	}
	return ""
}

// requestsCard reports whether a pod requests a card resource. Most pods of other schedulers do not. A
// request of 0 takes no card.
func requestsCard(pod *corev1.Pod, inv *card.Inventory) bool {
	requests := func(c corev1.Container) bool {
		for resource, quantity := range c.Resources.Requests {
			if quantity.Sign() > 0 && inv.IsCard(resource) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, requests) || slices.ContainsFunc(pod.Spec.InitContainers, requests)
}

// requestedAmounts returns the resources of a request as amounts, for a pod whose node does
// not tell the card.
func requestedAmounts(request workload.Request) []card.Amount {
	var out []card.Amount
	for _, requested := range append([]workload.ResourceCount{{Resource: request.Resource, Count: request.Count}}, request.ExtraResources...) {
		if requested.Count > 0 {
			out = append(out, card.Amount{Name: card.Name(requested.Resource), Count: requested.Count})
		}
	}
	return out
}

// Provenance is how a pod got its node name, according to metadata.managedFields. A
// scheduler binds through pods/binding, which leaves no manager of spec.nodeName. A client
// that creates a pod with a node name becomes the manager of the field.
type Provenance struct {
	// NodeNameSetByCreator reports whether the pod was created with a node name, by
	// Manager.
	NodeNameSetByCreator bool
	Manager              string
	// ManagedFieldsRemoved reports that no manager owns the containers of the pod. The API
	// server records one for every pod, so a client removed managedFields, and the node
	// name has no provenance.
	ManagedFieldsRemoved bool
}

// The reduced managed fields. All pods share them, and they are never changed.
var (
	creatorSetFields = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{},"f:nodeName":{}}}`)}
	boundFields      = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{}}}`)}
	boundRecord      = []metav1.ManagedFieldsEntry{{FieldsV1: boundFields}}
)

// ProvenanceOf returns how the pod got its node name. It reads full and reduced managed
// fields alike.
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

// ReducedManagedFields returns the managedFields of a pod without what ProvenanceOf does
// not read. A cache has every pod of the cluster, and full managed fields take about a
// kilobyte each.
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

// ownedFields reports which of two fields an entry of managedFields says that its manager owns:
// spec.containers and spec.nodeName. In an unreadable entry it owns neither.
func ownedFields(fields *metav1.FieldsV1) (containers, nodeName bool) {
	// Nearly all pods of the caches have one of two shared values, so their address says what they have.
	// Parsing takes much longer.
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
