// Command bundle writes the OLM bundle (bundle/). Its sources are the kustomize installation
// for OLM (config/manifests, based on config/default), the examples (config/samples) and the
// prose of the operator's page (config/manifests/bases). Do not edit files under bundle/.
//
//	cd hack/bundle && go run . -root ../..
//
// The base states the version, the images and the previous version; flags override them.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bundleDir is the bundle's folder below the project's root.
const bundleDir = "bundle"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root := "."
	out := ""
	release := defaultRelease()

	set := flag.NewFlagSet("bundle", flag.ContinueOnError)
	set.StringVar(&root, "root", root, "The project's root folder, with config/ in it.")
	set.StringVar(&out, "out", "", "The folder to write the bundle to (default <root>/bundle).")
	set.StringVar(&release.version, "version", "", "The release's version (default that of the base).")
	set.StringVar(&release.replaces, "replaces", "", "The version that this one replaces in its channel (default that of the base).")
	set.StringVar(&release.images.registry, "registry", release.images.registry, "Where the images are, without the image's name.")
	set.Func("image", "name=reference: the image to use instead of <registry>/name:v<version>, such as one by digest; repeatable.",
		release.images.overrideImage)

	set.StringVar(&release.scorecard, "scorecard-image", release.scorecard, "The full reference of the image that operator-sdk scorecard runs its tests from.")
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}

	src, err := readSources(os.DirFS(root))
	if err != nil {
		return fmt.Errorf("read %s: %w", root, err)
	}

	files, err := generateFiles(src, release)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}

	if out == "" {
		out = filepath.Join(root, bundleDir)
	}

	return writeFiles(out, files)
}

// releaseOptions are what distinguishes two bundles of one tree.
type releaseOptions struct {
	// version is the version of this release, replaces the version before it; empty means the
	// base's.
	version, replaces string
	images            imageNames
	// scorecard is the image of scorecard's own tests.
	scorecard string
}

// defaultRelease returns the options of make bundle.
func defaultRelease() releaseOptions {
	return releaseOptions{images: imageNames{registry: "cardquota.dev", byName: map[string]string{}}, scorecard: scorecardImage}
}

// imageNames maps images to full references: config/ names images without a registry, a bundle
// must name them in full.
type imageNames struct {
	registry string
	// byName are full references that take precedence over the registry.
	byName map[string]string
}

// overrideImage parses one name=reference.
func (i imageNames) overrideImage(value string) error {
	name, reference, ok := strings.Cut(value, "=")
	if !ok || name == "" || reference == "" {
		return fmt.Errorf("image %q: write name=reference", value)
	}
	i.byName[name] = reference
	return nil
}

// imageReference returns the full reference of an image of config/, with or without a tag, in
// the given release.
func (i imageNames) imageReference(image, version string) (name, reference string) {
	name, _, _ = strings.Cut(image, ":")
	if reference, ok := i.byName[name]; ok {
		return name, reference
	}
	return name, fmt.Sprintf("%s/%s:v%s", i.registry, name, version)
}
