package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errKindsChanged ends the manager so that the program starts again. What a manager watches is fixed when it starts.
var errKindsChanged = errors.New("the API server serves other kinds of Volcano than before")

// restart replaces this program by a new run of it, with the same arguments and environment. It is the same process, so a
// container does not restart. It returns only if that fails: then the program must end, and the kubelet starts it again.
func restart() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	err = syscall.Exec(program, os.Args, os.Environ()) //nolint:gosec // it is this program
	return fmt.Errorf("start %s again: %w", program, err)
}
