package webhook

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWorkloadsAreJudgedInModeEnforceOnly: in mode Observe, and while the mode is undecided, objects of other programs
// are allowed as they are, without a look at them. The handler here denies everything.
func TestWorkloadsAreJudgedInModeEnforceOnly(t *testing.T) {
	deny := func(context.Context, admission.Request) admission.Response { return admission.Denied("no") }
	for mode, wantAllowed := range map[v1alpha1.Mode]bool{v1alpha1.ModeObserve: true, "": true, v1alpha1.ModeEnforce: false} {
		policy := &v1alpha1.ServiceTypePolicy{}
		policy.Spec.Mode = v1alpha1.ModeObserve
		policy.Status.Mode = mode

		answer := newHandlers(t, policy).inEnforceMode(deny)(t.Context(), admission.Request{})
		check.Equal(t, "allowed in mode "+string(mode), wantAllowed, answer.Allowed)
	}
}
