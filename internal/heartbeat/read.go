package heartbeat

import (
	"errors"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"cardquota.dev/operator/internal/clip"
)

// Read returns the report of a Lease. An error says why the Lease is none that
// the scheduler wrote.
func Read(lease *coordinationv1.Lease) (Report, error) {
	if lease == nil {
		return Report{}, errors.New("there is no Lease")
	}
	report, fault := read(lease)
	if fault != "" {
		return Report{}, fmt.Errorf("Lease %s/%s is no heartbeat of %s: %s", lease.Namespace, lease.Name, LeaseName, fault)
	}
	return report, nil
}

// read returns the report, or what is wrong with the Lease.
func read(lease *coordinationv1.Lease) (report Report, fault string) {
	if lease.Name != LeaseName {
		return Report{}, "its name is not " + LeaseName
	}
	if lease.Annotations[AnnotationVersion] == "" {
		return Report{}, "annotation " + AnnotationVersion + " is missing"
	}
	if _, ok := lease.Annotations[AnnotationConfigHash]; !ok {
		return Report{}, "annotation " + AnnotationConfigHash + " is missing"
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return Report{}, "it has no holder"
	}
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.IsZero() {
		return Report{}, "it was never renewed"
	}
	report = Report{
		Identity:      *lease.Spec.HolderIdentity,
		Version:       lease.Annotations[AnnotationVersion],
		ConfigHash:    lease.Annotations[AnnotationConfigHash],
		ConfigProblem: lease.Annotations[AnnotationConfigProblem],
		At:            lease.Spec.RenewTime.Time,
		Ended:         lease.Annotations[AnnotationEnded] == endOf(lease.Spec.RenewTime.Time),
	}
	if pods := lease.Annotations[AnnotationSecondScheduler]; pods != "" {
		report.SecondScheduler = strings.Split(pods, ",")
	}
	// What the scheduler itself would write of this report is what must stand there.
	written := report.annotations()
	for _, key := range annotationKeys {
		if key == AnnotationEnded {
			continue // of this report, or left from another
		}
		if lease.Annotations[key] != written[key] {
			return Report{}, fmt.Sprintf("annotation %s is %q, which it would not write", key, clip.Text(lease.Annotations[key], longestLine))
		}
	}
	if report.Identity != line(report.Identity) {
		return Report{}, fmt.Sprintf("its holder is %q, which it would not write", clip.Text(report.Identity, longestLine))
	}
	return report, ""
}
