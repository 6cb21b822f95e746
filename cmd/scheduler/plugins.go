package main

import (
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/cardreclaim/action"
)

// registerPlugins adds what Volcano does not bring itself.
func registerPlugins() {
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.New)
	reclaim := action.New(nil)
	preempt = action.NewPreempt(reclaim)
	framework.RegisterAction(reclaim)
	framework.RegisterAction(preempt) // in the place of Volcano's
}

// preempt is Volcano's action with the rules of card quota.
var preempt *action.Preempt

// validateArguments is capacity-card's own judgement of its arguments.
var validateArguments = capacitycard.ValidateArguments
