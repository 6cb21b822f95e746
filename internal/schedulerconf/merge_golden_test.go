package schedulerconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// tide is what the default policy wants.
func tide(reclaim string) Wanted {
	return Wanted{Reclaim: reclaim, Arguments: map[string]any{
		"cardUnlimitedCpuMemory": true,
		"serviceTypes": map[string]any{
			"inference": map[string]any{"reclaimFrom": []string{"training"}},
			"training":  map[string]any{"reclaimable": true, "minimumRuntime": "10m0s"},
		},
	}}
}

// goldens returns the texts of testdata/merge and what is wanted of them.
func goldens(t testing.TB) (texts map[string]string, wanted map[string]Wanted) {
	t.Helper()
	files, err := filepath.Glob("testdata/merge/*/before.conf")
	if err != nil || len(files) == 0 {
		t.Fatalf("no texts: %v", err)
	}
	texts, wanted = map[string]string{}, map[string]Wanted{}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[name], wanted[name] = string(text), tide(CardReclaim)
		if raw, err := os.ReadFile(filepath.Join("testdata", "merge", name, "wanted.yaml")); err == nil {
			var w Wanted
			if err := yaml.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			wanted[name] = w
		}
	}
	return texts, wanted
}

func TestMergeGolden(t *testing.T) {
	texts, wanted := goldens(t)
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			merged, undo, err := Merge(text, "", wanted[name])
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "merge", name, "after.conf")
			assertGolden(t, golden, merged)
			assertMerge(t, text, "", merged, undo, wanted[name])
			assertRemovedAfterEdit(t, text, merged, undo)
			assertReadAlike(t, merged)
		})
	}
}

// assertRemovedAfterEdit adds a line, so that the original cannot simply be put back.
func assertRemovedAfterEdit(t fataler, text, merged, undo string) {
	const edit = "\n# edited since\n"
	restored, err := Remove(merged+edit, undo)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(restored, "# edited since") {
		t.Fatalf("the edit is lost:\n%s", restored)
	}
	if diff := cmp.Diff(decode(t, text), decode(t, restored)); diff != "" {
		t.Fatalf("not restored (-original +restored):\n%s\n%s", diff, restored)
	}
}

// assertReadAlike reads a text by the rules of YAML 1.1 as well, which Volcano follows: yes, on
// and 0777 mean something else there.
func assertReadAlike(t *testing.T, text string) {
	t.Helper()
	var old any
	if err := sigsyaml.Unmarshal([]byte(text), &old); err != nil {
		t.Fatal(err)
	}
	now, err := asJSON(decode(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var same any
	if err := sigsyaml.Unmarshal([]byte(now), &same); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(same, old); diff != "" {
		t.Errorf("two readers disagree (-YAML 1.2 +YAML 1.1):\n%s", diff)
	}
}

func TestMergeGoldenHoldsTheShippedConfiguration(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "scheduler", "configmap.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var shipped struct{ Data map[string]string }
	if err := yaml.Unmarshal(raw, &shipped); err != nil {
		t.Fatal(err)
	}
	texts, _ := goldens(t)
	for _, name := range []string{"ours", "ours_pods"} {
		if diff := cmp.Diff(shipped.Data["volcano-scheduler.conf"], texts[name]); diff != "" {
			t.Errorf("testdata/merge/%s/before.conf is not what is shipped (-shipped +test):\n%s", name, diff)
		}
	}
}
