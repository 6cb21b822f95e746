package configloader

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

func TestLongEventsEndAtTheBorderOfACharacter(t *testing.T) {
	// One of the shifts puts every byte of a three-byte character at the cut.
	for _, shift := range []string{"", "a", "ab"} {
		recorder := record.NewFakeRecorder(1)
		g := &Loader{config: Config{Recorder: recorder}, lastContent: content{object: &corev1.ConfigMap{}}}
		g.recordEvent(corev1.EventTypeWarning, ReasonRejected, shift+strings.Repeat("卡", 1000))
		note := strings.TrimPrefix(<-recorder.Events, corev1.EventTypeWarning+" "+ReasonRejected+" ")
		if !utf8.ValidString(note) || !strings.HasSuffix(note, "卡…") || len(note) > maxEventNote || len(note) < maxEventNote-3 {
			t.Errorf("%d bytes, valid %v, ending %q", len(note), utf8.ValidString(note), note[len(note)-6:])
		}
	}
}
