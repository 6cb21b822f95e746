package check

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// SetUp is the T of what the tests of a package share, before there is a test. Its first failure ends the process.
type SetUp struct {
	name     string
	cleanups []func() error
	exit     func(code int)
}

// Main runs the tests of a package after what they share was set up. Errors of the set-up name the package.
func Main(m *testing.M, name string, setUp func(s *SetUp)) {
	s := &SetUp{name: name, exit: os.Exit}
	setUp(s)
	code := m.Run()
	s.exit(max(code, s.cleanUp()))
}

// Helper makes it a T.
func (*SetUp) Helper() {}

// Errorf is Fatalf: no test runs on half of a set-up.
func (s *SetUp) Errorf(format string, args ...any) { s.Fatalf(format, args...) }

// Fatalf prints a failure, cleans up, and ends the process.
func (s *SetUp) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", s.name, fmt.Sprintf(format, args...))
	s.cleanUp()
	s.exit(1)
}

// Cleanup calls a function after the tests, the last one first. Its error fails them.
func (s *SetUp) Cleanup(cleanUp func() error) { s.cleanups = append(s.cleanups, cleanUp) }

func (s *SetUp) cleanUp() (code int) {
	for _, cleanUp := range slices.Backward(s.cleanups) {
		if err := cleanUp(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: clean up: %v\n", s.name, err)
			code = 1
		}
	}
	return code
}
