package liveness

import (
	"cmp"
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

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // the clusters are small, so the heap may grow
	os.Exit(m.Run())
}

// inBubble runs in a bubble of testing/synctest, in which waiting takes no time.
func inBubble(t *testing.T, play func(*testing.T, *schedulerCache)) {
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

// TestWhatFitsStarts: random sequences of scheduling sessions, on small clusters whose API server is slow or
// refuses writes. After the last change of a sequence, every gang or pod that fits its quota and the nodes must
// start. Every pod that was evicted must have served another one. The package comment lists all that is
// checked. A failure is shortened to the fewest lines that still fail.
func TestWhatFitsStarts(t *testing.T) { playRandomSequences(t, *sequences, generateSequence) }

// TestWhatFitsStartsBesidePreemption: random sequences of scheduling sessions in which jobs of several queues
// preempt: a job of higher priority evicts others of its queue. After the last change of a sequence, every gang or
// pod that fits must start. All other checks of the package comment must pass too, those of preemption among them.
func TestWhatFitsStartsBesidePreemption(t *testing.T) {
	playRandomSequences(t, *sequences/4, generatePreempting)
}

// TestWhatFitsStartsWhenOtherPodsEnd: random sequences of scheduling sessions in which a gang gets its cards one by
// one, as pods of other jobs end. The gang must start after a bounded number of such ends, although new pods would
// take the cards. All other checks of the package comment must pass too.
func TestWhatFitsStartsWhenOtherPodsEnd(t *testing.T) {
	playRandomSequences(t, *sequences/10, generateTurns)
}

// playRandomSequences runs random sequences, and reports the first failure as a short one.
func playRandomSequences(t *testing.T, number int, generate func(*rand.Rand) sequence) {
	r := seed.Rand(t)

	draws := check.Value(strconv.Atoi(cmp.Or(os.Getenv("DRAWS"), strconv.Itoa(number))))(t)
	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for range draws {
			s := generate(r)
			wrong, _ := m.playSequence(s)
			if wrong == "" {
				continue
			}
			s, wrong, trace := m.shrink(s, wrong)
			t.Fatalf("%s\nKeep this under testdata with a name that says what happens:\n\n%s\n%s", wrong, s, strings.Join(trace, "\n"))
		}
	})
}

// sequenceCase is a sequence and the kind of failure that is found in it, "" for none.
type sequenceCase struct{ sequence, wantFailure string }

// playAndExpectFailures plays sequences, and compares the kinds of their failures.
func playAndExpectFailures(t *testing.T, sequences map[string]sequenceCase) {
	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for name, tc := range sequences {
			wrong, trace := m.playSequence(parseSequence(tc.sequence))
			check.That(t, failureKind(wrong) == tc.wantFailure, "%s: found %q, want %q\n%s", name, wrong, tc.wantFailure, strings.Join(trace, "\n"))
		}
	})
}

// TestASchedulerThatDoesLessThanItMustIsFound: the checks of the random sequences must find a scheduler without one
// of its actions. "policy without=allocate" is one that starts nothing, "without=cardreclaim" one that takes nothing
// back. Node n has 2 cards A. Queues inf (inference) and tra (training) have a quota of 2 each, and inference may
// reclaim from training. "job i queue=inf min=2 pending=2" is a gang of two pods that waits, with a card each;
// "running=n*2" are two pods that run on n. A line "session 2: job b" adds job b before the second session. Each row
// wants the failure that the checks find. "fits and waits" is found after a few sessions in which nothing else waits,
// and "… for ever" once the cluster is at rest. "pipelined" is a gang for which sessions keep nodes, but never bind
// it.
func TestASchedulerThatDoesLessThanItMustIsFound(t *testing.T) {
	const fleet = `
		node n model=A cards=2
		queue inf quota={"A":2} priority=80000 serviceType=inference
		queue tra quota={"A":2} priority=20000 serviceType=training
	`
	const (
		inferenceWaits = "job i queue=inf min=2 pending=2\n"
		trainingRuns   = "job t queue=tra min=2 running=n*2 age=1h\n"
		allocateLacks  = "policy without=allocate\n"
		reclaimLacks   = "policy without=cardreclaim\n"
	)

	playAndExpectFailures(t, map[string]sequenceCase{
		"a gang of 2 fits, and starts":         {fleet + inferenceWaits, ""},
		"a gang of 2 fits, and nothing starts": {fleet + inferenceWaits + allocateLacks, "fits and waits"},
		"a gang of 2 fits beside jobs that wait too, and nothing starts": {fleet + `
			job a queue=tra min=2 pending=2
			job t queue=tra min=3 pending=3
		` + allocateLacks, "fits and waits for ever"},
		"cardreclaim pipelines a gang of inference onto free cards, beside a job that waits too, and nothing starts": {fleet + inferenceWaits + `
			job t queue=tra min=3 pending=3
		` + allocateLacks, "pipelined and waits for ever"},
		"a gang of 3 does not fit":                    {fleet + "job i queue=inf min=3 pending=3", ""},
		"training runs on both cards, and is evicted": {fleet + trainingRuns + inferenceWaits, ""},
		"training runs on both cards, and nothing is reclaimed": {
			fleet + trainingRuns + inferenceWaits + reclaimLacks, "may take and waits for ever",
		},
		"training is not preemptable, and nothing is reclaimed": {fleet + `
			job t queue=tra min=2 running=n*2 age=1h preemptable=false
		` + inferenceWaits + reclaimLacks, ""},
		"training has run for 1 of 10 minutes that it may run, and nothing is reclaimed": {fleet + `
			job t queue=tra min=2 running=n*2 age=1m
		` + inferenceWaits + `policy without=cardreclaim minimumRuntime=10m`, ""},
		"a job waits for quota, which is reserved for it, so one behind it that would fit waits too": {fleet + `
			job r queue=inf min=1 running=n age=1h
			job a queue=inf min=2 pending=2
			session 2: job b queue=inf min=1 pending=1
		`, ""},
		"a job waits for nodes, and one behind it that fits starts": {`
			node n model=A cards=2
			queue inf quota={"A":4} priority=80000 serviceType=inference
			queue tra quota={"A":2} priority=20000 serviceType=training
			job a queue=inf min=3 pending=3
			session 2: job b queue=inf min=2 pending=2
		`, ""},
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

// TestSequencesThatFailedOnceDoNotFailAgain: testdata has each sequence in which a random test found a fault of
// the scheduler, with a name that says what happens. All of them must be played without a failure.
func TestSequencesThatFailedOnceDoNotFailAgain(t *testing.T) {
	files := check.Value(filepath.Glob("testdata/*.txt"))(t)
	inBubble(t, func(t *testing.T, m *schedulerCache) {
		for _, file := range files {
			wrong, trace := m.playSequence(parseSequence(string(check.Value(os.ReadFile(file))(t))))
			check.That(t, wrong == "", "%s: %s\n%s", file, wrong, strings.Join(trace, "\n"))
		}
	})
}
