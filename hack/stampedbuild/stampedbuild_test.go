// Package stampedbuild tests hack/stamped-build.sh.
package stampedbuild

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
)

// clone is a project with one build script. The script creates the file "begun", and ends when
// the file "go on" exists.
type clone struct {
	*testing.T
	root string
	env  []string
}

const script = `#!/usr/bin/env bash
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/stamped-build.sh"
build() {
	echo run >>"$BUILDS"
	mktemp -d >/dev/null
	echo half >"$out/program"
	until [ -e "$GO_ON" ]; do sleep 0.02; done
	cp "$root/source" "$out/program"
	mkdir "$out/manifests"
	echo manifest >"$out/manifests/one.yaml"
}
stamped_build fake 'the program' "$root/source"
link_into "$root/bin/programs"
`

// buildEnv is shared by the clones of one user.
type buildEnv struct {
	*testing.T
	dir string
}

func newBuildEnv(t *testing.T) buildEnv {
	t.Parallel()
	if _, err := exec.LookPath("flock"); err != nil {
		missing.Skip(t, err)
	}
	w := buildEnv{t, t.TempDir()}
	w.letBuildsEnd()
	return w
}

func (w buildEnv) cacheDir() string  { return filepath.Join(w.dir, "cache") }
func (w buildEnv) goOn() string      { return filepath.Join(w.dir, "go-on") }
func (w buildEnv) buildsDir() string { return filepath.Join(w.dir, "builds") }

func (w buildEnv) letBuildsEnd() {
	writeFile(w.T, w.goOn(), "")
}

func (w buildEnv) letBuildsHang() {
	check.NoError(w, os.Remove(w.goOn()))
}

// countBuilds returns how often a build was started.
func (w buildEnv) countBuilds() int {
	text, _ := os.ReadFile(w.buildsDir())
	return strings.Count(string(text), "run")
}

func (w buildEnv) newClone() clone {
	root := w.TempDir()
	for _, name := range []string{"../folders.sh", "../stamped-build.sh"} {
		writeFile(w.T, root+"/hack/"+filepath.Base(name), string(check.Value(os.ReadFile(name))(w)))
	}

	writeFile(w.T, root+"/hack/build-fake.sh", script)
	writeFile(w.T, filepath.Join(root, "source"), "first")
	scratch := filepath.Join(w.dir, "tmp")
	check.NoError(w, os.MkdirAll(scratch, 0o755))

	return clone{w.T, root, append(os.Environ(),
		"XDG_CACHE_HOME="+w.cacheDir(), "GO_ON="+w.goOn(), "BUILDS="+w.buildsDir(), "TMPDIR="+scratch)}
}

// startScript starts the script in its own process group.
func (c clone) startScript() (*exec.Cmd, *strings.Builder) {
	var out strings.Builder
	command := exec.Command("bash", c.root+"/hack/build-fake.sh")
	command.Env = c.env
	command.Stdout = &out
	command.Stderr = &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	check.NoError(c, command.Start())
	c.Cleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) })

	return command, &out
}

// runScript runs the script to its end and returns its output.
func (c clone) runScript() string {
	command, out := c.startScript()
	err := command.Wait()
	check.Must(c, err == nil, "%v: %s", err, out)
	return out.String()
}

// expectProgram checks that ./bin links to the program with this content.
func (c clone) expectProgram(want string) {
	got, err := os.ReadFile(filepath.Join(c.root, "bin", "programs", "program"))
	check.That(c, err == nil && string(got) == want, "the program is %q (%v), want %q", got, err, want)
	check.Value(os.Stat(filepath.Join(c.root, "bin", "programs", "manifests", "one.yaml")))(c)
}

func writeFile(t *testing.T, path, text string) {
	check.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// eventually waits for a state.
func eventually(t *testing.T, what string, holds func() bool) {
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		check.Must(t, time.Now().Before(deadline), "not after a minute: %s", what)
	}
}

// findEntries returns the files and folders below a folder whose base name starts with prefix.
func findEntries(t *testing.T, folder, prefix string) []string {
	var found []string
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && strings.HasPrefix(filepath.Base(path), prefix) {
			found = append(found, path)
		}
		return err
	})
	check.NoError(t, err)

	return found
}

func TestWhatIsBuiltIsKeptForEveryClone(t *testing.T) {
	w := newBuildEnv(t)
	first := w.newClone()
	second := w.newClone()
	check.Contains(t, "the first build says", first.runScript(), "build: the program ready")

	first.expectProgram("first")
	for _, c := range []clone{first, second} {
		check.Equal(t, "what the script says without anything to build", "", c.runScript())
		c.expectProgram("first")
	}

	check.That(t, w.countBuilds() == 1, "built %d times, want once", w.countBuilds())

	writeFile(t, filepath.Join(second.root, "source"), "second")
	second.runScript()
	second.expectProgram("second")
	first.expectProgram("first")
	writeFile(t, filepath.Join(second.root, "source"), "first")

	second.runScript()
	second.expectProgram("first")
	check.That(t, w.countBuilds() == 2, "built %d times, want twice: a result of before is there still", w.countBuilds())
}

func TestAKilledBuildLeavesNothing(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			w := newBuildEnv(t)
			c := w.newClone()
			w.letBuildsHang()
			command, out := c.startScript()
			eventually(t, "the build writes", func() bool { return len(findEntries(t, w.cacheDir(), "program")) > 1 })

			check.NoError(t, syscall.Kill(-command.Process.Pid, signal))
			check.That(t, command.Wait() != nil, "a build that was %s ends as if it had succeeded: %s", name, out)
			check.Equal(t, "what counts as built", nil, findEntries(t, w.cacheDir(), "fake-"))
			if left := findEntries(t, w.cacheDir(), "tmp."); len(left) > 0 && signal != syscall.SIGKILL {
				t.Errorf("left behind: %v", left)
			}

			w.letBuildsEnd()
			c.runScript()
			c.expectProgram("first")
			left := slices.Concat(findEntries(t, w.dir, "tmp."), findEntries(t, c.root, "tmp."))
			check.Equal(t, "left behind after the next build", nil, left)
		})
	}
}

func TestTwoClonesDoNotBuildTheSameAtOnce(t *testing.T) {
	w := newBuildEnv(t)
	first := w.newClone()
	second := w.newClone()
	w.letBuildsHang()
	one, saidOne := first.startScript()

	eventually(t, "the first builds", func() bool { return w.countBuilds() == 1 })
	two, saidTwo := second.startScript()
	waiting := filepath.Join(w.cacheDir(), "cardquota", "programs", ".lock-fake")
	eventually(t, "the second waits", func() bool { return isHeldOpen(waiting, two.Process.Pid) })
	w.letBuildsEnd()

	err := errors.Join(one.Wait(), two.Wait())
	check.Must(t, err == nil, "%v %s %s", err, saidOne, saidTwo)
	check.That(t, strings.Contains(saidTwo.String(), "waiting for another build") && w.countBuilds() == 1, "built %d times, want once; the second says %q", w.countBuilds(), saidTwo)

	first.expectProgram("first")
	second.expectProgram("first")
}

// isHeldOpen reports whether a process has a file open.
func isHeldOpen(file string, pid int) bool {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	open, _ := os.ReadDir(folder)
	return slices.ContainsFunc(open, func(e os.DirEntry) bool {
		target, _ := os.Readlink(filepath.Join(folder, e.Name()))
		return target == file
	})
}

func TestWithoutACacheTheResultStaysInBin(t *testing.T) {
	for name, env := range map[string][]string{
		"no home":             {"HOME=", "XDG_CACHE_HOME="},
		"a home that is none": {"HOME=/dev/null", "XDG_CACHE_HOME="},
		"another user's":      {"HOME=/dev/null", "XDG_CACHE_HOME=/proc/1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBuildEnv(t)
			c := w.newClone()
			gocache := filepath.Join(w.dir, "go")
			c.env = append(c.env, append(env, "GOCACHE="+gocache, "GOPATH="+gocache)...)

			c.runScript()
			c.runScript()
			c.expectProgram("first")
			kept := findEntries(t, filepath.Join(c.root, "bin"), "fake-")
			check.That(t, len(kept) == 1 && w.countBuilds() == 1, "built %d times, kept %v, want one below ./bin", w.countBuilds(), kept)
		})
	}
}

func TestAResultThatLostAFileIsBuiltAgain(t *testing.T) {
	w := newBuildEnv(t)
	c := w.newClone()
	c.runScript()
	check.NoError(t, os.Remove(filepath.Join(c.root, "bin", "programs", "manifests", "one.yaml")))

	c.runScript()
	c.expectProgram("first")
	writeFile(t, filepath.Join(c.root, "bin", "programs", "program"), "") // through the link
	c.runScript()
	c.expectProgram("first")
	check.That(t, w.countBuilds() == 3, "built %d times, want three times", w.countBuilds())
}

func TestUnusedResultsAreRemovedAfterAMonth(t *testing.T) {
	w := newBuildEnv(t)
	c := w.newClone()
	c.runScript()
	old := findEntries(t, w.cacheDir(), "fake-")
	recent := filepath.Join(w.cacheDir(), "cardquota", "programs", "other-1")
	writeFile(t, filepath.Join(recent, "program"), "")

	for folder, age := range map[string]int{old[0]: 32, recent: 29} {
		then := time.Now().AddDate(0, 0, -age)
		check.NoError(t, os.Chtimes(folder, then, then))
	}

	writeFile(t, filepath.Join(c.root, "source"), "second")
	c.runScript()
	c.expectProgram("second")

	_, err := os.Stat(old[0])
	check.That(t, os.IsNotExist(err), "%s was not used for 32 days and is there still", old[0])
	_, err = os.Stat(recent)
	check.That(t, err == nil, "used 29 days ago: %v", err)
}
