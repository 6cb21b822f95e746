package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// StatusWriter writes the status of an object that was read from the cache. The operator is its only
// writer, so it needs no optimistic lock. observedGeneration names the spec that a status describes.
type StatusWriter[S any] struct {
	Client   client.StatusClient
	Throttle *StatusThrottle
	Object   client.Object
	// Status is the status of Object.
	Status *S
	// Delay is how long a write must wait, 0 for not at all.
	Delay time.Duration
	// Events returns the events of a change, which Recorder emits. It may be nil.
	Events   func(before, after S) []conditions.Event
	Recorder record.EventRecorder
}

// Write writes a status that differs, and returns after what time to try again, 0 for not at all. The events
// follow the write, so that none reports what was not stored. An object that is gone needs no status.
func (w *StatusWriter[S]) Write(ctx context.Context, status S) (isWritten bool, wait time.Duration, err error) {
	key := ThrottleKey(w.Object)
	switch {
	case w.Throttle.CacheIsStale(key, w.Object.GetResourceVersion()):
		// The cache does not have the last write yet. A patch against an outdated status leaves out what
		// changed and changed back.
		return false, max(w.Delay, StaleRetry), nil
	case equality.Semantic.DeepEqual(*w.Status, status):
		return false, 0, nil
	case w.Delay > 0:
		return false, w.Delay, nil
	}

	// The patch overwrites the object with the answer, so keep what was before for the events.
	before := *w.Status
	object, _ := w.Object.DeepCopyObject().(client.Object) // it always is one
	*w.Status = status
	err = w.Client.Status().Patch(ctx, w.Object, client.MergeFrom(object), client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return false, 0, nil
	case err != nil:
		return false, 0, fmt.Errorf("write status: %w", err)
	}

	w.Throttle.RecordWrite(key, w.Object.GetResourceVersion())
	if w.Events != nil {
		for _, event := range w.Events(before, status) {
			w.Recorder.Event(w.Object, event.Type, event.Reason, event.Message)
		}
	}

	return true, 0, nil
}

// ThrottleKey returns the name by which a StatusThrottle knows an object.
func ThrottleKey(object client.Object) string {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace + "/" + object.GetName()
	}
	return object.GetName()
}
