package images

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAnImageSaysWhatItIs: each image runs its program as a user other than root, and its labels have the
// version, the revision and the time of the build. Registries and scanners of vulnerabilities show these labels.
func TestAnImageSaysWhatItIs(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(check.Trail(t))
			image := openImage(t, name)

			g.Expect(image.name).To(Equal("registry.test/" + name + ":" + version))
			g.Expect(image.config.OS).To(Equal("linux"))
			g.Expect(image.config.Config.User).To(Equal("65532:65532"))
			g.Expect(image.config.Config.Entrypoint).To(Equal([]string{program}))
			g.Expect(image.config.Config.Cmd).To(BeEmpty())

			g.Expect(image.config.Created.Format(time.RFC3339)).To(Equal(created))
			g.Expect(image.config.Config.Labels).To(And(
				HaveKeyWithValue("org.opencontainers.image.title", name),
				HaveKeyWithValue("org.opencontainers.image.version", version),
				HaveKeyWithValue("org.opencontainers.image.revision", revision),
				HaveKeyWithValue("org.opencontainers.image.created", created),
				HaveKeyWithValue("org.opencontainers.image.licenses", "Apache-2.0"),
				HaveKeyWithValue("org.opencontainers.image.url", "https://cardquota.dev"),
				HaveKeyWithValue("org.opencontainers.image.source", "https://cardquota.dev/operator"),
				HaveKeyWithValue("org.opencontainers.image.description", Not(BeEmpty())),
			))
		})
	}
}

// TestAnImageHasOneStaticProgramAndNothingElse: an image has no shell and no libraries, so there is little in
// it that an attacker can use or that needs updates. The program belongs to root, so its user cannot replace it.
// Only the scheduler's image also has /tmp.
func TestAnImageHasOneStaticProgramAndNothingElse(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(check.Trail(t))
			image := openImage(t, name)
			path := strings.TrimPrefix(program, "/")

			files := maps.Clone(image.files)
			if name == "cardquota-scheduler" {
				// The scheduler writes temporary files, also when its pod mounts no volume there.
				g.Expect(slices.Collect(maps.Keys(image.files))).To(ContainElement("tmp"))
				mode := image.files["tmp"].header.FileInfo().Mode()
				g.Expect(mode.IsDir()).To(BeTrue())
				g.Expect(mode & (os.ModeSticky | os.ModePerm)).To(Equal(os.ModeSticky | 0o777))
				delete(files, "tmp")
			}

			g.Expect(slices.Collect(maps.Keys(files))).To(ConsistOf(path))
			header := image.files[path].header
			g.Expect(header.Typeflag).To(BeEquivalentTo(tar.TypeReg))
			g.Expect(header.FileInfo().Mode().Perm()).To(BeEquivalentTo(0o755))
			g.Expect([]int{header.Uid, header.Gid}).To(Equal([]int{0, 0}), "owner and group of the program")

			for _, segment := range check.Value(elf.NewFile(bytes.NewReader(image.files[path].data)))(t).Progs {
				g.Expect(segment.Type).NotTo(Equal(elf.PT_INTERP), "the program needs a dynamic linker")
			}
		})
	}
}

// TestTheBillOfMaterialsNamesTheModulesOfTheProgram: each image comes with an SBOM in the format CycloneDX. It
// lists the modules, with versions, that the Go linker recorded in the program, and the standard library.
// Scanners compare these with known vulnerabilities.
func TestTheBillOfMaterialsNamesTheModulesOfTheProgram(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(check.Trail(t))
			info := check.Value(buildinfo.Read(bytes.NewReader(openImage(t, name).files[strings.TrimPrefix(program, "/")].data)))(t)

			modules := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go")}
			for _, module := range info.Deps {
				if module.Replace != nil {
					module = module.Replace
				}
				modules = append(modules, module.Path+"@"+module.Version)
			}

			g.Expect(len(modules)).To(BeNumerically(">", 50), "modules in the program")

			text := check.Value(os.ReadFile(filepath.Join(imagesDir(t), name+".cdx.json")))(t)
			var bill struct {
				BOMFormat string `json:"bomFormat"`
				Metadata  struct {
					Timestamp string
					Component struct{ Name, Version string }
				} `json:"metadata"`
				Components []struct{ Name, Version, PURL string } `json:"components"`
			}
			g.Expect(json.Unmarshal(text, &bill)).To(Succeed())
			g.Expect(bill.BOMFormat).To(Equal("CycloneDX"))
			g.Expect(bill.Metadata.Timestamp).To(Equal(created))
			g.Expect(bill.Metadata.Component.Name + " " + bill.Metadata.Component.Version).To(Equal(name + " " + version))

			var listed []string
			for _, component := range bill.Components {
				id := component.Name + "@" + component.Version
				listed = append(listed, id)
				g.Expect(component.PURL).To(Equal("pkg:golang/" + strings.ReplaceAll(id, "+", "%2B")))
			}

			g.Expect(listed).To(ConsistOf(modules))
		})
	}
}
