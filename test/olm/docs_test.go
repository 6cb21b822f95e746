package olm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/docs"
)

// install is the page of most commands.
const install = "docs/install.md"

// sectionCommands returns the command blocks of a section of a page.
func (a *administrator) sectionCommands(page, heading string) []string {
	return check.Value(docs.Commands(string(check.Value(os.ReadFile(filepath.Join(suite.root, page)))(a)), heading))(a)
}

// publishAsDocumented builds a catalog in a copy of the project by the commands of
// docs/install.md, up to the image in a registry. It serves the catalog, and the manifests of
// the copy refer to it. The bundle of the previous release is where that release left it. The
// commands run twice, as a release and its repetition.
func (a *administrator) publishAsDocumented(project, name, registry string, before version) {
	commands, image, found := strings.Cut(a.sectionCommands(install, "## With OLM")[0], "docker build ")
	a.Expect(found).To(BeTrue(), commands)

	left := filepath.Join(project, "dist", "bundles", "v"+before.number)
	a.Expect(os.CopyFS(left, os.DirFS(before.bundle))).To(Succeed())
	a.setReplaces(project, before)
	for range 2 {
		a.typeCommands(project, strings.ReplaceAll(commands, "<registry>", registry))
	}

	for file := range strings.FieldsSeq(image) { // docker build -f FILE -t NAME FOLDER
		if strings.HasPrefix(file, "dist") {
			a.Expect(filepath.Join(project, file)).To(Or(BeAnExistingFile(), BeADirectory()))
		}
	}

	a.setCatalogAddress(project, a.serveCatalog(name, filepath.Join(project, "dist", "catalog")))
}

// setReplaces sets the version that the bundle of a project copy replaces.
func (a *administrator) setReplaces(project string, before version) {
	file := filepath.Join(project, "config", "manifests", "bases", "cardquota.clusterserviceversion.yaml")
	head, tail, found := strings.Cut(string(check.Value(os.ReadFile(file))(a)), "\nspec:\n")
	a.Expect(found).To(BeTrue(), file)
	a.Expect(os.WriteFile(file, []byte(head+"\nspec:\n  replaces: "+before.csvName()+"\n"+tail), 0o600)).To(Succeed())
}

// setCatalogAddress makes the CatalogSource of a project copy refer to a catalog. Here a
// process serves it, not the image's pod.
func (a *administrator) setCatalogAddress(project, address string) {
	file := filepath.Join(project, "config", "manifests", "olm", "catalogsource.yaml")
	content := check.Value(os.ReadFile(file))(a)
	var object unstructured.Unstructured
	a.Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
	a.setCatalogSource(address)(&object)
	content = check.Value(yaml.Marshal(object.Object))(a)
	a.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
}

// upgradeAsDocumented refers to a new catalog and runs the commands of docs/upgrade.md for an
// upgrade.
func (a *administrator) upgradeAsDocumented(project, address string) {
	blocks := a.sectionCommands("docs/upgrade.md", "## Upgrade")
	a.Expect(blocks).To(HaveLen(1))
	a.Expect(blocks[0]).To(ContainSubstring(suite.this.csvName()), "the version that is replaced")
	a.setCatalogAddress(project, address)
	a.typeCommands(project, blocks[0])
}

// removeAsDocumented runs the commands of docs/install.md for the removal of the installed
// version, after OLM has come to rest, as documented.
func (a *administrator) removeAsDocumented(project string, v version) {
	blocks := a.sectionCommands(install, "## Remove it")
	a.Expect(blocks).To(HaveLen(2), "without OLM and with it")
	a.Expect(blocks[1]).To(ContainSubstring(suite.this.csvName()))
	a.awaitRest()
	a.typeCommands(project, strings.ReplaceAll(blocks[1], suite.this.csvName(), v.csvName()))
}

// copyProject copies the sources and tools of a bundle and a catalog.
func (a *administrator) copyProject() string {
	project := filepath.Join(a.TempDir(), "cardquota")
	a.Expect(os.MkdirAll(project, 0o755)).To(Succeed())
	for _, name := range []string{"Makefile", "hack", "config", "bundle"} {
		out, err := exec.CommandContext(a.ctx, "cp", "-R", filepath.Join(suite.root, name), project).CombinedOutput()
		a.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	a.Expect(os.Symlink(filepath.Join(suite.root, "bin"), filepath.Join(project, "bin"))).To(Succeed())
	return project
}

// typeCommands runs a block of commands as written.
func (a *administrator) typeCommands(folder, block string) {
	command := exec.CommandContext(a.ctx, "bash", "-euo", "pipefail", "-c", block)
	command.Dir = folder
	command.Env = append(os.Environ(), "KUBECONFIG="+a.cluster.Kubeconfig(), "PATH="+a.cluster.BinDir()+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	a.Logf("$ %s%s", strings.ReplaceAll(block, "\n", "\n$ "), out)
	a.Expect(err).NotTo(HaveOccurred(), "%s\n%s", block, out)
}
