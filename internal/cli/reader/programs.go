package reader

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/workload"
)

// ProgramLabel is on the Deployments of both programs, with the name of the program.
const ProgramLabel = "app.kubernetes.io/name"

// The names of both programs.
const (
	OperatorProgram  = "cardquota-manager"
	SchedulerProgram = "cardquota-scheduler"
)

// DefaultSystemNamespace is where the programs run unless the installation says otherwise.
const DefaultSystemNamespace = workload.StockSchedulerNamespace

// Deployments returns the Deployments of a program in all namespaces, or in one if the user may not list all
// of them. mayRead is also false if he may list only the one namespace and it has none: another may have
// some.
func (r *Reader) Deployments(ctx context.Context, program, namespace string) (found []*appsv1.Deployment, mayRead bool) {
	if r.err != nil {
		return nil, false
	}

	label := client.MatchingLabels{ProgramLabel: program}
	err := List(ctx, r.Client, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) { found = append(found, d) }, label)
	if !IsForbidden(err) {
		return found, r.Record(err)
	}

	// An empty list of the one namespace proves nothing. Then the missing right to list all becomes a gap.
	mayRead = ListInto(ctx, r, &appsv1.DeploymentList{}, &found, label, client.InNamespace(namespace))
	if mayRead && len(found) == 0 {
		mayRead = r.Record(err)
	}

	return found, mayRead
}

// OperatorLease returns the Lease of the operator, nil if there is none, and whether the user may read it.
func (r *Reader) OperatorLease(ctx context.Context, namespace string) (lease *coordinationv1.Lease, mayRead bool) {
	return Find(ctx, r, client.ObjectKey{Namespace: namespace, Name: enforcement.OperatorLeaseName}, &coordinationv1.Lease{})
}
