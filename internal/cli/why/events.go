package why

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/why/explanation"
	"cardquota.dev/operator/internal/workload"
)

// Reasons of events that why reads, beside our scheduler's about reclaimed cards: Volcano's about an evicted pod,
// and those of controllers that cannot create pods.
const (
	evictEvent  = "Evict"
	failedEvent = "FailedCreate"
)

// workloadEvents is what the events of a namespace say about the workload.
type workloadEvents struct {
	evictions []explanation.Eviction
	// failure is the last reason why its controller could not create a pod, "" for none.
	failure   string
	failureAt time.Time
}

// readEvents reads what events say about the workload. They end after an hour, so without the right to
// read them nothing else changes.
func (w *inputReader) readEvents(ctx context.Context) workloadEvents {
	var found workloadEvents
	names := w.eventNames()
	perPod := []explanation.Eviction{}

	err := reader.List(ctx, w.Client, &corev1.EventList{}, func(event *corev1.Event) {
		if !names.has(&event.InvolvedObject) {
			return
		}

		switch event.Reason {
		case v1alpha1.EventCardsReclaimed:
			found.evictions = append(found.evictions, repeatEviction(event)...)
		case evictEvent:
			if event.InvolvedObject.Kind == "Pod" {
				perPod = append(perPod, repeatEviction(event)...)
			}
		case failedEvent:
			if at := eventTime(event); found.failure == "" || at.After(found.failureAt) {
				found.failure = event.Message
				found.failureAt = at
			}
		}
	}, client.InNamespace(w.input.Workload.Namespace))
	if err != nil {
		return workloadEvents{}
	}

	if len(found.evictions) == 0 { // each says of one pod what a reclaim says of the job
		found.evictions = perPod
	}

	slices.SortStableFunc(found.evictions, func(a, b explanation.Eviction) int { return b.At.Compare(a.At) })
	return found
}

// repeatEviction returns an eviction as often as its event counts it.
func repeatEviction(event *corev1.Event) []explanation.Eviction {
	const most = 100
	return slices.Repeat([]explanation.Eviction{{At: eventTime(event), Message: event.Message}}, int(min(max(1, event.Count), most)))
}

// eventTime returns when an event was seen last.
func eventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

// eventObjects are the objects whose events are about the workload.
type eventObjects struct {
	reference v1alpha1.WorkloadReference
	// pods and groups are names, replicaSets the beginning of those of a Deployment, "" for none.
	pods, groups map[string]bool
	replicaSets  string
	// uids are those of pods that exist. A pod that was evicted is another one.
	uids map[types.UID]bool
}

func (w *inputReader) eventNames() eventObjects {
	names := eventObjects{reference: w.input.Workload, pods: map[string]bool{}, groups: map[string]bool{}, uids: map[types.UID]bool{}}
	if names.reference.Kind == "Deployment" {
		names.replicaSets = w.input.Workload.Name + "-"
	}

	for _, pod := range w.found.pods {
		names.pods[pod.Name] = true
		names.uids[pod.UID] = pod.UID != ""
		if group := workload.PodGroupName(pod); group != "" {
			names.groups[group] = true
		}
	}

	if w.found.group != nil {
		names.groups[w.found.group.Name] = true
	}

	return names
}

// has reports whether an event is about the workload.
func (n *eventObjects) has(object *corev1.ObjectReference) bool {
	switch object.Kind {
	case n.reference.Kind:
		if object.Name == n.reference.Name && n.isOwnGroup(object.APIVersion) {
			return true
		}
	case "ReplicaSet":
		hash, isOwn := strings.CutPrefix(object.Name, n.replicaSets)
		return n.replicaSets != "" && isOwn && !strings.Contains(hash, "-")
	case "PodGroup":
		return n.groups[object.Name]
	}

	// Events of the pods themselves repeat their conditions. Only those of earlier pods of the
	// name say more.
	return object.Kind == "Pod" && n.pods[object.Name] && !n.uids[object.UID]
}

// isOwnGroup reports whether an API version is of the group of the workload. A Job and a Volcano job may have
// the same name. Some writers of events leave the version out.
func (n *eventObjects) isOwnGroup(apiVersion string) bool {
	version, err := schema.ParseGroupVersion(apiVersion)
	return apiVersion == "" || (err == nil && version.Group == n.reference.APIGroup)
}
