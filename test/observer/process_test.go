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

func TestProcess(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		before, text string
		play         func(p *program, f *follower, write func(string))
		want         int
	}{
		"a quiet program is fine":                  {text: "all is well\n"},
		"a panic is a violation":                   {text: "panic: assignment to entry in nil map\n\ngoroutine 1\n", want: 1},
		"so is a panic that Kubernetes caught":     {text: `E0101 "Observed a panic" panic="oh"` + "\n", want: 1},
		"and a fatal error":                        {text: "fatal error: concurrent map writes\n", want: 1},
		"and a data race":                          {text: "WARNING: DATA RACE\n", want: 1},
		"what was written before is not looked at": {before: "panic: old\n"},
		"a line is read when it is complete": {text: "pan", play: func(_ *program, f *follower, write func(string)) {
			check.Equal(t, "violations of half a line", 0, len(f.newViolations(time.Now())))
			write("ic: oh\n")
		}, want: 1},
		"an unfinished last line is read when the program has ended": {play: func(p *program, f *follower, write func(string)) {
			f.allowEnd()
			write("panic: oh")
			close(p.done)
		}, want: 1},
		"a program that ends by itself is a violation": {play: func(p *program, _ *follower, _ func(string)) { close(p.done) }, want: 1},
		"one that was to end is not": {play: func(p *program, f *follower, _ func(string)) {
			f.allowEnd()
			close(p.done)
		}},
		"one that panics while it was to end is": {play: func(p *program, f *follower, write func(string)) {
			f.allowEnd()
			write("panic: oh\n")
			close(p.done)
		}, want: 1},
	}) {
		p := &program{log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
		write := func(text string) {
			if text == "" {
				return // there need not be a log yet
			}
			file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			check.NoError(t, err)
			_, err = file.WriteString(text)
			check.NoError(t, errors.Join(err, file.Close()))
		}

		write(tc.before)
		f, err := newFollower(p)
		check.NoError(t, err)

		write(tc.text)
		if tc.play != nil {
			tc.play(p, f, write)
		}

		found := append(f.newViolations(time.Now()), f.newViolations(time.Now())...)
		check.Must(t, len(found) == tc.want, "found %v, want %d", found, tc.want)
	}
}
