package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// generatedHeader is the first line of every file.
const generatedHeader = "# Generated from config/ by make bundle. Do not edit.\n"

// generateFiles returns the files of a bundle by path. The same sources and release always give
// the same bytes.
func generateFiles(src *sources, release releaseOptions) (map[string][]byte, error) {
	csv, err := clusterServiceVersion(src, release)
	if err != nil {
		return nil, err
	}

	labels := bundleAnnotations(csv)
	files := map[string][]byte{"bundle.Dockerfile": bundleDockerfile(labels)}
	documents := map[string]any{
		"manifests/" + packageName + ".clusterserviceversion.yaml": csv,
		"metadata/annotations.yaml":                                map[string]any{"annotations": labels},
		"tests/scorecard/config.yaml":                              scorecardConfig(release.scorecard),
	}

	for _, crd := range src.crds {
		names := crd.definition.Spec.Names
		documents[fmt.Sprintf("manifests/%s_%s.yaml", crd.definition.Spec.Group, names.Plural)] = crd.object.Object
	}

	for _, extra := range src.extras {
		// OLM sets the namespace of the installation.
		obj := extra.DeepCopy()
		obj.SetNamespace("")
		documents[fileName(obj.GetName(), obj.GroupVersionKind())] = obj.Object
	}

	for _, service := range src.services {
		if !src.servesWebhooks(&service) { // OLM makes those itself
			service.Namespace = ""
			documents[fileName(service.Name, service.GroupVersionKind())] = service
		}
	}

	for name, document := range documents {
		files[name], err = marshalDocument(document)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}

	return files, nil
}

func fileName(name string, kind schema.GroupVersionKind) string {
	return fmt.Sprintf("manifests/%s_%s_%s.yaml", name, kind.Version, strings.ToLower(kind.Kind))
}

// emptyFields are fields that Go cannot omit when they are empty. Authors do not write status.
var emptyFields = [][]string{
	{"status"}, {"spec", "cleanup"}, {"spec", "apiservicedefinitions"},
}

func marshalDocument(document any) ([]byte, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var object map[string]any

	// Keep numbers as they are written.
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}

	for _, path := range emptyFields {
		unstructured.RemoveNestedField(object, path...)
	}

	text, err := yaml.Marshal(object)
	return append([]byte(generatedHeader), text...), err
}

// writeFiles writes the files into dir and removes all others there.
func writeFiles(dir string, files map[string][]byte) error {
	stale, err := readTree(os.DirFS(dir), ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	for name := range stale {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}

	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}

	return nil
}

// readTree reads every file below a folder, by path.
func readTree(dir fs.FS, folder string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(dir, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(dir, name)
		return err
	})
	return files, err
}
