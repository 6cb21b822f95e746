package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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
	// The second handler counts from when the process began, which is the future in a bubble of synctest.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// texts are the corpus of internal/schedulerconfig and the configuration that is shipped.
func texts(t *testing.T) map[string]string {
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

// TestPreemptAndReclaimMayBeAddedToWhatIsShipped: the shipped text is made for them.
func TestPreemptAndReclaimMayBeAddedToWhatIsShipped(t *testing.T) {
	with := func(action string) error {
		text := strings.Replace(shippedConfiguration(t), "allocate,", "allocate, "+action+",", 1)
		return schedulerconfig.Validate(text, registeredNames(""))
	}
	for _, action := range []string{"preempt", "reclaim", "preempt, reclaim"} {
		if err := with(action); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}

	for action := range schedulerconfig.RefusedActions() {
		if err := with(action); err == nil || !strings.Contains(err.Error(), action) {
			t.Errorf("action %s: %v, want a refusal that names it", action, err)
		}
	}
}

func TestVolcanoAcceptsWhatValidateAccepts(t *testing.T) {
	for name, text := range texts(t) {
		t.Run(name, func(t *testing.T) {
			known := registeredNames("")
			known.RefusedActions = nil // Volcano's parser knows actions that this scheduler does not run
			if err := schedulerconfig.Validate(text, known); err != nil {
				t.Fatalf("refused: %v", err)
			}

			stamped, hash, err := schedulerconfig.WithHash(text)
			check.NoError(t, err)
			if err := checkAcceptedByVolcano(stamped); err != nil {
				t.Errorf("refused by Volcano: %v", err)
			}

			before := read(t, text)
			after := read(t, stamped)
			check.Equal[any](t, "Volcano reads hash", hash, after.card.Arguments[schedulerconfig.HashArgument])

			delete(after.card.Arguments, schedulerconfig.HashArgument)
			for _, plugin := range []*conf.PluginOption{before.card, after.card} {
				if len(plugin.Arguments) == 0 {
					plugin.Arguments = nil
				}
			}

			check.Equal(t, "Volcano reads more differences than the stamp", before.rest, after.rest)
		})
	}
}

// TestTheSchedulerAcceptsWhatPoliciesRender: every value of a policy is one that the plugin knows.
func TestTheSchedulerAcceptsWhatPoliciesRender(t *testing.T) {
	hierarchical := schedulerconfig.BuiltIn + "  - name: capacity\n    enableHierarchy: true\n"
	base := &corev1.ConfigMap{Data: map[string]string{policy.ConfigMapKey: hierarchical}}
	ref := v1alpha1.ConfigMapKeyReference{Namespace: "volcano-system", Name: "base", Key: policy.ConfigMapKey}

	for t, spec := range check.Cases(t, map[string]v1alpha1.ServiceTypePolicySpec{
		"flat":         {},
		"all":          {ReclaimResources: v1alpha1.ReclaimResourcesAll, VictimOrder: v1alpha1.VictimsByLoss, UnmanagedQueues: v1alpha1.UnmanagedDeny},
		"pods":         {Reclaim: v1alpha1.ReclaimPods},
		"tree":         {QueueHierarchy: v1alpha1.QueueHierarchyTree},
		"tree, all":    {QueueHierarchy: v1alpha1.QueueHierarchyTree, ReclaimResources: v1alpha1.ReclaimResourcesAll, Preempt: v1alpha1.PreemptInQueue},
		"tree, no one": {QueueHierarchy: v1alpha1.QueueHierarchyTree, Reclaim: v1alpha1.ReclaimOff, UnmanagedQueues: v1alpha1.UnmanagedIgnore},
	}) {
		of := base
		if spec.QueueHierarchy != v1alpha1.QueueHierarchyTree {
			of = nil // refused: the limits of parents would no longer hold
		}
		text := policy.RenderConfiguration(policy.Effective(spec), ref, of, nil, "").Text
		check.That(t, text != "", "nothing is rendered")
		check.NoError(t, schedulerconfig.Validate(text, registeredNames("")))
		check.NoError(t, checkAcceptedByVolcano(text))
		arguments := read(t, text).card.Arguments
		check.Equal[any](t, "queueHierarchy", map[bool]any{true: "Tree"}[spec.QueueHierarchy != ""], arguments["queueHierarchy"])
		check.Equal[any](t, "reclaimResources", map[bool]any{true: "All"}[spec.ReclaimResources != ""], arguments["reclaimResources"])
	}
}

// reading is a text as Volcano's parser sees it.
type reading struct {
	rest []any
	card *conf.PluginOption
}

func read(t *testing.T, text string) reading {
	actions, tiers, configurations, metrics, err := scheduler.UnmarshalSchedulerConf(text)
	check.NoError(t, err)

	var names []string
	for _, action := range actions {
		names = append(names, action.Name())
	}

	r := reading{rest: []any{names, tiers, configurations, metrics}}
	for i := range tiers {
		for j := range tiers[i].Plugins {
			if tiers[i].Plugins[j].Name == schedulerconfig.CapacityCard {
				r.card = &tiers[i].Plugins[j]
			}
		}
	}

	return r
}

// TestNamesAreVolcanos keeps the pure lists in step with the Volcano that is compiled in.
func TestNamesAreVolcanos(t *testing.T) {
	known := registeredNames("")
	check.Equal(t, "actions", append(schedulerconfig.VolcanoActions(), schedulerconfig.CardReclaim), known.Actions)
	want := append(schedulerconfig.VolcanoPlugins(), schedulerconfig.CapacityCard)
	check.Equal(t, "plugins", want, known.Plugins)

	var switches []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[conf.PluginOption]()) {
		if f.Type == reflect.TypeFor[*bool]() {
			switches = append(switches, f.Tag.Get("yaml"))
		}
	}

	slices.Sort(switches)
	check.Equal(t, "switches", slices.Sorted(slices.Values(schedulerconfig.Switches())), switches)
}

func TestWhatVolcanoWouldDieOfIsRefused(t *testing.T) {
	with := func(plugin, argument string) string {
		return "actions: allocate\ntiers:\n- plugins:\n  - name: capacity-card\n  - name: " + plugin + "\n    arguments:\n      " + argument + "\n"
	}

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"an unknown action":                {"actions: nothing\n", "not accepted by Volcano's parser: failed to find Action nothing"},
		"YAML that is none":                {"\"", "not accepted by Volcano's parser"},
		"a weight that is a word":          {with("predicates", "volumebinding.weight: heavy"), "argument volumebinding.weight of plugin predicates has the wrong type"},
		"a timeout that is a fraction":     {with("predicates", "volumebinding.bindTimeoutSeconds: [1]"), "bindTimeoutSeconds"},
		"a negative timeout":               {with("predicates", "volumebinding.bindTimeoutSeconds: -1"), "bindTimeoutSeconds"},
		"a shape that is no list of pairs": {with("predicates", "volumebinding.shape: [1]"), "volumebinding.shape"},
		"resources that are a word":        {with("resource-strategy-fit", "resources: cpu"), "argument resources of plugin resource-strategy-fit"},
		"an sra that is a list":            {with("resource-strategy-fit", "sra: [cpu]"), "argument sra of plugin resource-strategy-fit"},
		"proportions that are words":       {with("resource-strategy-fit", "proportional: {resourceProportion: {a: b}}"), "argument proportional"},
		"managed resources as numbers":     {with("extender", "extender.managedResources: [1]"), "extender.managedResources"},
		"two ways to share a GPU":          {with("deviceshare", "{deviceshare.GPUSharingEnable: true, deviceshare.VGPUEnable: true}"), "deviceshare.GPUSharingEnable and deviceshare.VGPUEnable exclude each other"},
	}) {
		check.Says(t, checkAcceptedByVolcano(tc.text), tc.want)
	}
}
