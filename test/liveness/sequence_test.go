package liveness

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/testing/words"
)

// sequence is a text, one line each:
//
//	node …, queue …, job …     as package session reads them
//	policy …                   preempt=, minimumRuntime=, reclaim=off, without=ACTION, queueHierarchy=Tree, check=Tree,
//	                           period=
//	session 3: STEP            before the third session
//
// With reclaim=off cardreclaim does not run, and no job needs to take cards of other queues. A scheduler
// without an action is one that does less than it must.
//
// With queueHierarchy=Tree the queues form a tree. With check=Tree they are scheduled flat and checked as
// a tree.
//
// With preempt=last the action preempt comes after cardreclaim, as the operator writes it. With
// preempt=first it comes before, as an administrator may write it. The period is the time between sessions
// while steps happen.
//
// A step is a job or a queue, which is replaced, or one of:
//
//	deleteJob NAME                 its owner deletes it
//	deleteOldestJob queue=NAME     the owner of the job that has run for the longest time deletes it
//	deletePod NAME
//	cordon NODE, uncordon NODE, down NODE, up NODE
//	setQuota QUEUE quota=
//	delay pods|groups sessions=N   changes are not seen for N sessions
//	faults percent=N seed=N        so many of the writes fail; 0 ends it
type sequence []string

func parseSequence(text string) sequence {
	var lines sequence
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (s sequence) String() string { return strings.Join(s, "\n") + "\n" }

// stepsOf returns the steps of a session, counted from one.
func (s sequence) stepsOf(session int) []string {
	var steps []string
	prefix := fmt.Sprintf("session %d: ", session)
	for _, line := range s {
		if step, is := strings.CutPrefix(line, prefix); is {
			steps = append(steps, step)
		}
	}
	return steps
}

// lastSession returns the session before which the last step happens.
func (s sequence) lastSession() int {
	last := 0
	for _, line := range s {
		if rest, is := strings.CutPrefix(line, "session "); is {
			last = max(last, mustParseInt(rest[:strings.Index(rest, ":")]))
		}
	}
	return last
}

func mustParseInt(text string) int {
	n, err := strconv.Atoi(text)
	utilruntime.Must(err)
	return n
}

// slice is the resource of a MIG slice.
const slice = corev1.ResourceName("nvidia.com/mig-1g.18gb")

// taint excludes pods that do not tolerate it.
const taint = "reserved"

// policy returns the words of the policies of a sequence.
func (s sequence) policy() (described []words.Word) {
	for _, line := range words.Lines(s.String()) {
		if line.Verb == "policy" {
			described = append(described, line.Words...)
		}
	}
	return described
}

// job is the result of a job line.
type job struct {
	group *v1beta1.PodGroup
	pods  []*corev1.Pod
	// isVCJob reports whether Volcano's job controller manages it, inelastic whether it
	// restarts the whole job when a pod is deleted.
	isVCJob, inelastic bool
	// restarts reports whether all of its pods end before new ones are created.
	restarts bool
}

// parseJob parses the line of a job. Its PodGroup has the minimum of cards, and is Pending unless pods run or the
// line says so.
func parseJob(id int64, line words.Line) *job {
	pods, _ := strconv.Atoi(line.Value("min"))
	cards := mustParseInt(cmp.Or(line.Value("cards"), "1"))
	line.Words = append(slices.Clone(line.Words), words.Word{Key: "minCards", Value: fmt.Sprint(pods * cards)})
	if line.Value("running") == "" && line.Value("phase") == "" {
		line.Words = append(line.Words, words.Word{Key: "phase", Value: "Pending"})
	}

	made := &session.Cluster{ID: id, Now: time.Now()}
	made.AddLine(line)
	group := made.Groups[0]
	group.CreationTimestamp = metav1.Now()
	return &job{group: group, pods: made.Pods, isVCJob: line.Value("owner") == "vcjob", inelastic: line.Value("evictionPolicy") == "RestartJob"}
}
