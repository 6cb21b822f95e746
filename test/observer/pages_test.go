package observer

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

func TestAPageIsKeptWhileItsProgramRuns(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	last := Page{Process: 1, Asked: at, Answered: at, Text: []byte("a 1")}
	later := at.Add(time.Second)

	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for name, tc := range map[string]struct {
		read Page
		err  error
		want Page
	}{
		"it answers":             {Page{Process: 1, Asked: later, Text: []byte("a 2")}, nil, Page{Process: 1, Asked: later, Text: []byte("a 2")}},
		"it answers too late":    {Page{Process: 1, Asked: later}, context.DeadlineExceeded, last},
		"another answers late":   {Page{Process: 2, Asked: later}, context.DeadlineExceeded, Page{Asked: later}},
		"it does not listen":     {Page{Process: 1, Asked: later}, refused, Page{Asked: later}},
		"it was never started":   {Page{Asked: later}, errors.New("not started"), Page{Asked: later}},
		"another one has begun":  {Page{Process: 2, Asked: later, Text: []byte("a 0")}, nil, Page{Process: 2, Asked: later, Text: []byte("a 0")}},
		"it answers with a 500":  {Page{Process: 1, Asked: later}, errors.New("500"), last},
		"it answers for nothing": {Page{Process: 1, Asked: later}, nil, Page{Process: 1, Asked: later}},
	} {
		check.Equal(t, name, tc.want, KeepPage(last, tc.read, tc.err))
	}
}

func TestWindowsThatMeetAreOne(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	windows := []window{{at(100), at(110)}, {at(0), at(10)}, {at(5), at(8)}, {at(10), at(20)}, {at(25), at(30)}}
	check.Equal(t, "windows", fmt.Sprint([]window{{at(0), at(30)}, {at(100), at(110)}}), fmt.Sprint(mergeWindows(windows, 5*time.Second)))
	check.Equal(t, "windows of before", fmt.Sprint(window{at(100), at(110)}), fmt.Sprint(windows[0]))
	check.Equal(t, "no windows", 0, len(mergeWindows(nil, 0)))
}
