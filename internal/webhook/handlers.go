package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/quota"
	rules "cardquota.dev/operator/internal/validation"
	"cardquota.dev/operator/internal/workload"
)

// InventorySource provides the cards of all nodes; Inventory returns false until all nodes
// were read.
type InventorySource interface {
	Inventory() (*card.Inventory, bool)
	Healthy() map[card.Name]card.Count
	// TrackedNodes returns all nodes, false until all were read.
	TrackedNodes() ([]card.TrackedNode, bool)
	// PolicyInForce returns what is in force of the policy that was read, nil for none. A policy that took effect
	// stays in force while it is deleted, so for nil the result is that one.
	PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy
}

// handlers have the readers that all webhooks share.
type handlers struct {
	// cached reads from the cache, live from the API server.
	cached, live client.Reader
	inventory    InventorySource
	namespaces   Namespaces
	scheme       *runtime.Scheme
	decoder      admission.Decoder
}

// Namespaces are those of ConfigMaps: Scheduler that of our scheduler, Volcano that of Volcano's
// programs.
type Namespaces struct{ Scheduler, Volcano string }

// validator validates objects of one kind. before is nil for a new object.
type validator[T client.Object] func(ctx context.Context, object, before T) (rules.Result, error)

// ValidateCreate implements admission.CustomValidator.
func (v validator[T]) ValidateCreate(ctx context.Context, object runtime.Object) (admission.Warnings, error) {
	var none T
	return v.validateObject(ctx, object.(T), none)
}

// ValidateUpdate implements admission.CustomValidator.
func (v validator[T]) ValidateUpdate(ctx context.Context, before, object runtime.Object) (admission.Warnings, error) {
	return v.validateObject(ctx, object.(T), before.(T))
}

// ValidateDelete implements admission.CustomValidator: it never refuses a deletion.
func (validator[T]) ValidateDelete(context.Context, runtime.Object) (admission.Warnings, error) {
	return nil, nil
}

// validateObject answers for an object by the result of its rules. An object that cannot be judged is refused: the API
// server says why, and the user tries again.
func (v validator[T]) validateObject(ctx context.Context, object, before T) (admission.Warnings, error) {
	result, err := v(ctx, object, before)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return warningsAndError(req, result)
}

// warningsAndError converts a Result into the answer to a request: its warnings, and an error that refuses the object
// if the Result has errors.
func warningsAndError(req admission.Request, result rules.Result) (admission.Warnings, error) {
	result = result.Truncated()
	warnings := make(admission.Warnings, len(result.Warnings))
	for i, text := range result.Warnings { // a header has one line
		warnings[i] = strings.ReplaceAll(text, "\n", " ")
	}
	if len(result.Errors) > 0 {
		return warnings, apierrors.NewInvalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, result.Errors)
	}
	return warnings, nil
}

// warnCardQuotaDeletion warns of cards in use and of children. It allows every deletion: its rules have no errors.
func (h *handlers) warnCardQuotaDeletion(ctx context.Context, req admission.Request) admission.Response {
	quota := &v1alpha1.CardQuota{}
	if err := h.decoder.DecodeRaw(req.OldObject, quota); err != nil {
		return allowUnreadable(err)
	}

	all, err := h.listCardQuotas(ctx)
	if err != nil {
		return allowUnreadable(err)
	}

	read, err := h.readPolicy(ctx)
	if err != nil {
		return allowUnreadable(err)
	}

	warnings, _ := warningsAndError(req, rules.WarnCardQuotaDeletion(quota, all, h.inventory.PolicyInForce(read)))
	return admission.Allowed("").WithWarnings(warnings...)
}

// validateServiceTypePolicy reads what the rules for the policy compare it with: the CardQuotas, the nodes, the policy
// in force, its base ConfigMap and that of the scheduler.
func (h *handlers) validateServiceTypePolicy(ctx context.Context, object, before *v1alpha1.ServiceTypePolicy) (rules.Result, error) {
	// With nil it is the policy that took effect last, whatever is written now.
	input := rules.PolicyInput{Volcano: h.namespaces.Volcano, InForce: h.inventory.PolicyInForce(nil)}
	input.Nodes, _ = h.inventory.TrackedNodes()
	var err error
	input.Quotas, err = h.listCardQuotas(ctx)
	if err != nil {
		return rules.Result{}, err
	}

	// An unreadable ConfigMap only makes a warning less exact. It must not keep the policy from
	// being changed.
	ref := policy.BaseFor(policy.Effective(object.Spec), h.namespaces.Volcano)
	input.Base, err = getOrNil(ctx, h.live, ref.Namespace, ref.Name, &corev1.ConfigMap{})
	input.BaseUnknown = err != nil
	input.Rendered, err = getOrNil(ctx, h.live, h.namespaces.Scheduler, policy.ConfigMapName, &corev1.ConfigMap{})
	input.BaseUnknown = input.BaseUnknown || err != nil
	return rules.ValidateServiceTypePolicy(object, before, input), nil
}

// validateQueue validates the annotations of a Queue. Queues belong to Volcano, so it
// allows an unreadable one.
func (h *handlers) validateQueue(_ context.Context, req admission.Request) admission.Response {
	queue := &v1beta1.Queue{}
	before, err := decodeObjects(h, req, queue)
	if err != nil {
		return allowUnreadable(err)
	}
	return responseFor(req, rules.ValidateQueue(queue, before))
}

// validateWorkload validates a pod or an object that creates pods, and with it the one that it replaces. It allows what
// it cannot read, and what is being deleted.
func (h *handlers) validateWorkload(ctx context.Context, req admission.Request) admission.Response {
	object, err := h.scheme.New(schema.GroupVersionKind(req.Kind))
	if err != nil {
		return allowUnreadable(err)
	}

	before, err := decodeObjects(h, req, object)
	if errors.Is(err, errTooManyParts) {
		return h.answerOverlarge(ctx, req)
	}
	if err != nil {
		return allowUnreadable(err)
	}

	// Removing a finalizer is an update. Refusing that would keep the object from ever going
	// away.
	load, ok := rules.WorkloadOf(object)
	if !ok || load.Meta.DeletionTimestamp != nil {
		return admission.Allowed("")
	}

	// An object may leave out its namespace. The request always has it.
	load.Meta.Namespace = req.Namespace
	var earlier *rules.Workload
	if known, ok := rules.WorkloadOf(before); ok {
		known.Meta.Namespace = req.Namespace
		earlier = &known
	}

	input, err := h.workloadInput(ctx, req)
	if err != nil {
		return allowUnreadable(err)
	}

	result, err := rules.ValidateWorkload(ctx, load, earlier, input)
	if err != nil {
		return allowUnreadable(err)
	}

	return responseFor(req, result)
}

// answerOverlarge refuses a workload that is too large to decode. If the one before the change was as large, it only
// warns, so that the object can still be changed.
func (h *handlers) answerOverlarge(ctx context.Context, req admission.Request) admission.Response {
	input, err := h.workloadInput(ctx, req)
	if err != nil {
		return allowUnreadable(err)
	}
	return responseFor(req, rules.RefuseOverlarge(tooManyParts(req.OldObject.Raw), input))
}

// decodeObjects decodes the object of a request and returns the old object, nil for a new
// one. It returns errTooManyParts if one of them would take too much memory.
func decodeObjects[T runtime.Object](h *handlers, req admission.Request, object T) (none T, err error) {
	// A small text can decode to hundreds of times its size, and tenants send the text.
	if tooManyParts(req.Object.Raw) || tooManyParts(req.OldObject.Raw) {
		return none, errTooManyParts
	}

	before := object.DeepCopyObject().(T) // an empty one of the same kind
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

// responseFor converts a Result into a response.
func responseFor(req admission.Request, result rules.Result) admission.Response {
	warnings, err := warningsAndError(req, result)
	var refused *apierrors.StatusError
	if errors.As(err, &refused) {
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &refused.ErrStatus, Warnings: warnings}}
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// allowUnreadable allows an object that could not be validated, with a warning: the
// scheduler checks it again.
func allowUnreadable(err error) admission.Response {
	return admission.Allowed("").WithWarnings("cardquota could not validate this object: " + strings.ReplaceAll(err.Error(), "\n", " "))
}

// workloadInput returns the input of the rules for workloads. A Queue or PodGroup that cannot be read is unknown, like
// one that does not exist, and the rules refuse nothing for that.
func (h *handlers) workloadInput(ctx context.Context, req admission.Request) (rules.WorkloadInput, error) {
	inventory, _ := h.inventory.Inventory()
	input := rules.WorkloadInput{Inventory: inventory, User: req.UserInfo.Username}
	var err error
	input.Policy, err = h.readPolicy(ctx)
	if err != nil {
		return rules.WorkloadInput{}, err
	}

	input.Namespace, err = getOrNil(ctx, h.cached, "", req.Namespace, &corev1.Namespace{})
	if err != nil {
		return rules.WorkloadInput{}, err
	}

	queues := map[string]*v1beta1.Queue{} // all tasks of a job use the same one
	input.Queue = func(name string) *v1beta1.Queue {
		queue, known := queues[name]
		if !known {
			queue, _ = getOrNil(ctx, h.cached, "", name, &v1beta1.Queue{})
			queues[name] = queue
		}
		return queue
	}

	isTree := rules.IsTree(h.inventory.PolicyInForce(input.Policy))
	input.Tree = func(queue *v1beta1.Queue) *quota.Tree {
		if !isTree {
			return quota.Flat
		}
		return workload.TreeOf(h.queuesAround(ctx, queue, input.Queue), policy.UnmanagedQueues(input.Policy))
	}

	input.PodGroup = func(name string) *v1beta1.PodGroup {
		group, _ := getOrNil(ctx, h.cached, req.Namespace, name, &v1beta1.PodGroup{})
		return group
	}
	return input, nil
}

// queuesAround returns a Queue, the Queues above it as far as they are known, and one of those directly below it: rules
// ask only whether there is any. find returns a Queue by name, nil for an unknown one. root is above all, so it needs none.
func (h *handlers) queuesAround(ctx context.Context, queue *v1beta1.Queue, find func(name string) *v1beta1.Queue) []*v1beta1.Queue {
	around := []*v1beta1.Queue{queue}
	if queue.Name == workload.RootQueue {
		return around
	}

	// Administrators can write any parent into a Queue, so the path may be a cycle.
	for at := find(queue.Spec.Parent); at != nil && !slices.Contains(around, at); at = find(at.Spec.Parent) {
		around = append(around, at)
	}

	var queues v1beta1.QueueList
	if err := h.cached.List(ctx, &queues, client.UnsafeDisableDeepCopy); err != nil {
		return around // the scheduler checks again
	}

	isBelow := func(q v1beta1.Queue) bool { return q.Spec.Parent == queue.Name }
	if i := slices.IndexFunc(queues.Items, isBelow); i >= 0 {
		around = append(around, &queues.Items[i])
	}

	return around
}

// readPolicy returns the ServiceTypePolicy, nil when there is none.
func (h *handlers) readPolicy(ctx context.Context) (*v1alpha1.ServiceTypePolicy, error) {
	return getOrNil(ctx, h.cached, "", v1alpha1.PolicyName, &v1alpha1.ServiceTypePolicy{})
}

// listCardQuotas lists all CardQuotas.
func (h *handlers) listCardQuotas(ctx context.Context) ([]*v1alpha1.CardQuota, error) {
	var list v1alpha1.CardQuotaList
	if err := h.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}
	return workload.PointersTo(list.Items), nil
}

// getOrNil reads an object into an empty one, which it returns. It returns nil when there is none.
func getOrNil[T client.Object](ctx context.Context, from client.Reader, namespace, name string, into T) (T, error) {
	var none T
	if err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into); apierrors.IsNotFound(err) {
		return none, nil
	} else if err != nil {
		return none, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return into, nil
}
