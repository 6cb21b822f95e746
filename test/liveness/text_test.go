package liveness

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/session"
)

// addText adds what a text describes, one statement per line or between semicolons:
//
//	node NAME[,NAME] MODEL [CARDS]           8 cards unless told; the model "-" leaves a node unlabelled
//	queue NAME QUOTA [PRIORITY] [TYPE] …     the quota "-" leaves a queue unmanaged; keeps, gives, closed, cpu=, for=, parent=,
//	                                         deserved=, guarantee=, stop=, parentonly=true, weight=
//	ns NAME TEAM                             a namespace that the session's lister knows, labelled with its team
//	NAME QUEUE MIN: NODE[*N] -[*N] …         a PodGroup, its pods on nodes, and those that wait
//
// After its pods a job may have the options cards= (1), card= (A), request=, least= (the cards
// of minResources), phase=, class=, priority=, ran=, type=, ns=, by= (the scheduler), vcjob,
// tasks=, protected and protectedgroup. changes are applied to each pod of the text.
func addText(c *session.Cluster, text string, changes ...func(*corev1.Pod)) *session.Cluster {
	for _, statement := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		words := strings.Fields(statement)
		if len(words) == 0 {
			continue
		}

		switch words[0] {
		case "node":
			for _, name := range strings.Split(words[1], ",") {
				c.Nodes = append(c.Nodes, session.Node(name, strings.TrimPrefix(words[2], "-"), mustParseInt(append(words, "8")[3])))
			}
		case "queue":
			addQueue(c, words[1:])
		case "ns":
			c.Namespaces = append(c.Namespaces, session.Namespace(words[1], words[2]))
		default:
			addJob(c, words, changes)
		}
	}
	return c
}

// ensureAnnotations makes the annotations a map that a test can write.
func ensureAnnotations[Object metav1.Object](object Object) {
	if object.GetAnnotations() == nil {
		object.SetAnnotations(map[string]string{})
	}
}

// queueAnnotations are the options of a queue that are annotations.
var queueAnnotations = map[string]string{
	"for": "volcano.sh/namespace-selector", "deserved": "volcano.sh/card.deserved", "guarantee": "volcano.sh/card.guarantee", "stop": "volcano.sh/stop-policy",
	"parentonly": "cardquota.dev/parent-only",
}

// addQueue adds a queue, or replaces the one of its name.
func addQueue(c *session.Cluster, words []string) {
	q := session.Queue(words[0], strings.TrimPrefix(words[1], "-"))
	for _, word := range words[2:] {
		setQueueOption(q, word)
	}
	c.Queues = append(slices.DeleteFunc(c.Queues, func(other *v1beta1.Queue) bool { return other.Name == q.Name }), q)
}

// setQueueOption sets a field or an annotation of a queue. A word that is no option is its service type.
func setQueueOption(q *v1beta1.Queue, word string) {
	gives := func(does bool) { q.Spec.Reclaimable = &does }
	option, value, _ := strings.Cut(word, "=")

	switch priority, err := strconv.Atoi(word); {
	case err == nil:
		q.Spec.Priority = int32(priority)
	case word == "gives" || word == "keeps":
		gives(word == "gives")
	case word == "closed":
		q.Status.State = v1beta1.QueueStateClosed
	case option == "cpu" && value == "":
		q.Spec.Capability = nil
	case option == "cpu":
		q.Spec.Capability["cpu"] = resource.MustParse(value)
	case option == "parent":
		q.Spec.Parent = value
	case option == "weight":
		q.Spec.Weight = int32(mustParseInt(value))
	case queueAnnotations[option] != "":
		q.Annotations[queueAnnotations[option]] = value
	default:
		q.Annotations["volcano.sh/service.type"] = word
		if q.Spec.Reclaimable == nil {
			gives(word != "inference")
		}
	}
}

// job is the statement of a PodGroup and its pods.
type describedJob struct {
	group                        *v1beta1.PodGroup
	nodes, tasks                 []string
	cards, card, kind, scheduler string
	ran                          time.Duration
	priority                     *int32
	isVCJob, isProtected         bool
}

// addJob adds a PodGroup with its pods. They are named job-0, job-1 … in the order of the text.
func addJob(c *session.Cluster, words []string, changes []func(*corev1.Pod)) {
	name := words[0]
	j := &describedJob{cards: "1", card: "A", scheduler: "volcano", group: builder.PodGroup("ns", name).UID(uidFor(c, name)).With(ensureAnnotations).
		Queue(words[1]).MinMember(int32(mustParseInt(strings.TrimSuffix(words[2], ":")))).Phase(v1beta1.PodGroupInqueue).Obj()}
	for _, word := range words[3:] {
		j.readWord(word)
	}

	c.Groups = append(c.Groups, j.group)
	for i, node := range j.nodes {
		pod := newPod(c, j, i, node)
		for _, change := range changes {
			change(pod)
		}
		c.Pods = append(c.Pods, pod)
	}
}

// readWord parses a word of a job: an option, or nodes of pods.
func (j *describedJob) readWord(word string) {
	name, value, _ := strings.Cut(word, "=")
	if set, isOption := jobOptions[name]; isOption {
		set(j, value)
		return
	}

	node, times, _ := strings.Cut(word, "*")
	if node == "-" {
		node = ""
	} else if j.group.Status.Phase == v1beta1.PodGroupInqueue {
		j.group.Status.Phase = v1beta1.PodGroupRunning
	}
	j.nodes = append(j.nodes, slices.Repeat([]string{node}, mustParseInt(cmp.Or(times, "1")))...)
}

// jobOptions are the options of a job.
var jobOptions = map[string]func(j *describedJob, value string){
	"cards":          func(j *describedJob, value string) { j.cards = value },
	"card":           func(j *describedJob, value string) { j.card = value },
	"by":             func(j *describedJob, value string) { j.scheduler = value },
	"type":           func(j *describedJob, value string) { j.kind = value },
	"ns":             func(j *describedJob, value string) { j.group.Namespace = value },
	"class":          func(j *describedJob, value string) { j.group.Spec.PriorityClassName = value },
	"phase":          func(j *describedJob, value string) { j.group.Status.Phase = v1beta1.PodGroupPhase(value) },
	"request":        func(j *describedJob, value string) { j.group.Annotations["volcano.sh/card.request"] = value },
	"vcjob":          func(j *describedJob, _ string) { j.isVCJob = true },
	"tasks":          func(j *describedJob, value string) { j.readTasks(value) },
	"protected":      func(j *describedJob, _ string) { j.isProtected = true },
	"protectedgroup": func(j *describedJob, _ string) { j.group.Annotations["volcano.sh/preemptable"] = "false" },
	"least": func(j *describedJob, value string) {
		j.group.Spec.MinResources = &corev1.ResourceList{"cpu": resource.MustParse("1"), session.GPU: resource.MustParse(value)}
	},
	"priority": func(j *describedJob, value string) {
		priority := int32(mustParseInt(value))
		j.priority = &priority
	},
	"ran": func(j *describedJob, value string) {
		ran, err := time.ParseDuration(value)
		if err != nil {
			panic(err)
		}
		j.ran = ran
	},
}

// readTasks parses the tasks of a Volcano job, "ps*4/2,worker*4/1": of four pods ps two are the
// minimum.
func (j *describedJob) readTasks(text string) {
	j.group.Spec.MinTaskMember = map[string]int32{}
	for _, task := range strings.Split(text, ",") {
		task, least, _ := strings.Cut(task, "/")
		name, pods, _ := strings.Cut(task, "*")
		j.group.Spec.MinTaskMember[name] = int32(mustParseInt(least))
		j.tasks = append(j.tasks, slices.Repeat([]string{name}, mustParseInt(pods))...)
	}
}

func newPod(c *session.Cluster, j *describedJob, i int, node string) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", j.group.Name, i)
	began := metav1.NewTime(c.Now.Add(-j.ran))
	made := builder.Pod(j.group.Namespace, name).UID(uidFor(c, name)).PodGroup(j.group.Name).ServiceType(j.kind).Scheduler(j.scheduler).
		Created(began.Time).CPU("1").Memory("1Gi").Node(node)

	if j.cards != "0" {
		made.Requests(session.GPU, j.cards).Card(strings.ReplaceAll(strings.TrimPrefix(j.card, "-"), "_", " "))
	}

	pod := made.Obj()
	pod.Labels = map[string]string{}
	if j.priority != nil {
		priority := *j.priority
		pod.Spec.Priority = &priority
	}

	if node != "" {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = &began
	}

	if j.tasks != nil {
		pod.Annotations["volcano.sh/task-spec"] = j.tasks[i]
	}

	if j.isProtected {
		pod.Annotations["volcano.sh/preemptable"] = "false"
	}

	if j.isVCJob {
		session.OwnedBy(batch.SchemeGroupVersion.String(), "Job", j.group.Name, string(uidFor(c, "job-"+j.group.Name)))(pod)
	}

	return pod
}

func uidFor(c *session.Cluster, name string) types.UID {
	return types.UID(fmt.Sprintf("w%d-%s", c.ID, name))
}
