// Command bundle writes the OLM bundle (bundle/) from what a kustomize installation
// consists of (config/default), the examples (config/samples) and the prose of the
// operator's page (config/manifests/bases). Nothing under bundle/ is edited by hand.
//
//	cd hack/bundle && go run . -root ../..
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bundleDir is the folder of the bundle below the project's root.
const bundleDir = "bundle"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, images := ".", defaultImages()
	set := flag.NewFlagSet("bundle", flag.ContinueOnError)
	set.StringVar(&root, "root", root, "The project's root folder, with config/ in it.")
	set.StringVar(&images.registry, "registry", images.registry, "Where the images are, without the image's name.")
	set.Func("image", "name=reference: the image to use instead of <registry>/name:v<version>, such as one by digest; repeatable.",
		images.override)
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	src, err := readSources(os.DirFS(root))
	if err != nil {
		return fmt.Errorf("read %s: %w", root, err)
	}
	files, err := generate(src, images)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return write(filepath.Join(root, bundleDir), files)
}

// images says where the cluster gets the programs from: config/ names images without a
// registry, a bundle must name them in full.
type images struct {
	registry string
	// byName are full references that win over the registry.
	byName map[string]string
}

func defaultImages() images {
	return images{registry: "cardquota.dev", byName: map[string]string{}}
}

// override takes one name=reference.
func (i images) override(value string) error {
	name, reference, ok := strings.Cut(value, "=")
	if !ok || name == "" || reference == "" {
		return fmt.Errorf("image %q: write name=reference", value)
	}
	i.byName[name] = reference
	return nil
}

// reference is the full reference of an image as config/ writes it, with or without a tag,
// in the given release.
func (i images) reference(image, version string) (name, reference string) {
	name, _, _ = strings.Cut(image, ":")
	if reference, ok := i.byName[name]; ok {
		return name, reference
	}
	return name, fmt.Sprintf("%s/%s:v%s", i.registry, name, version)
}
