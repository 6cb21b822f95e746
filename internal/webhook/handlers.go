package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
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

// validator validates objects of one kind. Of a new object before is nil.
type validator[T client.Object] func(ctx context.Context, object, before T) (rules.Result, error)

// ValidateCreate implements admission.CustomValidator.
func (v validator[T]) ValidateCreate(ctx context.Context, object runtime.Object) (admission.Warnings, error) {
	var none T
	return v.answer(ctx, object.(T), none)
}

// ValidateUpdate implements admission.CustomValidator.
func (v validator[T]) ValidateUpdate(ctx context.Context, before, object runtime.Object) (admission.Warnings, error) {
	return v.answer(ctx, object.(T), before.(T))
}

// ValidateDelete implements admission.CustomValidator: a deletion is never refused.
func (validator[T]) ValidateDelete(context.Context, runtime.Object) (admission.Warnings, error) {
	return nil, nil
}

func (v validator[T]) answer(ctx context.Context, object, before T) (admission.Warnings, error) {
	result, err := v(ctx, object, before)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return answer(req, result)
}

// answer is what is told of the object of a request.
func answer(req admission.Request, result rules.Result) (admission.Warnings, error) {
	result = result.Short()
	warnings := make(admission.Warnings, len(result.Warnings))
	for i, text := range result.Warnings { // a header holds one line
		warnings[i] = strings.ReplaceAll(text, "\n", " ")
	}
	if len(result.Errors) > 0 {
		return warnings, apierrors.NewInvalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, result.Errors)
	}
	return warnings, nil
}

func (h *handlers) cardQuota(ctx context.Context, quota, before *v1alpha1.CardQuota) (rules.Result, error) {
	world := rules.Quotas{Healthy: h.nodes.Healthy()}
	var err error
	if world.All, err = h.quotas(ctx); err != nil {
		return rules.Result{}, err
	}
	if world.Policy, err = h.policy(ctx); err != nil {
		return rules.Result{}, err
	}
	var queues v1beta1.QueueList
	if err := h.cached.List(ctx, &queues, client.UnsafeDisableDeepCopy); err != nil {
		return rules.Result{}, fmt.Errorf("list Queues: %w", err)
	}
	world.Queues = pointers(queues.Items)
	return rules.CardQuota(quota, before, world), nil
}

// cardQuotaDeletion warns of what is in use. It lets everything go.
func (h *handlers) cardQuotaDeletion(_ context.Context, req admission.Request) admission.Response {
	quota := &v1alpha1.CardQuota{}
	if err := h.decoder.DecodeRaw(req.OldObject, quota); err != nil {
		return unread(err)
	}
	warnings, _ := answer(req, rules.Deletion(quota))
	return admission.Allowed("").WithWarnings(warnings...)
}

func (h *handlers) serviceTypePolicy(ctx context.Context, object, before *v1alpha1.ServiceTypePolicy) (rules.Result, error) {
	world := rules.PolicyWorld{Volcano: h.volcano}
	var err error
	if world.Quotas, err = h.quotas(ctx); err != nil {
		return rules.Result{}, err
	}
	world.Base, err = h.base(ctx, object)
	world.BaseUnknown = err != nil
	return rules.ServiceTypePolicy(object, before, world), nil
}

// base reads the ConfigMap that a policy is laid over, nil for none. It only makes warnings
// better.
func (h *handlers) base(ctx context.Context, object *v1alpha1.ServiceTypePolicy) (*corev1.ConfigMap, error) {
	ref, live := policy.Base(policy.Effective(object.Spec), h.volcano), &corev1.ConfigMap{}
	err := h.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// queue validates the annotations of a Queue. Queues belong to Volcano: one that cannot be
// read is let through.
func (h *handlers) queue(_ context.Context, req admission.Request) admission.Response {
	queue := &v1beta1.Queue{}
	before, err := decode(h, req, queue)
	if err != nil {
		return unread(err)
	}
	return respond(req, rules.Queue(queue, before))
}

// workload judges anything that makes pods, and pods.
func (h *handlers) workload(ctx context.Context, req admission.Request) admission.Response {
	object, err := h.scheme.New(schema.GroupVersionKind(req.Kind))
	if err != nil {
		return unread(err)
	}
	before, err := decode(h, req, object)
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
	if earlier, ok := rules.WorkloadOf(before); ok {
		earlier.Meta.Namespace = req.Namespace
		then = &earlier
	}
	world, err := h.world(ctx, req)
	if err != nil {
		return unread(err)
	}
	result, err := rules.Judge(ctx, load, then, world)
	if err != nil {
		return unread(err)
	}
	return respond(req, result)
}

// overlarge answers for a workload that is not read.
func (h *handlers) overlarge(ctx context.Context, req admission.Request) admission.Response {
	world, err := h.world(ctx, req)
	if err != nil {
		return unread(err)
	}
	return respond(req, rules.Overlarge(tooManyParts(req.OldObject.Raw), world))
}

// decode reads the object into an empty one and returns the one it replaces, none for a new
// one. It is errTooManyParts when one of them would take too much memory.
func decode[T runtime.Object](h *handlers, req admission.Request, object T) (none T, err error) {
	if tooManyParts(req.Object.Raw) || tooManyParts(req.OldObject.Raw) {
		return none, errTooManyParts
	}
	before := object.DeepCopyObject().(T)
	if err := h.decoder.DecodeRaw(req.Object, object); err != nil {
		return none, fmt.Errorf("read the object: %w", err)
	}
	if len(req.OldObject.Raw) == 0 {
		return none, nil
	}
	if err := h.decoder.DecodeRaw(req.OldObject, before); err != nil {
		return none, fmt.Errorf("read the object before the change: %w", err)
	}
	return before, nil
}

// respond is the answer to a request on the wire.
func respond(req admission.Request, result rules.Result) admission.Response {
	warnings, err := answer(req, result)
	var refused *apierrors.StatusError
	if errors.As(err, &refused) {
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &refused.ErrStatus, Warnings: warnings}}
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// unread lets an object pass that could not be judged, and says so: the scheduler
// judges it again.
func unread(err error) admission.Response {
	return admission.Allowed("").WithWarnings("cardquota could not look at this object: " + strings.ReplaceAll(err.Error(), "\n", " "))
}
