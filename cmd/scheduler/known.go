package main

import (
	"path/filepath"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/schedulerconf"
)

// knownNames are the actions and plugins that are registered in this process, with those of
// the shared objects in pluginsDir, which are named after their files.
func knownNames(pluginsDir string) schedulerconf.Known {
	plugins := append(schedulerconf.VolcanoPlugins(), schedulerconf.CapacityCard)
	if pluginsDir != "" {
		files, _ := filepath.Glob(filepath.Join(pluginsDir, "*.so")) // the pattern is constant and good
		for _, file := range files {
			plugins = append(plugins, strings.TrimSuffix(filepath.Base(file), ".so"))
		}
	}
	return schedulerconf.Known{
		Actions: slices.DeleteFunc(append(schedulerconf.VolcanoActions(), schedulerconf.CardReclaim), func(name string) bool {
			_, registered := framework.GetAction(name)
			return !registered
		}),
		Plugins: slices.DeleteFunc(plugins, func(name string) bool {
			_, registered := framework.GetPluginBuilder(name)
			return !registered
		}),
		Refused:   evicting(),
		Arguments: validateArguments,
	}
}

// evicting are the actions of Volcano that are registered and must not run.
func evicting() map[string]string { return schedulerconf.Refused() }
