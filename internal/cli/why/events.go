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
	// evictions are the last ones first.
	evictions []explanation.Eviction
	// failure is the last reason why its controller could not create a pod, "" for none.
	failure   string
	failureAt time.Time
}

// readEvents reads what events say about the workload, nothing if they cannot be read. That is no gap: the
// API server keeps events for an hour only, so the explanation must do without them anyway.
func (r *inputReader) readEvents(ctx context.Context) workloadEvents {
	var found workloadEvents
	names := r.eventNames()
	var podEvictions []explanation.Eviction

	err := reader.List(ctx, r.Client, &corev1.EventList{}, func(event *corev1.Event) {
		if !names.has(&event.InvolvedObject) {
			return
		}

		switch event.Reason {
		case v1alpha1.EventCardsReclaimed:
			found.evictions = append(found.evictions, repeatEviction(event)...)
		case evictEvent:
			if event.InvolvedObject.Kind == "Pod" {
				podEvictions = append(podEvictions, repeatEviction(event)...)
			}
		case failedEvent:
			if at := eventTime(event); found.failure == "" || at.After(found.failureAt) {
				found.failure = event.Message
				found.failureAt = at
			}
		}
	}, client.InNamespace(r.input.Workload.Namespace))
	if err != nil {
		return workloadEvents{}
	}

	if len(found.evictions) == 0 { // one event of a reclaim is about all pods of the job
		found.evictions = podEvictions
	}

	slices.SortStableFunc(found.evictions, func(a, b explanation.Eviction) int { return b.At.Compare(a.At) })
	return found
}

// maxRepeats bounds the evictions of one event, whose count any writer of events may set.
const maxRepeats = 100

// repeatEviction returns an eviction as often as its event counts it, once for an event without a count.
func repeatEviction(event *corev1.Event) []explanation.Eviction {
	return slices.Repeat([]explanation.Eviction{{At: eventTime(event), Message: event.Message}}, int(min(max(1, event.Count), maxRepeats)))
}

// eventTime returns when an event was seen last. Which field says so depends on the API that its writer used.
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
	// pods and groups are names of pods and PodGroups, replicaSetPrefix is how the names of the ReplicaSets of
	// a Deployment begin, "" for another workload.
	pods, groups     map[string]bool
	replicaSetPrefix string
	// uids are those of pods that exist. A pod that was evicted is another one.
	uids map[types.UID]bool
}

// eventNames returns the objects whose events are about the workload.
func (r *inputReader) eventNames() eventObjects {
	names := eventObjects{reference: r.input.Workload, pods: map[string]bool{}, groups: map[string]bool{}, uids: map[types.UID]bool{}}
	if names.reference.Kind == "Deployment" { // its ReplicaSets create the pods, and have the events of that
		names.replicaSetPrefix = r.input.Workload.Name + "-"
	}

	for _, pod := range r.found.pods {
		names.pods[pod.Name] = true
		names.uids[pod.UID] = pod.UID != "" // an event without a UID may be of an earlier pod
		if group := workload.PodGroupName(pod); group != "" {
			names.groups[group] = true
		}
	}

	if r.found.group != nil {
		names.groups[r.found.group.Name] = true
	}

	return names
}

// has reports whether an event is about the workload: about its controller, a ReplicaSet of its Deployment, its
// PodGroup, or an earlier pod with the name of one of its pods.
func (o *eventObjects) has(object *corev1.ObjectReference) bool {
	switch object.Kind {
	case o.reference.Kind:
		if object.Name == o.reference.Name && o.isOwnGroup(object.APIVersion) {
			return true
		}
	case "ReplicaSet":
		hash, isOwn := strings.CutPrefix(object.Name, o.replicaSetPrefix)
		return o.replicaSetPrefix != "" && isOwn && !strings.Contains(hash, "-") // "a-b-x" is of Deployment a-b and not of a
	case "PodGroup":
		return o.groups[object.Name]
	}

	// Events of pods that exist repeat their conditions.
	return object.Kind == "Pod" && o.pods[object.Name] && !o.uids[object.UID]
}

// isOwnGroup reports whether an API version is of the group of the workload. A Job and a Volcano job may have
// the same name. Some writers of events leave the version out.
func (o *eventObjects) isOwnGroup(apiVersion string) bool {
	version, err := schema.ParseGroupVersion(apiVersion)
	return apiVersion == "" || (err == nil && version.Group == o.reference.APIGroup)
}
