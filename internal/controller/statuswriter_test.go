package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fieldowner"
)

type quotaStatusWriter = StatusWriter[v1alpha1.CardQuotaStatus]

// newStatusWriter returns a writer of the status of a stored CardQuota, whose events say its summary.
// patchError is the answer to each write, nil for that of the fake API server.
func newStatusWriter(t *testing.T, patchError error) (*quotaStatusWriter, *v1alpha1.CardQuota, *record.FakeRecorder) {
	api := fieldowner.CheckStatus(t, fake.NewClientBuilder().WithScheme(builder.Scheme(t, v1alpha1.AddToScheme)).
		WithObjects(builder.CardQuota("llm").Obj()).WithStatusSubresource(&v1alpha1.CardQuota{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, api client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if patchError != nil {
				return patchError
			}
			return api.SubResource(sub).Patch(ctx, object, patch, options...)
		}}).Build())

	quota := &v1alpha1.CardQuota{}
	check.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: "llm"}, quota))
	events := record.NewFakeRecorder(10)
	return &quotaStatusWriter{
		Client: api, Throttle: NewStatusThrottle(time.Hour), Object: quota, Status: &quota.Status, Recorder: events,
		Events: func(before, after v1alpha1.CardQuotaStatus) []conditions.Event {
			return []conditions.Event{{Type: "Normal", Reason: "Changed", Message: fmt.Sprintf("%q to %q, stored as version %s", before.Summary, after.Summary, quota.ResourceVersion)}}
		},
	}, quota, events
}

func TestStatusWriterEmitsEventsAfterTheWrite(t *testing.T) {
	w, quota, events := newStatusWriter(t, nil)
	before := quota.ResourceVersion
	isWritten, wait, err := w.Write(t.Context(), v1alpha1.CardQuotaStatus{Summary: "8 H200"})
	check.NoError(t, err)
	check.That(t, isWritten && wait == 0, "written: %t, wait %s", isWritten, wait)
	check.That(t, quota.ResourceVersion != before, "no version of the write")
	check.Equal(t, "event", `Normal Changed "" to "8 H200", stored as version `+quota.ResourceVersion, <-events.Events)
	check.That(t, w.Throttle.Wait("llm") > 0, "the write is not recorded")

	isWritten, wait, err = w.Write(t.Context(), v1alpha1.CardQuotaStatus{Summary: "8 H200"})
	check.NoError(t, err)
	check.That(t, !isWritten && wait == 0 && len(events.Events) == 0, "the same status: written: %t, wait %s, %d events", isWritten, wait, len(events.Events))
}

// TestStatusWriterWritesNothingToAGoneObject: the end of an object is no error, and no event may report a
// status that was not stored. An object created under its name does not wait.
func TestStatusWriterWritesNothingToAGoneObject(t *testing.T) {
	w, quota, events := newStatusWriter(t, nil)
	check.NoError(t, w.Client.(client.Client).Delete(t.Context(), quota.DeepCopy()))
	isWritten, wait, err := w.Write(t.Context(), v1alpha1.CardQuotaStatus{Summary: "8 H200"})
	check.NoError(t, err)
	check.That(t, !isWritten && wait == 0, "written: %t, wait %s", isWritten, wait)
	check.Equal(t, "events", 0, len(events.Events))
	check.Equal(t, "wait of the next write", 0, w.Throttle.Wait("llm"))
}

func TestStatusWriterReportsAFailedWriteOnly(t *testing.T) {
	w, _, events := newStatusWriter(t, errors.New("no answer"))
	isWritten, _, err := w.Write(t.Context(), v1alpha1.CardQuotaStatus{Summary: "8 H200"})
	check.Says(t, err, "write status: no answer")
	check.That(t, !isWritten, "it is written")
	check.Equal(t, "events", 0, len(events.Events))
	check.Equal(t, "wait of the next write", 0, w.Throttle.Wait("llm"))
}

func TestStatusWriterWaitsForTheCacheAndItsDelay(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		// written is the version that the last write made, "" for none.
		written string
		delay   time.Duration
		// summary is that of the next status, "" for the same as before.
		summary string
		want    time.Duration
	}{
		"a delay":                               {summary: "8 H200", delay: time.Minute, want: time.Minute},
		"a delay, nothing changed":              {delay: time.Minute},
		"a late cache":                          {written: "999999", summary: "8 H200", want: StaleRetry},
		"a late cache, nothing seems to change": {written: "999999", want: StaleRetry},
		"a late cache and a longer delay":       {written: "999999", summary: "8 H200", delay: time.Minute, want: time.Minute},
	}) {
		w, quota, events := newStatusWriter(t, nil)
		w.Delay = tc.delay
		if tc.written != "" {
			w.Throttle.RecordWrite("llm", tc.written)
		}

		before := quota.DeepCopy()
		isWritten, wait, err := w.Write(t.Context(), v1alpha1.CardQuotaStatus{Summary: tc.summary})
		check.NoError(t, err)
		check.That(t, !isWritten && len(events.Events) == 0, "written: %t, %d events", isWritten, len(events.Events))
		check.Equal(t, "wait", tc.want, wait)
		check.Equal(t, "the object in memory", before, quota)
	}
}
