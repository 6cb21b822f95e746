package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	rules "cardquota.dev/operator/internal/admission"
)

// vcjob completes a vcjob. A job that cannot be read, or that nothing is said
// about, stays as it is.
func (h *handlers) vcjob(ctx context.Context, req admission.Request) admission.Response {
	job := &vcbatch.Job{}
	if _, err := decode(h, req, job); err != nil {
		return unread(err)
	}
	job.Namespace = req.Namespace
	world, err := h.world(ctx, req)
	if err != nil {
		return unread(err)
	}
	defaults := rules.TideDefaults(job, world)
	if defaults.None() {
		return admission.Allowed("")
	}
	completed, err := complete(req.Object.Raw, defaults)
	if err != nil {
		return unread(err)
	}
	response := admission.PatchResponseFromRaw(req.Object.Raw, completed)
	text := "ServiceTypePolicy " + v1alpha1.PolicyName + " completed this job, so that it survives that its cards are taken back:"
	if defaults.MaxRetry > 0 {
		text += fmt.Sprintf(" maxRetry %d", defaults.MaxRetry)
	}
	for _, p := range defaults.Policies {
		text += fmt.Sprintf(" %s: %s", p.Event, p.Action)
	}
	return response.WithWarnings(text)
}

// complete writes the defaults into a job as it was sent, with every field that
// this version does not know.
func complete(raw []byte, defaults rules.Defaults) ([]byte, error) {
	var job map[string]any
	if err := json.Unmarshal(raw, &job); err != nil {
		return nil, fmt.Errorf("read the job: %w", err)
	}
	if defaults.MaxRetry > 0 {
		if err := unstructured.SetNestedField(job, int64(defaults.MaxRetry), "spec", "maxRetry"); err != nil {
			return nil, fmt.Errorf("complete the job: %w", err)
		}
	}
	if len(defaults.Policies) > 0 {
		spec, ok := job["spec"].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("complete the job: it has no spec")
		}
		policies, _ := spec["policies"].([]any)
		for _, p := range defaults.Policies {
			policies = append(policies, map[string]any{"event": string(p.Event), "action": string(p.Action)})
		}
		spec["policies"] = policies
	}
	return json.Marshal(job)
}
