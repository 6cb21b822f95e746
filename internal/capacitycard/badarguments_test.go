package capacitycard

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions" // Volcano's reader looks the actions up

	"cardquota.dev/operator/internal/decision"
	"cardquota.dev/operator/internal/servicetype"
)

// theDefault is what is in force when an argument is bad.
func theDefault() arguments {
	return arguments{overCommitFactor: 1, nodeOrderWeight: 1, unmanagedQueues: decision.Enforce, serviceTypes: servicetype.DefaultMatrix()}
}

// same compares arguments with all their unexported fields.
func same(want, got arguments) string { return cmp.Diff(want, got, cmp.AllowUnexported(arguments{})) }

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

// gateReads reads arguments as the configuration gate does.
func gateReads(text string) (map[string]any, error) {
	values := map[string]any{}
	err := yaml.Unmarshal([]byte(text), &values)
	return values, err
}

// tellable tells whether an event can hold a message and a terminal can show it.
func tellable(message string) bool {
	return message != "" && len(message) <= 1024 && utf8.ValidString(message) &&
		!strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) })
}

// mustRefuse checks a refusal: it helps, it can be shown, and nothing of the
// arguments takes effect.
func mustRefuse(t *testing.T, raw map[string]any, wants ...string) {
	t.Helper()
	got, err := parseArguments(raw)
	if err == nil {
		t.Fatalf("%.300s is accepted as %+v", fmt.Sprint(raw), got)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is\n  %.1500s\nwant\n  …%s…", err, want)
		}
	}
	if !tellable(err.Error()) {
		t.Errorf("no event can hold the %d bytes of %.300q", len(err.Error()), err)
	}
	if diff := same(theDefault(), got); diff != "" {
		t.Errorf("bad arguments took effect (-default +got):\n%s", diff)
	}
	if validated := ValidateArguments(raw); validated == nil || validated.Error() != err.Error() {
		t.Errorf("the gate is told %v, the plugin %v", validated, err)
	}
}

// TestArgumentsRefuseWhatPeopleWrite: both readers must come to a refusal that
// says what to write.
func TestArgumentsRefuseWhatPeopleWrite(t *testing.T) {
	const factor, weight, flag = "write a number from 1 to 100", "write a number above 0, at most 1000", "write true or false"
	types := func(lines ...string) string { return "serviceTypes:\n  " + strings.Join(lines, "\n  ") + "\n" }
	owners := func(line string) string { return "podOwnerReferenceToServiceType:\n  " + line + "\n" }
	tests := map[string]struct {
		text  string
		wants []string
	}{
		// cardUnlimitedCpuMemory
		"a flag in quotes":             {`cardUnlimitedCpuMemory: "true"`, []string{"cardUnlimitedCpuMemory", `"true"`, flag}},
		"a flag that is a number":      {"cardUnlimitedCpuMemory: 1", []string{"cardUnlimitedCpuMemory is 1", flag}},
		"a flag that is a list":        {"cardUnlimitedCpuMemory: [true]", []string{flag}},
		"a flag that is a mapping":     {"cardUnlimitedCpuMemory: {enabled: true}", []string{flag}},
		"a flag without a value":       {"cardUnlimitedCpuMemory:", []string{flag}},
		"a flag that is a word":        {"cardUnlimitedCpuMemory: enabled", []string{`"enabled"`, flag}},
		"the flag as Go writes CPU":    {"cardUnlimitedCPUMemory: true", []string{`unknown argument "cardUnlimitedCPUMemory"`, "cardUnlimitedCpuMemory"}},
		"the flag in lower case":       {"cardunlimitedcpumemory: true", []string{`unknown argument "cardunlimitedcpumemory"`}},
		"the flag with Volcano's dots": {"capacity-card.cardUnlimitedCpuMemory: true", []string{`unknown argument "capacity-card.cardUnlimitedCpuMemory"`}},

		// overCommitFactor
		"a factor of 0":                 {"overCommitFactor: 0", []string{"overCommitFactor is 0", factor}},
		"a factor just below 1":         {"overCommitFactor: 0.9999", []string{"is 0.9999", factor}},
		"a negative factor":             {"overCommitFactor: -1.5", []string{"is -1.5", factor}},
		"a factor above 100":            {"overCommitFactor: 100.5", []string{factor}},
		"a factor in percent":           {"overCommitFactor: 150", []string{factor}},
		"a factor with a percent sign":  {"overCommitFactor: 150%", []string{`"150%"`, factor}},
		"a factor in quotes":            {`overCommitFactor: "2"`, []string{`overCommitFactor is "2"`, factor}},
		"a factor with a comma":         {"overCommitFactor: 1,5", []string{factor}},
		"a factor that is no number":    {"overCommitFactor: .nan", []string{"is NaN", factor}},
		"a factor without end":          {"overCommitFactor: .inf", []string{"is +Inf", factor}},
		"a factor without end, below":   {"overCommitFactor: -.inf", []string{"is -Inf", factor}},
		"a factor beyond 64 bits":       {"overCommitFactor: 1e400", []string{factor}},
		"a factor of 20 digits":         {"overCommitFactor: 18446744073709551615", []string{"is 18446744073709551615", factor}},
		"a factor of 30 digits":         {"overCommitFactor: 100000000000000000000000000000", []string{factor}},
		"a factor that is true":         {"overCommitFactor: true", []string{"is true", factor}},
		"a factor without a value":      {"overCommitFactor: ~", []string{factor}},
		"a factor per card":             {"overCommitFactor: {NVIDIA-H200: 2}", []string{factor}},
		"a factor with a small letter":  {"overcommitFactor: 2", []string{`unknown argument "overcommitFactor"`, "overCommitFactor"}},
		"the factor of Volcano's name":  {"overcommit-factor: 2", []string{`unknown argument "overcommit-factor"`}},
		"a factor that is a time":       {"overCommitFactor: 2026-01-01", []string{factor}},
		"a factor in base 60":           {"overCommitFactor: 1:30:00", []string{factor}},
		"a factor with a trailing unit": {"overCommitFactor: 2x", []string{`"2x"`, factor}},

		// nodeOrderWeight
		"a weight of 0":              {"nodeOrderWeight: 0", []string{"nodeOrderWeight is 0", weight}},
		"a weight of 0.0":            {"nodeOrderWeight: 0.0", []string{weight}},
		"a negative weight":          {"nodeOrderWeight: -1", []string{weight}},
		"a weight above 1000":        {"nodeOrderWeight: 1001", []string{weight}},
		"a weight that is no number": {"nodeOrderWeight: .NaN", []string{weight}},
		"a weight without end":       {"nodeOrderWeight: .Inf", []string{weight}},
		"a weight that is a word":    {"nodeOrderWeight: high", []string{`"high"`, weight}},
		"a weight that is a list":    {"nodeOrderWeight: [1, 2]", []string{weight}},
		"a weight of the plugin's":   {"weight: 10", []string{`unknown argument "weight"`, "nodeOrderWeight"}},

		// unmanagedQueues
		"unmanaged in lower case":    {"unmanagedQueues: ignore", []string{`unmanagedQueues is "ignore"`, "write Enforce or Ignore"}},
		"unmanaged in upper case":    {"unmanagedQueues: IGNORE", []string{"write Enforce or Ignore"}},
		"unmanaged with a space":     {`unmanagedQueues: "Ignore "`, []string{`"Ignore "`, "write Enforce or Ignore"}},
		"unmanaged as a flag":        {"unmanagedQueues: false", []string{"is false", "write Enforce or Ignore"}},
		"unmanaged as a list":        {"unmanagedQueues: [Ignore]", []string{"write Enforce or Ignore"}},
		"unmanaged without a value":  {"unmanagedQueues:", []string{"write Enforce or Ignore"}},
		"unmanaged empty":            {`unmanagedQueues: ""`, []string{`is ""`, "write Enforce or Ignore"}},
		"unmanaged in the singular":  {"unmanagedQueue: Ignore", []string{`unknown argument "unmanagedQueue"`, "unmanagedQueues"}},
		"unmanaged of another value": {"unmanagedQueues: Warn", []string{`"Warn"`, "write Enforce or Ignore"}},

		// podOwnerReferenceToServiceType
		"owners without a value":        {"podOwnerReferenceToServiceType:", []string{"write kinds and service types, for example Job: training"}},
		"owners as a text":              {"podOwnerReferenceToServiceType: Job=training", []string{"write kinds and service types", "not a mapping"}},
		"owners as a list":              {"podOwnerReferenceToServiceType: [Job, training]", []string{"write kinds and service types"}},
		"owners as a list of mappings":  {"podOwnerReferenceToServiceType: [{Job: training}]", []string{"write kinds and service types"}},
		"a kind in the plural":          {owners("jobs: training"), []string{`"jobs" is no kind`, "write for example Job or Job.batch.volcano.sh"}},
		"a kind with its version":       {owners("batch/v1/Job: training"), []string{`"batch/v1/Job" is no kind`}},
		"a kind that is a number":       {owners("1: training"), []string{"podOwnerReferenceToServiceType", "key 1 is not a word"}},
		"a kind that is null":           {owners("~: training"), []string{"is not a word"}},
		"a kind that is empty":          {owners(`"": training`), []string{`"" is no kind`}},
		"a kind of 64 letters":          {owners("K" + strings.Repeat("x", 63) + ": training"), []string{"is no kind"}},
		"a kind of an odd alphabet":     {owners("Јоb: training"), []string{"is no kind"}},
		"an owner's type is a number":   {owners("Job: 1"), []string{"Job", "write the name of a service type"}},
		"an owner's type is null":       {owners("Job:"), []string{"Job", "write the name of a service type"}},
		"an owner's type is a mapping":  {owners("Job: {type: training}"), []string{"write the name of a service type"}},
		"an owner's type in upper case": {owners("Job: Training"), []string{`service type "Training" is no name`, "write lower-case letters"}},
		"an owner's type with a space":  {owners(`Job: "batch training"`), []string{`service type "batch training" is no name`}},
		"an owner's type of 64 letters": {owners("Job: " + strings.Repeat("t", 64)), []string{"is no name", "at most 63"}},
		"an owner's type that is empty": {owners(`Job: ""`), []string{`service type "" is no name`}},

		// serviceTypes
		"types without a value":         {"serviceTypes:", []string{"write service types with reclaimable and reclaimFrom", "not a mapping"}},
		"types as a list":               {"serviceTypes: [inference, training]", []string{"not a mapping"}},
		"types as a text":               {"serviceTypes: default", []string{"not a mapping"}},
		"a type that is a flag":         {types("training: true"), []string{"training", "write reclaimable and reclaimFrom below it"}},
		"a type that is a list":         {types("inference: [training]"), []string{"write reclaimable and reclaimFrom below it"}},
		"a type that is a number":       {types("1: {reclaimable: true}"), []string{"key 1 is not a word"}},
		"a type's key that is a number": {types("training: {1: true}"), []string{"training", "key 1 is not a word"}},
		"a priority, which is no rule":  {types("training: {priority: 20000}"), []string{`unknown key "priority": write reclaimable, reclaimFrom or minimumRuntime`}},
		"reclaimable in quotes":         {types(`training: {reclaimable: "true"}`), []string{"training", "reclaimable: write true or false"}},
		"reclaimable without a value":   {types("training: {reclaimable: }"), []string{"reclaimable: write true or false"}},
		"reclaimable in another case":   {types("training: {Reclaimable: true}"), []string{`unknown key "Reclaimable"`}},
		"reclaimFrom as a text":         {types("inference: {reclaimFrom: training}", "training: {reclaimable: true}"), []string{"reclaimFrom: write a list of service types"}},
		"reclaimFrom as a mapping":      {types("inference: {reclaimFrom: {training: true}}"), []string{"reclaimFrom: write a list"}},
		"reclaimFrom with a number":     {types("inference: {reclaimFrom: [1]}"), []string{"reclaimFrom: write a list"}},
		"reclaimFrom with a null":       {types("inference: {reclaimFrom: [~]}"), []string{"reclaimFrom: write a list"}},
		"reclaimFrom with a list":       {types("inference: {reclaimFrom: [[training]]}"), []string{"reclaimFrom: write a list"}},
		"reclaimFrom in another word":   {types("inference: {reclaimsFrom: [training]}"), []string{`unknown key "reclaimsFrom"`}},
		"from a type that is not there": {types("inference: {reclaimFrom: [trainin]}", "training: {reclaimable: true}"), []string{`"inference" takes from "trainin", which is not defined`}},
		"from a type that keeps":        {types("inference: {reclaimFrom: [training]}", "training: {reclaimable: false}"), []string{`"training", which is not reclaimable`}},
		"from a type that says nothing": {types("inference: {reclaimFrom: [training]}", "training:"), []string{"which is not reclaimable"}},
		"from the same type twice":      {types("inference: {reclaimFrom: [training, training]}", "training: {reclaimable: true}"), []string{"twice: remove one"}},
		"from itself":                   {types("training: {reclaimable: true, reclaimFrom: [training]}"), []string{`"training" takes from itself`}},
		"a circle of two":               {types("a: {reclaimable: true, reclaimFrom: [b]}", "b: {reclaimable: true, reclaimFrom: [a]}"), []string{"circle: a from b from a"}},
		"a circle of three":             {types("a: {reclaimable: true, reclaimFrom: [b]}", "b: {reclaimable: true, reclaimFrom: [c]}", "c: {reclaimable: true, reclaimFrom: [a]}"), []string{"circle: a from b from c from a"}},
		"a type in upper case":          {types("Training: {reclaimable: true}"), []string{`service type "Training" is no name`}},
		"a type with a space":           {types(`"batch jobs": {}`), []string{`service type "batch jobs" is no name`}},
		"a type of 64 letters":          {types(strings.Repeat("t", 64) + ": {}"), []string{"is no name", "at most 63"}},
		"a type that is empty":          {types(`"": {}`), []string{`service type "" is no name`}},
		"a type with an underscore":     {types("batch_jobs: {}"), []string{"is no name"}},
		"types by a misspelt name":      {"serviceType: {training: {reclaimable: true}}", []string{`unknown argument "serviceType"`, "serviceTypes"}},
		"one bad type among good ones":  {types("inference: {reclaimFrom: [training]}", "training: {reclaimable: yes please}"), []string{"training", "reclaimable: write true or false"}},

		// configHash and the rest
		"a hash that is a number":          {"configHash: 7", []string{"written by the scheduler itself: remove it"}},
		"a hash without a value":           {"configHash:", []string{"written by the scheduler itself: remove it"}},
		"an argument of another plugin":    {"predicate.GPUSharingEnable: true", []string{`unknown argument "predicate.GPUSharingEnable"`, "this version knows cardUnlimitedCpuMemory"}},
		"an argument without a name":       {`"": true`, []string{`unknown argument ""`}},
		"an argument of control signs":     {`"a\u001b[31m\nb": true`, []string{"unknown argument"}},
		"an argument that says otherwise":  {`"a\u202eb": true`, []string{"unknown argument"}},
		"a value of control signs":         {`unmanagedQueues: "\u001b[31mIgnore\n"`, []string{`"\x1b[31mIgnore\n"`, "write Enforce or Ignore"}},
		"an owner's kind of control signs": {owners(`"Job\u0007": 1`), []string{`"Job\a"`, "write the name of a service type"}},
		"a type of control signs":          {types(`"tra\u0000ining": 1`), []string{`"tra\x00ining"`, "below it"}},
		"a key of a type of control signs": {types(`training: {"a\u0085b": 1}`), []string{"unknown key", "write reclaimable, reclaimFrom or minimumRuntime"}},
		"two mistakes":                     {"overCommitFactor: 0\nunmanagedQueues: x", []string{"overCommitFactor is 0", `unmanagedQueues is "x"`}},
		"a good and a bad argument":        {"cardUnlimitedCpuMemory: true\nunmanagedQueues: Ignore\noverCommitFactor: 0", []string{"overCommitFactor is 0"}},
		"a good matrix and a bad owner":    {types("a: {reclaimable: true}") + owners("job: a"), []string{`"job" is no kind`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for reader, read := range map[string]func(string) (map[string]any, error){"Volcano": volcanoReads, "the gate": gateReads} {
				t.Run(reader, func(t *testing.T) {
					raw, err := read(tc.text)
					if err != nil {
						t.Fatal(err)
					}
					mustRefuse(t, raw, tc.wants...)
				})
			}
		})
	}
}

// TestArgumentsRefuseWhatIsLong: however long and however many the mistakes,
// an event can hold what is said of them, and it still says what to do.
func TestArgumentsRefuseWhatIsLong(t *testing.T) {
	const mebi = 1 << 20
	deep := any("x")
	for range 10_000 {
		deep = []any{deep}
	}
	tests := map[string]struct {
		raw  map[string]any
		want string
	}{
		"an argument of 1 MiB":             {map[string]any{strings.Repeat("a", mebi): true}, "unknown argument"},
		"an argument of 1 MiB of controls": {map[string]any{strings.Repeat("\x01", mebi): true}, "unknown argument"},
		"an argument that is not UTF-8":    {map[string]any{"a\xff\xfe": true}, `unknown argument "a?"`},
		"a thousand unknown arguments":     {many(1000, func(i int) (string, any) { return fmt.Sprint("argument", i), i }), `unknown argument "argument0"`},
		"a value of 1 MiB":                 {map[string]any{"overCommitFactor": strings.Repeat("9", mebi)}, "write a number from 1 to 100"},
		"a value of 1 MiB of controls":     {map[string]any{"unmanagedQueues": strings.Repeat("\x7f", mebi)}, "write Enforce or Ignore"},
		"a value that is not UTF-8":        {map[string]any{"unmanagedQueues": "\xff"}, "write Enforce or Ignore"},
		"a deep value":                     {map[string]any{"overCommitFactor": deep}, "write a number from 1 to 100"},
		"a list of a million":              {map[string]any{"nodeOrderWeight": make([]any, 1_000_000)}, "write a number above 0"},
		"a thousand bad kinds":             {map[string]any{"podOwnerReferenceToServiceType": many(1000, func(i int) (string, any) { return fmt.Sprint("kind", i), "x y" })}, `"kind0" is no kind`},
		"a thousand bad types":             {map[string]any{"serviceTypes": many(1000, func(i int) (string, any) { return fmt.Sprint("T", i), nil })}, `"T0" is no name`},
		"a thousand undefined types":       {map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": undefined(1000)}}}, `"a" takes from "u0", which is not defined`},
		"a key of 1 MiB that is no word":   {map[string]any{"serviceTypes": map[any]any{[1]string{strings.Repeat("k", mebi)}: nil}}, "is not a word"},
		"a type of 1 MiB":                  {map[string]any{"serviceTypes": map[string]any{"a": map[string]any{"reclaimFrom": []any{strings.Repeat("\n", mebi)}}}}, "which is not defined"},
		"a mapping in a value, controls":   {map[string]any{"unmanagedQueues": map[any]any{"\x00": "\n"}}, "write Enforce or Ignore"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { mustRefuse(t, tc.raw, tc.want) })
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

// undefined lists n service types that nobody defines.
func undefined(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprint("u", i)
	}
	return list
}

// TestArgumentsRefuseWhatNoReaderGives: types that neither reader makes are
// refused as well and not guessed at.
func TestArgumentsRefuseWhatNoReaderGives(t *testing.T) {
	tests := map[string]struct {
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
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { mustRefuse(t, tc.raw, tc.want) })
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
	tests := map[string]struct {
		text string
		want arguments
	}{
		"nothing":                    {"{}", theDefault()},
		"the flag":                   {"cardUnlimitedCpuMemory: true", with(func(a *arguments) { a.cardUnlimitedCPUMemory = true })},
		"the flag as it is anyway":   {"cardUnlimitedCpuMemory: false", theDefault()},
		"a whole factor":             {"overCommitFactor: 2", with(func(a *arguments) { a.overCommitFactor = 2 })},
		"the smallest factor":        {"overCommitFactor: 1.0", theDefault()},
		"the largest factor":         {"overCommitFactor: 100", with(func(a *arguments) { a.overCommitFactor = 100 })},
		"a factor with an exponent":  {"overCommitFactor: 1.5e+1", with(func(a *arguments) { a.overCommitFactor = 15 })},
		"a factor in base 16":        {"overCommitFactor: 0x10", with(func(a *arguments) { a.overCommitFactor = 16 })},
		"a small weight":             {"nodeOrderWeight: 0.001", with(func(a *arguments) { a.nodeOrderWeight = 0.001 })},
		"the largest weight":         {"nodeOrderWeight: 1000", with(func(a *arguments) { a.nodeOrderWeight = 1000 })},
		"unmanaged queues":           {"unmanagedQueues: Ignore", with(func(a *arguments) { a.unmanagedQueues = decision.Ignore })},
		"unmanaged queues in quotes": {`unmanagedQueues: "Enforce"`, theDefault()},
		"a hash":                     {"configHash: sha256-0123", with(func(a *arguments) { a.configHash = "sha256-0123" })},
		"owners": {"podOwnerReferenceToServiceType:\n  Deployment: inference\n  Job.batch.volcano.sh: training",
			with(func(a *arguments) {
				a.owners = servicetype.Owners{"Deployment": "inference", "Job.batch.volcano.sh": "training"}
			})},
		"no owners": {"podOwnerReferenceToServiceType: {}", with(func(a *arguments) { a.owners = servicetype.Owners{} })},
		"a matrix of three": {"serviceTypes:\n  inference:\n    reclaimFrom:\n    - training\n    - batch\n  training:\n    reclaimable: true\n    reclaimFrom: [batch]\n  batch: {reclaimable: true}",
			with(func(a *arguments) {
				a.serviceTypes = servicetype.Matrix{
					"inference": {ReclaimFrom: []string{"training", "batch"}},
					"training":  {Reclaimable: true, ReclaimFrom: []string{"batch"}}, "batch": {Reclaimable: true},
				}
			})},
		"a type that neither takes nor gives": {"serviceTypes:\n  notebook:", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"notebook": {}} })},
		"a type that takes from nobody":       {"serviceTypes: {a: {reclaimFrom: []}}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"a": {ReclaimFrom: []string{}}} })},
		"a type whose list says nothing":      {"serviceTypes: {a: {reclaimFrom: }}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{"a": {}} })},
		"nobody takes from anybody":           {"serviceTypes: {}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{} })},
		"a type of 63 characters":             {"serviceTypes: {" + strings.Repeat("t", 63) + ": {}}", with(func(a *arguments) { a.serviceTypes = servicetype.Matrix{strings.Repeat("t", 63): {}} })},
		"everything": {"cardUnlimitedCpuMemory: true\noverCommitFactor: 1.5\nnodeOrderWeight: 10\nunmanagedQueues: Ignore\nconfigHash: h\n" +
			"serviceTypes:\n  a: {reclaimFrom: [b]}\n  b: {reclaimable: true}\npodOwnerReferenceToServiceType: {Job: a}",
			arguments{cardUnlimitedCPUMemory: true, overCommitFactor: 1.5, nodeOrderWeight: 10, unmanagedQueues: decision.Ignore, configHash: "h",
				serviceTypes: servicetype.Matrix{"a": {ReclaimFrom: []string{"b"}}, "b": {Reclaimable: true}}, owners: servicetype.Owners{"Job": "a"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for reader, read := range map[string]func(string) (map[string]any, error){"Volcano": volcanoReads, "the gate": gateReads} {
				raw, err := read(tc.text)
				if err != nil {
					t.Fatal(err)
				}
				got, err := parseArguments(raw)
				if err != nil {
					t.Fatalf("%s: refused: %v", reader, err)
				}
				if diff := same(tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", reader, diff)
				}
			}
		})
	}
}

// TestNumbersOfEveryWidth: a reader chooses the type by the number and by how
// wide the machine's integers are.
func TestNumbersOfEveryWidth(t *testing.T) {
	for _, two := range []any{2, int64(2), uint64(2), 2.0} {
		got, err := parseArguments(map[string]any{"overCommitFactor": two})
		if err != nil || got.overCommitFactor != 2 {
			t.Errorf("%T is read as %v, error %v", two, got.overCommitFactor, err)
		}
	}
}

// TestTheReadersGiveBothShapes: the table above is worth something only while
// the two readers differ.
func TestTheReadersGiveBothShapes(t *testing.T) {
	const text = "serviceTypes: {a: {}}"
	ofVolcano, err := volcanoReads(text)
	if err != nil {
		t.Fatal(err)
	}
	ofGate, err := gateReads(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := ofVolcano["serviceTypes"].(map[any]any); !ok {
		t.Errorf("Volcano's reader gives %T", ofVolcano["serviceTypes"])
	}
	if _, ok := ofGate["serviceTypes"].(map[string]any); !ok {
		t.Errorf("the gate's reader gives %T", ofGate["serviceTypes"])
	}
}
