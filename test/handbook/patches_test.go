package handbook

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/test/cluster"
)

// blocksOf are the blocks in a language of a section of a document, without their indentation.
func blocksOf(t *testing.T, document, heading, language string) []string {
	t.Helper()
	_, section, found := strings.Cut(read(t, document), heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^( *)```"+language+"\n(.*?)^ *```$").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")[1:])
	}
	return blocks
}

func kubectl(t *testing.T) string {
	t.Helper()
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "bin", "controlplane", "kubectl")
}

// deployments are the Deployments of a text of manifests, by name.
func deployments(t *testing.T, manifests string) map[string]*appsv1.Deployment {
	t.Helper()
	found := map[string]*appsv1.Deployment{}
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		deployment := &appsv1.Deployment{}
		if !strings.Contains(document, "\nkind: Deployment\n") && !strings.HasPrefix(document, "kind: Deployment\n") {
			continue
		}
		if err := yaml.Unmarshal([]byte(document), deployment); err != nil {
			t.Fatal(err)
		}
		found[deployment.Name] = deployment
	}
	return found
}

// TestOtherNamesReachThePrograms: the patches that docs/install.md has for a Volcano that is called
// otherwise are ones that kustomize takes, all under one patches, and each does what is said.
func TestOtherNamesReachThePrograms(t *testing.T) {
	patches := "\npatches:\n"
	for _, block := range blocksOf(t, install, "### Where Volcano is called otherwise", "yaml") {
		if list, found := strings.CutPrefix(block, "patches:\n"); found {
			patches += list
		}
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.CopyFS(config, os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(config, "overlays", "existing-volcano")
	text := read(t, "config/overlays/existing-volcano/kustomization.yaml") + patches
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl(t), "kustomize", overlay).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rendered := deployments(t, string(out))
	for _, name := range []string{"cardquota-manager", "cardquota-scheduler"} {
		if env := rendered[name].Spec.Template.Spec.Containers[0].Env; env[0].Name != "VOLCANO_NAMESPACE" || env[0].Value != "<namespace>" {
			t.Errorf("%s looks for Volcano in %+v", name, env)
		}
	}
	args := rendered["cardquota-scheduler"].Spec.Template.Spec.Containers[0].Args
	for flag, want := range map[string][]string{
		"--scheduler-configmap=$(POD_NAMESPACE)/": {"volcano-scheduler-configmap", "my-config"}, // the last one counts
		"--scheduler-name=":                       {"<name>"},                                   // the first one replaces the default
	} {
		var got []string
		for _, arg := range args {
			if value, found := strings.CutPrefix(arg, flag); found {
				got = append(got, value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
}

// TestPostRendererChangesTheOneImage: the script of docs/helm.md, with its kustomization, gives
// out what Volcano's installer has, with our image in the scheduler's Deployment and in no other.
func TestPostRendererChangesTheOneImage(t *testing.T) {
	const document, section = "docs/helm.md", "## With only the image"
	folder := t.TempDir()
	script, blocks := blocksOf(t, document, section, "bash"), blocksOf(t, document, section, "yaml")
	if len(script) != 1 || len(blocks) != 2 {
		t.Fatalf("%d scripts, %d YAML blocks: want render.sh; kustomization.yaml, plugin.yaml", len(script), len(blocks))
	}
	var plugin struct {
		APIVersion, Type, Name string
		RuntimeConfig          struct{ PlatformCommand []struct{ Command string } }
	}
	if err := yaml.Unmarshal([]byte(blocks[1]), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Type != "postrenderer/v1" || !strings.Contains(read(t, document), "--post-renderer "+plugin.Name+"`") ||
		plugin.RuntimeConfig.PlatformCommand[0].Command != "${HELM_PLUGIN_DIR}/render.sh" {
		t.Errorf("the plugin is %+v", plugin)
	}
	for name, text := range map[string]string{"render.sh": script[0], "kustomization.yaml": blocks[0]} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	installer := read(t, "bin/controlplane/volcano/install.yaml")
	command := exec.CommandContext(t.Context(), filepath.Join(folder, "render.sh"))
	command.Stdin = strings.NewReader(installer)
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(kubectl(t))+":"+os.Getenv("PATH"))
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	before, after := deployments(t, installer), deployments(t, string(out))
	if len(before) < 3 || len(after) != len(before) {
		t.Fatalf("%d Deployments of %d", len(after), len(before))
	}
	for name, deployment := range after {
		want := before[name].Spec.Template.Spec.Containers[0].Image
		if name == "volcano-scheduler" {
			want = "<registry>/cardquota-scheduler:v0.2.0"
		}
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s has image %s, want %s", name, got, want)
		}
	}
}
