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

// writerScene is a writer of the status of CardQuota llm, the object in its memory, and its events.
type writerScene struct {
	*StatusWriter[v1alpha1.CardQuotaStatus]
	quota  *v1alpha1.CardQuota
	events <-chan string
}

// newStatusWriter returns the writer of a stored CardQuota without a status, with an interval of an hour. Its events
// have the summary. patchError is the answer to each write, nil for that of the fake API server.
func newStatusWriter(t *testing.T, patchError error) *writerScene {
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
	return &writerScene{quota: quota, events: events.Events, StatusWriter: &StatusWriter[v1alpha1.CardQuotaStatus]{
		Client: api, Throttle: NewStatusThrottle(time.Hour), Object: quota, Status: &quota.Status, Recorder: events,
		Events: func(before, after v1alpha1.CardQuotaStatus) []conditions.Event {
			return []conditions.Event{{Type: "Normal", Reason: "Changed", Message: fmt.Sprintf("%q to %q, stored as version %s", before.Summary, after.Summary, quota.ResourceVersion)}}
		},
	}}
}

const (
	written   = true
	unwritten = false
	noWait    = time.Duration(0)
)

// write writes a status with a summary, and compares whether it was written, and after which time the next reconcile
// is due. It returns the error.
func (w *writerScene) write(t *testing.T, summary string, wantWritten bool, wantWait time.Duration) error {
	isWritten, wait, err := w.Write(t.Context(), v1alpha1.CardQuotaStatus{Summary: summary})
	check.Equal(t, "written", wantWritten, isWritten)
	check.Equal(t, "wait", wantWait, wait)
	return err
}

// TestStatusWriterEmitsEventsAfterTheWrite: an event reports a change of the status that is stored, so it names the
// version of the write. The write begins an interval of the throttle. The same status again is no write and no event.
func TestStatusWriterEmitsEventsAfterTheWrite(t *testing.T) {
	writer := newStatusWriter(t, nil)
	before := writer.quota.ResourceVersion

	check.NoError(t, writer.write(t, "8 H200", written, noWait))
	check.That(t, writer.quota.ResourceVersion != before, "the object has no version of the write")
	check.Equal(t, "event", `Normal Changed "" to "8 H200", stored as version `+writer.quota.ResourceVersion, <-writer.events)
	check.That(t, writer.Throttle.Wait("llm") > 0, "the write is not recorded")

	check.NoError(t, writer.write(t, "8 H200", unwritten, noWait))
	check.Equal(t, "events for the same status", 0, len(writer.events))
}

// TestStatusWriterWritesNothingToAGoneObject: a write to an object that was deleted meanwhile is no error. No
// event reports its status, which was not stored. No interval of the throttle begins either, so the status of
// an object that is created under the same name is written at once.
func TestStatusWriterWritesNothingToAGoneObject(t *testing.T) {
	writer := newStatusWriter(t, nil)
	check.NoError(t, writer.Client.(client.Client).Delete(t.Context(), writer.quota.DeepCopy()))

	check.NoError(t, writer.write(t, "8 H200", unwritten, noWait))
	check.Equal(t, "events", 0, len(writer.events))
	check.Equal(t, "wait of the next write", 0, writer.Throttle.Wait("llm"))
}

// TestStatusWriterReturnsTheErrorOfAWrite: a failed write emits no event, and begins no interval of the throttle, so
// that the retry is not delayed.
func TestStatusWriterReturnsTheErrorOfAWrite(t *testing.T) {
	writer := newStatusWriter(t, errors.New("no answer"))

	check.Says(t, writer.write(t, "8 H200", unwritten, noWait), "write status: no answer")
	check.Equal(t, "events", 0, len(writer.events))
	check.Equal(t, "wait of the next write", 0, writer.Throttle.Wait("llm"))
}

// TestStatusWriterWaitsForTheCacheAndItsDelay: while the cache lacks the last write, version 999999, the writer
// cannot know what changed. So it writes nothing and asks to be called again after StaleRetry (250 ms). A Delay
// puts a changed status off. The longer wait counts. Summary "" is the stored status.
func TestStatusWriterWaitsForTheCacheAndItsDelay(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		lastWrite string
		delay     time.Duration
		summary   string
		wantWait  time.Duration
	}{
		"a delay of a minute":                        {summary: "8 H200", delay: time.Minute, wantWait: time.Minute},
		"a delay of a minute, the same status":       {delay: time.Minute},
		"a late cache":                               {lastWrite: "999999", summary: "8 H200", wantWait: StaleRetry},
		"a late cache, the status seems to be equal": {lastWrite: "999999", wantWait: StaleRetry},
		"a late cache and a longer delay":            {lastWrite: "999999", summary: "8 H200", delay: time.Minute, wantWait: time.Minute},
	}) {
		writer := newStatusWriter(t, nil)
		writer.Delay = tc.delay
		if tc.lastWrite != "" {
			writer.Throttle.RecordWrite("llm", tc.lastWrite)
		}
		before := writer.quota.DeepCopy()

		check.NoError(t, writer.write(t, tc.summary, unwritten, tc.wantWait))
		check.Equal(t, "events", 0, len(writer.events))
		check.Equal(t, "the object in memory", before, writer.quota)
	}
}
