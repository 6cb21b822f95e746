package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	rules "cardquota.dev/operator/internal/admission"
	"cardquota.dev/operator/internal/policy"
)

// cardQuota judges a CardQuota. What cannot be read is an error: failurePolicy
// Fail decides.
func (h *handlers) cardQuota(ctx context.Context, req admission.Request) admission.Response {
	quota, before := &v1alpha1.CardQuota{}, &v1alpha1.CardQuota{}
	replaced, err := h.decode(req, quota, before)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	world := rules.Quotas{}
	if world.All, err = h.quotas(ctx); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if world.Policy, err = h.policy(ctx); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	world.Healthy = h.nodes.Healthy()
	if !replaced {
		before = nil
	}
	return respond(rules.CardQuota(quota, before, world))
}

// serviceTypePolicy judges the ServiceTypePolicy, like cardQuota.
func (h *handlers) serviceTypePolicy(ctx context.Context, req admission.Request) admission.Response {
	object, before := &v1alpha1.ServiceTypePolicy{}, &v1alpha1.ServiceTypePolicy{}
	replaced, err := h.decode(req, object, before)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	world := rules.PolicyWorld{Home: h.home}
	if world.Quotas, err = h.quotas(ctx); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	world.Configuration = h.configuration(ctx, object)
	if !replaced {
		before = nil
	}
	return respond(rules.ServiceTypePolicy(object, before, world))
}

// configuration reads the scheduler's ConfigMap. It only makes warnings better.
func (h *handlers) configuration(ctx context.Context, object *v1alpha1.ServiceTypePolicy) rules.Configuration {
	ref := policy.Located(object.Spec, h.home).Scheduler.ConfigMap
	read := func(name string) (*corev1.ConfigMap, error) {
		live := &corev1.ConfigMap{}
		err := h.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: name}, live)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return live, err
	}
	live, err := read(ref.Name)
	original, errOriginal := read(policy.OriginalName(ref.Name))
	return rules.Configuration{Live: live, Original: original, Unknown: errors.Join(err, errOriginal) != nil}
}

// queue judges the annotations of a Queue.
func (h *handlers) queue(_ context.Context, req admission.Request) admission.Response {
	queue, before := &v1beta1.Queue{}, &v1beta1.Queue{}
	replaced, err := h.decode(req, queue, before)
	switch {
	case err != nil:
		return unread(err)
	case !replaced:
		before = nil
	}
	return respond(rules.Queue(queue, before))
}

// workload judges anything that makes pods, and pods.
func (h *handlers) workload(ctx context.Context, req admission.Request) admission.Response {
	kind := schema.GroupVersionKind(req.Kind)
	object, err := h.scheme.New(kind)
	if err != nil {
		return unread(err)
	}
	before, err := h.scheme.New(kind)
	if err != nil {
		return unread(err)
	}
	replaced, err := h.decode(req, object, before)
	if errors.Is(err, errTooManyParts) {
		return h.overlarge(ctx, req)
	}
	if err != nil {
		return unread(err)
	}
	load, ok := rules.WorkloadOf(object)
	if !ok || load.Meta.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	load.Meta.Namespace = req.Namespace
	var then *rules.Workload
	if replaced {
		if earlier, ok := rules.WorkloadOf(before); ok {
			earlier.Meta.Namespace = req.Namespace
			then = &earlier
		}
	}
	world, err := h.world(ctx, req)
	if err != nil {
		return unread(err)
	}
	answer, err := rules.Judge(ctx, load, then, world)
	if err != nil {
		return unread(err)
	}
	return respond(answer)
}

// overlarge answers for a workload that is not read.
func (h *handlers) overlarge(ctx context.Context, req admission.Request) admission.Response {
	world, err := h.world(ctx, req)
	if err != nil {
		return unread(err)
	}
	return respond(rules.Overlarge(req.Kind.Kind+" "+req.Name, tooManyParts(req.OldObject.Raw), world))
}

// decode reads the object and, for an update, the one it replaces. It is
// errTooManyParts when one of them would take too much memory.
func (h *handlers) decode(req admission.Request, object, before runtime.Object) (replaced bool, err error) {
	if tooManyParts(req.Object.Raw) || tooManyParts(req.OldObject.Raw) {
		return false, errTooManyParts
	}
	if err := h.decoder.DecodeRaw(req.Object, object); err != nil {
		return false, fmt.Errorf("read the object: %w", err)
	}
	if len(req.OldObject.Raw) == 0 {
		return false, nil
	}
	if err := h.decoder.DecodeRaw(req.OldObject, before); err != nil {
		return false, fmt.Errorf("read the object before the change: %w", err)
	}
	return true, nil
}

// respond is the answer on the wire.
func respond(answer rules.Answer) admission.Response {
	answer = answer.Short()
	response := admission.Allowed("")
	if !answer.Allowed() {
		response = admission.Denied(answer.Text())
	}
	for _, warning := range answer.Warnings {
		response.Warnings = append(response.Warnings, strings.ReplaceAll(warning, "\n", " "))
	}
	return response
}

// unread lets an object pass that could not be judged, and says so: the scheduler
// judges it again.
func unread(err error) admission.Response {
	return admission.Allowed("").WithWarnings("cardquota could not look at this object: " + strings.ReplaceAll(err.Error(), "\n", " "))
}
