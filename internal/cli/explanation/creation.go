package explanation

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/internal/cli/output"
)

// Creation is what a controller has not created.
type Creation struct {
	// Missing is how many pods it lacks, 0 for a workload that wants none now.
	Missing int
	// Failure is why it could not create them, "" if nothing says so.
	Failure string
	// IsSuspended reports whether the workload is suspended.
	IsSuspended bool
	// Edit is the command that changes the workload.
	Edit string
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

// addCreation adds to an explanation why pods could not be created, and what would help.
func (in *Input) addCreation(d *Document) {
	c := in.Creation
	switch {
	case c == nil || c.Missing == 0 || c.IsSuspended:
		return
	case c.Failure == "" && in.lacksAllPods():
		d.Advice = append(d.Advice, "Ask again in a few seconds. If this stays, the events of the workload say more: "+strings.Replace(c.Edit, " edit ", " describe ", 1)+".")
		return
	case c.Failure == "":
		return
	}

	d.Waits = true
	if !in.lacksAllPods() {
		d.Summary += fmt.Sprintf(" Its controller could not create %s more.", countPods(c.Missing))
	}
	d.Summary += " It says: " + strings.TrimSuffix(output.Clean(c.Failure), ".") + "."
	d.Advice = append([]string{in.adviseCreation()}, d.Advice...)
}

// adviseCreation says what would help a controller that cannot create pods.
func (in *Input) adviseCreation() string {
	failure := in.Creation.Failure
	switch {
	case strings.Contains(failure, "exceeded quota"):
		return fmt.Sprintf("A ResourceQuota of namespace %s refuses the pods: request less, or ask the administrator to raise it.", in.Workload.Namespace)
	case strings.Contains(failure, "schedulerName"):
		return fmt.Sprintf("Write schedulerName: %s into the spec of the pod template: %s.", strings.Join(in.schedulers(), " or "), in.Creation.Edit)
	case strings.Contains(failure, "serviceaccount") && strings.Contains(failure, "not found"):
		return "Create the ServiceAccount that the pod template names, or name another one."
	default:
		return "Correct the pod template as the message says: " + in.Creation.Edit + "."
	}
}
