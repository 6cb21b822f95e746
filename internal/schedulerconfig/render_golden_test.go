package schedulerconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// header stands at the top of what is rendered here.
const header = "Rendered for a test,\nfrom a base."

// defaultOverlay is what the default policy sets, with an action that reclaims cards.
func defaultOverlay(reclaim string) Overlay {
	return Overlay{Reclaim: reclaim, Arguments: map[string]any{
		"cardUnlimitedCpuMemory": true,
		"serviceTypes": map[string]any{
			"inference": map[string]any{"reclaimFrom": []string{"training"}},
			"training":  map[string]any{"reclaimable": true, "minimumRuntime": "10m0s"},
		},
	}}
}

// goldens returns the texts of testdata/render and what is wanted of them.
func goldens(t testing.TB) (texts map[string]string, wanted map[string]Overlay) {
	files, err := filepath.Glob("testdata/render/*/base.conf")
	check.Must(t, err == nil && len(files) != 0, "no texts: %v", err)

	texts = map[string]string{}
	wanted = map[string]Overlay{}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		texts[name] = string(check.Value(os.ReadFile(file))(t))

		wanted[name] = defaultOverlay(CardReclaim)
		if raw, err := os.ReadFile(filepath.Join("testdata", "render", name, "wanted.yaml")); err == nil {
			var w Overlay
			check.NoError(t, yaml.Unmarshal(raw, &w))
			wanted[name] = w
		}
	}

	return texts, wanted
}

// TestRenderLaysThePolicyOverABase: each folder of testdata/render has a base, such as the configuration of a
// release of Volcano's chart. It also has what is rendered from the base for a policy. That is the default
// policy, unless the folder has a file wanted.yaml. The last line names what was replaced. The result follows
// the five rules of assertRendered, and means the same to readers of YAML 1.1 and 1.2.
func TestRenderLaysThePolicyOverABase(t *testing.T) {
	texts, wanted := goldens(t)
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			rendered, replaced, err := Render(text, header, wanted[name])
			check.NoError(t, err)
			assertGolden(t, filepath.Join("testdata", "render", name, "rendered.conf"), rendered+"# replaced: "+strings.Join(replaced, ", ")+"\n")
			assertRendered(t, text, rendered, replaced, wanted[name])
			assertReadAlike(t, rendered)
		})
	}
}

// assertReadAlike reads a text by the rules of YAML 1.1 as well, which Volcano follows: yes, on
// and 0777 mean something else there.
func assertReadAlike(t *testing.T, text string) {
	var old any
	check.NoError(t, sigsyaml.Unmarshal([]byte(text), &old))
	var same any
	check.NoError(t, sigsyaml.Unmarshal([]byte(toJSON(decode(t, text))), &same))
	check.Equal(t, "two readers disagree", same, old)
}

// TestBasesAreTheConfigurationsOfTheirNames: bases ours and ours_pods are the configuration that this project ships,
// and built_in_1_14 is the one that Volcano 1.14 has built in.
func TestBasesAreTheConfigurationsOfTheirNames(t *testing.T) {
	raw := check.Value(os.ReadFile(filepath.Join("..", "..", "config", "scheduler", "configmap.yaml")))(t)
	var shipped struct{ Data map[string]string }
	check.NoError(t, yaml.Unmarshal(raw, &shipped))
	texts, _ := goldens(t)
	for _, name := range []string{"ours", "ours_pods"} {
		check.Equal(t, fmt.Sprintf("testdata/render/%s/base.conf is not what is shipped", name), shipped.Data["volcano-scheduler.conf"], texts[name])
	}
	check.Equal(t, "testdata/render/built_in_1_14/base.conf", BuiltIn, texts["built_in_1_14"])
}
