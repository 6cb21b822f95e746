// Package build contains the values that the linker sets: the version, and the divisor of the
// waiting times in programs built for tests. Nothing at run time can change them.
package build

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Version is the release that this binary was built from.
var Version = "v0.0.0-dev"

// testClocks is empty as shipped. For tests the linker sets it to a name, a colon and a number.
var testClocks string

var divisor = parseDivisor(testClocks)

// Wait returns how long to wait where the shipped programs wait d.
func Wait(d time.Duration) time.Duration { return d / divisor }

// parseDivisor returns the number of testClocks, 1 as shipped. A wrong one is a mistake of the build.
func parseDivisor(clocks string) time.Duration {
	if clocks == "" {
		return 1
	}
	_, number, _ := strings.Cut(clocks, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("linked with clocks %q, want a name, a colon and a positive number", clocks))
	}
	return time.Duration(n)
}
