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
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/filewatcher"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	good    = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: capacity-card\n"
	better  = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: capacity-card\n"
	bad     = "actions: \"enqueue, alocate\"\ntiers:\n- plugins:\n  - name: capacity-card\n"
	without = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n"
)

func known() schedulerconfig.Known {
	return schedulerconfig.Known{
		Actions: schedulerconfig.VolcanoActions(),
		Plugins: append(schedulerconfig.VolcanoPlugins(), schedulerconfig.CapacityCard),
	}
}

// startLoader runs a loader until the test ends.
func startLoader(t *testing.T, config Config) *Loader {
	t.Helper()
	config.Dir = t.TempDir()
	config.Known = known()
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

// patient waits long enough on a busy machine.
func patient(t *testing.T) *WithT {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	return g
}

func (l *Loader) isReady() bool {
	select {
	case <-l.Ready():
		return true
	default:
		return false
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// privateFileHolds says that the private file holds exactly the text with its hash.
func privateFileHolds(g Gomega, loader *Loader, text string) {
	want, hash, err := schedulerconfig.WithHash(text)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := os.ReadFile(loader.File())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal(want))
	g.Expect(loader.Status().Hash).To(Equal(hash))
	g.Expect(testutil.ToFloat64(configInfo.WithLabelValues(hash))).To(Equal(1.0))
	g.Expect(testutil.CollectAndCount(configInfo)).To(Equal(1))
}

func TestFileThroughItsLife(t *testing.T) {
	g := patient(t)
	path := filepath.Join(t.TempDir(), "volcano-scheduler.conf")
	loader := startLoader(t, Config{Source: NewFile(path)})
	status := func() string { return loader.Status().String() }

	// Nothing there: it waits and says so.
	g.Eventually(status).Should(Equal(fmt.Sprintf("NotConfigured: file %s does not exist", path)))
	g.Expect(testutil.ToFloat64(configValid)).To(BeZero())
	g.Expect(testutil.CollectAndCount(configInfo)).To(BeZero())

	// Bad from the beginning: it still waits.
	writeFile(t, path, without)
	g.Eventually(status).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("capacity-card is missing")))
	g.Expect(loader.isReady()).To(BeFalse())
	g.Expect(loader.File()).NotTo(BeAnExistingFile())

	writeFile(t, path, good)
	g.Eventually(loader.Ready()).Should(BeClosed())
	privateFileHolds(g, loader, good)
	g.Expect(loader.Status().Reason).To(Equal(ReasonLoaded))
	g.Expect(testutil.ToFloat64(configValid)).To(Equal(1.0))

	// Bad text while running: the last good one stays.
	for _, text := range []string{bad, without, "", "\""} {
		writeFile(t, path, text)
		g.Eventually(func() float64 { return testutil.ToFloat64(configValid) }).Should(BeZero())
		g.Expect(loader.Status().Reason).To(Equal(ReasonRejected))
		privateFileHolds(g, loader, good)
		writeFile(t, path, good)
		g.Eventually(func() string { return loader.Status().Reason }).Should(Equal(ReasonLoaded))
	}

	g.Expect(os.Remove(path)).To(Succeed())
	g.Eventually(status).Should(And(HavePrefix("ConfigurationMissing: "), ContainSubstring("does not exist")))
	privateFileHolds(g, loader, good)

	writeFile(t, path, better)
	g.Eventually(func(g Gomega) { privateFileHolds(g, loader, better) }).Should(Succeed())
	g.Expect(testutil.ToFloat64(configValid)).To(Equal(1.0))
}

// TestMountedConfigMap swaps the ..data link as a kubelet does.
func TestMountedConfigMap(t *testing.T) {
	g := patient(t)
	dir := t.TempDir()
	version := func(name, text string) {
		g.Expect(os.Mkdir(filepath.Join(dir, name), 0o700)).To(Succeed())
		writeFile(t, filepath.Join(dir, name, "scheduler.conf"), text)
		g.Expect(os.Symlink(name, filepath.Join(dir, "..data_tmp"))).To(Succeed())
		g.Expect(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))).To(Succeed())
	}

	version("..2026_01_01", good)
	g.Expect(os.Symlink("..data/scheduler.conf", filepath.Join(dir, "scheduler.conf"))).To(Succeed())

	loader := startLoader(t, Config{Source: NewFile(filepath.Join(dir, "scheduler.conf"))})
	g.Eventually(func(g Gomega) { privateFileHolds(g, loader, good) }).Should(Succeed())
	version("..2026_01_02", better)
	g.Eventually(func(g Gomega) { privateFileHolds(g, loader, better) }).Should(Succeed())
}

func TestDirectoryOfTheFileMustExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "scheduler.conf")
	loader := check.Value(New(Config{Source: NewFile(path), Dir: t.TempDir(), Log: logr.Discard()}))(t)
	check.Says(t, loader.Run(t.Context()), path)
}

func TestVolcanoMayRejectAValidText(t *testing.T) {
	g := patient(t)
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	writeFile(t, path, good)

	loader := startLoader(t, Config{Source: NewFile(path), Accept: func(stamped string) error {
		if !strings.Contains(stamped, schedulerconfig.HashArgument) {
			return errors.New("shown without its stamp")
		}
		if strings.Contains(stamped, "gang") {
			return errors.New("gang is not for me")
		}
		return nil
	}})
	g.Eventually(func() string { return loader.Status().String() }).Should(Equal("NotConfigured: gang is not for me"))

	writeFile(t, path, better)
	g.Eventually(func(g Gomega) { privateFileHolds(g, loader, better) }).Should(Succeed())
}

func TestPrivateFileThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	writeFile(t, path, good)
	loader := check.Value(New(Config{Source: NewFile(path), Dir: t.TempDir(), Known: known(), Log: logr.Discard()}))(t)
	g.Expect(os.Remove(loader.file.stage)).To(Succeed())
	loader.reload()
	g.Expect(loader.Status().String()).To(HavePrefix("NotConfigured: make the next private file"))
	g.Expect(os.Mkdir(loader.file.stage, 0o700)).To(Succeed())
	loader.reload()
	privateFileHolds(g, loader, good)
}

func TestPrivateFileIsPrivate(t *testing.T) {
	g := NewWithT(t)
	file := check.Value(newPrivateFile(t.TempDir()))(t)
	g.Expect(file.replaceText(good)).To(Succeed())

	for path, want := range map[string]os.FileMode{file.path: 0o600, filepath.Dir(file.path): 0o700, file.stage: 0o700} {
		g.Expect(check.Value(os.Stat(path))(t).Mode().Perm()).To(Equal(want), path)
	}

	g.Expect(check.Value(os.ReadDir(file.stage))(t)).To(BeEmpty())
}

// TestVolcanoSeesEveryReplacement: Volcano reloads on Create or Write in the directory and
// reads the file then. Every text must raise such an event, and a reader at any moment
// must find a whole text.
func TestVolcanoSeesEveryReplacement(t *testing.T) {
	g := patient(t)
	file := check.Value(newPrivateFile(t.TempDir()))(t)

	watcher := check.Value(filewatcher.NewFileWatcher(filepath.Dir(file.path)))(t)
	defer watcher.Close()

	stop := make(chan struct{})
	torn := make(chan string, 1)
	go func() {
		defer close(torn)
		for {
			select {
			case <-stop:
				return
			default:
			}

			text, err := os.ReadFile(file.path)
			if err == nil && string(text) != good && string(text) != better {
				torn <- string(text)
				return
			}
		}
	}()

	for i := range 200 {
		text := []string{good, better}[i%2]
		g.Expect(file.replaceText(text)).To(Succeed())
		var event fsnotify.Event
		g.Eventually(watcher.Events()).Should(Receive(&event))
		g.Expect(event.Has(fsnotify.Create)).To(BeTrue(), event.String())
		g.Expect(event.Name).To(Equal(file.path))

		g.Expect(string(check.Value(os.ReadFile(file.path))(t))).To(Equal(text))
	}

	g.Consistently(watcher.Events(), "50ms").ShouldNot(Receive(), "one replacement is one event")
	close(stop)
	g.Expect(<-torn).To(BeEmpty())
}

func TestEventsFitTheirBound(t *testing.T) {
	recorder := record.NewFakeRecorder(1)
	loader := &Loader{config: Config{Recorder: recorder}, lastContent: content{object: configMapObject(good)}}
	loader.recordEvent("Warning", ReasonRejected, strings.Repeat("x", 5000)+"%d")
	note := <-recorder.Events
	check.That(t, len(note) == len("Warning ConfigurationRejected ")+maxEventNote && strings.HasSuffix(note, "…"),
		"event of %d bytes: %s", len(note), note)
}

// TestArgumentsWithoutEffectAreWarnedOf: the text is in force all the same.
func TestArgumentsWithoutEffectAreWarnedOf(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	text := good + "configurations:\n- name: preempt\n  arguments:\n    enableTopologyAwarePreemption: \"true\"\n"
	loader := check.Value(New(Config{Source: fixedSource(text), Dir: t.TempDir(), Known: known(), Recorder: recorder, Log: logr.Discard()}))(t)
	loader.reload()
	check.Equal(t, "reason", ReasonLoaded, loader.Status().Reason)
	loaded := <-recorder.Events
	warned := <-recorder.Events
	check.That(t, strings.HasPrefix(loaded, "Normal ConfigurationLoaded") && strings.HasPrefix(warned, "Warning ArgumentIgnored") && strings.Contains(warned, "enableTopologyAwarePreemption"),
		"events %q and %q", loaded, warned)
}

// fixedSource is a source that never changes.
type fixedSource string

func (f fixedSource) String() string { return "a text" }

func (f fixedSource) watchChanges(context.Context, func()) error { return nil }

func (f fixedSource) readContent() (content, error) {
	return content{text: string(f), object: configMapObject(string(f))}, nil
}
