package olm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/test/handbook"
)

// publishAsDocumented makes a catalog by the commands of docs/install.md, up to where it becomes
// an image in a registry, serves it, and returns its address. The bundle of the release before is
// where that release left it. The commands are typed twice, as a release and its repetition.
func (a *administrator) publishAsDocumented(name, registry string, before version) (address string) {
	a.Helper()
	text, err := os.ReadFile(filepath.Join(suite.root, "docs", "install.md"))
	a.Expect(err).NotTo(HaveOccurred())
	blocks, err := handbook.Commands(string(text), "## With OLM")
	a.Expect(err).NotTo(HaveOccurred())
	commands, image, found := strings.Cut(blocks[0], "docker build ")
	a.Expect(found).To(BeTrue(), blocks[0])
	project := a.copyProject()
	left := filepath.Join(project, "dist", "bundles", "v"+before.number)
	a.Expect(os.CopyFS(left, os.DirFS(before.bundle))).To(Succeed())
	for range 2 {
		a.types(project, strings.ReplaceAll(commands, "<registry>", registry))
	}
	for file := range strings.FieldsSeq(image) { // docker build -f FILE -t NAME FOLDER
		if strings.HasPrefix(file, "dist") {
			a.Expect(filepath.Join(project, file)).To(Or(BeAnExistingFile(), BeADirectory()))
		}
	}
	address, err = serve(a.ctx, a.cluster, name, filepath.Join(project, "dist", "catalog"))
	a.Expect(err).NotTo(HaveOccurred())
	return address
}

// copyProject copies what a bundle and a catalog are made of and by, with the tools that were
// built already.
func (a *administrator) copyProject() string {
	a.Helper()
	project := filepath.Join(a.TempDir(), "cardquota")
	a.Expect(os.MkdirAll(project, 0o755)).To(Succeed())
	for _, name := range []string{"Makefile", "hack", "config", "bundle"} {
		out, err := exec.CommandContext(a.ctx, "cp", "-R", filepath.Join(suite.root, name), project).CombinedOutput()
		a.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	a.Expect(os.Symlink(filepath.Join(suite.root, "bin"), filepath.Join(project, "bin"))).To(Succeed())
	return project
}

// types runs a block of commands as it stands.
func (a *administrator) types(folder, block string) {
	a.Helper()
	command := exec.CommandContext(a.ctx, "bash", "-euo", "pipefail", "-c", block)
	command.Dir = folder
	out, err := command.CombinedOutput()
	a.Expect(err).NotTo(HaveOccurred(), "%s\n%s", block, out)
}
