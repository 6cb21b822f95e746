package cli

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/workload"
)

// isForbidden reports whether the user lacks a right.
func isForbidden(err error) bool { return apierrors.IsForbidden(err) }

// isNotInstalled reports whether the cluster does not have a kind.
func isNotInstalled(err error) bool { return meta.IsNoMatchError(err) }

// reader reads objects with the user's rights. It collects what it may not read, so that a command
// shows the rest and names what is missing.
type reader struct {
	client client.Client
	// gaps say what could not be read, and why.
	gaps []string
	// hasRead reports whether the user could read anything.
	hasRead bool
	// notes say what about an answer may surprise, although all was read.
	notes []string
}

// tolerate reports whether a read succeeded. It collects a missing right, and returns every other
// error.
func (r *reader) tolerate(err error) (bool, error) {
	if !isForbidden(err) {
		r.hasRead = r.hasRead || err == nil
		return err == nil, err
	}
	if gap := explainError(err); !slices.Contains(r.gaps, gap) {
		r.gaps = append(r.gaps, gap)
	}
	return false, nil
}

// lookUp reads one object. It reports whether the object exists, and whether the user may read it.
func (r *reader) lookUp(ctx context.Context, key client.ObjectKey, object client.Object) (exists, mayRead bool, err error) {
	err = r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		r.hasRead = true
		return false, true, nil
	}
	exists, err = r.tolerate(err)
	return exists, exists, err
}

// isAllowed reports whether the API server grants the user a verb on all objects of a kind. It is
// false if the API server does not say so.
func (r *reader) isAllowed(ctx context.Context, verb, group, resource string) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
	}}
	// The API server answers a review, and stores none.
	return r.client.Create(ctx, review) == nil && review.Status.Allowed
}

// listInto appends all objects of a kind, and reports whether it may read them.
func listInto[T client.Object](ctx context.Context, r *reader, newList func() client.ObjectList, into *[]T, options ...client.ListOption) (bool, error) {
	var found []T
	err := listAll(ctx, r.client, newList, func(object T) { found = append(found, object) }, options...)
	if ok, err := r.tolerate(err); !ok {
		return false, err
	}
	*into = append(*into, found...)
	return true, nil
}

// programLabel is on the Deployments of both programs.
const programLabel = "app.kubernetes.io/name"

// deploymentsOf returns the Deployments of a program in all namespaces, or in one if the user may not
// list all of them. It reports whether it may read them: if that one has none, another may have some.
func (r *reader) deploymentsOf(ctx context.Context, program, namespace string) ([]*appsv1.Deployment, bool, error) {
	newList := func() client.ObjectList { return &appsv1.DeploymentList{} }
	label := client.MatchingLabels{programLabel: program}
	var found []*appsv1.Deployment
	refusal := listAll(ctx, r.client, newList, func(d *appsv1.Deployment) { found = append(found, d) }, label)
	if !isForbidden(refusal) {
		ok, err := r.tolerate(refusal)
		return found, ok, err
	}

	ok, err := listInto(ctx, r, newList, &found, label, client.InNamespace(namespace))
	if ok && len(found) == 0 {
		ok, err = r.tolerate(refusal)
	}

	return found, ok, err
}

// operatorLease returns the Lease of the operator, nil if there is none, and whether the user may read it.
func (r *reader) operatorLease(ctx context.Context, namespace string) (*coordinationv1.Lease, bool, error) {
	lease := &coordinationv1.Lease{}
	exists, mayRead, err := r.lookUp(ctx, client.ObjectKey{Namespace: namespace, Name: enforcement.OperatorLeaseName}, lease)
	if !exists || err != nil {
		return nil, mayRead, err
	}
	return lease, true, nil
}

// defaultSystemNamespace is where the programs run unless the installation says otherwise.
const defaultSystemNamespace = workload.StockSchedulerNamespace
