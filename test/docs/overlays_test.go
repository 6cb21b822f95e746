package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// kubectl is the kubectl of the cluster's version.
var kubectl = filepath.Join("..", "..", "bin", "controlplane", "kubectl")

// sectionBlocks returns the code blocks in a language in a section of a document.
func sectionBlocks(t *testing.T, document, heading, language string) []string {
	return check.Value(blocksOf(readDocument(t, document), heading, language))(t)
}

// renderOverlay renders an overlay of config, with a text appended to the kustomization of the
// overlay existing-volcano.
func renderOverlay(t *testing.T, overlay, more string) string {
	overlays := filepath.Join(t.TempDir(), "config", "overlays")
	check.NoError(t, os.CopyFS(filepath.Dir(overlays), os.DirFS("../../config")))
	text := readDocument(t, "config/overlays/existing-volcano/kustomization.yaml") + more
	check.NoError(t, os.WriteFile(filepath.Join(overlays, "existing-volcano", "kustomization.yaml"), []byte(text), 0o600))
	command := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(overlays, overlay))
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	check.Must(t, err == nil, "%v\n%s", err, problems.String())
	return string(out)
}

// parseDeployments returns the Deployments in manifests, by name.
func parseDeployments(t *testing.T, manifests string) map[string]*appsv1.Deployment {
	found := map[string]*appsv1.Deployment{}
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		deployment := &appsv1.Deployment{}
		if !strings.Contains(document, "\nkind: Deployment\n") && !strings.HasPrefix(document, "kind: Deployment\n") {
			continue
		}
		check.NoError(t, yaml.Unmarshal([]byte(document), deployment))
		found[deployment.Name] = deployment
	}
	return found
}

// TestOtherNamesReachThePrograms: an administrator whose Volcano has other names adds the patches of
// docs/install.md. kustomize accepts all in one list. Both programs then look for Volcano in "<namespace>". The
// scheduler takes the pods of scheduler "<name>", and still reads the ConfigMap of its own namespace.
func TestOtherNamesReachThePrograms(t *testing.T) {
	patches := "\npatches:\n"
	for _, block := range sectionBlocks(t, install, "### Where Volcano is called otherwise", "yaml") {
		if list, found := strings.CutPrefix(block, "patches:\n"); found {
			patches += list
		}
	}

	patched := parseDeployments(t, renderOverlay(t, "existing-volcano", patches))
	for _, name := range []string{"cardquota-manager", "cardquota-scheduler"} {
		env := patched[name].Spec.Template.Spec.Containers[0].Env
		check.That(t, env[0].Name == "VOLCANO_NAMESPACE" && env[0].Value == "<namespace>", "%s looks for Volcano in %+v", name, env)
	}

	args := patched["cardquota-scheduler"].Spec.Template.Spec.Containers[0].Args
	for flag, want := range map[string]string{
		"--scheduler-configmap=$(POD_NAMESPACE)/": "cardquota-scheduler-configmap",
		"--scheduler-name=":                       "<name>", // once: the first one replaces the default, and a second one would add a name
	} {
		got := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !strings.HasPrefix(arg, flag) })
		check.Equal(t, "arguments", []string{flag + want}, got)
	}
}

// checkPostRenderer checks that Helm's plugin in a document runs the script, and that the document
// names it.
func checkPostRenderer(t *testing.T, document, text string) {
	var plugin struct {
		APIVersion, Type, Name string
		RuntimeConfig          struct{ PlatformCommand []struct{ Command string } }
	}
	check.NoError(t, yaml.Unmarshal([]byte(text), &plugin))

	check.That(t, plugin.Type == "postrenderer/v1" && strings.Contains(readDocument(t, document), "--post-renderer "+plugin.Name+"`") && plugin.RuntimeConfig.PlatformCommand[0].Command == "${HELM_PLUGIN_DIR}/render.sh", "the plugin is %+v", plugin)
}

// TestPostRendererChangesTheOneImage: an administrator who installs Volcano with Helm gets our scheduler with the
// post-renderer of docs/helm.md, a script that Helm pipes all manifests through. The document has the plugin with
// which Helm runs it (checkPostRenderer). Given Volcano's installer, the script changes the image and the ConfigMap
// of Deployment volcano-scheduler, and the image of no other Deployment.
func TestPostRendererChangesTheOneImage(t *testing.T) {
	const (
		document = "docs/helm.md"
		section  = "## With only the image"
	)

	folder := t.TempDir()
	script := sectionBlocks(t, document, section, "bash")
	objects := sectionBlocks(t, document, section, "yaml")
	check.Must(t, len(script) == 1 && len(objects) == 2, "%d scripts, %d YAML blocks: want render.sh; kustomization.yaml, plugin.yaml", len(script), len(objects))

	checkPostRenderer(t, document, objects[1])
	for name, text := range map[string]string{"render.sh": script[0], "kustomization.yaml": objects[0]} {
		check.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700))
	}

	installer := readDocument(t, "bin/controlplane/volcano/install.yaml")
	command := exec.CommandContext(t.Context(), filepath.Join(folder, "render.sh"))
	command.Stdin = strings.NewReader(installer)
	tools := check.Value(filepath.Abs(filepath.Dir(kubectl)))(t)

	command.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	out := check.Value(command.Output())(t)

	before := parseDeployments(t, installer)
	after := parseDeployments(t, string(out))
	check.Must(t, len(before) >= 3 && len(after) == len(before), "%d Deployments of %d", len(after), len(before))

	for name, deployment := range after {
		want := before[name].Spec.Template.Spec.Containers[0].Image
		if name == "volcano-scheduler" {
			want = "<registry>/cardquota-scheduler:v0.2.0"
			volume := deployment.Spec.Template.Spec.Volumes[0]
			check.That(t, volume.ConfigMap != nil && volume.ConfigMap.Name == "cardquota-scheduler-configmap", "it mounts %+v", volume)
		}

		got := deployment.Spec.Template.Spec.Containers[0].Image
		check.That(t, got == want, "%s has image %s, want %s", name, got, want)
	}
}
