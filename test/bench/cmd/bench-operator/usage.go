package main

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// usage is what the operator has used since its start.
type usage struct {
	// cpu is in seconds.
	cpu float64
	// peak and resident are the largest and the present memory in bytes.
	peak, resident uint64
	// written are the bytes that it wrote: requests and its log.
	written uint64
}

// usage reads what the kernel knows of the operator.
func (e *env) usage() (u usage, err error) {
	process, err := procfs.NewProc(e.programs.Manager.Pid())
	if err != nil {
		return u, fmt.Errorf("usage of the operator: %w", err)
	}

	stat, err := process.Stat()
	if err != nil {
		return u, fmt.Errorf("usage of the operator: %w", err)
	}

	status, err := process.NewStatus()
	if err != nil {
		return u, fmt.Errorf("usage of the operator: %w", err)
	}

	io, err := process.IO()
	if err != nil {
		return u, fmt.Errorf("usage of the operator: %w", err)
	}

	return usage{cpu: stat.CPUTime(), peak: status.VmHWM, resident: status.VmRSS, written: io.WChar}, nil
}

// since returns what was used since an earlier reading. Memory is that of the later one.
func (u usage) since(earlier usage) usage {
	u.cpu -= earlier.cpu
	u.written -= earlier.written
	return u
}
