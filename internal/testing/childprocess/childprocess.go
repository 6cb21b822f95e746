// Package childprocess starts processes that end when this one ends, and finds running processes.
package childprocess

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
)

// startRequests is the queue of the goroutine that starts children. Linux sends the
// parent-death signal when the thread that forked ends, so that thread must live as long as
// this process.
var startRequests = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range requests {
			start()
		}
	}()
	return requests
})

// Start starts a command from a thread that lives as long as this process.
func Start(cmd *exec.Cmd) error {
	started := make(chan error)
	startRequests() <- func() { started <- cmd.Start() }
	return <-started
}

// Processes returns the ids of the matching processes, without this one. match gets the
// process's folder in /proc.
func Processes(match func(proc string) bool) (ids []string) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		if id := filepath.Base(entry); id != strconv.Itoa(os.Getpid()) && match(entry) {
			ids = append(ids, id)
		}
	}
	return ids
}
