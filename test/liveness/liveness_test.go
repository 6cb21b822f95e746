package liveness

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/testing/words"
)

// sequences is the number of sequences, and treeSequences that of sequences with trees of queues.
// The environment variable DRAWS overrides both defaults, as for properties.
var (
	sequences     = flag.Int("sequences", 1000, "how many random sequences of sessions are played")
	treeSequences = flag.Int("tree-sequences", 400, "how many random sequences of sessions are played in trees of queues")
)

// numberOfSequences returns how many sequences a test plays.
func numberOfSequences(t *testing.T, sequences int) int {
	t.Helper()
	given := os.Getenv("DRAWS")
	if given == "" {
		return sequences
	}
	return check.Value(strconv.Atoi(given))(t)
}

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // the clusters are small, so the heap may grow
	os.Exit(m.Run())
}

// inBubble runs in a bubble of testing/synctest, in which waiting takes no time.
func inBubble(t *testing.T, play func(*testing.T, *schedulerCache)) {
	t.Helper()
	m := newSchedulerCache()
	m.warmUp()
	synctest.Test(t, func(t *testing.T) {
		// A bubble starts in the year 2000; the warm-up happened later.
		time.Sleep(50 * 365 * 24 * time.Hour)
		play(t, m)
	})
}

// warmUp initialises the plugin's process-wide state outside of a bubble.
func (m *schedulerCache) warmUp() {
	w := m.newSequenceRun(parseSequence("node n model=A cards=1\nqueue inf quota={} priority=80000 serviceType=inference\njob i queue=inf min=1 pending=1"))
	w.syncCache()
	w.runSession(func() {})
}

// playSequence runs a sequence and returns what was wrong and what happened.
func (m *schedulerCache) playSequence(s sequence) (wrong string, trace []string) {
	w := m.newSequenceRun(s)
	wrong = w.run(synctest.Wait)
	if wrong != "" {
		w.traceReasons()
	}
	time.Sleep(5 * time.Minute) // pending writers give up
	synctest.Wait()
	return wrong, w.trace
}

// TestWhatFitsStarts runs random sequences.
func TestWhatFitsStarts(t *testing.T) { playRandomSequences(t, *sequences, generateSequence) }

// TestWhatFitsStartsBesidePreemption runs random sequences in which jobs of several queues preempt.
func TestWhatFitsStartsBesidePreemption(t *testing.T) {
	playRandomSequences(t, *sequences/4, generatePreempting)
}

// TestWhatFitsStartsBehindOthers runs random sequences in which gangs wait for the ends of other pods.
func TestWhatFitsStartsBehindOthers(t *testing.T) {
	playRandomSequences(t, *sequences/10, generateTurns)
}

// playRandomSequences runs random sequences, and reports the first failure as a short one.
func playRandomSequences(t *testing.T, number int, generate func(*rand.Rand) sequence) {
	t.Helper()
	r := seed.Rand(t)

	draws := numberOfSequences(t, number)
	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for range draws {
			s := generate(r)
			wrong, _ := m.playSequence(s)
			if wrong == "" {
				continue
			}
			s, wrong, trace := m.shrink(s, wrong)
			t.Fatalf("%s\nKeep this under testdata with a name that tells what happens:\n\n%s\n%s", wrong, s, strings.Join(trace, "\n"))
		}
	})
}

// TestStarvationIsNoticed runs schedulers with a part missing.
func TestStarvationIsNoticed(t *testing.T) {
	const fleet = "node n model=A cards=2\nqueue inf quota={\"A\":2} priority=80000 serviceType=inference\nqueue tra quota={\"A\":2} priority=20000 serviceType=training\n"
	const (
		waits = "job i queue=inf min=2 pending=2\n"
		runs  = "job t queue=tra min=2 running=n*2 age=1h\n"
	)

	sequences := map[string]struct{ text, wrong string }{
		"what fits starts":                       {fleet + waits, ""},
		"what fits is not started":               {fleet + waits + "policy without=allocate", "fits and waits"},
		"what fits beside others is not started": {fleet + "job a queue=tra min=2 pending=2\njob t queue=tra min=3 pending=3\npolicy without=allocate", "fits and waits for ever"},
		"what was promised is not started":       {fleet + waits + "job t queue=tra min=3 pending=3\npolicy without=allocate", "promised and waits for ever"},
		"what does not fit need not start":       {fleet + "job i queue=inf min=3 pending=3", ""},
		"what would fit without training starts": {fleet + runs + waits, ""},
		"training is not taken for inference":    {fleet + runs + waits + "policy without=cardreclaim", "may take and waits for ever"},
		"protected training need not be taken":   {fleet + "job t queue=tra min=2 running=n*2 age=1h preemptable=false\n" + waits + "policy without=cardreclaim", ""},
		"training that has run for too short":    {fleet + "job t queue=tra min=2 running=n*2 age=1m\n" + waits + "policy without=cardreclaim minimumRuntime=10m", ""},
		"who waits for quota may stand ahead":    {fleet + "job r queue=inf min=1 running=n age=1h\njob a queue=inf min=2 pending=2\nsession 2: job b queue=inf min=1 pending=1\n", ""},
		"who waits for nodes only does not":      {strings.Replace(fleet, `quota={"A":2} priority=8`, `quota={"A":4} priority=8`, 1) + "job a queue=inf min=3 pending=3\nsession 2: job b queue=inf min=2 pending=2\n", ""},
	}

	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for name, tc := range sequences {
			wrong, trace := m.playSequence(parseSequence(tc.text))
			check.That(t, failureKind(wrong) == tc.wrong, "%s: found %q, want %q\n%s", name, wrong, tc.wrong, strings.Join(trace, "\n"))
		}
	})
}

// failureKind returns the part of a failure that stays the same while a sequence is shortened.
func failureKind(wrong string) string {
	before, _, _ := strings.Cut(wrong, ":")
	return before
}

// shrink removes from a sequence what the failure does not need.
func (m *schedulerCache) shrink(s sequence, wrong string) (sequence, string, []string) {
	var trace []string
	for shorter := true; shorter; {
		shorter = false
		for i := 0; i < len(s); i++ {
			without := append(append(sequence{}, s[:i]...), s[i+1:]...)
			if !without.isWhole() {
				continue
			}

			if again, happened := m.playSequence(without); again != "" && failureKind(again) == failureKind(wrong) {
				s = without
				wrong = again
				trace = happened
				shorter = true
				i--
			}
		}
	}

	if trace == nil {
		_, trace = m.playSequence(s)
	}

	return s, wrong, trace
}

// queuesAndNodes returns the names of the queues and nodes of a sequence.
func (s sequence) queuesAndNodes() map[string]bool {
	named := map[string]bool{}
	for _, line := range words.Lines(s.String()) {
		if line.Verb == "queue" || line.Verb == "node" {
			named[line.Name()] = true
		}
	}
	return named
}

// isWhole reports whether a sequence has all queues and nodes that it names.
func (s sequence) isWhole() bool {
	named := s.queuesAndNodes()
	for _, text := range s {
		if _, step, is := strings.Cut(text, ": "); is {
			text = step
		}

		line := words.Lines(text)[0]
		if line.Verb == "setQuota" && !named[line.Name()] {
			return false
		}

		for _, word := range line.Words {
			if !areNamed(word, named) {
				return false
			}
		}
	}

	return true
}

// areNamed reports whether a word names only known queues and nodes.
func areNamed(word words.Word, named map[string]bool) bool {
	switch word.Key {
	case "queue", "parent":
		return named[word.Value]
	case "running":
		for on := range strings.SplitSeq(word.Value, ",") {
			if node, _, _ := strings.Cut(on, "*"); !named[node] {
				return false
			}
		}
	}

	return true
}

// TestKeptSequences runs the sequences that failed once.
func TestKeptSequences(t *testing.T) {
	files := check.Value(filepath.Glob("testdata/*.txt"))(t)
	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for _, file := range files {
			wrong, trace := m.playSequence(parseSequence(string(check.Value(os.ReadFile(file))(t))))
			check.That(t, wrong == "", "%s: %s\n%s", file, wrong, strings.Join(trace, "\n"))
		}
	})
}
