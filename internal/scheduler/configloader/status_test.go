package configloader

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"cardquota.dev/operator/internal/testing/check"
)

// TestEventsAreCutAtTheLimitOfTheAPI: the API server refuses an event whose note has more than 1024 bytes
// (maxEventNote). The loader cuts a longer message after a whole character, and ends it with "…", which has three
// bytes. A Chinese character has three bytes as well. So in each of the three rows with it another byte of the
// character is at the limit, and 339 or 340 whole ones fit. A "%d" in a message is no format; otherwise the note
// would be longer.
func TestEventsAreCutAtTheLimitOfTheAPI(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		message   string
		wantBytes int
	}{
		"%d and 5000 letters":                     {"%d" + strings.Repeat("x", 5000), maxEventNote},
		"1000 Chinese characters":                 {strings.Repeat("卡", 1000), 3*340 + 3},
		"a letter and 1000 Chinese characters":    {"a" + strings.Repeat("卡", 1000), 1 + 3*340 + 3},
		"two letters and 1000 Chinese characters": {"ab" + strings.Repeat("卡", 1000), 2 + 3*339 + 3},
	}) {
		recorder := record.NewFakeRecorder(1)
		loader := &Loader{config: Config{Recorder: recorder}, lastContent: content{object: newConfigMap(valid)}}
		loader.recordEvent(corev1.EventTypeWarning, ReasonRejected, tc.message)

		note, isRejected := strings.CutPrefix(<-recorder.Events, "Warning ConfigurationRejected ")
		check.That(t, isRejected, "the event has another type or reason: %s", note)
		check.That(t, utf8.ValidString(note), "the note ends within a character: %q", note)
		check.Equal(t, "bytes of the note", tc.wantBytes, len(note))
		check.That(t, strings.HasSuffix(note, "…"), "the note does not end with …: %s", note)
	}
}

// TestArgumentsWithoutEffectHaveAWarning: Volcano ignores the argument enableTopologyAwarePreemption of the action
// preempt if its value is in quotes, as here. The loader loads the text all the same, and a second event warns of the
// argument.
func TestArgumentsWithoutEffectHaveAWarning(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	text := valid + "configurations:\n- name: preempt\n  arguments:\n    enableTopologyAwarePreemption: \"true\"\n"
	loader := check.Value(New(Config{Source: fixedSource(text), Dir: t.TempDir(), Known: knownNames(), Recorder: recorder, Log: logr.Discard()}))(t)
	loader.reload()

	check.Equal(t, "reason", ReasonLoaded, loader.Status().Reason)
	check.Contains(t, "first event", <-recorder.Events, "Normal ConfigurationLoaded")
	check.Contains(t, "second event", <-recorder.Events, "Warning ArgumentIgnored", "enableTopologyAwarePreemption")
}

// TestHeartbeatsReportEveryProblemOfTheConfiguration: the operator learns from the heartbeat why the scheduler does not
// use the configuration. So the heartbeat has the message of the loader for every reason but Loaded, which is no
// problem.
func TestHeartbeatsReportEveryProblemOfTheConfiguration(t *testing.T) {
	for reason, want := range map[string]string{
		ReasonLoaded:        "",
		ReasonRejected:      "message",
		ReasonMissing:       "message",
		ReasonNotWritten:    "message",
		ReasonNotConfigured: "message",
	} {
		check.Equal(t, "problem for reason "+reason, want, Status{Reason: reason, Message: "message"}.Problem())
	}
}
