package liveness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/session"
)

// sequence is a text, one statement a line:
//
//	node …, queue …                    as package session reads them
//	mig NAME MODEL SLICES              a node whose cards are slices 1g.18gb
//	job NAME QUEUE MIN: …              a job as package session reads it, with more options
//	policy [preempt] [minimumRuntime=10m] [reclaim=off] [without=ACTION] [tree|asks]
//	       [period=1s]
//	at 3: STEP                         before the third session
//
// With reclaim=off cardreclaim does not run, and no job needs to take cards of other queues. A scheduler
// without an action is one that does less than it must.
//
// With tree the queues form a tree. With asks they are scheduled flat and checked as a tree.
//
// The action preempt comes after cardreclaim, as the operator writes it. With preempt=first it
// comes before, as an administrator may write it. The period is the time between sessions while steps
// happen.
//
// A job may also have the options mig (slices instead of cards), tolerates (the taint), apart
// (one pod per node), cpu= (of each pod), each=ps:0,worker:2 (the cards of each pod of a
// task), grace=20s (how long its pods take to end) and rising (each pod has a higher task priority
// than the one before).
//
// A step is a job, or one of: end JOB (its owner deletes it), finish QUEUE (the owner of the job that has
// run for the longest time deletes it), delete POD, cordon NODE, uncordon
// NODE, down NODE, up NODE, quota QUEUE TEXT, queue … (it is replaced), hold pods|groups N (changes are not seen for N
// sessions), faults PERCENT SEED (of the writes fail; 0 ends it).
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
	prefix := fmt.Sprintf("at %d: ", session)
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
		if rest, is := strings.CutPrefix(line, "at "); is {
			last = max(last, mustParseInt(rest[:strings.Index(rest, ":")]))
		}
	}
	return last
}

func mustParseInt(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// slice is the resource of a MIG slice.
const slice = corev1.ResourceName("nvidia.com/mig-1g.18gb")

// taint excludes pods that do not tolerate it.
const taint = "reserved"

// parseNode parses a statement of nodes, nil for any other.
func parseNode(id int64, line string) []*corev1.Node {
	words := strings.Fields(line)
	switch words[0] {
	case "node":
		tainted := slices.Contains(words, taint)
		made := addText(&session.Cluster{ID: id}, strings.TrimSuffix(line, " "+taint)).Nodes
		for _, n := range made {
			if tainted {
				n.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
			}
		}

		return made
	case "mig":
		made := builder.Node(words[1]).GPUs(words[2], 0).MIG("1g.18gb", mustParseInt(words[3])).Label(corev1.LabelHostname, words[1]).Obj()
		return []*corev1.Node{made}
	}

	return nil
}

// job is the result of a job statement.
type job struct {
	group *v1beta1.PodGroup
	pods  []*corev1.Pod
	// isVCJob reports whether Volcano's job controller manages it, inelastic whether it
	// restarts the whole job when a pod is deleted.
	isVCJob, inelastic bool
	// restarts reports whether all of its pods end before new ones are created.
	restarts bool
}

// podChangeFor returns how a word changes each pod of a job, nil if it changes none.
func podChangeFor(word, job string) func(*corev1.Pod) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "tolerates":
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}}
		}
	case "apart":
		return func(p *corev1.Pod) { keepApart(p, job) }
	case "cpu":
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(value)
		}
	case "grace":
		return func(p *corev1.Pod) { setGracePeriod(p, value) }
	case "rising":
		return raiseWithIndex
	case "each":
		return func(p *corev1.Pod) { setCards(p, value) }
	}

	return nil
}

// parseJob parses a job statement without the word job.
func parseJob(id int64, line string) *job {
	j := &job{}
	kept := []string{}
	changes := []func(*corev1.Pod){}
	words := strings.Fields(line)

	cards := "1"
	isMIG := false
	runs := false
	for _, word := range words {
		if change := podChangeFor(word, words[0]); change != nil {
			changes = append(changes, change)
			continue
		}

		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "mig":
			isMIG = true
			continue
		case "vcjob":
			j.isVCJob = true
			j.inelastic = value == "inelastic"
		case "cards":
			cards = value
		}

		runs = runs || (!strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && len(kept) > 2)
		kept = append(kept, word)
	}

	least := mustParseInt(strings.TrimSuffix(words[2], ":")) * mustParseInt(cards)
	kept = append(kept, fmt.Sprintf("least=%d", least))
	if !runs {
		kept = append(kept, "phase=Pending")
	}

	if isMIG {
		changes = append(changes, useSlices)
	}

	made := addText(&session.Cluster{ID: id, Now: time.Now()}, strings.Join(kept, " "), changes...)
	j.group = made.Groups[0]
	j.pods = made.Pods
	j.group.CreationTimestamp = metav1.Now()
	if isMIG {
		sliceOf(*j.group.Spec.MinResources)
	}

	return j
}

// keepApart allows one pod of a job per node.
func keepApart(p *corev1.Pod, job string) {
	p.Labels["apart"] = job
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": job}},
	}}}}
}

// setGracePeriod sets how long a pod takes to end.
func setGracePeriod(p *corev1.Pod, text string) {
	grace, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	seconds := int64(grace / time.Second)
	p.Spec.TerminationGracePeriodSeconds = &seconds
}

// raiseWithIndex gives a pod a task priority: its number in the job.
func raiseWithIndex(p *corev1.Pod) {
	p.Annotations["volcano.sh/task-priority"] = p.Name[strings.LastIndex(p.Name, "-")+1:]
}

// setCards sets the cards of a pod by its task: "ps:0,worker:2".
func setCards(p *corev1.Pod, text string) {
	for _, each := range strings.Split(text, ",") {
		task, cards, _ := strings.Cut(each, ":")
		if p.Annotations["volcano.sh/task-spec"] != task {
			continue
		}
		p.Spec.Containers[0].Resources.Requests[session.GPU] = resource.MustParse(cards)
		if cards == "0" {
			delete(p.Spec.Containers[0].Resources.Requests, session.GPU)
			delete(p.Annotations, "volcano.sh/card.name")
		}
	}
}

// useSlices makes a pod request slices instead of cards.
func useSlices(p *corev1.Pod) {
	sliceOf(p.Spec.Containers[0].Resources.Requests)
	p.Annotations["volcano.sh/card.name"] += "/mig-1g.18gb-mixed"
}

func sliceOf(list corev1.ResourceList) {
	list[slice] = list[session.GPU]
	delete(list, session.GPU)
}
