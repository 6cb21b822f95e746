package tide

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// log feeds a book with what a watch would show, second by second.
type log struct {
	*Book
	now time.Time
}

func newLog() *log {
	return &log{Book: &Book{workloads: map[string]*workload{}}, now: time.Unix(1_000_000, 0)}
}

func (l *log) after(seconds int) { l.now = l.now.Add(time.Duration(seconds) * time.Second) }

// podOf is the pod of a workload that was made at so many-th try.
func podOf(role, group string, member, try int, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	p.Name = fmt.Sprintf("%s-%d", group, member)
	p.UID = types.UID(fmt.Sprintf("%s/%d", p.Name, try))
	p.Labels = map[string]string{roleLabel: role, groupLabel: group}
	if phase != corev1.PodPending {
		p.Spec.NodeName = "node"
	}
	return p
}

// run lets members of a workload run.
func (l *log) run(role, group string, try int, members ...int) {
	for _, m := range members {
		l.see(podOf(role, group, m, try, corev1.PodPending), l.now)
		l.see(podOf(role, group, m, try, corev1.PodRunning), l.now)
	}
}

// delete marks members as deleted and lets them go.
func (l *log) delete(role, group string, try int, members ...int) {
	for _, m := range members {
		p := podOf(role, group, m, try, corev1.PodRunning)
		p.DeletionTimestamp = &metav1.Time{Time: l.now}
		l.see(p, l.now)
		p.Status.Phase = corev1.PodFailed
		l.see(p, l.now)
		l.forget(p, l.now)
	}
}

var all = []int{0, 1, 2, 3, 4, 5, 6, 7}

func TestABrokenGangLosesTheWorkOfAllItsPodsOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(*log)
		want Loss
		held State
	}{
		"nothing happens": {func(*log) {}, Loss{}, State{Gangs: 1, Cards: 8}},
		"one pod goes, the others run on": {
			func(l *log) { l.delete(trainer, "a", 1, 3) },
			Loss{Gangs: 1, CardSeconds: 80}, State{Partial: 1, Cards: 7},
		},
		"the others go two seconds later": {
			func(l *log) {
				l.delete(trainer, "a", 1, 3)
				l.after(2)
				l.delete(trainer, "a", 1, 0, 1, 2, 4, 5, 6, 7)
			},
			Loss{Gangs: 1, CardSeconds: 80, Apart: 2 * time.Second}, State{},
		},
		"it comes back and is broken again after three seconds": {
			func(l *log) {
				l.delete(trainer, "a", 1, all...)
				l.run(trainer, "a", 2, all...)
				l.after(3)
				l.delete(trainer, "a", 2, all...)
			},
			Loss{Gangs: 2, CardSeconds: 80 + 24}, State{},
		},
		"it is broken again before it was whole": {
			func(l *log) {
				l.delete(trainer, "a", 1, all...)
				l.run(trainer, "a", 2, 0, 1, 2)
				l.after(3)
				l.delete(trainer, "a", 2, 0, 1, 2)
			},
			Loss{Gangs: 1, CardSeconds: 80, Apart: 3 * time.Second}, State{},
		},
		"a pod that waits is replaced": {
			func(l *log) {
				l.see(podOf(trainer, "b", 0, 1, corev1.PodPending), l.now)
				l.forget(podOf(trainer, "b", 0, 1, corev1.PodPending), l.now)
			},
			Loss{}, State{Gangs: 1, Cards: 8},
		},
		"a single pod goes after four seconds": {
			func(l *log) {
				l.run(single, singles, 1, 0, 1)
				l.after(4)
				l.delete(single, singles, 1, 0)
			},
			Loss{Singles: 1, CardSeconds: 4}, State{Gangs: 1, Singles: 1, Cards: 9},
		},
		"inference leaves": {
			func(l *log) {
				l.run(inference, "chat", 1, 0, 1)
				l.delete(inference, "chat", 1, 0)
			},
			Loss{}, State{Gangs: 1, Inference: 1, Cards: 9},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog()
			l.run(trainer, "a", 1, all...)
			l.after(10)
			l.open()
			tc.play(l)
			if got := l.account(); got != tc.want {
				t.Errorf("lost %+v, want %+v", got, tc.want)
			}
			if got := l.State(); got != tc.held {
				t.Errorf("held %+v, want %+v", got, tc.held)
			}
		})
	}
}

func TestGangsThatAreNotWholeAreNamed(t *testing.T) {
	l := newLog()
	for _, gang := range []string{"c", "a", "b"} {
		l.run(trainer, gang, 1, all...)
	}
	l.run(single, singles, 1, 0)
	l.delete(trainer, "c", 1, 0)
	l.delete(trainer, "b", 1, all...)
	if got := fmt.Sprint(l.notWhole()); got != "[b c]" {
		t.Errorf("not whole: %s", got)
	}
}

func TestFaultsOfATide(t *testing.T) {
	good := Scene{Pods: 80, Done: 80, Loss: Loss{Gangs: 11, Least: 10}}
	for name, tc := range map[string]struct {
		change func(*Scene)
		want   string
	}{
		"none":                       {func(*Scene) {}, "[]"},
		"more gangs than a tenth":    {func(s *Scene) { s.Loss.Gangs = 12 }, "[12 gangs broken, at most 11.0 may be]"},
		"a gang is left in part":     {func(s *Scene) { s.Loss.Partial = 1 }, "[1 gangs left running in part]"},
		"retries are counted":        {func(s *Scene) { s.Loss.Retries = 3 }, "[3 retries counted against jobs]"},
		"inference is not served":    {func(s *Scene) { s.Done = 79 }, "[79 of 80 pods served]"},
		"nobody had to go, one went": {func(s *Scene) { s.Loss = Loss{Gangs: 1} }, "[1 gangs broken, at most 0.0 may be]"},
	} {
		s := good
		tc.change(&s)
		if got := fmt.Sprint(s.Faults()); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got := Late("bound", 31*time.Second, FloodLimit); got != "bound after 31.0 s, limit 30 s" {
		t.Errorf("late: %q", got)
	}
	if got := Late("bound", FloodLimit, FloodLimit); got != "" {
		t.Errorf("in time: %q", got)
	}
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var values []time.Duration
	for i := 50; i > 0; i-- {
		values = append(values, time.Duration(i)*time.Second)
	}
	for part, want := range map[float64]time.Duration{0.5: 25 * time.Second, 0.95: 48 * time.Second, 1: 50 * time.Second, 0: time.Second} {
		if got := Quantile(values, part); got != want {
			t.Errorf("%v of 50: %s, want %s", part, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
}
