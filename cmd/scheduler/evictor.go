package main

import (
	"errors"
	"reflect"

	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/cache"
)

// errNoCache says that Volcano's scheduler is not built as that of v1.14.1 is.
var errNoCache = errors.New("the cache of Volcano's scheduler was not found, so its evictions would leave gangs in part")

// replaceEvictor has the cache of a scheduler evict as Preempt does. Volcano lets
// everybody choose the evictor of a cache, and keeps the cache of a scheduler to itself.
func replaceEvictor(sched *scheduler.Scheduler) error {
	found, err := cacheOf(sched)
	if err != nil {
		return err
	}
	found.Evictor = preempt.Evictor().Use(found.Client(), found.Recorder)
	return nil
}

func cacheOf(sched *scheduler.Scheduler) (*cache.SchedulerCache, error) {
	field := reflect.ValueOf(sched).Elem().FieldByName("cache")
	if !field.IsValid() || field.Kind() != reflect.Interface || field.IsNil() || field.Elem().Type() != reflect.TypeFor[*cache.SchedulerCache]() {
		return nil, errNoCache
	}
	return (*cache.SchedulerCache)(field.Elem().UnsafePointer()), nil
}
