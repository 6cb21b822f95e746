// Package seed seeds random tests. Each run draws a new seed and logs the command that repeats
// it; the environment variable SEED sets it.
package seed

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
)

// seedVariable is the environment variable that sets the seed of every random test.
const seedVariable = "SEED"

// drawsVariable is the environment variable for the number of draws per property; rapid's
// default is a hundred.
const drawsVariable = "DRAWS"

// rapidSeed is rapid's flag for the seed of a property.
const rapidSeed = "rapid.seed"

// rapidChecks is rapid's flag for the number of draws.
const rapidChecks = "rapid.checks"

// oneProperty guards rapid's flags, which apply to the whole process.
var oneProperty sync.Mutex

// Check checks a property as rapid.Check does. Every later run repeats the failures under
// testdata/rapid.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	oneProperty.Lock()
	defer oneProperty.Unlock()
	// Rapid's own messages name its flag, so a seed in that flag is respected too.
	if flag.Lookup(rapidSeed).Value.String() == "0" {
		setRapidSeed(t, drawSeed(t))
		defer setRapidSeed(t, 0)
	}
	setDraws(t)
	rapid.Check(t, property)
}

// setDraws applies the environment variable, unless rapid's flag is set.
func setDraws(t *testing.T) {
	given := os.Getenv(drawsVariable)
	flag.Visit(func(f *flag.Flag) {
		if f.Name == rapidChecks {
			given = ""
		}
	})

	if given != "" {
		err := flag.Set(rapidChecks, given)
		check.Must(t, err == nil, "%s: %v", drawsVariable, err)
	}
}

// Rand returns a source of random numbers for a test that is not a property.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(drawSeed(t), 0))
}

// drawSeed returns the seed of a test and logs the command that repeats it.
func drawSeed(t testing.TB) uint64 {
	t.Helper()
	seed := 1 + rand.Uint64N(1<<32) // rapid takes 0 for unset
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		check.Must(t, err == nil && seed > 0, "%s must be a whole number from 1, not %q", seedVariable, given)
	}
	t.Logf("to repeat: %s=%d go test %s -run '%s'%s", seedVariable, seed, testedPackage(), runPattern(t.Name()), rapidFlags())
	return seed
}

func setRapidSeed(t *testing.T, seed uint64) {
	check.NoError(t, flag.Set(rapidSeed, strconv.FormatUint(seed, 10)))
}

// testedPackage returns the import path of the package whose tests run.
func testedPackage() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "."
	}
	return strings.TrimSuffix(info.Path, ".test")
}

// runPattern returns the value of -run that matches one test, quoted for a shell.
func runPattern(test string) string {
	levels := strings.Split(test, "/")
	for i, level := range levels {
		levels[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(level), "'", ".") + "$"
	}
	return strings.Join(levels, "/")
}

// rapidFlags returns the flags of this run that change what rapid draws.
func rapidFlags() string {
	var flags strings.Builder
	flag.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "rapid.") && f.Name != rapidSeed {
			fmt.Fprintf(&flags, " -%s=%s", f.Name, f.Value)
		}
	})
	return flags.String()
}
