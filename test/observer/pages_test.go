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

// TestTheLastPageIsKeptWhileItsProgramAnswersLate: the observer reads the metrics of a program again and again. If the
// same process answers late or with an error, its last page still counts. A process that does not listen, or another one
// that does not answer, has no page: only the time of the attempt is kept. The last page is of process 1.
func TestTheLastPageIsKeptWhileItsProgramAnswersLate(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	last := Page{Process: 1, Asked: at, Answered: at, Text: []byte("a 1")}
	later := at.Add(time.Second)
	noPage := Page{Asked: later}

	for t, tc := range check.Cases(t, map[string]struct {
		read Page
		err  error
		want Page
	}{
		"process 1 answers": {
			read: Page{Process: 1, Asked: later, Text: []byte("a 2")},
			want: Page{Process: 1, Asked: later, Text: []byte("a 2")},
		},
		"process 1 answers with an empty page": {
			read: Page{Process: 1, Asked: later},
			want: Page{Process: 1, Asked: later},
		},
		"process 2 answers": {
			read: Page{Process: 2, Asked: later, Text: []byte("a 0")},
			want: Page{Process: 2, Asked: later, Text: []byte("a 0")},
		},
		"process 1 answers too late":      {read: Page{Process: 1, Asked: later}, err: context.DeadlineExceeded, want: last},
		"process 1 answers with an error": {read: Page{Process: 1, Asked: later}, err: errors.New("500"), want: last},
		"process 2 answers too late":      {read: Page{Process: 2, Asked: later}, err: context.DeadlineExceeded, want: noPage},
		"process 1 does not listen": {
			read: Page{Process: 1, Asked: later}, err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED), want: noPage,
		},
		"the program was not started": {read: Page{Asked: later}, err: errors.New("not started"), want: noPage},
	}) {
		check.Equal(t, "page", tc.want, KeepPage(last, tc.read, tc.err))
	}
}

// TestTimesOfUncertaintyAreMergedAcrossShortGaps: a recount subtracts each time in which nothing is certain. Such times
// are merged if they overlap or if at most 5 s lie between them, so that no second is subtracted twice.
func TestTimesOfUncertaintyAreMergedAcrossShortGaps(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	// 5 to 8 lies in 0 to 10; 10 to 20 follows at once; 25 to 30 follows after 5 s; 36 to 40 follows after 6 s.
	windows := []window{{at(36), at(40)}, {at(0), at(10)}, {at(5), at(8)}, {at(10), at(20)}, {at(25), at(30)}}

	check.Equal(t, "merged", fmt.Sprint([]window{{at(0), at(30)}, {at(36), at(40)}}), fmt.Sprint(mergeWindows(windows, 5*time.Second)))
	check.Equal(t, "the first of the given windows, which stay as they are", fmt.Sprint(window{at(36), at(40)}), fmt.Sprint(windows[0]))
	check.Equal(t, "merged, of none", 0, len(mergeWindows(nil, 0)))
}
