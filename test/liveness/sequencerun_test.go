package liveness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	"volcano.sh/volcano/pkg/scheduler"

	// Volcano's own actions register themselves.
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/actions"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/words"
	"cardquota.dev/operator/internal/workload"
)

// sequenceRun runs one sequence.
type sequenceRun struct {
	*schedulerCache
	id     int64
	script sequence
	server *apiServer
	nodes  map[string]*corev1.Node
	down   map[string]bool
	queues map[string]words.Line // the line of each queue
	// isTree reports whether queues form a tree, of these objects.
	isTree       bool
	queueObjects map[string]*v1beta1.Queue
	version      int
	jobs         map[string]*job
	born         int
	// seen are the objects in Volcano's cache, by name.
	seen map[string]*corev1.Pod
	// delayPods and delayGroups are for how many more sessions changes are not seen.
	delayPods, delayGroups int
	// late are delayed bindings.
	late []*cache.BindContext

	plugins        []conf.Tier
	configurations []conf.Configuration
	actions        []framework.Action
	minimumRuntime time.Duration
	preempts       bool
	// reclaimsNothing reports whether the administrator has switched reclaim off.
	reclaimsNothing bool
	// period is the time between sessions while steps happen.
	period time.Duration

	ssn *framework.Session
	// last is what the last session saw when it opened, after what it had done before it
	// closed.
	last, after *sessionView
	// disturbed is when an administrator, or a node that went down, changed last what jobs can get.
	disturbed time.Time
	// changed is when something changed last, state what exists since then.
	changed time.Time
	state   string
	quiet   bool
	sessionMemory
	trace []string
}

// shippedConf is the configuration that the operator renders from Volcano's.
const shippedConf = "../../internal/schedulerconfig/testdata/render/installer_1_14/rendered.conf"

// newSequenceRun starts a sequence.
func (m *schedulerCache) newSequenceRun(script sequence) *sequenceRun {
	m.runs++
	w := &sequenceRun{
		schedulerCache: m, id: 1_000_000 + m.runs, period: time.Second, script: script, server: newServer(), nodes: map[string]*corev1.Node{}, down: map[string]bool{},
		queues: map[string]words.Line{}, queueObjects: map[string]*v1beta1.Queue{}, jobs: map[string]*job{}, seen: map[string]*corev1.Pod{}, sessionMemory: newSessionMemory(),
	}

	m.current = w
	m.cache.Client().(*fake.Clientset).ClearActions()
	m.cache.VCClient().(*vcfake.Clientset).ClearActions()

	c := m.cache
	c.Jobs = map[api.JobID]*api.JobInfo{}
	c.Nodes = map[string]*api.NodeInfo{}
	c.Queues = map[api.QueueID]*api.QueueInfo{}
	c.NodeList = nil
	for name, value := range map[string]int32{"low": 20000, "high": 80000} {
		c.AddPriorityClass(builder.PriorityClass(name, value))
	}

	utilruntime.Must(w.podIndexer().Replace(nil, ""))

	w.loadConfiguration()
	for _, line := range script {
		if !strings.HasPrefix(line, "session ") && !strings.HasPrefix(line, "policy") {
			w.applyStep(line)
		}
	}

	w.disturbed = time.Time{} // the first objects disturb nothing
	return w
}

// loadConfiguration loads the shipped configuration with the changes of the sequence.
func (w *sequenceRun) loadConfiguration() {
	shipped, err := os.ReadFile(shippedConf)
	utilruntime.Must(err)

	text := string(shipped)
	for _, word := range w.script.policy() {
		text = w.applyOption(text, word)
	}

	// As cmd/scheduler does.
	shared := actions.NewShared(w.cards, w)
	preempt := actions.NewPreempt(shared)
	framework.RegisterAction(actions.NewCardReclaim(shared))
	framework.RegisterAction(preempt)
	framework.RegisterAction(actions.NewAllocate(shared))
	w.cache.Evictor = preempt.Evictor().Use(w.cache.Client(), w.cache.Recorder)

	text = strings.Replace(text, "minimumRuntime: 10m0s", "minimumRuntime: "+w.minimumRuntime.String(), 1)
	w.actions, w.plugins, w.configurations, _, err = scheduler.UnmarshalSchedulerConf(text)
	utilruntime.Must(err)
}

// applyOption applies an option of a sequence's policy, and returns the configuration with it. The minimum
// runtime is not in it yet.
func (w *sequenceRun) applyOption(text string, option words.Word) string {
	value := option.Value
	switch option.Key {
	case "check": // as a tree, although scheduled flat
		w.isTree = true
	case "queueHierarchy":
		w.isTree = true
		text = strings.Replace(text, "          cardUnlimitedCpuMemory", "          queueHierarchy: Tree\n          cardUnlimitedCpuMemory", 1)
	case "preempt":
		w.preempts = true
		text = addPreempt(text, value == "first")
	case "reclaim":
		w.reclaimsNothing = true
		text = removeAction(text, "cardreclaim")
	case "without":
		text = removeAction(text, value)
	case "period":
		w.period = mustParseDuration(value)
	case "minimumRuntime":
		w.minimumRuntime = mustParseDuration(value)
	default:
		panic(fmt.Sprintf("unknown word %q of a policy", option))
	}

	return text
}

func mustParseDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	utilruntime.Must(err)
	return d
}

// removeAction removes an action from a configuration.
func removeAction(text, action string) string {
	text = strings.Replace(text, action+", ", "", 1)
	return strings.Replace(text, ", "+action, "", 1)
}

// addPreempt adds the action preempt to a configuration as the operator does, behind cardreclaim or
// before it.
func addPreempt(text string, first bool) string {
	actions := "cardreclaim, preempt"
	if first {
		actions = "preempt, cardreclaim"
	}
	text = strings.Replace(text, "cardreclaim", actions, 1)
	text = strings.Replace(text, "- name: gang\n", "- name: gang\n        enableJobStarving: false\n", 1)
	for _, plugin := range []string{"priority", "conformance"} {
		text = strings.Replace(text, "- name: "+plugin+"\n", "- name: "+plugin+"\n        enablePreemptable: false\n", 1)
	}
	return text
}

// OpenSession does nothing: all jobs are known.
func (w *sequenceRun) OpenSession(*framework.Session) bool { return true }

// EvictionPolicyFor returns how a job reacts to evictions.
func (w *sequenceRun) EvictionPolicyFor(_, name string) (workload.EvictionPolicy, bool) {
	j, known := w.jobs[name]
	return workload.EvictionPolicy{Inelastic: known && j.inelastic}, known
}

// FailureLimitFor knows no Job: the sequences have no pods of Kubernetes Jobs.
func (w *sequenceRun) FailureLimitFor(string, string, types.UID) (workload.FailureLimit, bool) {
	return workload.FailureLimit{}, false
}

// The phases of a sequence after the last step.
const (
	// promptSessions start a second after each other, like Volcano's.
	promptSessions = 6
	// slowSessionPeriod is the time between sessions after that.
	slowSessionPeriod = 3 * time.Minute
	// reactionPeriod is how soon controllers and kubelets act in that time.
	reactionPeriod = 5 * time.Second
	// restPeriod is how long nothing changes at rest: longer than cards are kept after an eviction, and then for
	// a job with a reservation.
	restPeriod = 12 * time.Minute
	// maxSessions bounds the sessions until the cluster is at rest.
	maxSessions = 60
)

// run runs the sequence until the cluster is at rest, and returns what was wrong first, or "".
// wait waits for everything that acts in parallel to the sessions.
func (w *sequenceRun) run(wait func()) string {
	last := w.script.lastSession()
	for session := 1; ; session++ {
		if session > last+promptSessions {
			w.actBetweenSessions(wait)
		} else {
			w.server.session = session
			time.Sleep(w.period)
		}

		w.server.session = session
		wait()
		for _, step := range w.script.stepsOf(session) {
			w.applyStep(step)
			w.tracef("%s", step)
		}

		w.quiet = session > last
		if w.quiet {
			w.endFaults()
		}

		w.runControllers()
		w.syncCache()
		if wrong := w.runSession(wait); wrong != "" {
			return wrong
		}
		if w.isAtRest() && session > last+promptSessions {
			return w.checkAtRest()
		}
		if session > last+maxSessions {
			return fmt.Sprintf("the cluster does not come to rest in %d sessions", maxSessions)
		}
	}
}

// actBetweenSessions waits for the next slow session. Controllers and kubelets act meanwhile. What the last
// session deletes counts as deleted in it: a slow session more is longer than freed cards are kept.
func (w *sequenceRun) actBetweenSessions(wait func()) {
	time.Sleep(reactionPeriod)
	wait()
	w.runControllers()
	time.Sleep(slowSessionPeriod - reactionPeriod)
}

// endFaults ends all faults: the API server answers at once.
func (w *sequenceRun) endFaults() {
	w.server.pods.percent = 0
	w.server.groups.percent = 0
	w.delayPods = 0
	w.delayGroups = 0
}

// isAtRest reports whether nothing has changed for long enough.
func (w *sequenceRun) isAtRest() bool {
	var state strings.Builder
	for _, name := range w.server.pods.sortedNames() {
		p := w.server.pods.objects[name]
		deleted := ""
		if p.DeletionTimestamp != nil {
			deleted = strconv.FormatInt(p.DeletionTimestamp.Unix(), 10)
		}
		fields := []string{string(p.UID), p.Spec.NodeName, deleted, string(p.Status.Phase), strconv.FormatBool(isMarkedForRecreation(p))}
		state.WriteString(strings.Join(fields, " ") + "\n")
	}

	for _, name := range w.server.groups.sortedNames() {
		state.WriteString(name + " " + string(w.server.groups.objects[name].Status.Phase) + "\n")
	}
	if state.String() != w.state {
		w.state = state.String()
		w.changed = time.Now()
	}

	return time.Since(w.changed) > restPeriod
}

// runSession runs one session of Volcano and checks it.
func (w *sequenceRun) runSession(wait func()) string {
	w.ssn = framework.OpenSession(w.cache, w.plugins, w.configurations)
	before := w.recount()
	w.last = before

	conf.EnabledActionMap = map[string]bool{}
	for _, a := range w.actions {
		conf.EnabledActionMap[a.Name()] = true
	}

	for _, a := range w.actions {
		a.Initialize()
		a.Execute(w.ssn)
		a.UnInitialize()
	}

	wrong := w.checkSession(before)
	framework.CloseSession(w.ssn)
	wait()
	w.bindAll()
	wait()

	return wrong
}

// traceReasons records why the jobs wait, as their PodGroups say it.
func (w *sequenceRun) traceReasons() {
	for _, name := range w.server.groups.sortedNames() {
		group := w.server.groups.objects[name]
		for _, c := range group.Status.Conditions {
			if group.Status.Phase != v1beta1.PodGroupRunning && c.Status == corev1.ConditionTrue {
				w.tracef("%s[%s] says: %s", name, group.Status.Phase, c.Message)
			}
		}
	}
}

func (w *sequenceRun) tracef(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%3d %s ", w.server.session, time.Now().Format("15:04:05"))+fmt.Sprintf(format, args...))
}
