package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

func TestMain(m *testing.M) {
	registerPlugins(capacitycard.NewCache())
	os.Exit(m.Run())
}

// validTexts returns the valid configurations of internal/schedulerconfig, and the one that is shipped.
func validTexts(t *testing.T) map[string]string {
	files, err := filepath.Glob("../../internal/schedulerconfig/testdata/valid/*.yaml")
	check.Must(t, err == nil && len(files) > 0, "no corpus: %v", err)

	found := map[string]string{"shipped": shippedConfiguration(t)}
	for _, file := range files {
		found[filepath.Base(file)] = string(check.Value(os.ReadFile(file))(t))
	}

	return found
}

func shippedConfiguration(t *testing.T) string {
	raw := check.Value(os.ReadFile("../../config/scheduler/configmap.yaml"))(t)
	var object corev1.ConfigMap
	check.NoError(t, yaml.UnmarshalStrict(raw, &object))
	defaults := parse(t)
	check.Equal(t, "the ConfigMap that is watched by default, and the shipped one", defaults.configMap, object.Namespace+"/"+object.Name)
	return object.Data[defaults.configMapKey]
}

// TestPreemptAndReclaimMayBeAddedToTheShippedConfiguration: administrators may add Volcano's actions preempt and
// reclaim to the shipped configuration. An action that evicts pods without placing others (shuffle) is refused, and
// the error names it.
func TestPreemptAndReclaimMayBeAddedToTheShippedConfiguration(t *testing.T) {
	validateWith := func(actions string) error {
		return schedulerconfig.Validate(strings.Replace(shippedConfiguration(t), "allocate,", "allocate, "+actions+",", 1), registeredNames(""))
	}

	for _, actions := range []string{"preempt", "reclaim", "preempt, reclaim"} {
		check.NoError(t, validateWith(actions))
	}
	check.That(t, len(schedulerconfig.RefusedActions()) > 0, "no action is refused")
	for action := range schedulerconfig.RefusedActions() {
		check.Says(t, validateWith(action), action)
	}
}

// TestVolcanoAcceptsWhatValidateAccepts: the scheduler checks a configuration before Volcano parses it. It adds the
// hash of the text as an argument of plugin capacity-card, which the heartbeat states later. Each row is a text that
// our check accepts. Volcano must accept it with the hash, and read the same from it as without the hash.
func TestVolcanoAcceptsWhatValidateAccepts(t *testing.T) {
	for t, text := range check.Cases(t, validTexts(t)) {
		check.NoError(t, schedulerconfig.Validate(text, registeredNames("")))

		stamped, hash, err := schedulerconfig.WithHash(text)
		check.NoError(t, err)
		check.NoError(t, checkAcceptedByVolcano(stamped))

		before := parseByVolcano(t, text)
		after := parseByVolcano(t, stamped)
		check.Equal[any](t, "hash", hash, after.card.Arguments[schedulerconfig.HashArgument])

		delete(after.card.Arguments, schedulerconfig.HashArgument)
		for _, plugin := range []*conf.PluginOption{before.card, after.card} {
			if len(plugin.Arguments) == 0 {
				plugin.Arguments = nil // without the hash the arguments are unset or an empty map
			}
		}
		check.Equal(t, "configuration without the hash", before.all, after.all)
	}
}

// TestTheSchedulerAcceptsWhatPoliciesRender: the operator renders the configuration of the scheduler from a
// ServiceTypePolicy. Each row is a policy. Our check and Volcano's parser accept what is rendered, and
// queueHierarchy and reclaimResources reach plugin capacity-card if the row sets them. A tree is rendered from
// a base that has enableHierarchy. For flat queues such a base would be refused, so they have Volcano's default
// as their base.
func TestTheSchedulerAcceptsWhatPoliciesRender(t *testing.T) {
	hierarchical := schedulerconfig.BuiltIn + "  - name: capacity\n    enableHierarchy: true\n"
	base := &corev1.ConfigMap{Data: map[string]string{policy.ConfigMapKey: hierarchical}}
	ref := v1alpha1.ConfigMapKeyReference{Namespace: "volcano-system", Name: "base", Key: policy.ConfigMapKey}

	for t, spec := range check.Cases(t, map[string]v1alpha1.ServiceTypePolicySpec{
		"an empty policy, with flat queues": {},
		"flat, reclaim of all resources by loss, unmanaged queues denied": {
			ReclaimResources: v1alpha1.ReclaimResourcesAll, VictimOrder: v1alpha1.VictimsByLoss, UnmanagedQueues: v1alpha1.UnmanagedDeny,
		},
		"flat, reclaim of pods": {Reclaim: v1alpha1.ReclaimPods},
		"a tree":                {QueueHierarchy: v1alpha1.QueueHierarchyTree},
		"a tree, reclaim of all resources, preempt within queues": {
			QueueHierarchy: v1alpha1.QueueHierarchyTree, ReclaimResources: v1alpha1.ReclaimResourcesAll, Preempt: v1alpha1.PreemptInQueue,
		},
		"a tree without reclaim, unmanaged queues ignored": {QueueHierarchy: v1alpha1.QueueHierarchyTree, Reclaim: v1alpha1.ReclaimOff, UnmanagedQueues: v1alpha1.UnmanagedIgnore},
	}) {
		baseOfPolicy := base
		if spec.QueueHierarchy != v1alpha1.QueueHierarchyTree {
			baseOfPolicy = nil // Volcano's default
		}

		text := policy.RenderConfiguration(policy.Effective(spec), ref, baseOfPolicy, nil, "").Text
		check.That(t, text != "", "nothing is rendered")
		check.NoError(t, schedulerconfig.Validate(text, registeredNames("")))
		check.NoError(t, checkAcceptedByVolcano(text))
		arguments := parseByVolcano(t, text).card.Arguments
		check.Equal[any](t, "queueHierarchy", map[bool]any{true: "Tree"}[spec.QueueHierarchy != ""], arguments["queueHierarchy"])
		check.Equal[any](t, "reclaimResources", map[bool]any{true: "All"}[spec.ReclaimResources != ""], arguments["reclaimResources"])
	}
}

// parsed is a configuration as Volcano's parser reads it, and plugin capacity-card in it.
type parsed struct {
	all  []any
	card *conf.PluginOption
}

func parseByVolcano(t *testing.T, text string) parsed {
	actions, tiers, configurations, metrics, err := scheduler.UnmarshalSchedulerConf(text)
	check.NoError(t, err)

	var names []string
	for _, action := range actions {
		names = append(names, action.Name())
	}

	p := parsed{all: []any{names, tiers, configurations, metrics}}
	for i := range tiers {
		for j := range tiers[i].Plugins {
			if tiers[i].Plugins[j].Name == schedulerconfig.CapacityCard {
				p.card = &tiers[i].Plugins[j]
			}
		}
	}

	return p
}

// TestVolcanoKnowsTheNamesOfOurLists: the operator and kubectl check configurations too, without Volcano's code.
// Volcano, compiled into the scheduler, must know each action and plugin of their lists. The scheduler itself
// removes those that Volcano lacks, so the lists must equal its own. The lists may lack names of Volcano. But their
// switches (boolean options of a plugin) must be exactly those of Volcano.
func TestVolcanoKnowsTheNamesOfOurLists(t *testing.T) {
	known := registeredNames("") // our lists, without the names that Volcano has not registered
	check.Equal(t, "actions", append(schedulerconfig.VolcanoActions(), schedulerconfig.CardReclaim), known.Actions)
	check.Equal(t, "plugins", append(schedulerconfig.VolcanoPlugins(), schedulerconfig.CapacityCard), known.Plugins)

	var switches []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[conf.PluginOption]()) {
		if f.Type == reflect.TypeFor[*bool]() {
			switches = append(switches, f.Tag.Get("yaml"))
		}
	}

	slices.Sort(switches)
	check.Equal(t, "switches", slices.Sorted(slices.Values(schedulerconfig.Switches())), switches)
}

// TestConfigurationsThatEndVolcanoAreRefused: Volcano's parser refuses some texts, and its plugins panic or exit on
// arguments of the wrong type. Our check refuses such a configuration instead, with the error of the parser or the name
// of the argument.
func TestConfigurationsThatEndVolcanoAreRefused(t *testing.T) {
	with := func(plugin, argument string) string {
		return "actions: allocate\ntiers:\n- plugins:\n  - name: capacity-card\n  - name: " + plugin + "\n    arguments:\n      " + argument + "\n"
	}

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"an unknown action":                {"actions: nothing\n", "not accepted by Volcano's parser: failed to find Action nothing"},
		"a text that is no YAML":           {"\"", "not accepted by Volcano's parser"},
		"a weight that is a word":          {with("predicates", "volumebinding.weight: heavy"), "argument volumebinding.weight of plugin predicates has the wrong type"},
		"a timeout that is a list":         {with("predicates", "volumebinding.bindTimeoutSeconds: [1]"), "bindTimeoutSeconds"},
		"a negative timeout":               {with("predicates", "volumebinding.bindTimeoutSeconds: -1"), "bindTimeoutSeconds"},
		"a shape that is no list of pairs": {with("predicates", "volumebinding.shape: [1]"), "volumebinding.shape"},
		"resources that are a word":        {with("resource-strategy-fit", "resources: cpu"), "argument resources of plugin resource-strategy-fit"},
		"an argument sra that is a list":   {with("resource-strategy-fit", "sra: [cpu]"), "argument sra of plugin resource-strategy-fit"},
		"proportions that are words":       {with("resource-strategy-fit", "proportional: {resourceProportion: {a: b}}"), "argument proportional"},
		"managed resources as numbers":     {with("extender", "extender.managedResources: [1]"), "extender.managedResources"},
		"two ways to share a GPU":          {with("deviceshare", "{deviceshare.GPUSharingEnable: true, deviceshare.VGPUEnable: true}"), "deviceshare.GPUSharingEnable and deviceshare.VGPUEnable exclude each other"},
	}) {
		check.Says(t, checkAcceptedByVolcano(tc.text), tc.want)
	}
}
