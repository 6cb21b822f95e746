package admissionpolicy

import (
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// isNotMirrorPod is false for the mirror pods that kubelets create, which have a node name. The admission
// plugin NodeRestriction limits each kubelet to its own node.
const isNotMirrorPod = `!(has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups` +
	` && has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations)`

// BypassPolicy returns the ValidatingAdmissionPolicy for new pods that request a card or carry the
// charged-queue annotation. resources are the card resources, sorted. Without any it returns nil. An
// annotation lists them. The operator reads it after a restart, and takes them as cards for good:
// rememberResources first removes all others.
//
// It needs no other object and no running operator. It fails closed: the API server refuses
// a pod that it cannot evaluate.
func BypassPolicy(owner *v1alpha1.ServiceTypePolicy, spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) *admissionv1.ValidatingAdmissionPolicy {
	if len(resources) == 0 {
		return nil
	}

	schedulers := spec.Scheduler.Names
	longest := strconv.FormatInt(spec.Admission.MaxTerminationGracePeriodSeconds, 10)
	return failClosedPolicy(objectMeta(owner, BypassPolicyName, "keeps pods that request a card from bypassing the scheduler",
		map[string]string{v1alpha1.AnnotationCardResources: card.JoinResources(resources)}),
		admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{resourceRule("", "v1", []string{"pods"}, admissionv1.Create)}},
			MatchConditions:  bypassMatchConditions(spec.Admission.ExemptServiceAccounts),
			Variables: []admissionv1.Variable{
				{Name: "cards", Expression: celList(resources)},
				{Name: "schedulers", Expression: celList(schedulers)},
				{Name: "containers", Expression: `object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])`},
				{Name: "requested", Expression: `variables.cards.filter(r, variables.containers.exists(c, ` + requestsCardExpr() + `))`},
				{Name: "pod", Expression: `has(object.metadata.name) && object.metadata.name != '' ? object.metadata.name :` +
					` (has(object.metadata.generateName) ? object.metadata.generateName + '*' : 'of this request')`},
				{Name: "scheduler", Expression: `has(object.spec.schedulerName) ? object.spec.schedulerName : ''`},
				{Name: "grace", Expression: `has(object.spec.terminationGracePeriodSeconds) ? object.spec.terminationGracePeriodSeconds : 0`},
				{Name: "node", Expression: `has(object.spec.nodeName) ? object.spec.nodeName : ''`},
				{Name: "charged", Expression: annotationExpr("object", v1alpha1.AnnotationChargedQueue)},
			},
			Validations: []admissionv1.Validation{
				manyContainersValidation(),
				{
					Expression: `variables.requested.size() == 0 || variables.scheduler in variables.schedulers`,
					Message:    "a pod that requests a card must be placed by the scheduler that enforces card quotas",
					MessageExpression: `'pod ' + variables.pod + ' requests ' + variables.requested.join(', ') + ' and names schedulerName ' + variables.scheduler +` +
						` ', but only the scheduler ' + variables.schedulers.join(' or ') + ' assigns cards within the quota of a queue: write schedulerName: ' + variables.schedulers[0]`,
				},
				{
					Expression: `variables.requested.size() == 0 || variables.node == ''`,
					Message:    "a pod that requests a card must not set its node",
					MessageExpression: `'pod ' + variables.pod + ' requests ' + variables.requested.join(', ') + ' and sets spec.nodeName ' + variables.node +` +
						` ', which bypasses the scheduler and every quota: leave nodeName out, and choose the node by a nodeSelector such as kubernetes.io/hostname'`,
				},
				{
					Expression: `variables.requested.size() == 0 || variables.grace <= ` + longest,
					Message:    "a pod that requests a card must not have a grace period that long",
					MessageExpression: `'pod ' + variables.pod + ' requests ' + variables.requested.join(', ') + ' and sets spec.terminationGracePeriodSeconds ' + string(variables.grace) +` +
						` ', but cards that a pod holds after its deletion are charged to no queue: write ` + longest + ` or less (spec.admission.maxTerminationGracePeriodSeconds of the ServiceTypePolicy)'`,
				},
				forgedChargeValidation(),
			},
		})
}

// maxContainers bounds the containers of a pod that requests a card, init containers included. Kubernetes
// has no bound, and schedulers keep whole pods.
const maxContainers = 512

// manyContainersValidation refuses a pod with cards and very many containers. It comes first, because what
// follows looks at all of them.
func manyContainersValidation() admissionv1.Validation {
	most := strconv.Itoa(maxContainers)
	return admissionv1.Validation{
		Expression: `variables.containers.size() <= ` + most + ` || variables.requested.size() == 0`,
		Message:    "a pod that requests a card must have at most " + most + " containers",
		MessageExpression: `'pod ' + variables.pod + ' requests ' + variables.requested.join(', ') + ' and has ' + string(variables.containers.size()) +` +
			` ' containers, but a pod with cards has at most ` + most + `, init containers included: divide it into several pods'`,
	}
}

// forgedChargeValidation refuses the charged-queue annotation on a pod that our scheduler
// will not bind, with or without cards: nothing would ever overwrite it. This includes
// users who may update Queues, since Volcano's controllers may, and they create pods from a
// tenant's template. A pod that is restored without a node passes: the annotation has no
// effect until the binding overwrites it.
func forgedChargeValidation() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: `variables.charged == '' || (variables.node == '' && variables.scheduler in variables.schedulers)`,
		Message:    "a pod that our scheduler does not place must not say which queue was charged for it",
		MessageExpression: `'pod ' + variables.pod + ' has the annotation ` + v1alpha1.AnnotationChargedQueue + ` and ' +` +
			` (variables.node != '' ? 'sets spec.nodeName ' + variables.node : 'names schedulerName ' + variables.scheduler) +` +
			` ', but only the scheduler ' + variables.schedulers.join(' or ') + ' writes it, when it places the pod: leave the annotation out, and name the queue by ` +
			v1beta1.QueueNameAnnotationKey + `'`,
	}
}

// bypassMatchConditions are false for new pods that BypassPolicy leaves alone: mirror pods, pods that an exempt account
// creates, and pods that run as one.
func bypassMatchConditions(exempt []v1alpha1.ServiceAccountReference) []admissionv1.MatchCondition {
	out := []admissionv1.MatchCondition{{Name: "not-a-mirror-pod", Expression: isNotMirrorPod}}
	if len(exempt) == 0 {
		return out
	}
	users, accounts := accountNames(exempt)
	return append(out,
		admissionv1.MatchCondition{Name: "not-created-by-an-exempt-account", Expression: `!(request.userInfo.username in ` + celList(users) + `)`},
		admissionv1.MatchCondition{Name: "not-run-as-an-exempt-account", Expression: `!(has(object.spec.serviceAccountName) && (request.namespace + '/' + object.spec.serviceAccountName) in ` + celList(accounts) + `)`})
}

// accountNames returns accounts as the user names in their requests, and as namespace/name, for the pods that run as
// them.
func accountNames(exempt []v1alpha1.ServiceAccountReference) (users, accounts []string) {
	for _, account := range exempt {
		users = append(users, "system:serviceaccount:"+account.Namespace+":"+account.Name)
		accounts = append(accounts, account.Namespace+"/"+account.Name)
	}
	return users, accounts
}
