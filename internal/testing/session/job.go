package session

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
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/words"
)

// job is what the words of a job say.
type job struct {
	group *v1beta1.PodGroup
	// pods are the pods' nodes in the order of the text, "" for those that wait. tasks are their
	// tasks, none if the job has no tasks.
	pods  []string
	tasks []task
	phase v1beta1.PodGroupPhase
	// runs is whether the text has running=, also of no pods.
	runs bool

	cards, minCards, card, mig, cpu    string
	serviceType, scheduler, toleration string
	age                                time.Duration
	priority                           *int32
	gracePeriodSeconds                 *int64
	isVCJob, isProtected, isApart      bool
	hasRisingPriority                  bool
}

// task is the task of a pod. cards are those of each pod, those of the job if it is "".
type task struct{ name, cards string }

// jobKeys are the words of a job besides queue=, min= and its pods.
var jobKeys = words.Keys[*job]{
	"queue":   words.Text(func(j *job, name string) { j.group.Spec.Queue = name }),
	"min":     words.Int(func(j *job, pods int) { j.group.Spec.MinMember = int32(pods) }),
	"running": (*job).addRunning,
	"pending": words.Int(func(j *job, pods int) { j.pods = append(j.pods, slices.Repeat([]string{""}, pods)...) }),

	// cards are those of each pod, 1 by default, and card their name: "A" by default, "none"
	// for no name, "A|B" for alternatives. mig is the profile of slices instead of whole cards.
	"cards": words.Text(func(j *job, cards string) { j.cards = cards }),
	"card":  words.Text(func(j *job, name string) { j.card = name }),
	"mig":   words.Text(func(j *job, profile string) { j.mig = profile }),
	"cpu":   words.Text(func(j *job, cores string) { j.cpu = cores }),
	// request is the PodGroup's annotation, minCards are the cards of its minResources.
	"request":  words.Text(func(j *job, request string) { j.group.Annotations["volcano.sh/card.request"] = request }),
	"minCards": words.Text(func(j *job, cards string) { j.minCards = cards }),
	// phase is the PodGroup's: by default Running with running=, else Inqueue.
	"phase":         words.Text(func(j *job, phase string) { j.phase = v1beta1.PodGroupPhase(phase) }),
	"priorityClass": words.Text(func(j *job, name string) { j.group.Spec.PriorityClassName = name }),
	"serviceType":   words.Text(func(j *job, name string) { j.serviceType = name }),
	"namespace":     words.Text(func(j *job, name string) { j.group.Namespace = name }),
	"scheduler":     words.Text(func(j *job, name string) { j.scheduler = name }),
	// age is how long ago the pods were created and, if they run, started.
	"age":      words.Duration(func(j *job, age time.Duration) { j.age = age }),
	"priority": words.Int(func(j *job, priority int) { j.priority = ptr.To(int32(priority)) }),
	// owner=vcjob makes the pods those of a Volcano job. evictionPolicy is what its policies do
	// when a pod is evicted; a test with a list of policies reads it.
	"owner":          words.OneOf(func(j *job, _ string) { j.isVCJob = true }, "vcjob"),
	"evictionPolicy": words.OneOf(func(*job, string) {}, "RestartJob", "TerminateJob", "Unknown"),
	// task=NAME,pods:N,min:N,cards:N is a task of a Volcano job; a job has one such word a task.
	"task": (*job).addTask,
	// preemptable=false protects each pod, groupPreemptable=false the PodGroup.
	"preemptable": words.OneOf(func(j *job, _ string) { j.isProtected = true }, "false"),
	"groupPreemptable": words.OneOf(func(j *job, _ string) {
		j.group.Annotations["volcano.sh/preemptable"] = "false"
	}, "false"),
	"toleration":  words.Text(func(j *job, key string) { j.toleration = key }),
	"gracePeriod": words.Duration(func(j *job, d time.Duration) { j.gracePeriodSeconds = ptr.To(int64(d / time.Second)) }),
	"podsPerNode": words.OneOf(func(j *job, _ string) { j.isApart = true }, "1"),
	// taskPriority=index gives each pod a higher task priority than the one before.
	"taskPriority": words.OneOf(func(j *job, _ string) { j.hasRisingPriority = true }, "index"),
}

// addRunning adds pods on nodes, "n*2,m".
func (j *job) addRunning(text string) error {
	j.runs = true
	for on := range strings.SplitSeq(text, ",") {
		node, times, _ := strings.Cut(on, "*")
		pods, err := parseInt(cmp.Or(times, "1"))
		if err != nil || node == "" {
			return fmt.Errorf("%q is not NODE or NODE*N", on)
		}
		j.pods = append(j.pods, slices.Repeat([]string{node}, pods)...)
	}

	return nil
}

// addTask adds a task with its pods and its minimum.
func (j *job) addTask(text string) error {
	var added task
	numbers := map[string]int{}
	for _, part := range words.Parts(text) {
		switch part.Key {
		case "":
			added.name = part.Value
		case "cards":
			added.cards = part.Value
		case "pods", "min":
			n, err := parseInt(part.Value)
			if err != nil {
				return err
			}
			numbers[part.Key] = n
		default:
			return fmt.Errorf("unknown part %q", part.Key)
		}
	}

	if added.name == "" || len(numbers) < 2 {
		return fmt.Errorf("write NAME,pods:N,min:N")
	}

	if j.group.Spec.MinTaskMember == nil {
		j.group.Spec.MinTaskMember = map[string]int32{}
	}

	j.group.Spec.MinTaskMember[added.name] = int32(numbers["min"])
	j.tasks = append(j.tasks, slices.Repeat([]task{added}, numbers["pods"])...)
	return nil
}

// addJob adds a PodGroup with its pods.
func (c *Cluster) addJob(line words.Line, changes []func(*corev1.Pod)) error {
	j := &job{
		cards: "1", card: "A", cpu: "1", scheduler: "volcano",
		group: builder.PodGroup("ns", line.Name()).UID(c.uidFor(line.Name())).With(ensureAnnotations).Obj(),
	}
	if err := words.Apply(line, j, jobKeys, "queue", "min"); err != nil {
		return err
	}

	j.finishGroup()
	c.Groups = append(c.Groups, j.group)
	for i := range j.pods {
		pod := c.newPod(j, i)
		for _, change := range changes {
			if change != nil {
				change(pod)
			}
		}
		c.Pods = append(c.Pods, pod)
	}

	return nil
}

// finishGroup sets what several words together say about the PodGroup.
func (j *job) finishGroup() {
	j.group.Status.Phase = v1beta1.PodGroupInqueue
	if j.phase != "" {
		j.group.Status.Phase = j.phase
	} else if j.runs {
		j.group.Status.Phase = v1beta1.PodGroupRunning
	}

	if j.minCards != "" {
		j.group.Spec.MinResources = &corev1.ResourceList{"cpu": resource.MustParse("1"), j.cardResource(): resource.MustParse(j.minCards)}
	}
}

// cardResource returns the resource that the pods request: whole cards or slices.
func (j *job) cardResource() corev1.ResourceName {
	if j.mig != "" {
		return corev1.ResourceName("nvidia.com/mig-" + j.mig)
	}
	return GPU
}

// cardName returns the value of the pods' annotation, "" for none.
func (j *job) cardName() string {
	name := strings.ReplaceAll(j.card, "_", " ")
	if name == "none" {
		name = ""
	}
	if j.mig != "" {
		name += "/mig-" + j.mig + "-mixed"
	}
	return name
}

func (c *Cluster) newPod(j *job, i int) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", j.group.Name, i)
	began := metav1.NewTime(c.Now.Add(-j.age))
	made := builder.Pod(j.group.Namespace, name).UID(c.uidFor(name)).PodGroup(j.group.Name).ServiceType(j.serviceType).Scheduler(j.scheduler).
		Created(began.Time).CPU(j.cpu).Memory("1Gi").Node(j.pods[i])

	if cards := j.cardsOf(i); cards != "0" {
		made.Requests(j.cardResource(), cards).Card(j.cardName())
	}

	pod := made.Obj()
	pod.Labels = map[string]string{}
	if j.priority != nil {
		pod.Spec.Priority = ptr.To(*j.priority)
	}

	if j.pods[i] != "" {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = &began
	}

	j.annotatePod(pod, i)
	j.setPodSpec(&pod.Spec)
	if j.isApart {
		keepApart(pod, j.group.Name)
	}

	if j.isVCJob {
		OwnedBy(batch.SchemeGroupVersion.String(), "Job", j.group.Name, string(c.uidFor("job-"+j.group.Name)))(pod)
	}

	return pod
}

// cardsOf returns the cards of a pod.
func (j *job) cardsOf(i int) string {
	if j.tasks == nil {
		return j.cards
	}
	return cmp.Or(j.tasks[i].cards, j.cards)
}

func (j *job) annotatePod(pod *corev1.Pod, i int) {
	if j.tasks != nil {
		pod.Annotations["volcano.sh/task-spec"] = j.tasks[i].name
	}
	if j.isProtected {
		pod.Annotations["volcano.sh/preemptable"] = "false"
	}
	if j.hasRisingPriority {
		pod.Annotations["volcano.sh/task-priority"] = strconv.Itoa(i)
	}
}

func (j *job) setPodSpec(spec *corev1.PodSpec) {
	if j.gracePeriodSeconds != nil {
		spec.TerminationGracePeriodSeconds = ptr.To(*j.gracePeriodSeconds)
	}
	if j.toleration != "" {
		spec.Tolerations = []corev1.Toleration{{Key: j.toleration, Operator: corev1.TolerationOpExists}}
	}
}

// keepApart allows one pod of a job per node.
func keepApart(p *corev1.Pod, job string) {
	p.Labels["apart"] = job
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": job}},
	}}}}
}
