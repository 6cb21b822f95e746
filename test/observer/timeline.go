package observer

import (
	"fmt"
	"slices"
	"time"
)

// timeline is the history of a value, such as the limits of a queue, oldest first.
type timeline[T any] struct{ periods []period[T] }

// period is a value from one change to the next.
type period[T any] struct {
	value T
	from  time.Time
}

func (l *timeline[T]) setValue(value T, from time.Time) {
	if n := len(l.periods); n > 0 && fmt.Sprint(l.periods[n-1].value) == fmt.Sprint(value) {
		return
	}
	l.periods = append(l.periods, period[T]{value, from})
	for len(l.periods) > 1 && l.periods[1].from.Before(from.Add(-historyPeriod)) {
		l.periods = slices.Delete(l.periods, 0, 1)
	}
}

// setValueOf sets a value in the history of a name, which may begin with it.
func setValueOf[T any](histories map[string]*timeline[T], name string, value T, from time.Time) {
	if histories[name] == nil {
		histories[name] = &timeline[T]{}
	}
	histories[name].setValue(value, from)
}

// valuesSince returns the values from a moment until now.
func (l *timeline[T]) valuesSince(moment time.Time) []T {
	var out []T
	for i, p := range l.periods {
		if i+1 < len(l.periods) && l.periods[i+1].from.Before(moment) {
			continue // replaced before the window began
		}
		out = append(out, p.value)
	}
	return out
}

// current returns the current value.
func (l *timeline[T]) current() T { return l.periods[len(l.periods)-1].value }
