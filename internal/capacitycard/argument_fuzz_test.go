package capacitycard

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzArguments: whatever YAML stands below arguments, it is refused with a
// line that an event can hold and has no effect, or it is accepted and then
// means the same when it is written anew, to Volcano's reader and to the gate's.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		"", "{}", "cardUnlimitedCpuMemory: true", "overCommitFactor: 1.5\nnodeOrderWeight: 1e3", "overCommitFactor: 1.0000000000000002",
		"unmanagedQueues: Ignore\nconfigHash: \"no\"", "configHash: |-\n  a\n\n   b\n",
		"serviceTypes:\n  on: {reclaimFrom: [\"off\", \"1\"]}\n  \"off\": {reclaimable: true}\n  \"1\": {reclaimable: true}",
		"serviceTypes:\n  a: {reclaimable: true, reclaimFrom: [b]}\n  b: {reclaimable: true, reclaimFrom: [a]}",
		"podOwnerReferenceToServiceType: {Deployment: inference, Job.batch.volcano.sh: training, Y: \"y\"}",
		"podOwnerReferenceToServiceType: &a {Job: \"0x1\", Pod: \"1e3\", Node: \"null\"}\nserviceTypes: {\"0\": , \"1-1\": }",
		"serviceTypes: {1: 2}", "overCommitFactor: .nan", "? [1]\n: 2", "a\u0007: b", "nodeOrderWeight: 2026-01-01", "unmanagedQueues: !!binary /w==",
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
		if again, _ := parseArguments(raw); same(got, again) != "" {
			t.Fatalf("two results: %s", same(got, again))
		}
		if err != nil {
			if !tellable(err.Error()) || same(theDefault(), got) != "" {
				t.Fatalf("refused with %q, in force is %+v", err, got)
			}
			return
		}
		rendered, err := yaml.Marshal(raw)
		if err != nil {
			t.Fatalf("%v cannot be written: %v", raw, err)
		}
		for reader, read := range map[string]func(string) (map[string]any, error){"Volcano": volcanoReads, "the gate": gateReads} {
			anew, err := read(string(rendered))
			if err != nil {
				t.Fatalf("%s cannot read\n%s\n%v", reader, rendered, err)
			}
			again, err := parseArguments(anew)
			if diff := same(got, again); err != nil || diff != "" {
				t.Fatalf("%s reads\n%s\nas something else, error %v (-before +after):\n%s", reader, rendered, err, diff)
			}
		}
	})
}
