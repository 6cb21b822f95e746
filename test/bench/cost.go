package main

import (
	"os"
	"path/filepath"

	"github.com/prometheus/procfs"
)

// processorTime returns the CPU seconds used until now, by program: those of this process's
// children, its own as "bench", and those of the whole machine as wholeMachine.
func processorTime() (map[string]float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}

	machine, err := proc.Stat()
	if err != nil {
		return nil, err
	}

	processes, err := proc.AllProcs()
	if err != nil {
		return nil, err
	}

	busy := machine.CPUTotal
	used := map[string]float64{wholeMachine: busy.User + busy.Nice + busy.System + busy.IRQ + busy.SoftIRQ}
	for _, process := range processes {
		stat, err := process.Stat()
		if err != nil {
			continue // it has ended
		}

		if process.PID == os.Getpid() {
			used["bench"] = stat.CPUTime()
		}

		if stat.PPID != os.Getpid() {
			continue
		}

		if program, err := process.Executable(); err == nil {
			used[filepath.Base(program)] += stat.CPUTime()
		}
	}

	return used, nil
}

// wholeMachine is the key of the CPU seconds of all programs that run.
const wholeMachine = "the whole machine"

// otherCPUSeconds removes the machine's CPU seconds from a difference and returns those used by
// programs outside of the benchmark.
func otherCPUSeconds(used map[string]float64) float64 {
	byOthers := used[wholeMachine]
	delete(used, wholeMachine)
	return max(0, byOthers-sumValues(used))
}
