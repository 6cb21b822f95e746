package main

import (
	"reflect"
	"testing"
	"unsafe"

	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/scheduler/cardreclaim"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheEvictorIsReplaced: our evictor recreates gangs, and Volcano has no option for another evictor. So the
// scheduler finds Volcano's cache in an unexported field and replaces the evictor there. If a version of Volcano
// keeps the cache elsewhere, the scheduler must not start.
func TestTheEvictorIsReplaced(t *testing.T) {
	evictor := &cardreclaim.Evictor{}
	sched := &scheduler.Scheduler{}
	check.That(t, replaceEvictor(sched, evictor) != nil, "a scheduler without a cache is accepted")

	theirs := cache.NewCustomMockSchedulerCache("volcano", util.NewFakeBinder(0), util.NewFakeEvictor(0), &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	field := reflect.ValueOf(sched).Elem().FieldByName("cache")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(theirs))
	check.NoError(t, replaceEvictor(sched, evictor))
	check.That(t, theirs.Evictor == cache.Evictor(evictor), "the cache evicts with %T", theirs.Evictor)
}
