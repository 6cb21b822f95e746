// Package timing holds the one divisor of the programs' waiting times. As shipped it is one.
// Programs for tests are linked with another, so that tests need not wait as long; nothing at
// run time can change it.
package timing

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// testClocks is empty as shipped. The linker sets it for tests to a name, a colon and a number.
var testClocks string

var divisor = parse(testClocks)

// Wait returns how long to wait where the shipped programs wait d.
func Wait(d time.Duration) time.Duration { return d / divisor }

func parse(clocks string) time.Duration {
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
