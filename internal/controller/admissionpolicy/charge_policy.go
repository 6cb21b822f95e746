package admissionpolicy

import (
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// chargeAnnotations are the annotations of a pod that determine, in any version of Volcano,
// which queue is charged: the record of its binding, otherwise its PodGroup, otherwise its
// queue.
var chargeAnnotations = []string{v1alpha1.AnnotationChargedQueue, v1beta1.KubeGroupNameAnnotationKey, "scheduling.volcano.sh/group-name", v1beta1.QueueNameAnnotationKey, batchv1alpha1.QueueNameKey}

// CEL expressions about a request. matchConditions use them, which cannot use variables:
// almost every request ends there, at little cost.
const (
	isPodGroup            = `request.resource.resource == 'podgroups'`
	isPod                 = `request.resource.resource == 'pods' && !(has(request.subResource) && request.subResource != '')`
	isEviction            = `request.resource.resource == 'pods' && has(request.subResource) && request.subResource == 'eviction'`
	isTemplate            = `request.resource.resource in ['statefulsets', 'replicasets']`
	isCommand             = `request.resource.resource == 'commands'`
	isDeletion            = `request.operation == 'DELETE'`
	hasOld                = `oldObject != null`
	podGroupQueueChanged  = `object.?spec.?queue.orValue('') != oldObject.?spec.?queue.orValue('')`
	podGroupStatusChanged = `object.?status.?running.orValue(0) != oldObject.?status.?running.orValue(0) || object.?status.?phase.orValue('') != oldObject.?status.?phase.orValue('')`
	// Volcano's scheduler writes Running once enough pods are placed, and Unknown
	// when too few of them are left.
	hasPlacedPods = `(oldObject.?status.?running.orValue(0) > 0 || oldObject.?status.?phase.orValue('') in ['Running', 'Unknown'])`
	// The garbage collector deletes objects whose owners do not exist.
	ownersOfPlacedChanged = `(` + hasPlacedPods + ` && object.metadata.?ownerReferences.orValue([]) != oldObject.metadata.?ownerReferences.orValue([]))`
	// The grace period of a deletion, and of an eviction. For a deletion without one, the
	// API server fills in the pod's own; 0 means that in an eviction and in the deletion of
	// a collection.
	deletionGrace = `(has(request.options) && request.options != null && has(request.options.gracePeriodSeconds) ? request.options.gracePeriodSeconds : 0)`
	evictionGrace = `object.?deleteOptions.?gracePeriodSeconds.orValue(0)`
	// Admission checked the pod's own grace period at creation. A pod may exceed the bound:
	// it is older than the bound, or an exempt account created it. It must be deletable, so
	// a grace period up to the pod's own is allowed to every user.
	podGrace = `oldObject.spec.?terminationGracePeriodSeconds.orValue(30)`
	// Volcano's controllers, its own scheduler and administrators of queues may do this.
	mayUpdateQueues = `authorizer.group('scheduling.volcano.sh').resource('queues').check('update').allowed()`
	// Every scheduler may do this as well, since it writes the root queue's spec. No tenant
	// may.
	maySchedule = `authorizer.group('scheduling.volcano.sh').resource('queues').name('root').check('update').allowed()`
	// Administrators may grant cards; none of Volcano's programs may.
	mayGrant = `authorizer.group('cardquota.dev').resource('cardquotas').check('update').allowed()`
)

// annotationExpr returns the expression of an object's annotation, "" for none.
func annotationExpr(object, key string) string {
	return object + `.?metadata.?annotations[?'` + key + `'].orValue('')`
}

// chargeAnnotationsChanged returns the expression that one of chargeAnnotations of a pod
// changes.
func chargeAnnotationsChanged() string {
	each := make([]string, len(chargeAnnotations))
	for i, key := range chargeAnnotations {
		each[i] = annotationExpr("object", key) + ` != ` + annotationExpr("oldObject", key)
	}
	return `(` + strings.Join(each, ` || `) + `)`
}

// chargeRecordWritten is true if the charged-queue annotation gets another value. Only a
// binding may write it on a pod without a node.
var chargeRecordWritten = annotationExpr("object", v1alpha1.AnnotationChargedQueue) + ` != '' && ` +
	annotationExpr("object", v1alpha1.AnnotationChargedQueue) + ` != ` + annotationExpr("oldObject", v1alpha1.AnnotationChargedQueue)

// templateQueueChanged is true if the queue of a pod template changes.
var templateQueueChanged = annotationExpr("object.spec.template", v1beta1.QueueNameAnnotationKey) + ` != ` + annotationExpr("oldObject.spec.template", v1beta1.QueueNameAnnotationKey)

// ChargePolicy returns the ValidatingAdmissionPolicy against requests that would move or
// end the charge for used cards. resources are the card resources, sorted. Without any it
// returns nil.
//
// It fails closed, like BypassPolicy. Few requests match its conditions: those that may change the charged
// queue, or leave cards uncharged for longer than the policy allows. A request must match all conditions, so
// that of one kind is true for every other kind.
func ChargePolicy(owner *v1alpha1.ServiceTypePolicy, spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) *admissionv1.ValidatingAdmissionPolicy {
	if len(resources) == 0 {
		return nil
	}

	longest := strconv.FormatInt(spec.Admission.MaxTerminationGracePeriodSeconds, 10)
	return failClosedPolicy(objectMeta(owner, ChargePolicyName, "keeps used cards charged to the queue that got them", nil),
		admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				resourceRule("", "v1", []string{"pods"}, admissionv1.Update, admissionv1.Delete),
				resourceRule("", "v1", []string{"pods/eviction"}, admissionv1.Create),
				resourceRule("scheduling.volcano.sh", "*", []string{"podgroups"}, admissionv1.Update, admissionv1.Delete),
				resourceRule("apps", "v1", []string{"statefulsets", "replicasets"}, admissionv1.Update),
				resourceRule("bus.volcano.sh", "*", []string{"commands"}, admissionv1.Create, admissionv1.Update),
			}},
			MatchConditions: append([]admissionv1.MatchCondition{
				// A deletion whose grace period is longer than the policy allows and than that of the pod.
				// Otherwise another charged queue of a placed pod, or a charged queue on a pod without a
				// node.
				{Name: "a-pod-that-changes-who-pays", Expression: `!(` + isPod + `) || (` + hasOld + ` && (` + isDeletion + ` ? (` + deletionGrace + ` > ` + longest +
					` && ` + deletionGrace + ` > ` + podGrace + `) : (oldObject.spec.?nodeName.orValue('') != '' ? ` +
					chargeAnnotationsChanged() + ` : ` + chargeRecordWritten + `)))`},
				{Name: "an-eviction-that-lasts", Expression: `!(` + isEviction + `) || ` + evictionGrace + ` > ` + longest},
				{Name: "a-group-that-changes-who-pays", Expression: `!(` + isPodGroup + `) || (` + hasOld + ` && (` + isDeletion + ` ? ` + hasPlacedPods + ` : ` +
					podGroupQueueChanged + ` || ` + podGroupStatusChanged + ` || ` + ownersOfPlacedChanged + `))`},
				{Name: "a-template-that-changes-its-queue", Expression: `!(` + isTemplate + `) || ` + templateQueueChanged},
				{Name: "a-command-to-a-queue", Expression: `!(` + isCommand + `) || object.?target.?kind.orValue('') == 'Queue'`},
			}, chargeMatchConditions(spec.Admission.ExemptServiceAccounts)...),
			Variables:   chargeVariables(resources),
			Validations: chargeRules(longest),
		})
}

// resourceRule returns a rule for operations on resources of a group.
func resourceRule(apiGroup, version string, resources []string, operations ...admissionv1.OperationType) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{apiGroup}, APIVersions: []string{version}, Resources: resources},
	}}
}

// chargeMatchConditions are false for requests that ChargePolicy leaves alone: those of a kubelet on its mirror pods,
// those of an exempt account, and those on a pod that runs as one. bypassMatchConditions is the same for new pods.
func chargeMatchConditions(exempt []v1alpha1.ServiceAccountReference) []admissionv1.MatchCondition {
	out := []admissionv1.MatchCondition{{Name: "not-a-mirror-pod", Expression: `!(` + isPod + ` && ` + hasOld +
		` && has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups && ` + annotationExpr("oldObject", corev1.MirrorPodAnnotationKey) + ` != '')`}}
	if len(exempt) == 0 {
		return out
	}
	users, accounts := accountNames(exempt)
	return append(out,
		admissionv1.MatchCondition{Name: "not-by-an-exempt-account", Expression: `!(request.userInfo.username in ` + celList(users) + `)`},
		admissionv1.MatchCondition{Name: "not-run-as-an-exempt-account", Expression: `!(` + isPod + ` && ` + hasOld +
			` && (request.namespace + '/' + oldObject.spec.?serviceAccountName.orValue('')) in ` + celList(accounts) + `)`})
}

// chargeVariables are the variables of ChargePolicy. The objects are of many kinds: dyn
// keeps the API server from checking the fields of one against the schema of another.
func chargeVariables(resources []corev1.ResourceName) []admissionv1.Variable {
	return []admissionv1.Variable{
		{Name: "cards", Expression: celList(resources)},
		{Name: "old", Expression: `dyn(oldObject)`},
		{Name: "new", Expression: `dyn(object)`},
		{Name: "group", Expression: isPodGroup},
		{Name: "pod", Expression: isPod},
		{Name: "eviction", Expression: isEviction},
		{Name: "template", Expression: isTemplate},
		{Name: "deletion", Expression: isDeletion},
		{Name: "name", Expression: `(variables.old != null ? variables.old.metadata.name : (has(request.name) && request.name != '' ? request.name : 'of this request'))` +
			` + ' of namespace ' + request.namespace`},

		// A template may no longer request cards while its pods still use some.
		{Name: "specs", Expression: `variables.pod ? [variables.old.spec] : variables.template ? [variables.old.spec.template.spec, variables.new.spec.template.spec] : []`},
		{Name: "containers", Expression: `variables.specs.map(s, s.?containers.orValue([])) + variables.specs.map(s, s.?initContainers.orValue([]))`},
		{Name: "requested", Expression: `variables.cards.filter(r, variables.containers.exists(some, some.exists(c, ` + requestsCardExpr() + `)))`},
		{Name: "placed", Expression: `variables.pod && variables.old.?spec.?nodeName.orValue('') != ''`},
		{Name: "recharged", Expression: `variables.pod && !variables.deletion && ` + annotationExpr("variables.new", v1alpha1.AnnotationChargedQueue) + ` != ` + annotationExpr("variables.old", v1alpha1.AnnotationChargedQueue)},

		{Name: "from", Expression: `variables.old.?spec.?queue.orValue('')`},
		{Name: "requeued", Expression: `variables.group && !variables.deletion && variables.new.?spec.?queue.orValue('') != variables.from`},
		{Name: "hasPlacedPods", Expression: `variables.old.?status.?running.orValue(0) > 0 || variables.old.?status.?phase.orValue('') in ['Running', 'Unknown']`},
		{Name: "mayUpdateQueues", Expression: mayUpdateQueues},
		{Name: "mayGrant", Expression: mayGrant},
	}
}

// chargeRules are the validations of ChargePolicy. Each begins with the kind of request
// that it checks, and is true for all others. Only requests that match its conditions come here: each eviction, for
// example, lasts too long. longest is the maximum grace period in seconds.
func chargeRules(longest string) []admissionv1.Validation {
	const who = `request.userInfo.username`

	limit := ` at most ` + longest + ` seconds (spec.admission.maxTerminationGracePeriodSeconds of the ServiceTypePolicy)'`
	return []admissionv1.Validation{
		{
			// Volcano's controller rewrites the PodGroup of a StatefulSet or ReplicaSet
			// from any of its pods without a PodGroup. It may move only a PodGroup without
			// placed pods.
			Expression: `!variables.requeued || (variables.mayUpdateQueues && (!variables.hasPlacedPods || variables.mayGrant))`,
			Message:    "the queue of a PodGroup cannot be changed",
			MessageExpression: `'PodGroup ' + variables.name + ' is in queue ' + variables.from + ', and ' + ` + who + ` + ' may not move it to queue ' + variables.new.?spec.?queue.orValue('') +` +
				` ': the cards of its pods are charged to the queue that got them: delete the work and submit it again with the other queue'`,
		},
		{
			Expression: `!variables.group || variables.deletion || variables.requeued || ` + maySchedule,
			Message:    "the status and the owners of a PodGroup with placed pods cannot be changed",
			MessageExpression: `'PodGroup ' + variables.name + ': ' + ` + who + ` + ' may not change its status.phase, its status.running, or its owners while its pods are placed:` +
				` they say that its cards are charged to queue ' + variables.from + ': leave them as they are'`,
		},
		{
			Expression: `!variables.group || !variables.deletion || variables.mayUpdateQueues || (namespaceObject != null && has(namespaceObject.metadata.deletionTimestamp))`,
			Message:    "a PodGroup with placed pods cannot be deleted",
			MessageExpression: `'PodGroup ' + variables.name + ' has placed pods, and ' + ` + who + ` + ' may not delete it: their cards are charged to its queue ' + variables.from +` +
				` ': delete the work that it belongs to, which deletes it as well'`,
		},
		{
			// Another scheduler could bind the pod next, and the annotation would stay.
			// Administrators have no use for it either, and may act for a tenant.
			Expression: `!variables.pod || variables.deletion || variables.placed`,
			Message:    "a pod that is not placed yet must not say which queue was charged for it",
			MessageExpression: `'pod ' + variables.name + ' has not been placed, and ' + ` + who + ` + ' may not write its annotation ` + v1alpha1.AnnotationChargedQueue +
				`: the scheduler writes it when it places the pod: leave the annotation out, and name the queue by ` + v1beta1.QueueNameAnnotationKey + `'`,
		},
		{
			// The charge for CPU and memory alone must not change either.
			Expression: `!variables.pod || variables.deletion || !variables.placed || variables.requested.size() == 0 && !variables.recharged || variables.mayUpdateQueues`,
			Message:    "a placed pod with cards stays in its group and queue",
			MessageExpression: `'pod ' + variables.name + ' has been placed with ' + (variables.requested.size() > 0 ? variables.requested.join(', ') : 'its CPU and memory') + ', and ' + ` + who + ` + ' may not change which PodGroup or queue it names:` +
				` they are charged there: delete it and submit it again with the other queue'`,
		},
		{
			Expression: `!variables.template || variables.requested.size() == 0 || variables.mayUpdateQueues`,
			Message:    "the queue of a template with cards cannot be changed",
			MessageExpression: `request.kind.kind + ' ' + variables.name + ' requests ' + variables.requested.join(', ') + ', and ' + ` + who + ` + ' may not change ` + v1beta1.QueueNameAnnotationKey +
				` of its template, which would move the running pods as well: delete it and submit it again with the other queue'`,
		},
		{
			Expression: `!variables.pod || !variables.deletion || variables.requested.size() == 0`,
			Message:    "a pod with cards cannot be deleted with a grace period that long",
			MessageExpression: `'pod ' + variables.name + ' requests ' + variables.requested.join(', ') + ', and ' + ` + who + ` + ' deletes it with a grace period of ' + string(` + deletionGrace + `) +` +
				` ' seconds, in which its cards are charged to no queue: give it` + limit,
		},
		{
			Expression: `!variables.eviction`,
			Message:    "a pod cannot be evicted with a grace period that long",
			MessageExpression: `'pod ' + variables.name + ': ' + ` + who + ` + ' evicts it with a grace period of ' + string(variables.new.deleteOptions.gracePeriodSeconds) +` +
				` ' seconds, in which cards are charged to no queue: give it` + limit,
		},
		{
			Expression: `!(` + isCommand + `) || variables.mayUpdateQueues`,
			Message:    "a Command to a Queue needs the right to update Queues",
			MessageExpression: `'Command ' + variables.name + ' is to Queue ' + variables.new.?target.?name.orValue('') + ', which Volcano would open or close for all users, and ' + ` + who +
				` + ' may not update Queues: ask an administrator of queues'`,
		},
	}
}
