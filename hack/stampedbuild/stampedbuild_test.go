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

// clone is a clone of a project with one build script. A build copies the file "source" to "program", and hangs until
// the file go-on exists.
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
	e := buildEnv{t, t.TempDir()}
	e.letBuildsEnd()
	return e
}

func (e buildEnv) cacheDir() string  { return filepath.Join(e.dir, "cache") }
func (e buildEnv) goOn() string      { return filepath.Join(e.dir, "go-on") }
func (e buildEnv) buildsDir() string { return filepath.Join(e.dir, "builds") }

func (e buildEnv) letBuildsEnd() {
	writeFile(e.T, e.goOn(), "")
}

func (e buildEnv) letBuildsHang() {
	check.NoError(e, os.Remove(e.goOn()))
}

// countBuilds returns how often a build was started.
func (e buildEnv) countBuilds() int {
	text, _ := os.ReadFile(e.buildsDir())
	return strings.Count(string(text), "run")
}

func (e buildEnv) newClone() clone {
	root := e.TempDir()
	for _, name := range []string{"../folders.sh", "../stamped-build.sh"} {
		writeFile(e.T, root+"/hack/"+filepath.Base(name), string(check.Value(os.ReadFile(name))(e)))
	}

	writeFile(e.T, root+"/hack/build-fake.sh", script)
	writeFile(e.T, filepath.Join(root, "source"), "first")
	scratch := filepath.Join(e.dir, "tmp")
	check.NoError(e, os.MkdirAll(scratch, 0o755))

	return clone{e.T, root, append(os.Environ(),
		"XDG_CACHE_HOME="+e.cacheDir(), "GO_ON="+e.goOn(), "BUILDS="+e.buildsDir(), "TMPDIR="+scratch)}
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
func eventually(t *testing.T, what string, isTrue func() bool) {
	for deadline := time.Now().Add(time.Minute); !isTrue(); time.Sleep(10 * time.Millisecond) {
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

// TestAResultIsKeptForAllClonesOfAUser: hack/stamped-build.sh builds programs of other projects once for each
// content of their inputs, and keeps the results in a cache. The first clone builds source "first". The second
// clone, and a second run, take the result. Another source is built too, and going back to "first" needs no
// build, as its result is still there.
func TestAResultIsKeptForAllClonesOfAUser(t *testing.T) {
	e := newBuildEnv(t)
	first := e.newClone()
	second := e.newClone()
	check.Contains(t, "output of the first build", first.runScript(), "build: the program ready")
	first.expectProgram("first")
	for _, c := range []clone{first, second} {
		check.Equal(t, "output without anything to build", "", c.runScript())
		c.expectProgram("first")
	}
	check.Equal(t, "builds of source first", 1, e.countBuilds())

	writeFile(t, filepath.Join(second.root, "source"), "second")
	second.runScript()
	second.expectProgram("second")
	first.expectProgram("first")

	writeFile(t, filepath.Join(second.root, "source"), "first")
	second.runScript()
	second.expectProgram("first")
	check.Equal(t, "builds of both sources", 2, e.countBuilds())
}

// TestABuildThatIsKilledLeavesNoResult: a build hangs with half of its files written, and is ended by a signal.
// Nothing may count as built then: there is no result (a folder fake-*) in the cache. Temporary files (tmp.*) are
// removed at once, and after SIGKILL, which no script can catch, by the next build.
func TestABuildThatIsKilledLeavesNoResult(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			e := newBuildEnv(t)
			c := e.newClone()
			e.letBuildsHang()
			command, out := c.startScript()
			eventually(t, "the build writes", func() bool { return len(findEntries(t, e.cacheDir(), "program")) > 1 }) // the folder programs, and a file program

			check.NoError(t, syscall.Kill(-command.Process.Pid, signal))
			check.That(t, command.Wait() != nil, "a build that was %s ends as if it had succeeded: %s", name, out)
			check.Equal(t, "results", nil, findEntries(t, e.cacheDir(), "fake-"))
			left := findEntries(t, e.cacheDir(), "tmp.")
			check.That(t, len(left) == 0 || signal == syscall.SIGKILL, "temporary files: %v", left)

			e.letBuildsEnd()
			c.runScript()
			c.expectProgram("first")
			left = slices.Concat(findEntries(t, e.dir, "tmp."), findEntries(t, c.root, "tmp."))
			check.Equal(t, "temporary files after the next build", nil, left)
		})
	}
}

// TestTwoClonesDoNotBuildTheSameAtOnce: while the first clone builds, the second one waits for its lock, and
// then takes the result. Both have the same source, so there is one build.
func TestTwoClonesDoNotBuildTheSameAtOnce(t *testing.T) {
	e := newBuildEnv(t)
	first := e.newClone()
	second := e.newClone()
	e.letBuildsHang()
	firstScript, firstOutput := first.startScript()
	eventually(t, "the first clone builds", func() bool { return e.countBuilds() == 1 })

	secondScript, secondOutput := second.startScript()
	lock := filepath.Join(e.cacheDir(), "cardquota", "programs", ".lock-fake")
	eventually(t, "the second clone waits", func() bool { return isOpenIn(lock, secondScript.Process.Pid) })
	e.letBuildsEnd()

	err := errors.Join(firstScript.Wait(), secondScript.Wait())
	check.Must(t, err == nil, "%v %s %s", err, firstOutput, secondOutput)
	check.Contains(t, "output of the second clone", secondOutput.String(), "waiting for another build")
	check.Equal(t, "builds", 1, e.countBuilds())
	first.expectProgram("first")
	second.expectProgram("first")
}

// isOpenIn reports whether a process has a file open.
func isOpenIn(file string, pid int) bool {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	open, _ := os.ReadDir(folder)
	return slices.ContainsFunc(open, func(e os.DirEntry) bool {
		target, _ := os.Readlink(filepath.Join(folder, e.Name()))
		return target == file
	})
}

// TestWithoutACacheTheResultStaysInBin: a user may have no home, or a home or cache that cannot be written. Then the
// result, a folder fake-*, is kept below ./bin of the clone, and the second run needs no build.
func TestWithoutACacheTheResultStaysInBin(t *testing.T) {
	for name, env := range map[string][]string{
		"no home is set":              {"HOME=", "XDG_CACHE_HOME="},
		"the home is no folder":       {"HOME=/dev/null", "XDG_CACHE_HOME="},
		"the cache cannot be written": {"HOME=/dev/null", "XDG_CACHE_HOME=/proc/1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newBuildEnv(t)
			c := e.newClone()
			gocache := filepath.Join(e.dir, "go") // the script calls go, which has its own caches in the home
			c.env = append(c.env, append(env, "GOCACHE="+gocache, "GOPATH="+gocache)...)

			c.runScript()
			c.runScript()
			c.expectProgram("first")
			kept := findEntries(t, filepath.Join(c.root, "bin"), "fake-")
			check.That(t, len(kept) == 1, "results below ./bin: %v, want one", kept)
			check.Equal(t, "builds", 1, e.countBuilds())
		})
	}
}

// TestAResultThatLostAFileIsBuiltAgain: ./bin links into the cache, so a user may delete or change a file of a
// result there. A missing file, and one that was emptied, lead to a new build each.
func TestAResultThatLostAFileIsBuiltAgain(t *testing.T) {
	e := newBuildEnv(t)
	c := e.newClone()
	c.runScript()
	check.NoError(t, os.Remove(filepath.Join(c.root, "bin", "programs", "manifests", "one.yaml")))

	c.runScript()
	c.expectProgram("first")

	writeFile(t, filepath.Join(c.root, "bin", "programs", "program"), "")
	c.runScript()
	c.expectProgram("first")
	check.Equal(t, "builds", 3, e.countBuilds())
}

// TestResultsThatWereNotUsedForThirtyDaysAreRemoved: each build removes from the cache the results that were not used
// for 30 days. One result was last used 32 days ago, another one 29 days ago. Then a new source is built.
func TestResultsThatWereNotUsedForThirtyDaysAreRemoved(t *testing.T) {
	e := newBuildEnv(t)
	c := e.newClone()
	c.runScript()
	old := findEntries(t, e.cacheDir(), "fake-")
	recent := filepath.Join(e.cacheDir(), "cardquota", "programs", "other-1")
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
	check.Value(os.Stat(recent))(t)
}
