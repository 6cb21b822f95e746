package main

import (
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/cardreclaim/action"
)

// registerPlugins adds what Volcano does not bring itself.
func registerPlugins() {
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.New)
	framework.RegisterAction(action.New(nil))
}

// validateArguments is capacity-card's own judgement of its arguments.
var validateArguments = capacitycard.ValidateArguments
