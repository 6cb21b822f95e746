// Package reader reads objects of a cluster with the rights of a user. It collects what the user may not
// read, and says in plain words what went wrong. All commands of kubectl cardquota read with it.
package reader

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads objects with the user's rights. It collects what it may not read, so that a command
// shows the rest and names what is missing. After any other error it reads nothing more: a command reads
// all that it needs, and then asks Err once.
type Reader struct {
	// Client sends the requests.
	Client client.Client
	// Gaps say what could not be read, and why.
	Gaps []string
	// HasRead reports whether the user could read anything.
	HasRead bool
	// Notes say what about an answer may surprise, although all was read.
	Notes []string
	// err is the first error that is no missing right.
	err error
}

// New returns a Reader that has read nothing.
func New(c client.Client) *Reader { return &Reader{Client: c} }

// Err returns the first error of a read, nil if all reads succeeded or only lacked a right.
func (r *Reader) Err() error { return r.err }

// Record takes the error of a read, nil for none, and reports whether the read succeeded. A missing right
// becomes a gap, the first other error that of the reader.
func (r *Reader) Record(err error) (succeeded bool) {
	switch {
	case r.err != nil:
		return false
	case !IsForbidden(err):
		r.err = err
		r.HasRead = r.HasRead || err == nil
		return err == nil
	}

	if gap := Explain(err); !slices.Contains(r.Gaps, gap) {
		r.Gaps = append(r.Gaps, gap)
	}
	return false
}

// IgnoreMissingKind reports whether the last read failed because the cluster does not have the kind. Then
// the reader goes on: a command calls it after reads of kinds that may not be installed.
func (r *Reader) IgnoreMissingKind() bool {
	isMissing := IsNotInstalled(r.err)
	if isMissing {
		r.err = nil
	}
	return isMissing
}

// LookUp reads one object. It reports whether the object exists, and whether the user may read it. Both are
// false after an error.
func (r *Reader) LookUp(ctx context.Context, key client.ObjectKey, object client.Object) (exists, mayRead bool) {
	if r.err != nil {
		return false, false
	}
	err := r.Client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		r.HasRead = true
		return false, true
	}
	exists = r.Record(err)
	return exists, exists
}

// Find reads one object. It returns nil if there is none, and whether the user may read it.
func Find[T client.Object](ctx context.Context, r *Reader, key client.ObjectKey, object T) (found T, mayRead bool) {
	exists, mayRead := r.LookUp(ctx, key, object)
	if exists {
		found = object
	}
	return found, mayRead
}

// IsAllowed reports whether the API server grants the user a verb on all objects of a kind. It is
// false if the API server does not say so.
func (r *Reader) IsAllowed(ctx context.Context, verb, group, resource string) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
	}}
	// The API server answers a review, and stores none.
	return r.Client.Create(ctx, review) == nil && review.Status.Allowed
}
