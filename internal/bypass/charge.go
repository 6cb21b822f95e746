package bypass

import (
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// chargeKeys are the annotations of a pod that say, or would say to another
// version of Volcano, which queue pays for it: the one that was written when it
// was bound, else its PodGroup, and, while there is none, its queue.
var chargeKeys = []string{v1alpha1.AnnotationChargedQueue, v1alpha1.AnnotationPodGroup, "scheduling.volcano.sh/group-name", v1alpha1.AnnotationQueueName, v1alpha1.AnnotationJobQueueName}

// Expressions of what a request is about. They stand in matchConditions, which
// cannot use variables: almost every request ends there, at little cost.
const (
	group     = `request.resource.resource == 'podgroups'`
	pod       = `request.resource.resource == 'pods' && !(has(request.subResource) && request.subResource != '')`
	eviction  = `request.resource.resource == 'pods' && has(request.subResource) && request.subResource == 'eviction'`
	template  = `request.resource.resource in ['statefulsets', 'replicasets']`
	command   = `request.resource.resource == 'commands'`
	deletion  = `request.operation == 'DELETE'`
	hasOld    = `oldObject != null`
	requeued  = `object.?spec.?queue.orValue('') != oldObject.?spec.?queue.orValue('')`
	recounted = `object.?status.?running.orValue(0) != oldObject.?status.?running.orValue(0) || object.?status.?phase.orValue('') != oldObject.?status.?phase.orValue('')`
	// Volcano's scheduler writes Running once enough pods are placed, and Unknown
	// when too few of them are left.
	held = `(oldObject.?status.?running.orValue(0) > 0 || oldObject.?status.?phase.orValue('') in ['Running', 'Unknown'])`
	// The garbage collector deletes what is owned by nobody who is there.
	disowned = `(` + held + ` && object.metadata.?ownerReferences.orValue([]) != oldObject.metadata.?ownerReferences.orValue([]))`
	// The grace period of a deletion, and of an eviction. Into the options of a
	// deletion that names none, the API server writes the pod's own before it asks;
	// 0 stands for that in an eviction, and where pods are deleted as a collection.
	deletionGrace = `(has(request.options) && request.options != null && has(request.options.gracePeriodSeconds) ? request.options.gracePeriodSeconds : 0)`
	evictionGrace = `object.?deleteOptions.?gracePeriodSeconds.orValue(0)`
	// The pod's own was judged when it was created. A pod may have got past that: it
	// is older than the bound, or an exempt account made it. It must go all the same, so nothing
	// that asks for no longer than the pod does itself is refused to anybody.
	ownGrace = `oldObject.spec.?terminationGracePeriodSeconds.orValue(30)`
	// Volcano's controllers and its own scheduler may do this, and who administers
	// queues.
	mayUpdateQueues = `authorizer.group('scheduling.volcano.sh').resource('queues').check('update').allowed()`
	// Every scheduler may do this, too: Volcano has it write the root queue's spec,
	// and no tenant.
	maySchedule = `authorizer.group('scheduling.volcano.sh').resource('queues').name('root').check('update').allowed()`
	// Who may grant cards: an administrator, and none of Volcano's programs.
	mayGrant = `authorizer.group('cardquota.dev').resource('cardquotas').check('update').allowed()`
)

// annotation of an object, "" for none.
func annotation(object, key string) string {
	return object + `.?metadata.?annotations[?'` + key + `'].orValue('')`
}

// rewritten is that one of chargeKeys of a pod changes.
func rewritten() string {
	each := make([]string, len(chargeKeys))
	for i, key := range chargeKeys {
		each[i] = annotation("object", key) + ` != ` + annotation("oldObject", key)
	}
	return `(` + strings.Join(each, ` || `) + `)`
}

// written is that the record of who is charged gets another text. No binding has
// written it yet on a pod without a node, and nobody else is to.
var written = annotation("object", v1alpha1.AnnotationChargedQueue) + ` != '' && ` +
	annotation("object", v1alpha1.AnnotationChargedQueue) + ` != ` + annotation("oldObject", v1alpha1.AnnotationChargedQueue)

// reshaped is that the queue in a pod template changes.
var reshaped = annotation("object.spec.template", v1alpha1.AnnotationQueueName) + ` != ` + annotation("oldObject.spec.template", v1alpha1.AnnotationQueueName)

// Charge returns the ValidatingAdmissionPolicy about what would move, or end, the
// charge for cards that are held, for an effective spec. resources are those that
// are cards, sorted; nil is returned when there are none.
//
// It fails closed, like Policy. What passes its conditions is rare: a write that
// really changes who pays.
func Charge(owner *v1alpha1.ServiceTypePolicy, spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) *admissionv1.ValidatingAdmissionPolicy {
	if len(resources) == 0 {
		return nil
	}
	fail := admissionv1.Fail
	longest := strconv.FormatInt(spec.Admission.MaxTerminationGracePeriodSeconds, 10)
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: meta(owner, v1alpha1.ChargePolicyName,
			"keeps the cards that are held charged to the queue in which they were handed out", nil),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				on("", "v1", []string{"pods"}, admissionv1.Update, admissionv1.Delete),
				on("", "v1", []string{"pods/eviction"}, admissionv1.Create),
				on("scheduling.volcano.sh", "*", []string{"podgroups"}, admissionv1.Update, admissionv1.Delete),
				on("apps", "v1", []string{"statefulsets", "replicasets"}, admissionv1.Update),
				on("bus.volcano.sh", "*", []string{"commands"}, admissionv1.Create, admissionv1.Update),
			}},
			MatchConditions: append([]admissionv1.MatchCondition{
				{Name: "a-pod-that-changes-who-pays", Expression: `!(` + pod + `) || (` + hasOld + ` && (` + deletion + ` ? (` + deletionGrace + ` > ` + longest +
					` && ` + deletionGrace + ` > ` + ownGrace + `) : (oldObject.spec.?nodeName.orValue('') != '' ? ` +
					rewritten() + ` : ` + written + `)))`},
				{Name: "an-eviction-that-lasts", Expression: `!(` + eviction + `) || ` + evictionGrace + ` > ` + longest},
				{Name: "a-group-that-changes-who-pays", Expression: `!(` + group + `) || (` + hasOld + ` && (` + deletion + ` ? ` + held + ` : ` +
					requeued + ` || ` + recounted + ` || ` + disowned + `))`},
				{Name: "a-template-that-changes-its-queue", Expression: `!(` + template + `) || ` + reshaped},
				{Name: "a-command-to-a-queue", Expression: `!(` + command + `) || object.?target.?kind.orValue('') == 'Queue'`},
			}, notFor(spec.Admission.ExemptServiceAccounts)...),
			Variables:   chargeVariables(resources),
			Validations: chargeRules(longest),
		},
	}
}

// on is a rule for operations on resources of a group.
func on(apiGroup, version string, resources []string, operations ...admissionv1.OperationType) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{apiGroup}, APIVersions: []string{version}, Resources: resources},
	}}
}

// notFor lets through whom the rules are not for, as conditions does for new pods.
func notFor(exempt []v1alpha1.ServiceAccountReference) []admissionv1.MatchCondition {
	out := []admissionv1.MatchCondition{{Name: "not-a-mirror-pod", Expression: `!(` + pod + ` && ` + hasOld +
		` && has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups && ` + annotation("oldObject", corev1.MirrorPodAnnotationKey) + ` != '')`}}
	if len(exempt) == 0 {
		return out
	}
	users, accounts := spelled(exempt)
	return append(out,
		admissionv1.MatchCondition{Name: "not-by-an-exempt-account", Expression: `!(request.userInfo.username in ` + list(users) + `)`},
		admissionv1.MatchCondition{Name: "not-run-as-an-exempt-account", Expression: `!(` + pod + ` && ` + hasOld +
			` && (request.namespace + '/' + oldObject.spec.?serviceAccountName.orValue('')) in ` + list(accounts) + `)`})
}
