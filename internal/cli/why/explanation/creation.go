package explanation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
)

// Creation is what a controller has not created.
type Creation struct {
	// Missing is how many pods it lacks, 0 for a workload that wants none now.
	Missing int
	// Failure is why it could not create them, "" if nothing says so.
	Failure string
	// IsSuspended reports whether the workload is suspended.
	IsSuspended bool
}

// lacksAllPods reports whether the workload has no pods, and is no job whose PodGroup waits.
func (in *Input) lacksAllPods() bool {
	return in.Creation != nil && in.Pending+in.Placed+in.Gated == 0 && len(in.Entries) == 0
}

// describe says of a workload without pods why it has none.
func (c *Creation) describe(what string) string {
	switch {
	case c.IsSuspended:
		return what + " does not wait: it is suspended, so it has no pods."
	case c.Missing == 0:
		return what + " does not wait: it wants no pods now."
	case c.Failure != "":
		return what + " has no pods: its controller could not create them."
	default:
		return what + " has no pods: its controller has created none yet."
	}
}

// addCreation adds to an explanation why pods could not be created, and what would help. A workload that lacks
// only some pods, without a failure, will soon have them.
func (in *Input) addCreation(d *Document) {
	c := in.Creation
	if c == nil || c.Missing == 0 || c.IsSuspended {
		return
	}

	if c.Failure == "" {
		if in.lacksAllPods() {
			d.Advice = append(d.Advice, "Ask again in a few seconds. If this stays, the events of the workload say more: "+writeCommand("describe", in.Workload)+".")
		}
		return
	}

	d.Waits = true // also if all pods that exist run
	if !in.lacksAllPods() {
		d.Summary += fmt.Sprintf(" Its controller could not create %s more.", conditions.CountThings(c.Missing, "pod"))
	}

	d.Summary += " It says: " + strings.TrimSuffix(output.Clean(c.Failure), ".") + "."

	// Free cards do not help a pod that does not exist, so this advice comes first.
	d.Advice = append([]string{adviser{in}.adviseCreation()}, d.Advice...)
}

// webhookFailure is what the API server says when a webhook does not answer, with its name.
var webhookFailure = regexp.MustCompile(`fail(?:ed|ing) (?:calling|to call) webhook(?: "([^"]+)")?`)

// serverFailures are words of failures that no pod template causes: the API server or a server that it asks
// does not answer.
var serverFailures = []string{
	"Internal error occurred", "etcdserver", "timed out", "timeout", "deadline exceeded", "connection refused", "no endpoints available", "currently unable to handle the request", "Too many requests",
}

// adviseCreation says what would help a controller that cannot create pods.
func (a adviser) adviseCreation() string {
	failure := a.Creation.Failure
	says := func(words string) bool { return strings.Contains(failure, words) }

	switch {
	case webhookFailure.MatchString(failure):
		return adviseWebhook(webhookFailure.FindStringSubmatch(failure)[1])
	case says("exceeded quota"):
		return fmt.Sprintf("A ResourceQuota of namespace %s refuses the pods: request less, or ask the administrator to raise it.", a.Workload.Namespace)
	case says("schedulerName"):
		return a.adviseSchedulerName()
	case says("serviceaccount") && says("not found"):
		return "Create the ServiceAccount that the pod template names."
	case says("is being terminated"):
		return fmt.Sprintf("Namespace %s is being deleted: create the workload in another one.", a.Workload.Namespace)
	case slices.ContainsFunc(serverFailures, says):
		return "The pod template is not the cause, and the controller tries again. If this stays, ask the administrator of the cluster."
	case a.hasImmutableTemplate():
		return fmt.Sprintf("Its pod template cannot be changed. Delete it, and create it again with a template corrected as the message says: %s.", writeCommand("delete", a.Workload))
	default:
		return "Correct the pod template as the message says: " + writeCommand("edit", a.Workload) + "."
	}
}

// adviseWebhook says what would help while a webhook does not answer. name is "" if it is unknown.
func adviseWebhook(name string) string {
	who := "ask the administrator to see why."
	if strings.HasSuffix(name, "cardquota.dev") {
		who = "kubectl cardquota doctor says why, or ask the administrator."
	}
	// Without a name, the words around it would have two spaces between them.
	return strings.Join(strings.Fields("The pod template is not the cause. Webhook "+name+" does not answer: "+who), " ") + " The controller tries again."
}

// hasImmutableTemplate reports whether the pod template of the workload cannot be changed.
func (a adviser) hasImmutableTemplate() bool {
	return a.isVCJob() || a.Workload.APIGroup == batchv1.GroupName
}

// adviseSchedulerName says where the name of a scheduler belongs.
func (a adviser) adviseSchedulerName() string {
	name := strings.Join(a.Schedulers(), " or ")
	switch {
	case a.isVCJob():
		return fmt.Sprintf("The scheduler of a Volcano job cannot be changed. Delete it, and create it again with spec.schedulerName: %s: %s.", name, writeCommand("delete", a.Workload))
	case a.hasImmutableTemplate():
		return fmt.Sprintf("Its pod template cannot be changed. Delete it, and create it again with schedulerName: %s in the spec of the pod template: %s.", name, writeCommand("delete", a.Workload))
	default:
		return fmt.Sprintf("Write schedulerName: %s into the spec of the pod template: %s.", name, writeCommand("edit", a.Workload))
	}
}
