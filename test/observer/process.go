package observer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Followed is a process that the observer follows.
type Followed interface {
	// Name is the name in violations.
	Name() string
	// LogFile is the file of its output.
	LogFile() string
	// Done is closed when the process has ended.
	Done() <-chan struct{}
}

// fatalSigns are texts that no healthy Go program writes. Kubernetes' panic handler writes the
// last one before it panics again.
var fatalSigns = []string{"panic:", "fatal error:", "WARNING: DATA RACE", "Observed a panic"}

// follower reads the output of a process from the moment it is followed.
type follower struct {
	process Followed
	// offset is how far the log was read.
	offset int64

	mu       sync.Mutex
	mayEnd   bool
	reported bool
}

func newFollower(process Followed) (*follower, error) {
	f := &follower{process: process}
	info, err := os.Stat(process.LogFile())
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("log of %s: %w", process.Name(), err)
	default:
		f.offset = info.Size()
	}
	return f, nil
}

// allowEnd allows the process to end; its log is still read.
func (f *follower) allowEnd() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mayEnd = true
}

// newViolations reads the new output and returns the violations in it.
func (f *follower) newViolations(now time.Time) []Violation {
	f.mu.Lock()
	defer f.mu.Unlock()

	var found []Violation
	ended := false
	select {
	case <-f.process.Done():
		ended = true
	default:
	}

	lines, err := f.newLines(ended)
	if err != nil {
		found = append(found, Violation{Invariant: Sight, Time: now, Object: f.process.Name(), Message: err.Error()})
	}

	for _, line := range lines {
		for _, sign := range fatalSigns {
			if strings.Contains(line, sign) {
				found = append(found, Violation{Invariant: Process, Time: now, Object: f.process.Name(), Message: "wrote " + strings.TrimSpace(line)})
				break
			}
		}
	}

	if ended && !f.mayEnd && !f.reported {
		f.reported = true
		found = append(found, Violation{Invariant: Process, Time: now, Object: f.process.Name(), Message: "ended by itself"})
	}

	return found
}

// newLines returns the complete lines since the last call, and the rest too when the process
// has ended.
func (f *follower) newLines(ended bool) ([]string, error) {
	file, err := os.Open(f.process.LogFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", f.process.Name(), err)
	}

	defer func() { _ = file.Close() }()
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("log of %s: %w", f.process.Name(), err)
	}

	var lines []string
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadString('\n')
		if err != nil && !ended {
			return lines, nil // the rest of this line is still to come
		}

		f.offset += int64(len(line))
		if line != "" {
			lines = append(lines, line)
		}

		if err != nil {
			return lines, nil
		}
	}
}
