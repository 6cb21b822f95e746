package capacitycard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions" // Volcano's reader looks the actions up

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/testing/check"
)

// theDefault is what is in force when an argument is bad.
func theDefault() arguments {
	return arguments{
		overCommitFactor: 1, nodeOrderWeight: 1, maxReservation: time.Hour, unmanagedQueues: v1alpha1.UnmanagedEnforce, serviceTypes: servicetype.DefaultMatrix(),
		victimOrder: v1alpha1.VictimsByPriority, priorityClasses: servicetype.DefaultPriorityClasses(),
		reclaimResources: v1alpha1.ReclaimResourcesCards, queueHierarchy: v1alpha1.QueueHierarchyFlat,
	}
}

// diffArguments compares arguments with all their unexported fields.
func diffArguments(want, got arguments) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(arguments{}))
}

// volcanoReads reads the arguments of capacity-card as Volcano's own reader
// hands them to the plugin.
func volcanoReads(text string) (map[string]any, error) {
	indented := strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
	_, tiers, _, _, err := scheduler.UnmarshalSchedulerConf(
		"actions: allocate\ntiers:\n- plugins:\n  - name: capacity-card\n    arguments:\n      " + indented + "\n")
	if err != nil || len(tiers) != 1 || len(tiers[0].Plugins) != 1 {
		return nil, fmt.Errorf("not read by Volcano: %w", err)
	}
	return tiers[0].Plugins[0].Arguments, nil
}

// gateReads reads arguments as the configuration loader does.
func gateReads(text string) (map[string]any, error) {
	values := map[string]any{}
	err := yaml.Unmarshal([]byte(text), &values)
	return values, err
}

var readers = map[string]func(string) (map[string]any, error){"Volcano": volcanoReads, "the gate": gateReads}

// mustRefuse checks a refusal: it helps, it can be shown, and nothing of the
// arguments takes effect.
func mustRefuse(t *testing.T, raw map[string]any, wants ...string) {
	t.Helper()
	got, err := parseArguments(raw)
	check.Must(t, err != nil, "%.300s is accepted as %+v", fmt.Sprint(raw), got)
	check.Refused(t, err, wants...)
	check.Equal(t, "bad arguments took effect", "", diffArguments(theDefault(), got))
	validated := ValidateArguments(raw)
	check.That(t, validated != nil && validated.Error() == err.Error(), "the gate gets %v, the plugin %v", validated, err)
}

// TestArgumentsRefuseTypicalMistakes: both readers must come to a refusal that
// says what to write. In a text, % stands for each of the values, and in what is
// wanted for the value as it was read.
func TestArgumentsRefuseTypicalMistakes(t *testing.T) {
	const (
		flag     = "write true or false"
		factor   = "write a number from 1 to 100"
		weight   = "write a number above 0, at most 1000"
		queues   = "write Enforce, Ignore or Deny"
		order    = "write Priority or Loss"
		classes  = "write PriorityClasses and their values, for example pc-high: 80000"
		aClass   = "is no name of a PriorityClass"
		owners   = "write kinds and service types, for example Job: training"
		aKind    = "is no kind: write for example Job or Job.batch.volcano.sh"
		aType    = "is no name: write lower-case letters"
		types    = "write service types with reclaimable and reclaimFrom"
		below    = "write reclaimable and reclaimFrom below it"
		fromList = "reclaimFrom: write a list of service types"
		duration = "minimumRuntime: write a duration, for example 10m"
		kind     = "podOwnerReferenceToServiceType: {%}"
		ofType   = "serviceTypes: {%}"
		training = ", training: {reclaimable: true}"
		long     = "tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt"
		longKind = "Kttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt" // 64 letters
	)

	list := func(values ...string) []string { return values }
	for _, tc := range []struct {
		text          string
		values, wants []string
	}{
		{"cardUnlimitedCpuMemory: %", list("1", `"1"`, `"yes"`, "enabled"), list("cardUnlimitedCpuMemory is %", flag)},
		{"cardUnlimitedCpuMemory: %", list("[true]", "{enabled: true}", ""), list("cardUnlimitedCpuMemory", flag)},
		{"overCommitFactor: %", list("0", "0.9999", "-1.5", "100.5", "150", "150%", `"0.5"`, `" 2"`, `"NaN"`, "1,5", "18446744073709551615", "true", "2x"), list("overCommitFactor is %", factor)},
		{"maxReservation: %", list("0s", "4m59s", "24h1s", "-1h"), list("maxReservation is %", "write 5m0s to 24h0m0s")},
		{"maxReservation: %", list("3600", "1 hour", "true", "~", "[1h]"), list("maxReservation is", "write a duration, for example 10m")},
		{"overCommitFactor: .nan", nil, list("is NaN", factor)},
		{"overCommitFactor: .inf", nil, list("is +Inf", factor)},
		{"overCommitFactor: -.inf", nil, list("is -Inf", factor)},
		{"overCommitFactor: %", list("1e400", "100000000000000000000000000000", "~", "{NVIDIA-H200: 2}", "2026-01-01", "1:30:00"), list("overCommitFactor", factor)},
		{"nodeOrderWeight: %", list("0", "-1", "1001", "high"), list("nodeOrderWeight is %", weight)},
		{"nodeOrderWeight: %", list("0.0", ".NaN", ".Inf", "[1, 2]"), list("nodeOrderWeight", weight)},
		{"unmanagedQueues: %", list("ignore", "IGNORE", "deny", `"Ignore "`, "false", `""`, "Warn"), list("unmanagedQueues is %", queues)},
		{"unmanagedQueues: %", list("[Ignore]", ""), list("unmanagedQueues", queues)},
		{`unmanagedQueues: "\u001b[31mIgnore\n"`, nil, list(`"\x1b[31mIgnore\n"`, queues)},

		{"victimOrder: %", list("priority", "LOSS", `"Loss "`, "true", `""`), list("victimOrder is %", order)},
		{"victimOrder: %", list("[Loss]", ""), list("victimOrder", order)},
		{"reclaimResources: %", list("cards", "ALL", `"All "`, "true", `""`, "All CPU"), list("reclaimResources is %", "write Cards or All")},
		{"reclaimResources: %", list("[All]", ""), list("reclaimResources", "write Cards or All")},
		{"queueHierarchy: %", list("tree", "FLAT", `"Tree "`, "true", `""`, "None"), list("queueHierarchy is %", "write Flat or Tree")},
		{"queueHierarchy: %", list("[Tree]", "{Tree: true}", ""), list("queueHierarchy", "write Flat or Tree")},
		{"priorityClasses: %", list("", "pc-high", "[pc-high]", "[{pc-high: 1}]"), list(classes, "not a mapping")},
		{"priorityClasses: {%}", list("pc-high: ", "pc-high: high", "pc-high: 1.5", "pc-high: [1]", "pc-high: true", "pc-high: .nan", "pc-high: .inf", "pc-high: 2147483648", "pc-high: -2147483649"), list(`"pc-high": write its value, a whole number`)},
		{"priorityClasses: {%}", list("pc-high: 1000000001", "pc-high: 2000001000"), list(`"pc-high" has value`, "write at most 1000000000")},
		{"priorityClasses: {%}", list("PC-High: 1", "pc_high: 1", `"": 1`), list(aClass)},
		{"priorityClasses: {%}", list("1: 2"), list("key 1 is not a word")},

		{"podOwnerReferenceToServiceType: %", list("", "Job=training", "[Job, training]", "[{Job: training}]"), list(owners, "not a mapping")},
		{kind, list("jobs: training", "batch/v1/Job: training", `"": training`, longKind+": training", "Јоb: training"), list(aKind)},
		{kind, list("1: training"), list("podOwnerReferenceToServiceType", "key 1 is not a word")},
		{kind, list("~: training"), list("is not a word")},
		{kind, list("Job: 1", "Job:", "Job: {type: training}", `"Job\u0007": 1`), list("Job", "write the name of a service type")},
		{kind, list("Job: Training", `Job: "batch training"`, "Job: "+long, `Job: ""`), list("service type", aType, "at most 63")},

		{"serviceTypes: %", list("", "[inference, training]", "default"), list(types, "not a mapping")},
		{ofType, list("training: true", "training: [training]", `"tra\u0000ining": 1`), list("tra", below)},
		{ofType, list("1: {reclaimable: true}", "training: {1: true}"), list("key 1 is not a word")},
		{ofType, list(`training: {reclaimable: "yes"}`, "training: {reclaimable: }", "inference: {reclaimFrom: [training]}, training: {reclaimable: yes please}"), list("training", "reclaimable: write true or false")},
		{ofType, list("inference: {reclaimFrom: training}"+training, "inference: {reclaimFrom: {training: true}}", "inference: {reclaimFrom: [1]}", "inference: {reclaimFrom: [~]}", "inference: {reclaimFrom: [[training]]}"), list(fromList)},
		{ofType, list("inference: {reclaimFrom: [trainin]}" + training), list(`"inference" takes from "trainin", which is not defined`)},
		{ofType, list("inference: {reclaimFrom: [training]}, training: {reclaimable: false}", "inference: {reclaimFrom: [training]}, training: "), list(`"training", which is not reclaimable`)},
		{ofType, list("Training: {}", `"batch jobs": {}`, long+": {}", `"": {}`, "batch_jobs: {}"), list("service type", aType, "at most 63")},
		{"serviceTypes: {a: {reclaimable: true}}\npodOwnerReferenceToServiceType: {job: a}", nil, list(`"job" is no kind`)},

		{minimum, list("600", "", "true", "[10m]", `"600"`, "ten minutes", "10min", "1d", `"10 m"`, "PT10M", `""`, "9999999999h", strings.Repeat("9", 3000)+"h"), list("training", duration)},
		{minimum, list("-1s", "168h1s"), list(`type "training" has a minimum runtime of `, ": write 0s to 168h0m0s")},
		{minimum, list("2562047h"), list("write 0s to 168h0m0s")},

		{"configHash: %", list("7", ""), list("written by the scheduler itself: remove it")},
		{"%: true", list("cardUnlimitedCPUMemory", "cardunlimitedcpumemory", "capacity-card.cardUnlimitedCpuMemory", "overcommitFactor", "overcommit-factor", "weight", "unmanagedQueue", "serviceType", "predicate.GPUSharingEnable", `""`),
			list(`unknown argument %`, "this version knows cardUnlimitedCpuMemory, ")},
		{"%: true", list(`"a\u001b[31m\nb"`, `"a\u202eb"`), list("unknown argument")}, // of control signs, or that says otherwise
		{"overCommitFactor: 0\nunmanagedQueues: x", nil, list("overCommitFactor is 0", `unmanagedQueues is "x"`)},
		{"cardUnlimitedCpuMemory: true\nunmanagedQueues: Ignore\noverCommitFactor: 0", nil, list("overCommitFactor is 0")},
	} {
		for _, value := range append(tc.values, slices.Repeat([]string{""}, max(0, 1-len(tc.values)))...) {
			text := strings.ReplaceAll(tc.text, "%", value)
			t.Run(fmt.Sprintf("%.80s", text), func(t *testing.T) {
				for reader, read := range readers {
					raw := check.Value(read(text))(t)
					var wants []string
					for _, want := range tc.wants {
						wants = append(wants, strings.ReplaceAll(want, "%", asRead(value)))
					}
					t.Run(reader, func(t *testing.T) { mustRefuse(t, raw, wants...) })
				}
			})
		}
	}

	for _, key := range []string{"priority", "Reclaimable", "reclaimsFrom", `"a\u0085b"`} {
		mustRefuse(t, check.Value(gateReads("serviceTypes: {training: {"+key+": 1}}"))(t), "unknown key "+strings.ReplaceAll(strconv.Quote(strings.Trim(key, `"`)), `\\`, `\`), "write reclaimable, reclaimFrom or minimumRuntime")
	}
}

// minimum is the argument serviceTypes with a minimumRuntime.
const minimum = "serviceTypes: {inference: {reclaimFrom: [training]}, training: {reclaimable: true, minimumRuntime: %}}"

// asRead writes a YAML value as an error quotes it: text in quotes.
func asRead(value string) string {
	if _, err := strconv.ParseFloat(value, 64); err == nil || value == "true" || value == "false" || strings.HasPrefix(value, `"`) {
		return value
	}
	return strconv.Quote(value)
}

// TestArgumentErrorsAreTruncated: however long and however many the mistakes,
// an event can hold what is said of them, and it still says what to do.
func TestArgumentErrorsAreTruncated(t *testing.T) {
	const mebi = 1 << 20
	deep := any("x")
	for range 10_000 {
		deep = []any{deep}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		raw  map[string]any
		want string
	}{
		"an argument of 1 MiB":             {map[string]any{strings.Repeat("a", mebi): true}, "unknown argument"},
		"an argument of 1 MiB of controls": {map[string]any{strings.Repeat("\x01", mebi): true}, "unknown argument"},
		"an argument that is not UTF-8":    {map[string]any{"a\xff\xfe": true}, `unknown argument "a\xff\xfe"`},
		"a thousand unknown arguments":     {many(1000, func(i int) (string, any) { return fmt.Sprint("argument", i), i }), `unknown argument "argument0"`},
		"a value of 1 MiB":                 {map[string]any{"overCommitFactor": strings.Repeat("9", mebi)}, "write a number from 1 to 100"},
		"a value of 1 MiB of controls":     {map[string]any{"unmanagedQueues": strings.Repeat("\x7f", mebi)}, "write Enforce, Ignore or Deny"},
		"a value that is not UTF-8":        {map[string]any{"unmanagedQueues": "\xff"}, "write Enforce, Ignore or Deny"},
		"a deep value":                     {map[string]any{"overCommitFactor": deep}, "write a number from 1 to 100"},
		"a list of a million":              {map[string]any{"nodeOrderWeight": make([]any, 1_000_000)}, "write a number above 0"},
		"a thousand bad kinds":             {map[string]any{"podOwnerReferenceToServiceType": many(1000, func(i int) (string, any) { return fmt.Sprint("kind", i), "x y" })}, `"kind0" is no kind`},
		"a thousand bad types":             {map[string]any{"serviceTypes": many(1000, func(i int) (string, any) { return fmt.Sprint("T", i), nil })}, `"T0" is no name`},
		"a thousand undefined types":       {map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": undefined(1000)}}}, `"a" takes from "u0", which is not defined`},
		"a key of 1 MiB that is no word":   {map[string]any{"serviceTypes": map[any]any{[1]string{strings.Repeat("k", mebi)}: nil}}, "is not a word"},
		"a type of 1 MiB":                  {map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": []any{strings.Repeat("\n", mebi)}}}}, "which is not defined"},
		"a mapping in a value, controls":   {map[string]any{"unmanagedQueues": map[any]any{"\x00": "\n"}}, "write Enforce, Ignore or Deny"},
	}) {
		mustRefuse(t, tc.raw, tc.want)
	}
}

// many makes a mapping of n entries.
func many(n int, entry func(i int) (string, any)) map[string]any {
	all := make(map[string]any, n)
	for i := range n {
		key, value := entry(i)
		all[key] = value
	}
	return all
}

// undefined lists n service types that are not defined.
func undefined(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprint("u", i)
	}
	return list
}

// TestArgumentsRefuseUnexpectedGoTypes: types that neither reader makes are
// refused as well and not guessed at.
func TestArgumentsRefuseUnexpectedGoTypes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		raw  map[string]any
		want string
	}{
		"a small float":           {map[string]any{"overCommitFactor": float32(2)}, "write a number from 1 to 100"},
		"a small integer":         {map[string]any{"nodeOrderWeight": int8(2)}, "write a number above 0"},
		"a pointer to a flag":     {map[string]any{"cardUnlimitedCpuMemory": new(bool)}, "write true or false"},
		"a list of texts":         {map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": []string{"b"}}, "b": map[string]any{"reclaimable": true}}}, "reclaimFrom: write a list"},
		"a mapping of texts":      {map[string]any{"podOwnerReferenceToServiceType": map[string]string{"Job": "training"}}, "not a mapping"},
		"no number":               {map[string]any{"overCommitFactor": math.NaN()}, "is NaN"},
		"just above the largest":  {map[string]any{"overCommitFactor": math.Nextafter(100, 101)}, "write a number from 1 to 100"},
		"just below the smallest": {map[string]any{"overCommitFactor": math.Nextafter(1, 0)}, "write a number from 1 to 100"},
		"minus zero":              {map[string]any{"nodeOrderWeight": math.Copysign(0, -1)}, "write a number above 0"},
	}) {
		mustRefuse(t, tc.raw, tc.want)
	}
}

// TestBothReadersGiveTheSameArguments: what is good is read alike from both
// shapes of YAML's mappings.
func TestBothReadersGiveTheSameArguments(t *testing.T) {
	with := func(change func(*arguments)) arguments {
		want := theDefault()
		change(&want)
		return want
	}

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		want arguments
	}{
		"nothing":                     {"{}", theDefault()},
		"the flag":                    {"cardUnlimitedCpuMemory: true", with(func(a *arguments) { a.cardUnlimitedCPUMemory = true })},
		"the flag as it is anyway":    {"cardUnlimitedCpuMemory: false", theDefault()},
		"the flag in quotes":          {`cardUnlimitedCpuMemory: "true"`, with(func(a *arguments) { a.cardUnlimitedCPUMemory = true })},
		"no flag in quotes":           {`cardUnlimitedCpuMemory: 'False'`, theDefault()},
		"a factor in quotes":          {`overCommitFactor: "1.15"`, with(func(a *arguments) { a.overCommitFactor = 1.15 })},
		"a weight in quotes":          {`nodeOrderWeight: "10"`, with(func(a *arguments) { a.nodeOrderWeight = 10 })},
		"a rule in quotes":            {`serviceTypes: {a: {reclaimable: "true"}}`, with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"a": {Reclaimable: true}} })},
		"the shortest reservation":    {"maxReservation: 5m", with(func(a *arguments) { a.maxReservation = 5 * time.Minute })},
		"the longest reservation":     {"maxReservation: 24h", with(func(a *arguments) { a.maxReservation = 24 * time.Hour })},
		"a whole factor":              {"overCommitFactor: 2", with(func(a *arguments) { a.overCommitFactor = 2 })},
		"the smallest factor":         {"overCommitFactor: 1.0", theDefault()},
		"the largest factor":          {"overCommitFactor: 100", with(func(a *arguments) { a.overCommitFactor = 100 })},
		"a factor with an exponent":   {"overCommitFactor: 1.5e+1", with(func(a *arguments) { a.overCommitFactor = 15 })},
		"a factor in base 16":         {"overCommitFactor: 0x10", with(func(a *arguments) { a.overCommitFactor = 16 })},
		"a small weight":              {"nodeOrderWeight: 0.001", with(func(a *arguments) { a.nodeOrderWeight = 0.001 })},
		"the largest weight":          {"nodeOrderWeight: 1000", with(func(a *arguments) { a.nodeOrderWeight = 1000 })},
		"unmanaged queues":            {"unmanagedQueues: Ignore", with(func(a *arguments) { a.unmanagedQueues = v1alpha1.UnmanagedIgnore })},
		"unmanaged queues denied":     {"unmanagedQueues: Deny", with(func(a *arguments) { a.unmanagedQueues = v1alpha1.UnmanagedDeny })},
		"unmanaged queues in quotes":  {`unmanagedQueues: "Enforce"`, theDefault()},
		"victims by loss":             {"victimOrder: Loss", with(func(a *arguments) { a.victimOrder = v1alpha1.VictimsByLoss })},
		"victims by priority":         {`victimOrder: "Priority"`, theDefault()},
		"all resources are reclaimed": {"reclaimResources: All", with(func(a *arguments) { a.reclaimResources = v1alpha1.ReclaimResourcesAll })},
		"cards are reclaimed":         {`reclaimResources: "Cards"`, theDefault()},
		"a tree of queues":            {"queueHierarchy: Tree", with(func(a *arguments) { a.queueHierarchy = v1alpha1.QueueHierarchyTree })},
		"flat queues":                 {`queueHierarchy: "Flat"`, theDefault()},
		"PriorityClasses": {"priorityClasses:\n  gold: 1000000000\n  lead: \"-2147483648\"\n  iron.v2: 0",
			with(func(a *arguments) {
				a.priorityClasses = servicetype.PriorityClasses{Values: map[string]int32{"gold": 1000000000, "lead": -2147483648, "iron.v2": 0}, Lowest: -2147483648}
			})},
		"no PriorityClasses": {"priorityClasses: {}", with(func(a *arguments) { a.priorityClasses = servicetype.NewPriorityClasses(map[string]int32{}) })},
		"a hash":             {"configHash: sha256-0123", with(func(a *arguments) { a.configHash = "sha256-0123" })},
		"owners": {"podOwnerReferenceToServiceType:\n  Deployment: inference\n  Job.batch.volcano.sh: training",
			with(func(a *arguments) {
				a.owners = servicetype.OwnerKinds{"Deployment": "inference", "Job.batch.volcano.sh": "training"}
			})},
		"no owners": {"podOwnerReferenceToServiceType: {}", with(func(a *arguments) { a.owners = servicetype.OwnerKinds{} })},
		"a matrix of three": {"serviceTypes:\n  inference:\n    reclaimFrom:\n    - training\n    - batch\n  training:\n    reclaimable: true\n    reclaimFrom: [batch]\n  batch: {reclaimable: true}",
			with(func(a *arguments) {
				a.serviceTypes = servicetype.Matrix{
					"inference": {ReclaimFrom: []string{"training", "batch"}},
					"training":  {Reclaimable: true, ReclaimFrom: []string{"batch"}}, "batch": {Reclaimable: true},
				}
			})},
		"a type that neither takes nor gives": {"serviceTypes:\n  notebook:", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"notebook": {}} })},
		"a type that takes from no other":     {"serviceTypes: {a: {reclaimFrom: []}}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"a": {ReclaimFrom: []string{}}} })},
		"a type whose list says nothing":      {"serviceTypes: {a: {reclaimFrom: }}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"a": {}} })},
		"no type takes from another":          {"serviceTypes: {}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{} })},
		"a type of 63 characters":             {"serviceTypes: {" + strings.Repeat("t", 63) + ": {}}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{strings.Repeat("t", 63): {}} })},
		"everything": {"cardUnlimitedCpuMemory: true\noverCommitFactor: 1.5\nnodeOrderWeight: 10\nmaxReservation: 90m\nunmanagedQueues: Ignore\nconfigHash: h\nvictimOrder: Loss\nreclaimResources: All\nqueueHierarchy: Tree\npriorityClasses: {gold: 9}\n" +
			"serviceTypes:\n  a: {reclaimFrom: [b]}\n  b: {reclaimable: true}\npodOwnerReferenceToServiceType: {Job: a}",
			arguments{cardUnlimitedCPUMemory: true, overCommitFactor: 1.5, nodeOrderWeight: 10, maxReservation: 90 * time.Minute, unmanagedQueues: v1alpha1.UnmanagedIgnore, configHash: "h",
				serviceTypes: servicetype.Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}}, owners: servicetype.OwnerKinds{"Job": "a"},
				victimOrder: v1alpha1.VictimsByLoss, priorityClasses: servicetype.NewPriorityClasses(map[string]int32{"gold": 9}),
				reclaimResources: v1alpha1.ReclaimResourcesAll, queueHierarchy: v1alpha1.QueueHierarchyTree}},
	}) {
		for reader, read := range readers {
			got := check.Value(parseArguments(check.Value(read(tc.text))(t)))(t)
			check.Equal(t, reader, "", diffArguments(tc.want, got))
		}
	}
}

// TestMinimumRuntimeIsReadByBothReaders: Volcano's reader and the configuration loader return
// the same duration.
func TestMinimumRuntimeIsReadByBothReaders(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10m": 10 * time.Minute, `"10m"`: 10 * time.Minute, "10m0s": 10 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"0s": 0, `"0"`: 0, "1s": time.Second, "168h": 168 * time.Hour, "1ms": time.Millisecond,
	} {
		for reader, read := range readers {
			raw := check.Value(read(strings.ReplaceAll(minimum, "%", text)))(t)
			check.Equal(t, text+" from "+reader, want, check.Value(parseArguments(raw))(t).serviceTypes["training"].MinimumRuntime)
		}
	}
}

// TestNumbersOfEveryWidth: a reader chooses the type by the number and by how
// wide the machine's integers are.
func TestNumbersOfEveryWidth(t *testing.T) {
	for _, two := range []any{2, int64(2), uint64(2), 2.0} {
		check.Equal(t, fmt.Sprintf("%T", two), 2, check.Value(parseArguments(map[string]any{"overCommitFactor": two}))(t).overCommitFactor)
	}
}

// TestTheReadersGiveBothShapes: the table above is worth something only while
// the two readers differ.
func TestTheReadersGiveBothShapes(t *testing.T) {
	const text = "serviceTypes: {a: {}}"
	_, isOfVolcano := check.Value(volcanoReads(text))(t)["serviceTypes"].(map[any]any)
	check.That(t, isOfVolcano, "Volcano's reader gives another map")
	_, isOfGate := check.Value(gateReads(text))(t)["serviceTypes"].(map[string]any)
	check.That(t, isOfGate, "the gate's reader gives another map")
}

// FuzzArguments: any YAML below arguments is either refused without effect, with one line that
// fits an event, or accepted. Accepted arguments mean the same after they are written and read
// again, by both readers.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		"", "{}", "cardUnlimitedCpuMemory: true", "overCommitFactor: 1.5\nnodeOrderWeight: 1e3", "overCommitFactor: 1.0000000000000002",
		"unmanagedQueues: Ignore\nconfigHash: \"no\"", "configHash: |-\n  a\n\n   b\n",
		"serviceTypes:\n  on: {reclaimFrom: [\"off\", \"1\"]}\n  \"off\": {reclaimable: true}\n  \"1\": {reclaimable: true}",
		"serviceTypes:\n  a: {reclaimable: true, reclaimFrom: [b]}\n  b: {reclaimable: true, reclaimFrom: [a]}",
		"podOwnerReferenceToServiceType: {Deployment: inference, Job.batch.volcano.sh: training, Y: \"y\"}",
		"podOwnerReferenceToServiceType: &a {Job: \"0x1\", Pod: \"1e3\", Node: \"null\"}\nserviceTypes: {\"0\": , \"1-1\": }",
		"serviceTypes: {1: 2}", "overCommitFactor: .nan", "? [1]\n: 2", "a\u0007: b", "nodeOrderWeight: 2026-01-01", "unmanagedQueues: !!binary /w==",
		"victimOrder: Loss\npriorityClasses: {pc-high: 1e3, \"on\": -1}", "queueHierarchy: Tree\nreclaimResources: All", "cards: [{resource: a.b/c, model: \"1\", nodeSelector: {\"on\": \"off\"}}]",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		raw, err := gateReads(string(text))
		if err != nil {
			return // no YAML, or none whose keys are words
		}

		got, err := parseArguments(raw)
		again, _ := parseArguments(raw)
		check.Equal(t, "difference of two results", "", diffArguments(got, again))
		if err != nil {
			check.Must(t, check.FitsEvent(err.Error()) && diffArguments(theDefault(), got) == "", "refused with %q, in force is %+v", err, got)
			return
		}

		rendered := check.Value(yaml.Marshal(raw))(t)
		for reader, read := range readers {
			reread, err := read(string(rendered))
			check.Must(t, err == nil, "%s cannot read\n%s\n%v", reader, rendered, err)
			again, err := parseArguments(reread)
			diff := diffArguments(got, again)
			check.Must(t, err == nil && diff == "", "%s reads\n%s\nas something else, error %v (-before +after):\n%s", reader, rendered, err, diff)
		}
	})
}
