// Command krew packs the kubectl plugin for every platform and writes the krew manifest.
//
//	go run ./hack/krew -dist DIR -version v0.2.0 -url https://HOST/PATH
//
// DIR/build has a folder OS_ARCH with the program for each platform. DIR gets an archive for each
// platform and checksums.txt, and with -url the manifest cardquota.yaml, whose archives are at
// URL/VERSION. The same programs give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

func main() {
	var o options
	flag.StringVar(&o.dist, "dist", "dist/kubectl-cardquota", "the folder with the programs and for the results")
	flag.StringVar(&o.version, "version", "", "the version of the programs")
	flag.StringVar(&o.url, "url", "", "where the archives will be, without the version; empty writes no manifest")
	flag.StringVar(&o.root, "root", ".", "the folder of the project")
	flag.Parse()
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

type options struct{ root, dist, version, url string }

// archive is the packed program of one platform.
type archive struct {
	os, arch, name, program, sha256 string
}

// checkManifestOptions refuses what krew refuses in a manifest.
func checkManifestOptions(o options) error {
	if !strings.HasPrefix(o.url, "https://") {
		return fmt.Errorf("-url %q: krew downloads from https:// only", o.url)
	}
	if _, err := version.ParseSemantic(o.version); err != nil || !strings.HasPrefix(o.version, "v") {
		return fmt.Errorf("-version %q: krew takes versions such as v1.2.3 or v1.2.3-rc.1 only", o.version)
	}
	return nil
}

func run(o options, out io.Writer) error {
	if o.version == "" {
		return errors.New("write -version")
	}

	if o.url != "" {
		if err := checkManifestOptions(o); err != nil {
			return err
		}
	}

	builds, err := os.ReadDir(filepath.Join(o.dist, "build"))
	if err != nil {
		return err
	}

	license, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return err
	}

	var archives []archive
	var checksums strings.Builder
	for _, build := range builds {
		packed, err := packPlatform(o, build.Name(), license)
		if err != nil {
			return err
		}
		archives = append(archives, packed)
		fmt.Fprintf(&checksums, "%s  %s\n", packed.sha256, packed.name)
	}

	if err := os.WriteFile(filepath.Join(o.dist, "checksums.txt"), []byte(checksums.String()), 0o644); err != nil {
		return err
	}
	if o.url == "" {
		_, err := fmt.Fprintf(out, "%d archives and checksums.txt in %s; URL=https://… also writes the krew manifest\n", len(archives), o.dist)
		return err
	}
	if err := writeManifest(o, archives); err != nil {
		return err
	}

	_, err = fmt.Fprintf(out, "%d archives, checksums.txt and the krew manifest cardquota.yaml in %s\n", len(archives), o.dist)
	return err
}
