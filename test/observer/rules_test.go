package observer

import (
	"testing"
	"time"
)

func TestStatus(t *testing.T) {
	const (
		idle = `quota q used=0 free=2;`
		one  = `quota q used=1 free=1;`
	)

	const placed = `load ` + idle + `place a node=h200-0 cards=1; check;`
	runScripts(t, newScene, map[string]scriptCase{
		"a right status is fine":                          {`load ` + idle + `wait 1m`, ""},
		"a status may lag for five seconds":               {placed + `wait 4s`, "open"},
		"and no longer":                                   {placed + `wait 5100ms`, "status"},
		"changes of other queues do not prolong the time": {placed + `wait 5100ms; write queue other quota={}`, "status"},
		"a status that came in time is fine": {placed + `write ` + one + `write queue q allocated=H200:1
			wait 1m`, ""},
		"card.allocated is checked as well":                                 {placed + `write ` + one + `wait 1m`, "status"},
		"zeros in card.allocated are right":                                 {`load ` + idle + `write queue q allocated=H200:0; wait 1m`, ""},
		"card.allocated is checked where no CardQuota stands behind it too": {`write queue q allocated=H200:1; check; wait 1m`, "status"},
		// What is deleted within a moment is written to the status, and replaced.
		"numbers that moved and came back unseen have their whole time again": {`load ` + one + `load queue q allocated=H200:1
			place a node=h200-0 cards=1; check; wait 1m; remove pod a; write ` + idle + `write queue q allocated={}; place b node=h200-0 cards=1; wait 4s`, "open"},
		"and may lag there as well": {`write queue q allocated={}; check; wait 1m
			place a node=h200-0 cards=1; wait 4s`, "open"},
		"and is checked while the CardQuota is being deleted": {`load quota q deleted=true; write queue q allocated=H200:1; check; wait 1m`, "status"},
		"a Queue without a CardQuota need not have it":        {`place a node=h200-0 cards=1; wait 1m`, ""},
		"CPU and memory that are right": {`load quota q used=0 free=2 usedCPU=2 usedMemory=1Gi
			place a node=h200-0 card= cpu=2000m memory=1024Mi; wait 1m`, ""},
		"CPU and memory are checked as well": {`load quota q used=0 free=2 usedCPU=2 usedMemory=1Gi
			place a node=h200-0 card= cpu=2000m memory=1024Mi; wait 1m; check
			write pod b card= cpu=2000m memory=1024Mi node=h200-0; check; wait 6s`, "status"},
		"a card that the status leaves out is missed": {`load quota q; check; wait 1m`, "status"},
		"a waiting pod is pending under the first alternative with a quota": {`load quota q used=0 free=2 pending=3 blocked=pod:a,card:RTX4090|H200,count:3,reason:QuotaExhausted
			write pod a cards=3 card=RTX4090|H200 unschedulable=no-room; wait 1m`, ""},
		"a job without pods is pending by its card.request": {`load quota q used=0 free=2 pending=4 blocked=podgroup:g,card:H200,count:4,reason:QuotaExhausted
			write group g queue=q request=H200:4 unschedulable=no-room; wait 1m`, ""},
		"use above a lowered quota is over it": {`place a node=h200-0 cards=2; write queue q allocated=H200:2
			write quota q quota=1 used=2 overQuotaBy=1; wait 1m`, ""},
		"of two CardQuotas for one queue only the older is looked at": {`load ` + idle + `load quota late quota=7 queue=q created=1; wait 1m`, ""},
		"a CardQuota that is being deleted is not looked at":          {`load quota q deleted=true; wait 1m`, ""},
		"a missing queue is missed":                                   {`load quota nowhere; check; wait 1m`, "status"},
	})
}

func TestReason(t *testing.T) {
	runScripts(t, newScene, map[string]scriptCase{
		"a pod may wait ten seconds without a word": {`write pod a cards=1; wait 9s`, "open"},
		"and no longer":                                  {`write pod a cards=1; wait 11s`, "reason"},
		"a message on the pod is a word":                 {`write pod a cards=1 unschedulable=no-room; wait 1m`, ""},
		"an empty message is none":                       {`write pod a cards=1 unschedulable=; wait 1m`, "reason"},
		"a message on the PodGroup is a word":            {`write group g queue=q unschedulable=no-room; write pod a cards=1 group=g; wait 1m`, ""},
		"a gated pod does not wait":                      {`write pod a cards=1 gated=true; wait 1m`, ""},
		"a pod waits from the moment its gate is lifted": {`write pod a cards=1 gated=true; wait 1m; write pod a gated=false; wait 9s`, "open"},
		"another scheduler's pods are not looked at":     {`write pod a cards=1 scheduler=default-scheduler; wait 1m`, ""},
		"pods without cards are not looked at":           {`write pod a card=; wait 1m`, ""},
		"a PodGroup without pods must say why it waits":  {`write group g queue=q request=H200:4; check; wait 11s`, "reason"},
		"by minResources too":                            {`write group g queue=q cards=4; check; wait 11s`, "reason"},
		"a PodGroup with pods leaves it to them": {`write group g queue=q request=H200:4
			write pod a cards=1 group=g unschedulable=no-room; check; wait 1m`, ""},
		"a running PodGroup does not wait": {`write group g queue=q request=H200:4 phase=Running; check; wait 1m`, ""},
	})
}

func TestObjectsOfOtherTestsAreNotChecked(t *testing.T) {
	w := newScene()
	w.machine.options.Concerns = func(object string) bool { return object == "pod/test/mine" }
	w.playScript(`place theirs node=h200-0 cards=3; write pod silent cards=1; load quota nowhere; check; wait 1m`).expectViolations(t, "")
	w.playScript(`place mine node=h200-0 cards=1`).expectViolations(t, "quota") // what others hold counts
}

func TestExcuse(t *testing.T) {
	w := newScene()
	w.machine.setExcused(Reason, true, w.clock)
	w.playScript(`write pod a cards=1; wait 1m; check`)
	w.machine.setExcused(Reason, false, w.clock)
	w.playScript(`wait 9s`).expectViolations(t, "open")
	w.clock = w.clock.Add(2 * time.Second)
	w.expectViolations(t, "reason")
}
