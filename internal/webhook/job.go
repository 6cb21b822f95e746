package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"cardquota.dev/operator/api/v1alpha1"
	rules "cardquota.dev/operator/internal/validation"
	"cardquota.dev/operator/internal/workload"
)

// defaultJob adds the rule for evicted pods to a new Kubernetes Job, and keeps it in a changed
// one. An unreadable Job, or one without need of it, stays unchanged.
func (h *handlers) defaultJob(ctx context.Context, req admission.Request) admission.Response {
	job := &batchv1.Job{}
	before, err := decodeObjects(h, req, job)
	if err != nil {
		return allowUnreadable(err)
	}

	if req.Operation == admissionv1.Update {
		return keepEvictionRule(req, job, before)
	}

	job.Namespace = req.Namespace
	input, err := h.workloadInput(ctx, req)
	if err != nil {
		return allowUnreadable(err)
	}
	if !rules.JobNeedsEvictionRule(job, input) {
		return admission.Allowed("")
	}

	completed, err := addEvictionRule(req.Object.Raw)
	if err != nil {
		return allowUnreadable(err)
	}

	return admission.PatchResponseFromRaw(req.Object.Raw, completed).WithWarnings(
		"ServiceTypePolicy " + v1alpha1.PolicyName + " added a podFailurePolicy rule to this Job, which ignores DisruptionTarget, and podReplacementPolicy Failed: evicted pods do not count against its backoffLimit")
}

// keepEvictionRule puts the stored podFailurePolicy, which is immutable, back into a changed Job that lacks only the
// rule that admission added.
func keepEvictionRule(req admission.Request, job, before *batchv1.Job) admission.Response {
	if before == nil || !rules.MustKeepEvictionRule(job, before) {
		return admission.Allowed("")
	}
	kept, err := copyFailurePolicy(req.Object.Raw, req.OldObject.Raw)
	if err != nil {
		return allowUnreadable(err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, kept)
}

// addEvictionRule writes the rule for evicted pods before all others of a Job, since the first rule that matches
// counts. It also sets podReplacementPolicy Failed: the API server has already set TerminatingOrFailed, which it
// refuses beside a podFailurePolicy.
func addEvictionRule(raw []byte) ([]byte, error) {
	job, spec, err := readSpec(raw)
	if err != nil {
		return nil, err
	}

	policy, ok := spec["podFailurePolicy"].(map[string]any)
	if !ok {
		policy = map[string]any{}
	}

	others, _ := policy["rules"].([]any)
	policy["rules"] = append([]any{workload.EvictionRule()}, others...)
	spec["podFailurePolicy"] = policy
	spec["podReplacementPolicy"] = batchv1.Failed

	return json.Marshal(job)
}

// copyFailurePolicy returns the JSON of a changed Job, raw, in which failed pods are counted and replaced as
// the stored Job says. The failure policy is immutable, so a file without it could not be applied again.
func copyFailurePolicy(raw, stored []byte) ([]byte, error) {
	job, spec, err := readSpec(raw)
	if err != nil {
		return nil, err
	}

	_, storedSpec, err := readSpec(stored)
	if err != nil {
		return nil, err
	}

	for _, name := range []string{"podFailurePolicy", "podReplacementPolicy"} {
		if value, isSet := storedSpec[name]; isSet {
			spec[name] = value
		} else {
			delete(spec, name)
		}
	}

	return json.Marshal(job)
}

// readSpec returns an object, with fields that this version does not know, and its spec, which is a part of it.
func readSpec(raw []byte) (object, spec map[string]any, err error) {
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, nil, fmt.Errorf("read the job: %w", err)
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("complete the job: it has no spec")
	}
	return object, spec, nil
}
