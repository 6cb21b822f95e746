// Command sbom writes a software bill of materials of a Go program as CycloneDX JSON. It lists
// exactly the modules that the compiler recorded in the program.
//
//	sbom -binary bin/manager -name cardquota-manager -version v0.2.0 >manager.cdx.json
//
// SOURCE_DATE_EPOCH, in seconds, sets its time; the same program gives the same bytes.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var binary, name, version string
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	flags.StringVar(&binary, "binary", "", "the Go program to describe")
	flags.StringVar(&name, "name", "", "its name")
	flags.StringVar(&version, "version", "", "its version")
	if err := flags.Parse(args); err != nil {
		return err
	}

	for flag, value := range map[string]string{"binary": binary, "name": name, "version": version} {
		if value == "" {
			return fmt.Errorf("-%s is missing", flag)
		}
	}

	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}

	bom, err := newBOM(info, name, version)
	if err != nil {
		return err
	}

	bom.Metadata.Component.Hashes, err = fileHashes(binary)
	if err != nil {
		return err
	}

	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}
