package check

import (
	"errors"
	"testing"
)

// TestAFailedSetUpCleansUpAndEndsTheProcess: what the tests of a package share, such as a cluster, is set up before them.
// A failure there ends the process with code 1, after the clean-ups have run, the last one first. The clean-up "second"
// fails, which gives code 1 as well and does not stop "first".
func TestAFailedSetUpCleansUpAndEndsTheProcess(t *testing.T) {
	var order []string
	exitCode := 0
	s := &SetUp{name: "package", exit: func(code int) { exitCode = code; order = append(order, "exit") }}
	s.Cleanup(func() error { order = append(order, "first"); return nil })
	s.Cleanup(func() error { order = append(order, "second"); return errors.New("stuck") })
	Equal(t, "exit code of clean-ups of which one fails", 1, s.cleanUp()) // after the tests, without a failed set-up

	order = nil
	NoError(s, errors.New("no cluster"))
	Equal(t, "exit code of the process", 1, exitCode)
	Equal(t, "clean-ups, and the end of the process", []string{"second", "first", "exit"}, order)
}
