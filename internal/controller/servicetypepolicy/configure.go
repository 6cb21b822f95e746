package servicetypepolicy

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconf"
)

// configure brings the text that the policy names in order. Where it was before is left only
// when the new place can be written, so that a name that is wrong leaves quotas enforced.
func (p *pass) configure(ctx context.Context) (outcome, error) {
	ref := p.spec.Scheduler.ConfigMap
	p.follow(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	plan, out, err := p.plan(ctx, ref)
	if err != nil || plan == nil {
		return out, err
	}
	left, err := p.leave(ctx, ref)
	if err != nil {
		return outcome{}, err
	}
	if left { // it may have been another key of the same ConfigMap
		if plan, out, err = p.plan(ctx, ref); err != nil || plan == nil {
			return out, err
		}
	}
	if err := p.note(ctx, ref); err != nil {
		return outcome{}, err
	}
	if !plan.edit.Needed {
		return p.untouched(ref, plan.edit), nil
	}
	return p.putRight(ctx, ref, plan)
}

// plan is what is to be done to a ConfigMap.
type plan struct {
	// live is the ConfigMap, original the copy of what it said first, nil for none.
	live, original *corev1.ConfigMap
	edit           policy.Edit
}

// plan reads the ConfigMap and says what is to be done to it, nil and the outcome when nothing
// can be done.
func (p *pass) plan(ctx context.Context, ref v1alpha1.ConfigMapReference) (*plan, outcome, error) {
	refused := func(err error) (*plan, outcome, error) {
		out, err := p.failed(ref, err)
		return nil, out, err
	}
	live, err := p.read(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return refused(err)
	}
	if _, there := policy.TextOf(live, ref); !there {
		return nil, outcome{Verdict: policy.Missing(ref, live)}, nil
	}
	original, err := p.read(ctx, ref.Namespace, policy.OriginalName(ref.Name))
	if err != nil {
		return refused(err)
	}
	edit, err := policy.PlanEdit(live, ref.Key, original, policy.WantedOf(p.spec))
	if err != nil {
		return nil, outcome{Verdict: policy.Unreadable(ref, err)}, nil
	}
	return &plan{live, original, edit}, outcome{}, nil
}

// leave undoes the configuration where it was written, when the policy names
// another place now, and tells whether it did.
func (p *pass) leave(ctx context.Context, ref v1alpha1.ConfigMapReference) (bool, error) {
	last := p.policy.Status.ConfigMap
	if last == nil || *last == ref {
		return false, nil
	}
	if err := p.undo(ctx, *last, false); err != nil {
		return false, err
	}
	before := p.policy.DeepCopy()
	p.policy.Status.ConfigMap, p.policy.Status.ConfigHash = nil, ""
	return true, p.patchStatus(ctx, before)
}

// note puts down where the configuration is about to be written, before it is.
func (p *pass) note(ctx context.Context, ref v1alpha1.ConfigMapReference) error {
	if p.policy.Status.ConfigMap != nil {
		return nil
	}
	before := p.policy.DeepCopy()
	p.policy.Status.ConfigMap = &ref
	return p.patchStatus(ctx, before)
}

// untouched is the outcome for a text that needs no change. A writer who goes
// on is told of until it has let the text stand for a while.
func (p *pass) untouched(ref v1alpha1.ConfigMapReference, edit policy.Edit) outcome {
	out := outcome{hash: schedulerconf.Hash(edit.Text)}
	switch {
	case p.now.Before(p.memory.until):
		out.Verdict, out.again = p.memory.contest, p.memory.until.Sub(p.now)
	case p.memory.generation == p.policy.Generation:
		out.Verdict = p.memory.corrected
	default:
		out.Verdict = policy.Synced(ref, p.before(), p.policy.Generation)
	}
	return out
}

// putRight writes the text, unless somebody keeps changing it and has to wait.
func (p *pass) putRight(ctx context.Context, ref v1alpha1.ConfigMapReference, plan *plan) (outcome, error) {
	live, edit := plan.live, plan.edit
	dispute := &p.memory.dispute
	by, disturbed := policy.Disturbed(p.policy, live, ref.Key, edit)
	if disturbed {
		wait := max(dispute.Wait([]string{by.Manager}, p.now), leastPause-p.now.Sub(p.memory.written))
		switch {
		case wait <= 0:
		case len(edit.Changes) == 0: // only the record is missing
			out := p.untouched(ref, edit)
			out.again = wait
			return out, nil
		default:
			return outcome{Verdict: policy.Contested(ref, by, edit.Changes, dispute.Rounds(by.Manager, p.now)), again: wait}, nil
		}
	}
	if before := p.before(); disturbed && len(edit.Changes) > 0 && before != nil && before.Status == metav1.ConditionTrue {
		// Until it is right again nothing is proven. Who watches must see that,
		// however short it is.
		if err := p.admit(ctx, policy.Changed(ref, by, edit.Changes)); err != nil {
			return outcome{}, err
		}
	}
	if edit.First && plan.original == nil {
		if err := p.keep(ctx, ref, live.Data[ref.Key]); err != nil {
			return p.failed(ref, err)
		}
	}
	if err := p.write(ctx, live, ref.Key, edit.Text, edit.Undo); err != nil {
		return p.failed(ref, err)
	}
	logf.FromContext(ctx).Info("scheduler configuration written",
		"configMap", ref.Namespace+"/"+ref.Name, "changes", edit.Changes, "disturbedBy", by.Manager)
	out := outcome{hash: schedulerconf.Hash(edit.Text), Verdict: policy.Synced(ref, p.before(), p.policy.Generation)}
	if !disturbed {
		return out, nil
	}
	p.memory.written = p.now
	return p.corrected(ref, by, edit.Changes, out), nil
}

// corrected is the outcome after what somebody else changed was put right: told
// once, and who goes on and on is told of instead.
func (p *pass) corrected(ref v1alpha1.ConfigMapReference, by policy.Writer, changes []string, out outcome) outcome {
	dispute := &p.memory.dispute
	next := dispute.Replaced([]string{by.Manager}, p.now)
	if len(changes) == 0 || !p.stood() {
		return out
	}
	if dispute.News(by.Manager+": "+strings.Join(changes, "; "), p.now) {
		p.events.Event(p.policy, corev1.EventTypeWarning, v1alpha1.EventConfigCorrected, policy.Tampered(ref, by, changes)+"; put right")
	}
	out.Verdict = policy.Corrected(ref, by, changes, p.now)
	p.memory.corrected, p.memory.generation = out.Verdict, p.policy.Generation
	if rounds := dispute.Rounds(by.Manager, p.now); rounds >= contestedRounds {
		p.memory.until = p.now.Add(next)
		p.memory.contest = policy.Contested(ref, by, changes, rounds)
		out.Verdict, out.again = p.memory.contest, next
	}
	return out
}

// admit writes at once that the configuration is not what the policy says, and
// that enforcement is not proven by it. The events come with the correction.
func (p *pass) admit(ctx context.Context, changed policy.Verdict) error {
	before := p.policy.DeepCopy()
	facts := policy.Facts{Policy: p.policy, Sync: changed, Hash: p.policy.Status.ConfigHash, Now: p.now, InForce: &p.spec}
	facts.Enforced.Scheduler = p.policy.Status.Scheduler
	facts.Enforced.Verdict = policy.Verdict{Status: changed.Status, Reason: v1alpha1.ReasonNotConfigured, Message: changed.Message}
	var err error
	if facts.Quotas, err = p.count(ctx); err != nil {
		return err
	}
	p.policy.Status = policy.Of(facts)
	return p.patchStatus(ctx, before)
}

// before is condition ConfigSynced as it was, nil when there was none.
func (p *pass) before() *metav1.Condition {
	return meta.FindStatusCondition(p.policy.Status.Conditions, v1alpha1.ConditionConfigSynced)
}

// stood tells that the configuration was there and readable when it was looked
// at last. Somebody who makes the ConfigMap anew has disturbed nothing.
func (p *pass) stood() bool {
	before := p.before()
	if before == nil {
		return true
	}
	switch before.Reason {
	case v1alpha1.ReasonConfigMapMissing, v1alpha1.ReasonConfigUnreadable, v1alpha1.ReasonHierarchyNotSupported:
		return false
	}
	return true
}

// stands tells whether the text is still the one that was written last.
func (p *pass) stands(ctx context.Context) (bool, error) {
	ref := p.policy.Status.ConfigMap
	if ref == nil {
		return false, nil
	}
	p.follow(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	live, err := p.read(ctx, ref.Namespace, ref.Name)
	if err != nil && !refused(err) {
		return false, err
	}
	text, there := policy.TextOf(live, *ref)
	return there && schedulerconf.Hash(text) == p.policy.Status.ConfigHash, nil
}

// failed is the outcome of a read or write that was refused; any other error is
// returned.
func (p *pass) failed(ref v1alpha1.ConfigMapReference, err error) (outcome, error) {
	if !refused(err) {
		return outcome{}, err
	}
	return outcome{Verdict: policy.Refused(ref, err), again: refusedRetry}, nil
}
