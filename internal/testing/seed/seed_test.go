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
	command = regexp.MustCompile(`to repeat: SEED=(\d+) go test (\S+) -run '(.*)'(.*)`)
	drawn   = regexp.MustCompile(`drew \d+`)
)

// playBroken runs the broken tests in dir and returns their output.
func playBroken(t *testing.T, dir, seed string, args ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), os.Args[0], args...)
	run.Dir = dir
	run.Env = append(os.Environ(), broken+"=1", seedVariable+"="+seed, drawsVariable+"=")
	out, err := run.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("the broken tests must fail: %v\n%s", err, out)
	}
	return string(out)
}

func TestThePrintedCommandRepeatsAFailure(t *testing.T) {
	for _, sub := range []string{"a property's fault", "a source of numbers"} {
		t.Run(sub, func(t *testing.T) {
			first := playBroken(t, t.TempDir(), "", "-test.run", "TestBroken/"+strings.Fields(sub)[1], "-rapid.checks=1000")
			line := command.FindStringSubmatch(first)
			if line == nil {
				t.Fatalf("no command in:\n%s", first)
			}
			if line[2] != "cardquota.dev/operator/internal/testing/seed" || line[4] != " -rapid.checks=1000" {
				t.Errorf("the command is %q", line[0])
			}

			args := append([]string{"-test.run", line[3]}, strings.Fields(line[4])...)
			again := playBroken(t, t.TempDir(), line[1], args...)
			want := drawn.FindAllString(first, -1)
			got := drawn.FindAllString(again, -1)
			if len(want) == 0 || strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("%s drew %v, first %v", line[0], got, want)
			}
		})
	}
}

func TestEachRunDrawsANewSeed(t *testing.T) {
	seeds := map[string]bool{}
	out := playBroken(t, t.TempDir(), "", "-test.run", "TestBroken/numbers", "-test.count=5")
	for _, line := range command.FindAllStringSubmatch(out, -1) {
		seeds[line[1]] = true
	}
	if len(seeds) != 5 {
		t.Errorf("%d seeds in 5 runs:\n%s", len(seeds), out)
	}
}

func TestAFailureIsKeptAndDrawnAgain(t *testing.T) {
	dir := t.TempDir()
	playBroken(t, dir, "", "-test.run", "TestBroken/property")
	kept, err := filepath.Glob(filepath.Join(dir, "testdata/rapid/*/*.fail"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	// A single draw of another seed rarely fails by itself.
	out := playBroken(t, dir, "1", "-test.run", "TestBroken/property", "-rapid.checks=1")
	if !strings.Contains(out, filepath.Base(kept[0])) {
		t.Errorf("%s is not drawn again:\n%s", kept[0], out)
	}
}

func TestASeedThatIsNoNumberIsRefused(t *testing.T) {
	for _, seed := range []string{"x", "0", "-1", "1.5"} {
		out := playBroken(t, t.TempDir(), seed, "-test.run", "TestBroken/numbers")
		if !strings.Contains(out, "SEED must be a whole number from 1") {
			t.Errorf("SEED=%s is taken:\n%s", seed, out)
		}
	}
}

func TestTheEnvironmentSaysHowOftenAPropertyIsDrawn(t *testing.T) {
	before := flag.Lookup(rapidChecks).Value.String()
	t.Cleanup(func() { _ = flag.Set(rapidChecks, before) })
	t.Setenv(drawsVariable, "7")
	drawn := 0
	Check(t, func(*rapid.T) { drawn++ })
	if drawn != 7 {
		t.Errorf("drawn %d times", drawn)
	}
}
