package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	rules "cardquota.dev/operator/internal/validation"
)

// defaultVCJob adds to a new vcjob what it needs to survive the reclaim of its cards, and warns the user of that. An
// unreadable job, or one that needs nothing, stays unchanged.
func (h *handlers) defaultVCJob(ctx context.Context, req admission.Request) admission.Response {
	job := &vcbatch.Job{}
	if _, err := decodeObjects(h, req, job); err != nil {
		return allowUnreadable(err)
	}

	job.Namespace = req.Namespace
	input, err := h.workloadInput(ctx, req)
	if err != nil {
		return allowUnreadable(err)
	}

	defaults := rules.VCJobDefaults(job, input)
	if defaults.IsEmpty() {
		return admission.Allowed("")
	}

	completed, err := completeJob(req.Object.Raw, defaults)
	if err != nil {
		return allowUnreadable(err)
	}

	response := admission.PatchResponseFromRaw(req.Object.Raw, completed)
	text := "ServiceTypePolicy " + v1alpha1.PolicyName + " set defaults on this job, so that it survives the reclaim of its cards:"
	if defaults.MaxRetry > 0 {
		text += fmt.Sprintf(" maxRetry %d", defaults.MaxRetry)
	}

	for _, p := range defaults.Policies {
		text += fmt.Sprintf(" %s: %s", p.Event, p.Action)
	}

	return response.WithWarnings(text)
}

// completeJob writes the defaults into the JSON text of a job and keeps fields that this version does not
// know.
func completeJob(raw []byte, defaults rules.JobDefaults) ([]byte, error) {
	job, spec, err := readSpec(raw)
	if err != nil {
		return nil, err
	}

	if defaults.MaxRetry > 0 {
		spec["maxRetry"] = defaults.MaxRetry
	}

	if len(defaults.Policies) > 0 {
		// The job's own policies stay first: of several for one event Volcano takes the first.
		policies, _ := spec["policies"].([]any)
		for _, p := range defaults.Policies {
			policies = append(policies, map[string]any{"event": string(p.Event), "action": string(p.Action)})
		}
		spec["policies"] = policies
	}

	return json.Marshal(job)
}
