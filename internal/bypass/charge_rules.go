package bypass

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// chargeVariables are those of Charge. The objects are of many kinds: dyn keeps
// the API server from checking the fields of one against the schema of another.
func chargeVariables(resources []corev1.ResourceName) []admissionv1.Variable {
	return []admissionv1.Variable{
		{Name: "cards", Expression: list(resources)},
		{Name: "old", Expression: `dyn(oldObject)`},
		{Name: "new", Expression: `dyn(object)`},
		{Name: "group", Expression: group},
		{Name: "pod", Expression: pod},
		{Name: "eviction", Expression: eviction},
		{Name: "template", Expression: template},
		{Name: "deletion", Expression: deletion},
		{Name: "name", Expression: `(variables.old != null ? variables.old.metadata.name : (has(request.name) && request.name != '' ? request.name : 'of this request'))` +
			` + ' of namespace ' + request.namespace`},
		// A template may ask for cards no more while its pods still hold some.
		{Name: "specs", Expression: `variables.pod ? [variables.old.spec] : variables.template ? [variables.old.spec.template.spec, variables.new.spec.template.spec] : []`},
		{Name: "containers", Expression: `variables.specs.map(s, s.?containers.orValue([])) + variables.specs.map(s, s.?initContainers.orValue([]))`},
		{Name: "asked", Expression: `variables.cards.filter(r, variables.containers.exists(some, some.exists(c, ` + asks() + `)))`},
		{Name: "placed", Expression: `variables.pod && variables.old.?spec.?nodeName.orValue('') != ''`},
		{Name: "recharged", Expression: `variables.pod && !variables.deletion && ` + annotation("variables.new", v1alpha1.AnnotationChargedQueue) + ` != ` + annotation("variables.old", v1alpha1.AnnotationChargedQueue)},
		{Name: "from", Expression: `variables.old.?spec.?queue.orValue('')`},
		{Name: "requeued", Expression: `variables.group && !variables.deletion && variables.new.?spec.?queue.orValue('') != variables.from`},
		{Name: "held", Expression: `variables.old.?status.?running.orValue(0) > 0 || variables.old.?status.?phase.orValue('') in ['Running', 'Unknown']`},
		{Name: "mayUpdateQueues", Expression: mayUpdateQueues},
		{Name: "mayGrant", Expression: mayGrant},
	}
}

// chargeRules are what Charge refuses. Each begins with the kind of request that
// it is for. longest is the longest grace period, in seconds.
func chargeRules(longest string) []admissionv1.Validation {
	const who = `request.userInfo.username`
	limit := ` at most ` + longest + ` seconds (spec.admission.maxTerminationGracePeriodSeconds of the ServiceTypePolicy)'`
	rules := []admissionv1.Validation{
		{
			// Volcano's controller rewrites the group of a StatefulSet or a ReplicaSet
			// from any pod of it that has none yet: it may move what waits alone.
			Expression: `!variables.requeued || (variables.mayUpdateQueues && (!variables.held || variables.mayGrant))`,
			Message:    "the queue of a PodGroup cannot be changed",
			MessageExpression: `'PodGroup ' + variables.name + ' is in queue ' + variables.from + ', and ' + ` + who + ` + ' may not move it to queue ' + variables.new.?spec.?queue.orValue('') +` +
				` ': the cards of its pods are charged to the queue in which they were handed out: delete the work and submit it again with the other queue'`,
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
				` ': delete the work that it belongs to, and it goes along'`,
		},
		{
			// It could be bound by another scheduler next, and keep it. Not even an
			// administrator has a use for that, and one may act for a tenant.
			Expression: `!variables.pod || variables.deletion || variables.placed`,
			Message:    "a pod that is not placed yet must not say which queue was charged for it",
			MessageExpression: `'pod ' + variables.name + ' has not been placed, and ' + ` + who + ` + ' may not write its annotation ` + v1alpha1.AnnotationChargedQueue +
				`: the scheduler writes it when it places the pod: leave the annotation out, and name the queue by ` + v1alpha1.AnnotationQueueName + `'`,
		},
		{
			// Who pays for CPU and memory alone is not to be rewritten either.
			Expression: `!variables.pod || variables.deletion || !variables.placed || variables.asked.size() == 0 && !variables.recharged || variables.mayUpdateQueues`,
			Message:    "a placed pod with cards stays in its group and queue",
			MessageExpression: `'pod ' + variables.name + ' has been placed with ' + (variables.asked.size() > 0 ? variables.asked.join(', ') : 'its CPU and memory') + ', and ' + ` + who + ` + ' may not change which PodGroup or queue it names:` +
				` they are charged there: delete it and submit it again with the other queue'`,
		},
		{
			Expression: `!variables.template || variables.asked.size() == 0 || variables.mayUpdateQueues`,
			Message:    "the queue of a template with cards cannot be changed",
			MessageExpression: `request.kind.kind + ' ' + variables.name + ' asks for ' + variables.asked.join(', ') + ', and ' + ` + who + ` + ' may not change ` + v1alpha1.AnnotationQueueName +
				` of its template, which would move the running pods as well: delete it and submit it again with the other queue'`,
		},
		{
			Expression: `!variables.pod || !variables.deletion || variables.asked.size() == 0`,
			Message:    "a pod with cards cannot be deleted with a grace period that long",
			MessageExpression: `'pod ' + variables.name + ' asks for ' + variables.asked.join(', ') + ', and ' + ` + who + ` + ' deletes it with a grace period of ' + string(` + deletionGrace + `) +` +
				` ' seconds, in which its cards are charged to nobody: give it` + limit,
		},
		{
			Expression: `!variables.eviction`,
			Message:    "a pod cannot be evicted with a grace period that long",
			MessageExpression: `'pod ' + variables.name + ': ' + ` + who + ` + ' evicts it with a grace period of ' + string(variables.new.deleteOptions.gracePeriodSeconds) +` +
				` ' seconds, in which cards are charged to nobody: give it` + limit,
		},
		{
			Expression: `!(` + command + `) || variables.mayUpdateQueues`,
			Message:    "a Command to a Queue needs the right to update Queues",
			MessageExpression: `'Command ' + variables.name + ' is to Queue ' + variables.new.?target.?name.orValue('') + ', which Volcano would open or close for everybody, and ' + ` + who +
				` + ' may not update Queues: ask who administers them'`,
		},
	}
	forbidden := metav1.StatusReasonForbidden
	for i := range rules {
		rules[i].Reason = &forbidden
	}
	return rules
}
