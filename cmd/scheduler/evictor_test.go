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

// TestTheEvictorIsReplaced pins where Volcano keeps the cache of a scheduler.
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
