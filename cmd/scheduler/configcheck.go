package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mitchellh/mapstructure"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/deviceshare"
	resourcestrategyfit "volcano.sh/volcano/pkg/scheduler/plugins/resource-strategy-fit"

	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// checkAcceptedByVolcano parses a text with Volcano's own parser. It refuses what would end the process: a
// text that Volcano cannot parse, and arguments of the wrong type. It also refuses arguments of
// capacity-card that only Volcano's parser reads as wrong ones.
func checkAcceptedByVolcano(text string) error {
	_, tiers, _, _, err := scheduler.UnmarshalSchedulerConf(text)
	if err != nil {
		return fmt.Errorf("not accepted by Volcano's parser: %w", err)
	}

	var errs []error
	for _, tier := range tiers {
		for _, plugin := range tier.Plugins {
			// The loader validates the arguments as its own parser reads them. Volcano's reads words such as
			// yes and on as true.
			if plugin.Name == schedulerconfig.CapacityCard {
				arguments := maps.Clone(plugin.Arguments)
				delete(arguments, schedulerconfig.HashArgument) // the loader wrote it, no user
				if err := snapshot.ValidateArguments(arguments); err != nil {
					errs = append(errs, fmt.Errorf("arguments of %s as Volcano reads them: %w", plugin.Name, err))
				}
			}
			errs = append(errs, fatalArguments(plugin)...)
		}
	}

	return errors.Join(errs...)
}

// typedArguments are the arguments that Volcano reads with framework.Get, which ends the
// process on a wrong type, each with a value of the right type.
var typedArguments = map[string]map[string]func() any{
	"predicates": {
		"volumebinding.weight":                  func() any { return new(int) },
		"volumebinding.bindTimeoutSeconds":      func() any { return new(uint32) }, // negative is fatal as well
		"volumebinding.shape":                   func() any { return new([]config.UtilizationShapePoint) },
		"dynamicresources.filterTimeoutSeconds": func() any { return new(int) },
	},
	"extender": {
		"extender.managedResources": func() any { return new([]string) },
	},
	"resource-strategy-fit": {
		"resourceStrategyFitWeight": func() any { return new(int) },
		"resources":                 func() any { return new(map[string]resourcestrategyfit.ResourcesType) },
		"sra": func() any {
			return new(struct {
				Enable         bool
				Resources      string
				Weight         int
				ResourceWeight map[string]int
			})
		},
		"proportional": func() any {
			return new(struct {
				Enable             bool
				Resources          string
				ResourceProportion map[string]float64
			})
		},
	},
}

// fatalArguments returns which arguments of a plugin would end the process.
func fatalArguments(plugin conf.PluginOption) []error {
	var errs []error
	typed := typedArguments[plugin.Name]
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		value, set := plugin.Arguments[name]
		if !set {
			continue
		}
		if err := mapstructure.Decode(value, typed[name]()); err != nil {
			errs = append(errs, fmt.Errorf("argument %s of plugin %s has the wrong type: %w", name, plugin.Name, err))
		}
	}

	if plugin.Name == "deviceshare" {
		errs = append(errs, fatalDeviceSharing(plugin.Arguments)...)
	}

	return errs
}

// fatalDeviceSharing refuses combinations on which the deviceshare plugin ends the process.
func fatalDeviceSharing(arguments map[string]any) []error {
	var on []string
	for _, name := range []string{deviceshare.GPUSharingPredicate, deviceshare.GPUNumberPredicate, deviceshare.VGPUEnable} {
		if arguments[name] == true {
			on = append(on, name)
		}
	}
	if len(on) < 2 {
		return nil
	}
	return []error{fmt.Errorf("plugin deviceshare: %s exclude each other, leave one", strings.Join(on, " and "))}
}

// registeredNames returns what a configuration may name: the actions and plugins that are registered in this
// process. Those of the shared objects in pluginsDir are included, whose files have the names of their
// plugins. It adds the rules for what is registered and refused all the same, and for arguments of
// capacity-card.
func registeredNames(pluginsDir string) schedulerconfig.Known {
	plugins := append(schedulerconfig.VolcanoPlugins(), schedulerconfig.CapacityCard)
	if pluginsDir != "" {
		files, _ := filepath.Glob(filepath.Join(pluginsDir, "*.so")) // the pattern is constant and good
		for _, file := range files {
			plugins = append(plugins, strings.TrimSuffix(filepath.Base(file), ".so"))
		}
	}

	return schedulerconfig.Known{
		Actions: slices.DeleteFunc(append(schedulerconfig.VolcanoActions(), schedulerconfig.CardReclaim), func(name string) bool {
			_, registered := framework.GetAction(name)
			return !registered
		}),
		Plugins: slices.DeleteFunc(plugins, func(name string) bool {
			_, registered := framework.GetPluginBuilder(name)
			return !registered
		}),
		RefusedActions:    schedulerconfig.RefusedActions(),
		ValidateArguments: snapshot.ValidateArguments,
	}
}
