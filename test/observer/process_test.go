package observer

import (
	"os"
	"path/filepath"
	"testing"
	"time"
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
	for _, test := range []struct {
		name   string
		before string
		play   func(p *program, f *follower, write func(string))
		want   int
	}{
		{"a quiet program is fine", "", func(_ *program, _ *follower, write func(string)) { write("all is well\n") }, 0},
		{"a panic is a violation", "", func(_ *program, _ *follower, write func(string)) {
			write("panic: assignment to entry in nil map\n\ngoroutine 1\n")
		}, 1},
		{"so is a panic that Kubernetes caught", "", func(_ *program, _ *follower, write func(string)) { write(`E0101 "Observed a panic" panic="oh"` + "\n") }, 1},
		{"and a fatal error", "", func(_ *program, _ *follower, write func(string)) { write("fatal error: concurrent map writes\n") }, 1},
		{"and a data race", "", func(_ *program, _ *follower, write func(string)) { write("WARNING: DATA RACE\n") }, 1},
		{"what was written before is not looked at", "panic: old\n", func(*program, *follower, func(string)) {}, 0},
		{"a line is read when it is complete", "", func(_ *program, f *follower, write func(string)) {
			write("pan")
			if found := f.look(time.Now()); len(found) > 0 {
				t.Errorf("half a line gives %v", found)
			}
			write("ic: oh\n")
		}, 1},
		{"an unfinished last line is read when the program has ended", "", func(p *program, f *follower, write func(string)) {
			f.letEnd()
			write("panic: oh")
			close(p.done)
		}, 1},
		{"a program that ends by itself is a violation", "", func(p *program, _ *follower, _ func(string)) { close(p.done) }, 1},
		{"one that was to end is not", "", func(p *program, f *follower, _ func(string)) {
			f.letEnd()
			close(p.done)
		}, 0},
		{"one that panics while it was to end is", "", func(p *program, f *follower, write func(string)) {
			f.letEnd()
			write("panic: oh\n")
			close(p.done)
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &program{log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
			write := func(text string) {
				file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err == nil {
					_, err = file.WriteString(text)
				}
				if err == nil {
					err = file.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if test.before != "" {
				write(test.before)
			}
			f, err := follow(p)
			if err != nil {
				t.Fatal(err)
			}
			test.play(p, f, write)
			found := append(f.look(time.Now()), f.look(time.Now())...)
			if len(found) != test.want {
				t.Errorf("found %v, want %d", found, test.want)
			}
		})
	}
}
