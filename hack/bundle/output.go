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
	"sigs.k8s.io/yaml"
)

// header stands on top of every file that is not a copy.
const header = "# Generated from config/ by make bundle. Do not edit.\n"

// generate makes the files of the bundle, by their path in it. The same sources always give
// the same bytes.
func generate(src *sources, images images) (map[string][]byte, error) {
	csv, err := clusterServiceVersion(src, images)
	if err != nil {
		return nil, err
	}
	labels := annotations(csv)
	files := map[string][]byte{"bundle.Dockerfile": dockerfile(labels)}
	for _, crd := range src.crds {
		files["manifests/"+crd.name] = crd.content
	}
	documents := map[string]any{
		"manifests/" + packageName + ".clusterserviceversion.yaml": csv,
		"metadata/annotations.yaml":                                map[string]any{"annotations": labels},
		"tests/scorecard/config.yaml":                              scorecard(),
	}
	for _, extra := range src.extras {
		// OLM puts the object into the namespace of the installation.
		obj := extra.DeepCopy()
		obj.SetNamespace("")
		version := obj.GroupVersionKind().Version
		documents[fmt.Sprintf("manifests/%s_%s_%s.yaml", obj.GetName(), version, strings.ToLower(obj.GetKind()))] = obj
	}
	for name, document := range documents {
		if files[name], err = marshal(document); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return files, nil
}

// unset are the fields of our documents that Go cannot leave out when they are empty. Status is
// not for authors to write.
var unset = [][]string{
	{"status"}, {"spec", "cleanup"}, {"spec", "apiservicedefinitions"},
}

func marshal(document any) ([]byte, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	// Numbers stay as they are written.
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}
	for _, path := range unset {
		unstructured.RemoveNestedField(object, path...)
	}
	text, err := yaml.Marshal(object)
	return append([]byte(header), text...), err
}

// write makes dir hold exactly the files given.
func write(dir string, files map[string][]byte) error {
	stale, err := readTree(os.DirFS(dir))
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

// readTree reads every file of a folder, by its path in it.
func readTree(dir fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(dir, name)
		return err
	})
	return files, err
}
