package schedulerconf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
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
	check.Must(t, err == nil && len(files) != 0, "no texts: %v", err)
	texts, wanted = map[string]string{}, map[string]Wanted{}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		text, err := os.ReadFile(file)
		check.NoError(t, err)
		texts[name], wanted[name] = string(text), tide(CardReclaim)
		if raw, err := os.ReadFile(filepath.Join("testdata", "merge", name, "wanted.yaml")); err == nil {
			var w Wanted
			check.NoError(t, yaml.Unmarshal(raw, &w))
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
			check.NoError(t, err)
			golden := filepath.Join("testdata", "merge", name, "after.conf")
			assertGolden(t, golden, merged)
			assertMerge(t, text, "", merged, undo, wanted[name])
			assertRemovedAfterEdit(t, text, merged, undo)
			assertReadAlike(t, merged)
		})
	}
}

// assertRemovedAfterEdit adds a line, so that the original cannot simply be put back.
func assertRemovedAfterEdit(t check.T, text, merged, undo string) {
	const edit = "\n# edited since\n"
	restored, err := Remove(merged+edit, undo)
	check.Must(t, err == nil, "%v", err)
	check.Must(t, strings.Contains(restored, "# edited since"), "the edit is lost:\n%s", restored)
	diff := cmp.Diff(decode(t, text), decode(t, restored))
	check.Must(t, diff == "", "not restored (-original +restored):\n%s\n%s", diff, restored)
}

// assertReadAlike reads a text by the rules of YAML 1.1 as well, which Volcano follows: yes, on
// and 0777 mean something else there.
func assertReadAlike(t *testing.T, text string) {
	t.Helper()
	var old any
	check.NoError(t, sigsyaml.Unmarshal([]byte(text), &old))
	now, err := asJSON(decode(t, text))
	check.NoError(t, err)
	var same any
	check.NoError(t, sigsyaml.Unmarshal([]byte(now), &same))
	check.Equal(t, "two readers disagree", same, old)
}

func TestMergeGoldenHoldsTheShippedConfiguration(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "scheduler", "configmap.yaml"))
	check.NoError(t, err)
	var shipped struct{ Data map[string]string }
	check.NoError(t, yaml.Unmarshal(raw, &shipped))
	texts, _ := goldens(t)
	for _, name := range []string{"ours", "ours_pods"} {
		check.Equal(t, fmt.Sprintf("testdata/merge/%s/before.conf is not what is shipped", name), shipped.Data["volcano-scheduler.conf"], texts[name])
	}
}
