// Command catalog writes a file-based catalog of bundle folders. It takes their manifests from
// `opm render`, and the package and channels from the bundles (annotations.yaml, spec.replaces,
// olm.skipRange). `opm validate` checks the result.
//
//	cd hack/bundle && go run ./catalog -opm ../../bin/olm/opm -out ../../dist/catalog ../../bundle
//
// Several bundles are several versions of one package, in any order.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	set := flag.NewFlagSet("catalog", flag.ContinueOnError)
	opm := set.String("opm", "opm", "The program opm of operator-registry.")
	out := set.String("out", "", "The folder of the catalog. What it has of this package is replaced.")

	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	if *out == "" || set.NArg() == 0 {
		return errors.New("say -out and at least one bundle's folder")
	}

	bundles := make([]*manifests.Bundle, set.NArg())
	for i, dir := range set.Args() {
		var err error
		bundles[i], err = loadBundle(dir)
		if err != nil {
			return fmt.Errorf("bundle %s: %w", dir, err)
		}
	}

	text, err := renderCatalog(*opm, bundles, set.Args())
	if err != nil {
		return err
	}

	file := filepath.Join(*out, bundles[0].Package, "catalog.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}

	_, err = runOutput(*opm, "validate", *out)
	return err
}

// renderCatalog returns the package and its channels, and then the manifests of the bundles.
func renderCatalog(opm string, bundles []*manifests.Bundle, dirs []string) ([]byte, error) {
	documents, err := packageDocuments(bundles)
	if err != nil {
		return nil, err
	}

	var text bytes.Buffer
	for _, document := range documents {
		content, err := yaml.Marshal(document)
		if err != nil {
			return nil, err
		}
		text.WriteString("---\n")
		text.Write(content)
	}

	for _, dir := range dirs {
		rendered, err := runOutput(opm, "render", dir, "--output=yaml")
		if err != nil {
			return nil, err
		}
		text.Write(rendered)
	}

	return text.Bytes(), nil
}

// loadBundle reads a bundle and the name of its package.
func loadBundle(dir string) (*manifests.Bundle, error) {
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return nil, err
	}

	content, err := os.ReadFile(filepath.Join(dir, "metadata", "annotations.yaml"))
	if err != nil {
		return nil, err
	}

	var file manifests.AnnotationsFile
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("annotations: %w", err)
	}

	bundle.Package = file.Annotations.PackageName
	return bundle, nil
}

// runOutput runs a program and returns its stdout; its stderr is part of the error.
func runOutput(program string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
