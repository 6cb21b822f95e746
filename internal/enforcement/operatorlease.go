package enforcement

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/internal/build"
)

// OperatorLeaseName is the name of the Lease with which the operator elects its leader, in the operator's
// own namespace. The shipped Role names it.
const OperatorLeaseName = "cardquota-manager"

// operatorLeaseAge is after what time a Lease that was not renewed says that no operator leads. Its
// duration is 15 seconds. The rest is for clocks that differ.
const operatorLeaseAge = time.Minute

// versionLabel is the label of the operator's Lease with the version of the leader.
const versionLabel = "app.kubernetes.io/version"

// OperatorLeaseLabels returns the labels that the operator writes on its Lease, so that its version is
// known without its Deployment. They are nil for a version that cannot be the value of a label.
func OperatorLeaseLabels() map[string]string {
	version := strings.NewReplacer("+", "_", "/", "_").Replace(build.Version)
	if len(validation.IsValidLabelValue(version)) > 0 {
		return nil
	}
	return map[string]string{versionLabel: version}
}

// ReadOperatorLease returns the version that the operator wrote on its Lease, "" if it wrote none, and
// whether an operator leads.
func ReadOperatorLease(lease *coordinationv1.Lease, now time.Time) (version string, leads bool) {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil {
		return "", false
	}
	age := now.Sub(spec.RenewTime.Time)
	return lease.Labels[versionLabel], age > -operatorLeaseAge && age < operatorLeaseAge
}
