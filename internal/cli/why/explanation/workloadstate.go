package explanation

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
)

// orphanGates returns an answer for each of the first PodGroups that its pods name and that do not exist.
func (g gateCheck) orphanGates() []Gate {
	const maxGroups = 3
	var gates []Gate
	for _, name := range g.OrphanGroups[:min(len(g.OrphanGroups), maxGroups)] {
		gates = append(gates, Gate{"PodGroup " + name, No, "it does not exist"})
	}
	return gates
}

// adviseOrphans says what helps pods whose PodGroup does not exist. Their names are unknown if only the status
// of the CardQuota says so.
func (a adviser) adviseOrphans() []string {
	if len(a.Orphans) == 0 {
		return []string{"Delete the pod: its controller creates another one, with a PodGroup of its own."}
	}

	const maxPods = 5
	named := a.Orphans[:min(len(a.Orphans), maxPods)]
	more := ""
	if len(a.Orphans) > maxPods {
		more = fmt.Sprintf(" (and %d more)", len(a.Orphans)-maxPods)
	}

	text := fmt.Sprintf("Volcano makes no other PodGroup for a pod that names one. Delete the pod: kubectl -n %s delete pod %s%s.", a.Workload.Namespace, strings.Join(named, " "), more)
	if a.Workload.Kind == "Pod" {
		return []string{text + fmt.Sprintf(" Then create it again without annotation scheduling.k8s.io/group-name, or create PodGroup %s.", conditions.JoinFirst(a.OrphanGroups, 1))}
	}

	return []string{text + " Its controller creates another one."}
}

// Reservation is an enqueued job that waits for cards.
type Reservation struct {
	Workload v1alpha1.WorkloadReference
	PodGroup string
	// Count is how many cards it still waits for, and Card which ones. It may have lost its reservation.
	Count int64
	Card  string
	// HasPods reports whether its pods exist.
	HasPods bool
}

// maxReservations is how many reservations are named.
const maxReservations = 3

// adviseReservations says how many cards are reserved, and names the jobs that wait for them. Jobs that have lost their
// reservation are not known, so the named ones together get no more than reserved, the largest first.
func (a adviser) adviseReservations(reserved int64, card string) []string {
	advice := []string{fmt.Sprintf("Enqueued jobs have reserved %d %s: they are free again when these jobs end, or lose their reservation (docs/scheduler.md says when).", reserved, card)}
	left := reserved
	for _, r := range a.Reservations[:min(len(a.Reservations), maxReservations)] {
		r.Count = min(r.Count, left)
		if r.Count == 0 {
			break
		}
		left -= r.Count
		advice = append(advice, a.describeReservation(r))
	}
	return advice
}

// describeReservation says what a job waits for, and what helps if it has no pods: the deletion of a PodGroup
// that no controller has made, else its controller, which would make the PodGroup again.
func (a adviser) describeReservation(r Reservation) string {
	text := fmt.Sprintf("%s waits for %d %s", a.nameReservation(r), r.Count, strings.ReplaceAll(r.Card, "|", " or "))
	if !r.HasPods {
		text += " and has no pods"
	}

	switch {
	case r.HasPods || !a.seesReservation(r):
		return text + "."
	case r.Workload.Kind == "PodGroup":
		return fmt.Sprintf("%s. If nothing creates them, delete it: kubectl -n %s delete podgroup.scheduling.volcano.sh %s.", text, r.Workload.Namespace, r.PodGroup)
	}

	kind := strings.TrimSuffix(strings.ToLower(r.Workload.Kind)+"."+r.Workload.APIGroup, ".")
	return fmt.Sprintf("%s. See why its controller creates none: kubectl -n %s describe %s %s.", text, r.Workload.Namespace, kind, r.Workload.Name)
}

// seesReservation reports whether the user may know which job a reservation is for.
func (a adviser) seesReservation(r Reservation) bool {
	return a.NamesOthers || r.Workload.Namespace == a.Workload.Namespace
}

// nameReservation names a job with its PodGroup, unless the user may not know it.
func (a adviser) nameReservation(r Reservation) string {
	if !a.seesReservation(r) {
		return "A job of another namespace"
	}
	if r.Workload.Kind == "PodGroup" {
		return output.DescribeWorkload(r.Workload)
	}
	return fmt.Sprintf("%s (PodGroup %s)", output.DescribeWorkload(r.Workload), r.PodGroup)
}

// Eviction is an event of an eviction.
type Eviction struct {
	At      time.Time
	Message string
}

// addEvictions adds to an explanation when the workload was evicted last, as far as events still say so.
func (in *Input) addEvictions(d *Document) {
	if len(in.Evictions) == 0 {
		return
	}
	last := in.Evictions[0]
	often := ""
	if more := len(in.Evictions) - 1; more > 0 {
		often = fmt.Sprintf(" Events tell of %d more.", more)
	}
	d.Summary += fmt.Sprintf(" Its last eviction was %s ago: %s.%s", duration.HumanDuration(max(0, in.Now.Sub(last.At))), strings.TrimSuffix(output.Clean(last.Message), "."), often)
}

// describeEnd returns how a workload gives its cards back. Services do not end by themselves.
func describeEnd(w v1alpha1.WorkloadReference) string {
	switch {
	case w.APIGroup != appsv1.GroupName:
		return "ends"
	case w.Kind == "DaemonSet":
		return "is deleted"
	default:
		return "is scaled down"
	}
}
