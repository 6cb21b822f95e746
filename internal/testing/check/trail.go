package check

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	module = "cardquota.dev/operator/"
	itself = module + "internal/testing/check."
)

type trail struct{ T }

// Trail returns a T whose failures name the lines that led to them, as those of this package do.
// So the functions of a test need no t.Helper. It is for gomega.NewWithT.
func Trail(t T) T { return trail{t} }

func (t trail) Errorf(format string, args ...any) {
	t.Helper()
	t.T.Errorf("%s%s", fmt.Sprintf(format, args...), lines())
}

func (t trail) Fatalf(format string, args ...any) {
	t.Helper()
	t.T.Fatalf("%s%s", fmt.Sprintf(format, args...), lines())
}

// lines lists the lines of this module that led here, if there are several, the last call first.
func lines() string {
	callers := make([]uintptr, 100)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	var found []string
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, module) && !strings.HasPrefix(frame.Function, itself) {
			found = append(found, fmt.Sprintf("\n\tat %s:%d", filepath.Base(frame.File), frame.Line))
		}
	}

	if len(found) < 2 {
		return ""
	}
	return strings.Join(found, "")
}
