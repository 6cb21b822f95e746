package check

import (
	"syscall"
	"testing"
	"time"
)

// ProcessorTime returns the time of processors that this process has taken, in all its threads and for its
// garbage. Other work on the machine hardly changes it.
func ProcessorTime(t T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Fastest runs a benchmark and returns how long its fastest run took, which other work on the machine hardly
// changes. It fails a benchmark whose fastest run takes longer than most.
func Fastest(b *testing.B, most time.Duration, run func()) time.Duration {
	b.Helper()
	var fastest time.Duration
	for b.Loop() {
		began := time.Now()
		run()
		if took := time.Since(began); fastest == 0 || took < fastest {
			fastest = took
		}
	}

	b.ReportMetric(float64(fastest.Microseconds())/1000, "ms-fastest")
	if fastest > most {
		b.Errorf("the fastest run took %v, at most %v are allowed", fastest, most)
	}

	return fastest
}
