package observer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// program is a process that only writes a log.
type program struct {
	log  string
	done chan struct{}
}

func (p *program) Name() string          { return "program" }
func (p *program) LogFile() string       { return p.log }
func (p *program) Done() <-chan struct{} { return p.done }

// TestAProcessThatPanicsOrEndsByItselfIsFound: the observer reads the log of a process as it grows, line by line. A
// panic, a fatal error of Go's runtime or a data race is a violation. So is an end that no test has allowed. It reads
// the log after each text, and once more at the end, when some processes have ended; nothing is reported twice.
func TestAProcessThatPanicsOrEndsByItselfIsFound(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		loggedBefore string // before the observer started
		texts        []string
		mayEnd, ends bool
		want         []int // how many violations are found after each text, and at the end
	}{
		"a line without a fault": {texts: []string{"all is well\n"}, want: []int{0, 0}},
		"a panic":                {texts: []string{"panic: assignment to entry in nil map\n\ngoroutine 1\n"}, want: []int{1, 0}},
		"a panic from which Kubernetes has recovered": {texts: []string{`E0101 "Observed a panic" panic="oh"` + "\n"}, want: []int{1, 0}},
		"a fatal error": {texts: []string{"fatal error: concurrent map writes\n"}, want: []int{1, 0}},
		"a data race":   {texts: []string{"WARNING: DATA RACE\n"}, want: []int{1, 0}},
		"a panic before the start of the observer":   {loggedBefore: "panic: old\n", want: []int{0}},
		"a line in two parts, read when it is whole": {texts: []string{"pan", "ic: oh\n"}, want: []int{0, 1, 0}},
		"a line without an end, read when the process has ended": {
			texts: []string{"panic: oh"}, mayEnd: true, ends: true, want: []int{0, 1},
		},
		"a process that ends by itself": {ends: true, want: []int{1}},
		"a process that may end":        {mayEnd: true, ends: true, want: []int{0}},
		"a panic of a process that may end": {
			texts: []string{"panic: oh\n"}, mayEnd: true, ends: true, want: []int{1, 0},
		},
	}) {
		p := &program{log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
		if tc.loggedBefore != "" { // otherwise there is no log yet
			appendToFile(t, p.log, tc.loggedBefore)
		}

		f := check.Value(newFollower(p))(t)
		if tc.mayEnd {
			f.allowEnd()
		}

		var found []int
		for _, text := range tc.texts {
			appendToFile(t, p.log, text)
			found = append(found, len(f.newViolations(time.Now())))
		}

		if tc.ends {
			close(p.done)
		}
		found = append(found, len(f.newViolations(time.Now())))
		check.Equal(t, "violations after each text and at the end", tc.want, found)
		check.Equal(t, "violations that are found twice", 0, len(f.newViolations(time.Now())))
	}
}

func appendToFile(t *testing.T, name, text string) {
	file := check.Value(os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	_, err := file.WriteString(text)
	check.NoError(t, errors.Join(err, file.Close()))
}
