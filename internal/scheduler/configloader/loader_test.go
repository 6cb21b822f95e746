package configloader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"volcano.sh/volcano/pkg/filewatcher"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

// valid and otherValid are valid configurations of the scheduler. invalid has an unknown action, and withoutPlugin lacks
// the plugin capacity-card.
const (
	valid         = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: capacity-card\n"
	otherValid    = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: capacity-card\n"
	invalid       = "actions: \"enqueue, alocate\"\ntiers:\n- plugins:\n  - name: capacity-card\n"
	withoutPlugin = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n"
)

// knownNames are the actions and plugins that the scheduler has.
func knownNames() schedulerconfig.Known {
	return schedulerconfig.Known{
		Actions: schedulerconfig.VolcanoActions(),
		Plugins: append(schedulerconfig.VolcanoPlugins(), schedulerconfig.CapacityCard),
	}
}

// startLoader runs a loader until the test ends.
func startLoader(t *testing.T, config Config) *Loader {
	config.Dir = t.TempDir()
	config.Known = knownNames()
	config.Log = logr.Discard()
	loader := check.Value(New(config))(t)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loader.Run(ctx) }()

	t.Cleanup(func() {
		stop()
		err := <-ended
		check.That(t, err == nil, "the loader ended: %v", err)
	})

	return loader
}

// newPatientGomega waits long enough on a busy machine.
func newPatientGomega(t *testing.T) *WithT {
	g := NewWithT(check.Trail(t))
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	return g
}

func writeFile(t *testing.T, path, text string) {
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// expectInForce fails unless the private file has exactly the text with its hash, and status and metrics have that hash.
func expectInForce(g Gomega, loader *Loader, text string) {
	want, hash, err := schedulerconfig.WithHash(text)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := os.ReadFile(loader.File())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal(want))
	g.Expect(loader.Status().Hash).To(Equal(hash))
	g.Expect(testutil.ToFloat64(loader.gauges.info.WithLabelValues(hash))).To(Equal(1.0))
	g.Expect(testutil.CollectAndCount(loader.gauges.info)).To(Equal(1))
}

// TestLoaderFollowsAFileThroughItsLife: the loader watches a file. Until the file has a valid text, the
// loader is not ready, and the private file that Volcano reads does not exist. From then on the last valid
// text stays in force in the private file, whatever happens to the watched file. The gauge valid is 1 only
// while the text of the watched file is in force. The gauge info has the hash of the text that is in force,
// so none at first.
func TestLoaderFollowsAFileThroughItsLife(t *testing.T) {
	g := newPatientGomega(t)
	path := filepath.Join(t.TempDir(), "volcano-scheduler.conf")
	loader := startLoader(t, Config{Source: NewFile(path)})
	status := func() string { return loader.Status().String() }

	// No file.
	g.Eventually(status).Should(Equal(fmt.Sprintf("NotConfigured: file %s does not exist", path)))
	g.Expect(testutil.ToFloat64(loader.gauges.valid)).To(BeZero())
	g.Expect(testutil.CollectAndCount(loader.gauges.info)).To(BeZero())

	// The first text is invalid.
	writeFile(t, path, withoutPlugin)
	g.Eventually(status).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("capacity-card is missing")))
	g.Expect(loader.Ready()).NotTo(BeClosed())
	g.Expect(loader.File()).NotTo(BeAnExistingFile())

	// A valid text is loaded.
	writeFile(t, path, valid)
	g.Eventually(loader.Ready()).Should(BeClosed())
	expectInForce(g, loader, valid)
	g.Expect(loader.Status().Reason).To(Equal(ReasonLoaded))
	g.Expect(testutil.ToFloat64(loader.gauges.valid)).To(Equal(1.0))

	// A text with an unknown action, one without the plugin, an empty one, and one that is no YAML are rejected.
	// The valid text stays in force.
	for _, text := range []string{invalid, withoutPlugin, "", "\""} {
		writeFile(t, path, text)
		g.Eventually(func() float64 { return testutil.ToFloat64(loader.gauges.valid) }).Should(BeZero())
		g.Expect(loader.Status().Reason).To(Equal(ReasonRejected))
		expectInForce(g, loader, valid)

		writeFile(t, path, valid) // so that the next text is a change again
		g.Eventually(func() string { return loader.Status().Reason }).Should(Equal(ReasonLoaded))
	}

	// The file is removed, and the valid text stays in force.
	g.Expect(os.Remove(path)).To(Succeed())
	g.Eventually(status).Should(And(HavePrefix("ConfigurationMissing: "), ContainSubstring("does not exist")))
	expectInForce(g, loader, valid)

	// Another valid text replaces it.
	writeFile(t, path, otherValid)
	g.Eventually(func(g Gomega) { expectInForce(g, loader, otherValid) }).Should(Succeed())
	g.Expect(testutil.ToFloat64(loader.gauges.valid)).To(Equal(1.0))
}

// TestLoaderFollowsAMountedConfigMap: a kubelet writes each version of a mounted ConfigMap to a new directory, and then
// replaces the link "..data" to that directory. The watched file is a link through ..data, so no event of the file system
// names the file. The loader loads the second version all the same.
func TestLoaderFollowsAMountedConfigMap(t *testing.T) {
	g := newPatientGomega(t)
	dir := t.TempDir()
	mountVersion := func(name, text string) {
		g.Expect(os.Mkdir(filepath.Join(dir, name), 0o700)).To(Succeed())
		writeFile(t, filepath.Join(dir, name, "scheduler.conf"), text)
		g.Expect(os.Symlink(name, filepath.Join(dir, "..data_tmp"))).To(Succeed())
		g.Expect(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))).To(Succeed())
	}

	mountVersion("..2026_01_01", valid)
	g.Expect(os.Symlink("..data/scheduler.conf", filepath.Join(dir, "scheduler.conf"))).To(Succeed())
	loader := startLoader(t, Config{Source: NewFile(filepath.Join(dir, "scheduler.conf"))})
	g.Eventually(func(g Gomega) { expectInForce(g, loader, valid) }).Should(Succeed())

	mountVersion("..2026_01_02", otherValid)
	g.Eventually(func(g Gomega) { expectInForce(g, loader, otherValid) }).Should(Succeed())
}

// TestLoaderEndsIfTheDirectoryOfItsFileDoesNotExist: a missing file may come later, but a missing directory cannot be
// watched, and is most likely a wrong flag. So the loader ends with an error that names the path.
func TestLoaderEndsIfTheDirectoryOfItsFileDoesNotExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "scheduler.conf")
	check.Says(t, check.Value(New(Config{Source: NewFile(path), Dir: t.TempDir(), Log: logr.Discard()}))(t).Run(t.Context()), path)
}

// TestATextThatVolcanoRefusesIsNotLoaded: the loader validates a text, adds its hash, and then asks Volcano's own parser
// through Accept. Here Accept stands for a parser that refuses texts with the plugin gang. The first text has this plugin
// and is not loaded, the second has it not and is loaded.
func TestATextThatVolcanoRefusesIsNotLoaded(t *testing.T) {
	g := newPatientGomega(t)
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	writeFile(t, path, valid)

	loader := startLoader(t, Config{Source: NewFile(path), Accept: func(text string) error {
		if !strings.Contains(text, schedulerconfig.HashArgument) {
			return errors.New("the text has no hash")
		}
		if strings.Contains(text, "gang") {
			return errors.New("gang is refused")
		}
		return nil
	}})
	g.Eventually(func() string { return loader.Status().String() }).Should(Equal("NotConfigured: gang is refused"))

	writeFile(t, path, otherValid)
	g.Eventually(func(g Gomega) { expectInForce(g, loader, otherValid) }).Should(Succeed())
}

// TestAFailedWriteOfThePrivateFileIsRepeated: the loader has a valid text, but cannot write the private file that Volcano
// reads. The stage directory, in which the loader prepares that file, is missing. The next reload writes the private file
// although the text has not changed.
func TestAFailedWriteOfThePrivateFileIsRepeated(t *testing.T) {
	g := NewWithT(check.Trail(t))
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	writeFile(t, path, valid)
	loader := check.Value(New(Config{Source: NewFile(path), Dir: t.TempDir(), Known: knownNames(), Log: logr.Discard()}))(t)
	g.Expect(os.Remove(loader.file.stage)).To(Succeed())
	loader.reload()
	g.Expect(loader.Status().String()).To(HavePrefix("NotConfigured: make the next private file"))

	g.Expect(os.Mkdir(loader.file.stage, 0o700)).To(Succeed())
	loader.reload()
	expectInForce(g, loader, valid)
}

// TestAnEmptyFirstTextIsRejected: the first text that the loader reads is empty. The status says what is wrong with it,
// not that the source has not been read.
func TestAnEmptyFirstTextIsRejected(t *testing.T) {
	loader := check.Value(New(Config{Source: fixedSource(""), Dir: t.TempDir(), Known: knownNames(), Log: logr.Discard()}))(t)
	loader.reload()
	check.Equal(t, "message", schedulerconfig.Validate("", knownNames()).Error(), loader.Status().Message)
}

// TestThePrivateFileIsReadableByItsUserOnly: Volcano reads its configuration from the private file. So only the user of the
// scheduler may read and write the file, and use its directories: another user could change the scheduler through them.
// After a replacement the stage directory, in which the loader writes the next text first, is empty again.
func TestThePrivateFileIsReadableByItsUserOnly(t *testing.T) {
	g := NewWithT(check.Trail(t))
	file := check.Value(newPrivateFile(t.TempDir()))(t)
	g.Expect(file.replaceText(valid)).To(Succeed())

	for path, want := range map[string]os.FileMode{file.path: 0o600, filepath.Dir(file.path): 0o700, file.stage: 0o700} {
		g.Expect(check.Value(os.Stat(path))(t).Mode().Perm()).To(Equal(want), path)
	}

	g.Expect(check.Value(os.ReadDir(file.stage))(t)).To(BeEmpty())
}

// TestVolcanoSeesEveryReplacement: Volcano watches the directory of the private file, and reads the file after an event
// Create or Write. Each of 200 replacements of its text must raise exactly one event Create. A reader that reads the file
// all the time must always find one of the two whole texts, never a part of a text.
func TestVolcanoSeesEveryReplacement(t *testing.T) {
	g := newPatientGomega(t)
	file := check.Value(newPrivateFile(t.TempDir()))(t)

	watcher := check.Value(filewatcher.NewFileWatcher(filepath.Dir(file.path)))(t)
	defer watcher.Close()

	stop := make(chan struct{})
	partOfText := make(chan string, 1)
	go func() {
		defer close(partOfText)
		for {
			select {
			case <-stop:
				return
			default:
			}

			text, err := os.ReadFile(file.path)
			if err == nil && string(text) != valid && string(text) != otherValid {
				partOfText <- string(text)
				return
			}
		}
	}()

	for i := range 200 {
		text := []string{valid, otherValid}[i%2]
		g.Expect(file.replaceText(text)).To(Succeed())
		var event fsnotify.Event
		g.Eventually(watcher.Events()).Should(Receive(&event))
		g.Expect(event.Has(fsnotify.Create)).To(BeTrue(), event.String())
		g.Expect(event.Name).To(Equal(file.path))

		g.Expect(string(check.Value(os.ReadFile(file.path))(t))).To(Equal(text))
	}

	g.Consistently(watcher.Events(), "50ms").ShouldNot(Receive(), "one replacement is one event")
	close(stop)
	g.Expect(<-partOfText).To(BeEmpty()) // the closed channel gives "" if the reader found no part
}

// fixedSource is a source that never changes.
type fixedSource string

func (f fixedSource) String() string { return "a text" }

func (f fixedSource) watchChanges(context.Context, func()) error { return nil }

func (f fixedSource) readContent() (content, error) {
	return content{text: string(f), object: newConfigMap(string(f))}, nil
}
