package check

import (
	"errors"
	"testing"
)

func TestAFailedSetUpCleansUpAndEndsTheProcess(t *testing.T) {
	var order []string
	code := 0
	s := &SetUp{name: "package", exit: func(c int) { code = c }}
	s.Cleanup(func() error { order = append(order, "first"); return nil })
	s.Cleanup(func() error { order = append(order, "second"); return errors.New("stuck") })
	Equal(t, "exit code of a clean-up that fails", 1, s.cleanUp())

	order = nil
	NoError(s, errors.New("no cluster"))
	Equal(t, "exit code", 1, code)
	Equal(t, "clean-ups", []string{"second", "first"}, order)
}
