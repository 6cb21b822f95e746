// Package enforcerights asks the API server which rights to enforce the operator has: those of the ClusterRole
// cardquota-manager-enforce, which administrators bind and unbind. internal/policy lists them, and decides what follows.
package enforcerights

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/policy"
)

const (
	// defaultRetry is how old an answer may be while rights are missing, and defaultRefresh otherwise.
	defaultRetry   = 10 * time.Second
	defaultRefresh = time.Minute
	// minInterval is the shortest time between two questions after refused writes: a webhook may refuse many at once.
	minInterval = time.Second
	// askTimeout bounds all questions of one time. Meanwhile other controllers may wait for the answer.
	askTimeout = 30 * time.Second
)

// Reviewer creates a SelfSubjectAccessReview, and reads the answer into it.
type Reviewer interface {
	Create(ctx context.Context, review client.Object, options ...client.CreateOption) error
}

// Options configure the questions. All but Client and Namespace may be left out.
type Options struct {
	Client Reviewer
	// Namespace is that of the operator's ServiceAccount.
	Namespace string
	// Retry is how soon the operator asks again while rights are missing, ten seconds if it is 0. Refresh is how soon it
	// does otherwise, a minute if it is 0.
	Retry, Refresh time.Duration
}

// Rights knows which rights to enforce the operator has, for all controllers. A nil one knows nothing, and then the
// operator counts as allowed to do everything.
type Rights struct {
	options Options
	now     func() time.Time

	mu sync.Mutex
	// last is the last answer, of askedAt. Both are zero before the first one.
	last    policy.Rights
	askedAt time.Time
}

// New returns Rights that ask when they are needed first.
func New(options Options) *Rights {
	if options.Retry == 0 {
		options.Retry = build.Wait(defaultRetry)
	}
	if options.Refresh == 0 {
		options.Refresh = build.Wait(defaultRefresh)
	}
	return &Rights{options: options, now: time.Now}
}

// Current returns the rights that the operator has. They are at most Retry old while rights are missing, and at most
// Refresh old otherwise. If the API server does not answer, they are older. The error says that there was no answer yet.
func (r *Rights) Current(ctx context.Context) (policy.Rights, error) {
	if r == nil {
		return policy.Rights{}, nil
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	maxAge := r.options.Refresh
	if r.last.AreMissing() {
		maxAge = r.options.Retry
	}
	return r.renew(ctx, maxAge)
}

// CurrentNow returns the rights as Current does, but it asks for them now.
func (r *Rights) CurrentNow(ctx context.Context) (policy.Rights, error) {
	if r == nil {
		return policy.Rights{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renew(ctx, 0)
}

// ExplainRefusal reports whether a write was refused because rights to enforce are missing, and returns the rights. They may
// have been taken away since the operator last asked.
func (r *Rights) ExplainRefusal(ctx context.Context, refusal error) (policy.Rights, bool) {
	if r == nil || !apierrors.IsForbidden(refusal) {
		return policy.Rights{}, false
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	maxAge := minInterval
	if r.last.AreMissing() {
		maxAge = r.options.Retry
	}

	rights, err := r.renew(ctx, maxAge)
	if err != nil {
		return policy.Rights{}, false
	}

	group, resource := refusedResource(refusal)
	return rights, rights.LacksAny(group, resource)
}

// Retry returns when to try again what missing rights prevent.
func (r *Rights) Retry() time.Duration { return r.options.Retry }

// NextLook returns when to look at the rights again. isWaiting says that something goes on as soon as they are there.
// It is 0 for never.
func (r *Rights) NextLook(isWaiting bool) time.Duration {
	switch {
	case r == nil:
		return 0
	case isWaiting:
		return r.options.Retry
	default:
		return r.options.Refresh
	}
}

// refusedResource returns the API group and the resource of a refused write, both "" if the error does not say it.
func refusedResource(refusal error) (group, resource string) {
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return "", ""
	}
	details := status.Status().Details // of a Forbidden, Kind is the resource
	return details.Group, details.Kind
}

// renew asks for the rights if the last answer is as old as maxAge, and returns the last answer.
func (r *Rights) renew(ctx context.Context, maxAge time.Duration) (policy.Rights, error) {
	now := r.now()
	if !r.askedAt.IsZero() && now.Sub(r.askedAt) < maxAge {
		return r.last, nil
	}

	answer, err := r.ask(ctx)
	switch {
	case err == nil:
		r.last = answer
		r.askedAt = now
	case r.askedAt.IsZero():
		return policy.Rights{}, err
	}
	return r.last, nil // without a new answer, the last one is the best that is known
}

// ask asks the API server about each permission.
func (r *Rights) ask(ctx context.Context) (policy.Rights, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	answer := policy.Rights{Namespace: r.options.Namespace}
	for _, permission := range policy.EnforcePermissions() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: permission.Verb, Group: permission.Group, Resource: permission.Resource, Name: permission.Name,
			},
		}}

		err := r.options.Client.Create(ctx, review)
		if apierrors.IsForbidden(err) { // this cluster does not let the operator ask: refused writes show what is missing
			return policy.Rights{}, nil
		}
		if err != nil {
			return policy.Rights{}, fmt.Errorf("ask for the right to %s %s: %w", permission.Verb, permission.Resource, err)
		}
		if !review.Status.Allowed {
			answer.Missing = append(answer.Missing, permission)
		}
	}

	return answer, nil
}
