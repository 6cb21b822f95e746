package snapshot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

// defaultArguments are in force without arguments, and if any argument is wrong.
func defaultArguments() Arguments {
	return Arguments{
		OverCommitFactor: 1, NodeOrderWeight: 1, MaxReservation: time.Hour,
		UnmanagedQueues: v1alpha1.UnmanagedEnforce, ServiceTypes: servicetype.DefaultMatrix(),
		VictimOrder: v1alpha1.VictimsByPriority, PriorityClasses: servicetype.DefaultPriorityClasses(),
		reclaimResources: v1alpha1.ReclaimResourcesCards, QueueHierarchy: v1alpha1.QueueHierarchyFlat,
	}
}

// diffArguments compares arguments with all their unexported fields.
func diffArguments(want, got Arguments) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(Arguments{}))
}

// readAsVolcano reads the arguments of capacity-card as Volcano does for the plugin.
func readAsVolcano(text string) (map[string]any, error) {
	indented := strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
	_, tiers, _, _, err := scheduler.UnmarshalSchedulerConf(
		"actions: allocate\ntiers:\n- plugins:\n  - name: capacity-card\n    arguments:\n      " + indented + "\n")
	if err != nil || len(tiers) != 1 || len(tiers[0].Plugins) != 1 {
		return nil, fmt.Errorf("not read by Volcano: %w", err)
	}
	return tiers[0].Plugins[0].Arguments, nil
}

// readAsLoader reads them as the configuration loader does, before it gives a configuration to Volcano.
func readAsLoader(text string) (map[string]any, error) {
	values := map[string]any{}
	err := yaml.Unmarshal([]byte(text), &values)
	return values, err
}

// readers are both. Their libraries return other Go types for the same YAML.
var readers = map[string]func(string) (map[string]any, error){"Volcano": readAsVolcano, "the loader": readAsLoader}

// expectRefusal checks that arguments are refused with some texts, in a message that fits an event. All arguments then
// have their defaults, and the loader gets the same error as the plugin.
func expectRefusal(t *testing.T, raw map[string]any, wants ...string) {
	got, err := ParseArguments(raw)
	check.Must(t, err != nil, "%.300s is accepted as %+v", fmt.Sprint(raw), got)
	check.Refused(t, err, wants...)
	check.Equal(t, "arguments in force after the refusal", "", diffArguments(defaultArguments(), got))
	check.Equal(t, "error for the loader", err.Error(), fmt.Sprint(ValidateArguments(raw)))
}

// minimumRuntime is the argument ServiceTypes with a minimumRuntime, for which % stands.
const minimumRuntime = "serviceTypes: {inference: {reclaimFrom: [training]}, training: {reclaimable: true, minimumRuntime: %}}"

// TestArgumentsRefuseTypicalMistakes: an argument that cannot be meant as written is refused, with a message that says what
// to write. A wrong argument leaves all others at their defaults, so that no configuration takes half effect. Each YAML
// is read twice, as Volcano and as our configuration loader do it (readers).
//
// In the YAML of a row % stands for each of its values in turn. In the wanted parts of the message % is the value, in
// quotes if it is a text. A row name begins with the argument; "owners" is podOwnerReferenceToServiceType.
func TestArgumentsRefuseTypicalMistakes(t *testing.T) {
	const (
		wantNumber      = "write a number from 1 to 100"
		wantWeight      = "write a number above 0, at most 1000"
		wantQueues      = "write Enforce, Ignore or Deny"
		wantClasses     = "write PriorityClasses and their values, for example pc-high: 80000"
		wantOwners      = "write kinds and service types, for example Job: training"
		wantTypes       = "write service types with reclaimable and reclaimFrom"
		wantTypeName    = "is no name: write lower-case letters"
		letters64       = "tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt"
		longKind        = "Kttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt" // 64 letters, one more than allowed
		cyrillicJob     = "Јоb"                                                              // its J and o are Cyrillic
		reclaimTraining = "inference: {reclaimFrom: [training]}"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		yaml          string
		values, wants []string
	}{
		"cardUnlimitedCpuMemory: not true or false": {
			"cardUnlimitedCpuMemory: %", []string{"1", `"1"`, `"yes"`, "enabled"},
			[]string{"cardUnlimitedCpuMemory is %", "write true or false"},
		},
		"cardUnlimitedCpuMemory: a list, a mapping, nothing": {
			"cardUnlimitedCpuMemory: %", []string{"[true]", "{enabled: true}", ""},
			[]string{"cardUnlimitedCpuMemory", "write true or false"},
		},

		"overCommitFactor: below 1, above 100, or not a number": {
			"overCommitFactor: %",
			[]string{"0", "0.9999", "-1.5", "100.5", "150", "150%", `"0.5"`, `" 2"`, `"NaN"`, "1,5", "18446744073709551615", "true", "2x"},
			[]string{"overCommitFactor is %", wantNumber},
		},
		"overCommitFactor: YAML's NaN":            {"overCommitFactor: %", []string{".nan"}, []string{"is NaN", wantNumber}},
		"overCommitFactor: YAML's infinity":       {"overCommitFactor: %", []string{".inf"}, []string{"is +Inf", wantNumber}},
		"overCommitFactor: YAML's minus infinity": {"overCommitFactor: %", []string{"-.inf"}, []string{"is -Inf", wantNumber}},
		"overCommitFactor: too large for a float of 64 bits, or for an integer": {
			"overCommitFactor: %", []string{"1e400", "100000000000000000000000000000"}, []string{"overCommitFactor", wantNumber},
		},
		"overCommitFactor: no value, a mapping, a date, a time": {
			"overCommitFactor: %", []string{"~", "{NVIDIA-H200: 2}", "2026-01-01", "1:30:00"}, []string{"overCommitFactor", wantNumber},
		},

		"maxReservation: below 5m or above 24h": {
			"maxReservation: %", []string{"0s", "4m59s", "24h1s", "-1h"}, []string{"maxReservation is %", "write 5m0s to 24h0m0s"},
		},
		"maxReservation: not a duration": {
			"maxReservation: %", []string{"3600", "1 hour", "true", "~", "[1h]"},
			[]string{"maxReservation is", "write a duration, for example 10m"},
		},

		"nodeOrderWeight: 0, below 0, above 1000, or not a number": {
			"nodeOrderWeight: %", []string{"0", "-1", "1001", "high"}, []string{"nodeOrderWeight is %", wantWeight},
		},
		"nodeOrderWeight: zero as 0.0, YAML's NaN and infinity, a list": {
			"nodeOrderWeight: %", []string{"0.0", ".NaN", ".Inf", "[1, 2]"}, []string{"nodeOrderWeight", wantWeight},
		},

		"unmanagedQueues: another word": {
			"unmanagedQueues: %", []string{"ignore", "IGNORE", "deny", `"Ignore "`, "false", `""`, "Warn"},
			[]string{"unmanagedQueues is %", wantQueues},
		},
		"unmanagedQueues: a list, nothing": {"unmanagedQueues: %", []string{"[Ignore]", ""}, []string{"unmanagedQueues", wantQueues}},
		"unmanagedQueues: a text that would colour a terminal": {
			"unmanagedQueues: %", []string{`"\u001b[31mIgnore\n"`}, []string{`"\x1b[31mIgnore\n"`, wantQueues},
		},

		"victimOrder: another word": {
			"victimOrder: %", []string{"priority", "LOSS", `"Loss "`, "true", `""`}, []string{"victimOrder is %", "write Priority or Loss"},
		},
		"victimOrder: a list, nothing": {"victimOrder: %", []string{"[Loss]", ""}, []string{"victimOrder", "write Priority or Loss"}},
		"reclaimResources: another word": {
			"reclaimResources: %", []string{"cards", "ALL", `"All "`, "true", `""`, "All CPU"},
			[]string{"reclaimResources is %", "write Cards or All"},
		},
		"reclaimResources: a list, nothing": {"reclaimResources: %", []string{"[All]", ""}, []string{"reclaimResources", "write Cards or All"}},
		"queueHierarchy: another word": {
			"queueHierarchy: %", []string{"tree", "FLAT", `"Tree "`, "true", `""`, "None"}, []string{"queueHierarchy is %", "write Flat or Tree"},
		},
		"queueHierarchy: a list, a mapping, nothing": {
			"queueHierarchy: %", []string{"[Tree]", "{Tree: true}", ""}, []string{"queueHierarchy", "write Flat or Tree"},
		},

		"priorityClasses: not a mapping": {
			"priorityClasses: %", []string{"", "pc-high", "[pc-high]", "[{pc-high: 1}]"}, []string{wantClasses, "not a mapping"},
		},
		"priorityClasses: the value is not a whole number of 32 bits": {
			"priorityClasses: {pc-high: %}", []string{"", "high", "1.5", "[1]", "true", ".nan", ".inf", "2147483648", "-2147483649"},
			[]string{`"pc-high": write its value, a whole number`},
		},
		"priorityClasses: the value is above 1000000000, the highest one for users": {
			"priorityClasses: {pc-high: %}", []string{"1000000001", "2000001000"}, []string{`"pc-high" has value`, "write at most 1000000000"},
		},
		"priorityClasses: no name of a PriorityClass": {
			"priorityClasses: {%: 1}", []string{"PC-High", "pc_high", `""`}, []string{"is no name of a PriorityClass"},
		},
		"priorityClasses: a key that is a number": {"priorityClasses: {%: 2}", []string{"1"}, []string{"key 1 is not a word"}},

		"owners: not a mapping": {
			"podOwnerReferenceToServiceType: %", []string{"", "Job=training", "[Job, training]", "[{Job: training}]"},
			[]string{wantOwners, "not a mapping"},
		},
		"owners: no kind: lower-case, with a version, empty, too long, not in Latin letters": {
			"podOwnerReferenceToServiceType: {%: training}", []string{"jobs", "batch/v1/Job", `""`, longKind, cyrillicJob},
			[]string{"is no kind: write for example Job or Job.batch.volcano.sh"},
		},
		"owners: a key that is a number": {
			"podOwnerReferenceToServiceType: {%: training}", []string{"1"}, []string{"podOwnerReferenceToServiceType", "key 1 is not a word"},
		},
		"owners: no key": {"podOwnerReferenceToServiceType: {%: training}", []string{"~"}, []string{"is not a word"}},
		"owners: the service type is not a text": {
			"podOwnerReferenceToServiceType: {%}", []string{"Job: 1", "Job:", "Job: {type: training}", `"Job\u0007": 1`},
			[]string{"Job", "write the name of a service type"},
		},
		"owners: no name of a service type": {
			"podOwnerReferenceToServiceType: {Job: %}", []string{"Training", `"batch training"`, letters64, `""`},
			[]string{"service type", wantTypeName, "at most 63"},
		},
		"owners: no kind, beside good service types": {
			"%", []string{"serviceTypes: {a: {reclaimable: true}}\npodOwnerReferenceToServiceType: {job: a}"}, []string{`"job" is no kind`},
		},

		"serviceTypes: not a mapping": {
			"serviceTypes: %", []string{"", "[inference, training]", "default"}, []string{wantTypes, "not a mapping"},
		},
		"serviceTypes: a type is not a mapping": {
			"serviceTypes: {%}", []string{"training: true", "training: [training]", `"tra\u0000ining": 1`},
			[]string{"tra", "write reclaimable and reclaimFrom below it"},
		},
		"serviceTypes: a key that is a number": {
			"serviceTypes: {%}", []string{"1: {reclaimable: true}", "training: {1: true}"}, []string{"key 1 is not a word"},
		},
		"serviceTypes: an unknown key": {
			"serviceTypes: {training: {%: 1}}", []string{"priority", "Reclaimable", "reclaimsFrom", `"a\u0085b"`},
			[]string{"unknown key %", "write reclaimable, reclaimFrom or minimumRuntime"},
		},
		"serviceTypes: reclaimable is not true or false": {
			"serviceTypes: {%}",
			[]string{`training: {reclaimable: "yes"}`, "training: {reclaimable: }", reclaimTraining + ", training: {reclaimable: yes please}"},
			[]string{"training", "reclaimable: write true or false"},
		},
		"serviceTypes: reclaimFrom is not a list of texts": {
			"serviceTypes: {inference: {reclaimFrom: %}, training: {reclaimable: true}}",
			[]string{"training", "{training: true}", "[1]", "[~]", "[[training]]"},
			[]string{"reclaimFrom: write a list of service types"},
		},
		"serviceTypes: reclaimFrom names a type that is not defined": {
			"serviceTypes: {inference: {reclaimFrom: [%]}, training: {reclaimable: true}}", []string{"trainin"},
			[]string{`"inference" takes from "trainin", which is not defined`},
		},
		"serviceTypes: reclaimFrom names a type that is not reclaimable": {
			"serviceTypes: {%}", []string{reclaimTraining + ", training: {reclaimable: false}", reclaimTraining + ", training: "},
			[]string{`"training", which is not reclaimable`},
		},
		"serviceTypes: no name of a service type": {
			"serviceTypes: {%: {}}", []string{"Training", `"batch jobs"`, letters64, `""`, "batch_jobs"},
			[]string{"service type", wantTypeName, "at most 63"},
		},

		"minimumRuntime: not a duration, or longer than one of Go can be": {
			minimumRuntime,
			[]string{
				"600", "", "true", "[10m]", `"600"`, "ten minutes", "10min", "1d", `"10 m"`, "PT10M", `""`, "9999999999h",
				strings.Repeat("9", 3000) + "h",
			},
			[]string{"training", "minimumRuntime: write a duration, for example 10m"},
		},
		"minimumRuntime: negative or above a week": {
			minimumRuntime, []string{"-1s", "168h1s"}, []string{`type "training" has a minimum runtime of `, ": write 0s to 168h0m0s"},
		},
		"minimumRuntime: the longest duration of Go": {minimumRuntime, []string{"2562047h"}, []string{"write 0s to 168h0m0s"}},

		"configHash: not a text": {"configHash: %", []string{"7", ""}, []string{"written by the scheduler itself: remove it"}},

		"an unknown argument": {
			"%: true",
			[]string{
				"cardUnlimitedCPUMemory", "cardunlimitedcpumemory", "capacity-card.cardUnlimitedCpuMemory", "overcommitFactor", "overcommit-factor",
				"weight", "unmanagedQueue", "serviceType", "predicate.GPUSharingEnable", `""`,
			},
			[]string{`unknown argument %`, "this version knows cardUnlimitedCpuMemory, "},
		},
		"an unknown argument with control characters": {"%: true", []string{`"a\u001b[31m\nb"`, `"a\u202eb"`}, []string{"unknown argument"}},
		"two mistakes: both are named": {
			"%", []string{"overCommitFactor: 0\nunmanagedQueues: x"}, []string{"overCommitFactor is 0", `unmanagedQueues is "x"`},
		},
		"one mistake beside two good arguments": {
			"%", []string{"cardUnlimitedCpuMemory: true\nunmanagedQueues: Ignore\noverCommitFactor: 0"}, []string{"overCommitFactor is 0"},
		},
	}) {
		for _, value := range tc.values {
			for reader, read := range readers {
				t.Run(fmt.Sprintf("%.80s from %s", value, reader), func(t *testing.T) {
					raw := check.Value(read(strings.ReplaceAll(tc.yaml, "%", value)))(t)
					var wants []string
					for _, want := range tc.wants {
						wants = append(wants, strings.ReplaceAll(want, "%", quoteIfText(value)))
					}
					expectRefusal(t, raw, wants...)
				})
			}
		}
	}
}

// quoteIfText writes a YAML value as an error does: a text in quotes.
func quoteIfText(value string) string {
	if _, err := strconv.ParseFloat(value, 64); err == nil || value == "true" || value == "false" || strings.HasPrefix(value, `"`) {
		return value
	}
	return strconv.Quote(value)
}

// TestArgumentErrorsAreTruncated: an event has at most 1024 bytes and no control characters. The error fits it,
// however long or strange the arguments are, and still says what is wrong or what to write. So it quotes long values
// in part only. Of many mistakes it names the first ones.
func TestArgumentErrorsAreTruncated(t *testing.T) {
	const mebi = 1 << 20
	deep := any("x")
	for range 10_000 {
		deep = []any{deep}
	}

	var undefined []any
	for i := range 1000 {
		undefined = append(undefined, fmt.Sprint("u", i))
	}
	reclaimFrom := func(types ...any) map[string]any {
		return map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": types}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		raw  map[string]any
		want string
	}{
		"an argument name of 1 MiB":                    {map[string]any{strings.Repeat("a", mebi): true}, "unknown argument"},
		"an argument name of 1 MiB control characters": {map[string]any{strings.Repeat("\x01", mebi): true}, "unknown argument"},
		"an argument name that is not UTF-8":           {map[string]any{"a\xff\xfe": true}, `unknown argument "a\xff\xfe"`},
		"a thousand unknown arguments":                 {thousandOf("argument%d", 1), `unknown argument "argument0"`},
		"a value of 1 MiB":                             {map[string]any{"overCommitFactor": strings.Repeat("9", mebi)}, "write a number from 1 to 100"},
		"a value of 1 MiB control characters":          {map[string]any{"unmanagedQueues": strings.Repeat("\x7f", mebi)}, "write Enforce, Ignore or Deny"},
		"a value that is not UTF-8":                    {map[string]any{"unmanagedQueues": "\xff"}, "write Enforce, Ignore or Deny"},
		"a mapping of control characters as value":     {map[string]any{"unmanagedQueues": map[any]any{"\x00": "\n"}}, "write Enforce, Ignore or Deny"},
		"10000 nested lists":                           {map[string]any{"overCommitFactor": deep}, "write a number from 1 to 100"},
		"a list of a million entries":                  {map[string]any{"nodeOrderWeight": make([]any, 1_000_000)}, "write a number above 0"},
		"a thousand owners that are no kind": {
			map[string]any{"podOwnerReferenceToServiceType": thousandOf("kind%d", "x y")}, `"kind0" is no kind`,
		},
		"a thousand wrong names of service types": {map[string]any{"serviceTypes": thousandOf("T%d", nil)}, `"T0" is no name`},
		"type a reclaims from a thousand types that are not defined": {
			reclaimFrom(undefined...), `"a" takes from "u0", which is not defined`,
		},
		"type a reclaims from a type with a name of 1 MiB": {reclaimFrom(strings.Repeat("\n", mebi)), "which is not defined"},
		"a key of 1 MiB that is not a text": {
			map[string]any{"serviceTypes": map[any]any{[1]string{strings.Repeat("k", mebi)}: nil}}, "is not a word",
		},
	}) {
		expectRefusal(t, tc.raw, tc.want)
	}
}

// thousandOf returns a mapping of a thousand keys, with their numbers from 0 on, to one value.
func thousandOf(format string, value any) map[string]any {
	all := map[string]any{}
	for i := range 1000 {
		all[fmt.Sprintf(format, i)] = value
	}
	return all
}

// TestArgumentsRefuseUnexpectedGoTypes: a newer library for YAML could return other Go types than those of today. The
// plugin refuses such types, and does not guess their meaning. It also refuses special numbers: NaN, minus zero, and
// the closest numbers beyond the bounds 1 and 100 of overCommitFactor.
func TestArgumentsRefuseUnexpectedGoTypes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		raw  map[string]any
		want string
	}{
		"a float of 32 bits":     {map[string]any{"overCommitFactor": float32(2)}, "write a number from 1 to 100"},
		"an integer of 8 bits":   {map[string]any{"nodeOrderWeight": int8(2)}, "write a number above 0"},
		"a pointer to a boolean": {map[string]any{"cardUnlimitedCpuMemory": new(bool)}, "write true or false"},
		"a list with Go type []string": {
			map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": []string{"a"}}}}, "reclaimFrom: write a list",
		},
		"a mapping with Go type map[string]string": {
			map[string]any{"podOwnerReferenceToServiceType": map[string]string{"Job": "training"}}, "not a mapping",
		},
		"NaN":            {map[string]any{"overCommitFactor": math.NaN()}, "is NaN"},
		"just above 100": {map[string]any{"overCommitFactor": math.Nextafter(100, 101)}, "write a number from 1 to 100"},
		"just below 1":   {map[string]any{"overCommitFactor": math.Nextafter(1, 0)}, "write a number from 1 to 100"},
		"minus zero":     {map[string]any{"nodeOrderWeight": math.Copysign(0, -1)}, "write a number above 0"},
	}) {
		expectRefusal(t, tc.raw, tc.want)
	}
}

// TestBothReadersGiveTheSameArguments: the loader and Volcano read the same text with different libraries. Good arguments
// mean the same for both. In a row change sets what differs from defaultArguments, or is nil if nothing differs.
func TestBothReadersGiveTheSameArguments(t *testing.T) {
	ofMatrix := func(matrix servicetype.Matrix) func(*Arguments) {
		return func(a *Arguments) { a.ServiceTypes = matrix }
	}
	letters63 := strings.Repeat("t", 63)

	for t, tc := range check.Cases(t, map[string]struct {
		yaml   string
		change func(*Arguments) // nil for the defaults
	}{
		"no arguments": {"{}", nil},

		"cardUnlimitedCpuMemory":                        {"cardUnlimitedCpuMemory: true", func(a *Arguments) { a.CardUnlimitedCPUMemory = true }},
		"cardUnlimitedCpuMemory in quotes":              {`cardUnlimitedCpuMemory: "true"`, func(a *Arguments) { a.CardUnlimitedCPUMemory = true }},
		"cardUnlimitedCpuMemory, the default":           {"cardUnlimitedCpuMemory: false", nil},
		"cardUnlimitedCpuMemory, the default in quotes": {`cardUnlimitedCpuMemory: 'False'`, nil},

		"overCommitFactor, a whole number":                     {"overCommitFactor: 2", func(a *Arguments) { a.OverCommitFactor = 2 }},
		"overCommitFactor, the smallest, which is the default": {"overCommitFactor: 1.0", nil},
		"overCommitFactor, the largest":                        {"overCommitFactor: 100", func(a *Arguments) { a.OverCommitFactor = 100 }},
		"overCommitFactor in quotes":                           {`overCommitFactor: "1.15"`, func(a *Arguments) { a.OverCommitFactor = 1.15 }},
		"overCommitFactor with an exponent":                    {"overCommitFactor: 1.5e+1", func(a *Arguments) { a.OverCommitFactor = 15 }},
		"overCommitFactor in hexadecimal":                      {"overCommitFactor: 0x10", func(a *Arguments) { a.OverCommitFactor = 16 }},

		"nodeOrderWeight, a small one": {"nodeOrderWeight: 0.001", func(a *Arguments) { a.NodeOrderWeight = 0.001 }},
		"nodeOrderWeight, the largest": {"nodeOrderWeight: 1000", func(a *Arguments) { a.NodeOrderWeight = 1000 }},
		"nodeOrderWeight in quotes":    {`nodeOrderWeight: "10"`, func(a *Arguments) { a.NodeOrderWeight = 10 }},

		"maxReservation, the shortest": {"maxReservation: 5m", func(a *Arguments) { a.MaxReservation = 5 * time.Minute }},
		"maxReservation, the longest":  {"maxReservation: 24h", func(a *Arguments) { a.MaxReservation = 24 * time.Hour }},

		"unmanagedQueues, ignored":                {"unmanagedQueues: Ignore", func(a *Arguments) { a.UnmanagedQueues = v1alpha1.UnmanagedIgnore }},
		"unmanagedQueues, denied":                 {"unmanagedQueues: Deny", func(a *Arguments) { a.UnmanagedQueues = v1alpha1.UnmanagedDeny }},
		"unmanagedQueues, the default in quotes":  {`unmanagedQueues: "Enforce"`, nil},
		"victimOrder":                             {"victimOrder: Loss", func(a *Arguments) { a.VictimOrder = v1alpha1.VictimsByLoss }},
		"victimOrder, the default in quotes":      {`victimOrder: "Priority"`, nil},
		"reclaimResources":                        {"reclaimResources: All", func(a *Arguments) { a.reclaimResources = v1alpha1.ReclaimResourcesAll }},
		"reclaimResources, the default in quotes": {`reclaimResources: "Cards"`, nil},
		"queueHierarchy":                          {"queueHierarchy: Tree", func(a *Arguments) { a.QueueHierarchy = v1alpha1.QueueHierarchyTree }},
		"queueHierarchy, the default in quotes":   {`queueHierarchy: "Flat"`, nil},
		"configHash":                              {"configHash: sha256-0123", func(a *Arguments) { a.ConfigHash = "sha256-0123" }},
		"priorityClasses, none": {
			"priorityClasses: {}", func(a *Arguments) { a.PriorityClasses = servicetype.NewPriorityClasses(map[string]int32{}) },
		},
		"podOwnerReferenceToServiceType, no owners": {"podOwnerReferenceToServiceType: {}", func(a *Arguments) { a.Owners = servicetype.OwnerKinds{} }},

		"priorityClasses, the largest and the smallest value": {`
priorityClasses:
  gold: 1000000000
  lead: "-2147483648"
  iron.v2: 0`, func(a *Arguments) {
			values := map[string]int32{"gold": 1000000000, "lead": -2147483648, "iron.v2": 0}
			a.PriorityClasses = servicetype.PriorityClasses{Values: values, Lowest: -2147483648} // the smallest of them
		}},
		"podOwnerReferenceToServiceType, with and without the API group": {`
podOwnerReferenceToServiceType:
  Deployment: inference
  Job.batch.volcano.sh: training`, func(a *Arguments) {
			a.Owners = servicetype.OwnerKinds{"Deployment": "inference", "Job.batch.volcano.sh": "training"}
		}},

		"serviceTypes, a matrix of three": {`
serviceTypes:
  inference:
    reclaimFrom:
    - training
    - batch
  training:
    reclaimable: true
    reclaimFrom: [batch]
  batch: {reclaimable: true}`, ofMatrix(servicetype.Matrix{
			"inference": {ReclaimFrom: []string{"training", "batch"}},
			"training":  {Reclaimable: true, ReclaimFrom: []string{"batch"}},
			"batch":     {Reclaimable: true},
		})},
		"serviceTypes, none":                   {"serviceTypes: {}", ofMatrix(servicetype.Matrix{})},
		"serviceTypes, a type without rules":   {"serviceTypes:\n  notebook:", ofMatrix(servicetype.Matrix{"notebook": {}})},
		"serviceTypes, an empty list":          {"serviceTypes: {a: {reclaimFrom: []}}", ofMatrix(servicetype.Matrix{"a": {ReclaimFrom: []string{}}})},
		"serviceTypes, a list without a value": {"serviceTypes: {a: {reclaimFrom: }}", ofMatrix(servicetype.Matrix{"a": {}})},
		"serviceTypes, reclaimable in quotes":  {`serviceTypes: {a: {reclaimable: "true"}}`, ofMatrix(servicetype.Matrix{"a": {Reclaimable: true}})},
		"serviceTypes, a name of 63 letters":   {"serviceTypes: {" + letters63 + ": {}}", ofMatrix(servicetype.Matrix{letters63: {}})},

		"all arguments": {`
cardUnlimitedCpuMemory: true
overCommitFactor: 1.5
nodeOrderWeight: 10
maxReservation: 90m
unmanagedQueues: Ignore
configHash: h
victimOrder: Loss
reclaimResources: All
queueHierarchy: Tree
priorityClasses: {gold: 9}
serviceTypes:
  a: {reclaimFrom: [b]}
  b: {reclaimable: true}
podOwnerReferenceToServiceType: {Job: a}`, func(a *Arguments) {
			*a = Arguments{
				CardUnlimitedCPUMemory: true, OverCommitFactor: 1.5, NodeOrderWeight: 10, MaxReservation: 90 * time.Minute,
				UnmanagedQueues: v1alpha1.UnmanagedIgnore, ConfigHash: "h", VictimOrder: v1alpha1.VictimsByLoss,
				reclaimResources: v1alpha1.ReclaimResourcesAll, QueueHierarchy: v1alpha1.QueueHierarchyTree,
				PriorityClasses: servicetype.NewPriorityClasses(map[string]int32{"gold": 9}),
				ServiceTypes:    servicetype.Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}},
				Owners:          servicetype.OwnerKinds{"Job": "a"},
			}
		}},
	}) {
		want := defaultArguments()
		if tc.change != nil {
			tc.change(&want)
		}

		for reader, read := range readers {
			got := check.Value(ParseArguments(check.Value(read(strings.TrimPrefix(tc.yaml, "\n")))(t)))(t)
			check.Equal(t, "difference as read by "+reader, "", diffArguments(want, got))
		}
	}
}

// TestMinimumRuntimeIsReadByBothReaders: the minimumRuntime of a service type, here training, is a duration as Go reads it,
// in which 0 needs no unit. Volcano and our configuration loader read it with different YAML libraries (readers), and get
// the same duration.
func TestMinimumRuntimeIsReadByBothReaders(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10m": 10 * time.Minute, `"10m"`: 10 * time.Minute, "10m0s": 10 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"0s": 0, `"0"`: 0, "1s": time.Second, "168h": 168 * time.Hour, "1ms": time.Millisecond,
	} {
		for reader, read := range readers {
			raw := check.Value(read(strings.ReplaceAll(minimumRuntime, "%", text)))(t) // % stands for the duration
			check.Equal(t, text+" from "+reader, want, check.Value(ParseArguments(raw))(t).ServiceTypes["training"].MinimumRuntime)
		}
	}
}

// TestNumbersOfEveryWidthAreRead: a library for YAML chooses the Go type of a number by its size, and by how wide the
// machine's integers are. So OverCommitFactor is 2 whether the library returns an int, int64, uint64 or float64 of 2.
func TestNumbersOfEveryWidthAreRead(t *testing.T) {
	for _, two := range []any{2, int64(2), uint64(2), 2.0} {
		check.Equal(t, fmt.Sprintf("%T", two), 2, check.Value(ParseArguments(map[string]any{"overCommitFactor": two}))(t).OverCommitFactor)
	}
}

// TestReadersReturnDifferentTypes: this is a test of the readers of these tests. They read YAML with two libraries, as
// Volcano and as our configuration loader do it. For a nested mapping Volcano's library returns map[any]any, the loader's
// map[string]any. Tests with both readers prove something only while these types differ.
func TestReadersReturnDifferentTypes(t *testing.T) {
	for reader, want := range map[string]string{"Volcano": "map[interface {}]interface {}", "the loader": "map[string]interface {}"} {
		raw := check.Value(readers[reader]("serviceTypes: {a: {}}"))(t)
		check.Equal(t, "type of "+reader, want, fmt.Sprintf("%T", raw["serviceTypes"]))
	}
}

// FuzzArguments: any YAML as arguments is either refused or accepted, and the same when it is parsed again. A refusal
// leaves all arguments at their defaults, and its error fits an event. Accepted arguments mean the same after they
// are written as YAML and read again, as Volcano and as our configuration loader do it (readers).
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		"", "{}", "cardUnlimitedCpuMemory: true", "overCommitFactor: 1.5\nnodeOrderWeight: 1e3", "overCommitFactor: 1.0000000000000002",
		"unmanagedQueues: Ignore\nconfigHash: \"no\"", "configHash: |-\n  a\n\n   b\n",
		"serviceTypes:\n  on: {reclaimFrom: [\"off\", \"1\"]}\n  \"off\": {reclaimable: true}\n  \"1\": {reclaimable: true}",
		"serviceTypes:\n  a: {reclaimable: true, reclaimFrom: [b]}\n  b: {reclaimable: true, reclaimFrom: [a]}",
		"podOwnerReferenceToServiceType: {Deployment: inference, Job.batch.volcano.sh: training, Y: \"y\"}",
		"podOwnerReferenceToServiceType: &a {Job: \"0x1\", Pod: \"1e3\", Node: \"null\"}\nserviceTypes: {\"0\": , \"1-1\": }",
		"serviceTypes: {1: 2}", "overCommitFactor: .nan", "? [1]\n: 2", "a\u0007: b", "nodeOrderWeight: 2026-01-01", "unmanagedQueues: !!binary /w==",
		"victimOrder: Loss\npriorityClasses: {pc-high: 1e3, \"on\": -1}", "queueHierarchy: Tree\nreclaimResources: All",
		"cards: [{resource: a.b/c, model: \"1\", nodeSelector: {\"on\": \"off\"}}]",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := readAsLoader(string(text[:min(len(text), 1<<16)])) // at most 64 KiB, to be fast
		if err != nil {
			return // no YAML, or a mapping with a key that is no text
		}

		got, err := ParseArguments(raw)
		again, _ := ParseArguments(raw)
		check.Equal(t, "difference of two results", "", diffArguments(got, again))
		if err != nil {
			check.Must(t, check.FitsEvent(err.Error()), "the error %q does not fit an event", err)
			check.Equal(t, "arguments in force after the refusal", "", diffArguments(defaultArguments(), got))
			return
		}

		rendered := string(check.Value(yaml.Marshal(raw))(t))
		for _, read := range readers {
			again := check.Value(ParseArguments(check.Value(read(rendered))(t)))(t)
			check.Equal(t, "difference after the arguments were written and read", "", diffArguments(got, again))
		}
	})
}
