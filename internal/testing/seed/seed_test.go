package seed

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
)

// broken is set in the runs of this binary whose tests must fail.
const broken = "CARDQUOTA_SEED_BROKEN"

// TestMain runs random tests that find a fault, where broken is set.
func TestMain(m *testing.M) {
	if os.Getenv(broken) != "" {
		testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "TestBroken", F: failAtRandom}}, nil, nil)
	}
	os.Exit(m.Run())
}

// failAtRandom prints its draw, so that two runs can be compared.
func failAtRandom(t *testing.T) {
	t.Run("a property's fault", func(t *testing.T) {
		Check(t, func(t *rapid.T) {
			if n := rapid.Uint64().Draw(t, "n"); n%10 == 7 {
				t.Fatalf("drew %d", n)
			}
		})
	})
	t.Run("a source of numbers", func(t *testing.T) { t.Fatalf("drew %d", Rand(t).Uint64()) })
}

var (
	printedCommand = regexp.MustCompile(`to repeat: SEED=(\d+) go test (\S+) -run '(.*)'(.*)`)
	drawnNumber    = regexp.MustCompile(`drew \d+`)
)

// runBrokenTests runs this binary in a folder, with the value of SEED. Its test TestBroken has two subtests
// that fail at random, "a property's fault" and "a source of numbers". It returns the output.
func runBrokenTests(t *testing.T, dir, seed string, args ...string) string {
	run := exec.CommandContext(t.Context(), os.Args[0], args...)
	run.Dir = dir
	run.Env = append(os.Environ(), broken+"=1", seedVariable+"="+seed, drawsVariable+"=")
	out, err := run.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	check.Must(t, errors.As(err, &exit), "the broken tests must fail: %v\n%s", err, out)
	return string(out)
}

// TestThePrintedCommandRepeatsAFailure: a random test prints "to repeat: SEED=… go test …". With that seed and these
// arguments, another run must draw the same numbers. That is true for a property of rapid, and for a test that draws by
// itself. The command keeps the flags that change what rapid draws. runBrokenTests runs such a test of each sort, which
// fails.
func TestThePrintedCommandRepeatsAFailure(t *testing.T) {
	for _, subtest := range []string{"property", "source"} {
		t.Run(subtest, func(t *testing.T) {
			first := runBrokenTests(t, t.TempDir(), "", "-test.run", "TestBroken/"+subtest, "-rapid.checks=1000")
			command := printedCommand.FindStringSubmatch(first)
			check.Must(t, command != nil, "no command in:\n%s", first)
			check.Equal(t, "package", "cardquota.dev/operator/internal/testing/seed", command[2])
			check.Equal(t, "flags", " -rapid.checks=1000", command[4])

			again := runBrokenTests(t, t.TempDir(), command[1], "-test.run", command[3], strings.TrimSpace(command[4]))
			want := drawnNumber.FindAllString(first, -1)
			check.That(t, len(want) > 0, "no number was drawn:\n%s", first)
			check.Equal(t, "numbers of the second run", want, drawnNumber.FindAllString(again, -1))
		})
	}
}

// TestEachRunDrawsANewSeed: without SEED, five runs of a random test have five seeds. "TestBroken/numbers" is a test that
// fails, and so prints its seed.
func TestEachRunDrawsANewSeed(t *testing.T) {
	out := runBrokenTests(t, t.TempDir(), "", "-test.run", "TestBroken/numbers", "-test.count=5")

	seeds := map[string]bool{}
	for _, command := range printedCommand.FindAllStringSubmatch(out, -1) {
		seeds[command[1]] = true
	}
	check.Equal(t, "different seeds", 5, len(seeds))
}

// TestAPropertyThatFailedIsTestedAgainWithTheSameInput: rapid writes the input that made a property fail below
// testdata/rapid. Each later run reads it, whatever its seed. The property fails for one
// number of ten, so one draw of another seed rarely fails by itself.
func TestAPropertyThatFailedIsTestedAgainWithTheSameInput(t *testing.T) {
	dir := t.TempDir()
	runBrokenTests(t, dir, "", "-test.run", "TestBroken/property")
	kept := check.Value(filepath.Glob(filepath.Join(dir, "testdata/rapid/*/*.fail")))(t)
	check.Must(t, len(kept) == 1, "kept inputs: %v, want one", kept)

	out := runBrokenTests(t, dir, "1", "-test.run", "TestBroken/property", "-rapid.checks=1")
	check.Contains(t, "output of the second run", out, filepath.Base(kept[0]))
}

// TestASeedThatIsNoWholeNumberIsRefused: rapid takes 0 for "no seed", and a seed that is not read would repeat nothing.
func TestASeedThatIsNoWholeNumberIsRefused(t *testing.T) {
	for _, seed := range []string{"x", "0", "-1", "1.5"} {
		out := runBrokenTests(t, t.TempDir(), seed, "-test.run", "TestBroken/numbers")
		check.Contains(t, "output with SEED="+seed, out, "SEED must be a whole number from 1")
	}
}

// TestDRAWSSetsHowOftenAPropertyIsDrawn: the environment variable DRAWS replaces rapid's default of 100, so that a slow
// run may draw less.
func TestDRAWSSetsHowOftenAPropertyIsDrawn(t *testing.T) {
	before := flag.Lookup(rapidChecks).Value.String()
	t.Cleanup(func() { _ = flag.Set(rapidChecks, before) })
	t.Setenv(drawsVariable, "7")

	draws := 0
	Check(t, func(*rapid.T) { draws++ })
	check.Equal(t, "draws", 7, draws)
}
