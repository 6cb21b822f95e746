package security

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
)

const (
	manager   = "cardquota-manager"
	scheduler = "cardquota-scheduler"
	// volcanoAccount is the account of Volcano's own Deployment, which keeps Volcano's rights where
	// only the image was replaced.
	volcanoAccount = "volcano-scheduler"
	system         = "volcano-system"
)

// TestTheProgramsMayDoTheirWork: the roles allow rights whose absence would go unnoticed for long. All other
// end-to-end tests show that the rest suffices. A line has verbs, resources as resource.group/subresource, and
// namespace/name.
func TestTheProgramsMayDoTheirWork(t *testing.T) {
	newCaller(t, system, manager).expectAllowed(t, parsePermissions(`
		patch cardquotas.cardquota.dev/status /any
		get configmaps volcano-system/volcano-scheduler-configmap
		get,create,patch,delete configmaps volcano-system/cardquota-scheduler-configmap
		get,create,patch configmaps volcano-system/cardquota-policy-in-force
		get,create,patch configmaps volcano-system/cardquota-card-seconds-0
		get,create,patch configmaps volcano-system/cardquota-card-seconds-63
		update leases.coordination.k8s.io volcano-system/cardquota-manager
		create tokenreviews.authentication.k8s.io /`))

	newCaller(t, system, scheduler).expectAllowed(t, parsePermissions(`
		create pods/binding tenant/any
		patch pods/status tenant/any
		update queues.scheduling.volcano.sh /root
		get configmaps volcano-system/cardquota-scheduler-configmap
		update leases.coordination.k8s.io volcano-system/volcano
		update leases.coordination.k8s.io volcano-system/cardquota-scheduler
		create subjectaccessreviews.authorization.k8s.io /`))
}

// onlyToEnforce is what the operator may do only while an administrator has bound the ClusterRole
// cardquota-manager-enforce.
var onlyToEnforce = parsePermissions(`
	create queues.scheduling.volcano.sh /
	patch,delete queues.scheduling.volcano.sh /any
	patch cardquotas.cardquota.dev /any
	create priorityclasses.scheduling.k8s.io /
	delete priorityclasses.scheduling.k8s.io /any
	patch,delete validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-bypass.cardquota.dev
	patch,delete validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-charge.cardquota.dev
	patch,delete validatingadmissionpolicybindings.admissionregistration.k8s.io /cardquota-bypass.cardquota.dev
	patch,delete validatingadmissionpolicybindings.admissionregistration.k8s.io /cardquota-charge.cardquota.dev`)

// TestTheRightsToEnforceAreBoundSeparately: an account with the ClusterRole of the operator may observe, and do nothing that
// mode Enforce needs (onlyToEnforce). With the binding of docs/security.md it may do all of that, and without it none of
// it again.
func TestTheRightsToEnforceAreBoundSeparately(t *testing.T) {
	const observing = "observing"
	createForTest(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: observing}})
	createForTest(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: observing, Name: manager}})
	createForTest(t, bindingFor(observing, manager))
	operator := newCaller(t, observing, manager)
	operator.expectAllowed(t, parsePermissions("patch cardquotas.cardquota.dev/status /any\nlist queues.scheduling.volcano.sh /"))
	operator.expectDenied(t, onlyToEnforce)

	enforce := bindingFor(observing, manager+"-enforce")
	createForTest(t, enforce)
	operator.expectAllowed(t, onlyToEnforce)
	deleteObject(t, enforce)
	operator.expectDenied(t, onlyToEnforce)
}

// bindingFor grants a ClusterRole to the operator of a namespace.
func bindingFor(namespace, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: manager}},
	}
}

// deniedToAll is what none of our accounts may do.
var deniedToAll = parsePermissions(`
	list,create secrets tenant/
	get secrets tenant/any
	list secrets,configmaps volcano-system/
	get secrets volcano-system/volcano-admission-secret
	create secrets,configmaps volcano-system/another
	create configmaps tenant/another
	create pods/exec,pods/attach,pods/portforward tenant/any
	update pods,pods/ephemeralcontainers tenant/any
	create pods,deployments.apps,jobs.batch.volcano.sh,rolebindings.rbac.authorization.k8s.io tenant/
	create nodes,clusterrolebindings.rbac.authorization.k8s.io,customresourcedefinitions.apiextensions.k8s.io /
	update,patch nodes /any
	patch nodes/status,customresourcedefinitions.apiextensions.k8s.io /any
	get nodes/proxy /any
	create serviceaccounts/token volcano-system/volcano-controllers
	create serviceaccounts volcano-system/
	impersonate users /any
	impersonate serviceaccounts volcano-system/any
	escalate clusterroles.rbac.authorization.k8s.io /any
	bind clusterroles.rbac.authorization.k8s.io /cluster-admin
	patch clusterroles.rbac.authorization.k8s.io /cardquota-manager
	patch clusterroles.rbac.authorization.k8s.io /cardquota-scheduler
	patch roles.rbac.authorization.k8s.io volcano-system/any
	patch deployments.apps volcano-system/volcano-scheduler
	delete jobs.batch.volcano.sh tenant/any
	delete,patch namespaces /any
	get configmaps tenant/any
	get,patch,delete configmaps volcano-system/another
	patch,delete configmaps volcano-system/volcano-scheduler-configmap
	delete configmaps volcano-system/cardquota-policy-in-force
	update leases.coordination.k8s.io kube-system/kube-scheduler
	update leases.coordination.k8s.io kube-node-lease/any
	patch mutatingwebhookconfigurations.admissionregistration.k8s.io /another
	patch validatingwebhookconfigurations.admissionregistration.k8s.io /another
	create mutatingwebhookconfigurations.admissionregistration.k8s.io /
	delete mutatingwebhookconfigurations.admissionregistration.k8s.io /cardquota
	patch validatingadmissionpolicies.admissionregistration.k8s.io /another
	patch,delete validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-webhooks.cardquota.dev
	patch,delete validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-finalizers.cardquota.dev
	patch,delete validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-priorityclasses.cardquota.dev
	delete validatingadmissionpolicybindings.admissionregistration.k8s.io /cardquota-webhooks.cardquota.dev`)

// deniedToOther is what only the other one of our accounts may do, or none.
var deniedToOther = map[string][]permission{
	manager: parsePermissions(`
		create pods/binding tenant/any
		delete,patch pods tenant/any
		create cardquotas.cardquota.dev /
		update,delete cardquotas.cardquota.dev /any
		create servicetypepolicies.cardquota.dev /
		update,patch,delete servicetypepolicies.cardquota.dev /default
		update,patch priorityclasses.scheduling.k8s.io /any
		update queues.scheduling.volcano.sh,queues.scheduling.volcano.sh/status /any
		patch queues.scheduling.volcano.sh/status /any
		update podgroups.scheduling.volcano.sh tenant/any
		update leases.coordination.k8s.io volcano-system/cardquota-scheduler
		update leases.coordination.k8s.io volcano-system/volcano`),
	scheduler: parsePermissions(`
		get configmaps volcano-system/volcano-scheduler-configmap
		patch,delete configmaps volcano-system/cardquota-scheduler-configmap
		patch configmaps volcano-system/cardquota-card-seconds-0
		patch cardquotas.cardquota.dev /any
		patch servicetypepolicies.cardquota.dev /default
		patch pods tenant/any
		delete,update,patch queues.scheduling.volcano.sh /any
		patch queues.scheduling.volcano.sh/status /any
		patch mutatingwebhookconfigurations.admissionregistration.k8s.io /cardquota
		patch validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-charge.cardquota.dev
		create priorityclasses.scheduling.k8s.io /
		get secrets volcano-system/cardquota-webhook-cert
		update leases.coordination.k8s.io volcano-system/cardquota-manager`),
}

// deniedToTenants is what grants cards, or reveals what others use and run: no tenant may do any of
// it.
var deniedToTenants = parsePermissions(`
	create cardquotas.cardquota.dev,queues.scheduling.volcano.sh,priorityclasses.scheduling.k8s.io /
	get,patch cardquotas.cardquota.dev,queues.scheduling.volcano.sh /any
	get,patch servicetypepolicies.cardquota.dev /default
	get cardinventories.cardquota.dev /cluster
	patch cardinventories.cardquota.dev/status /cluster
	create,update,patch,delete localcardquotas.cardquota.dev tenant/any
	patch localcardquotas.cardquota.dev/status tenant/any
	patch,delete configmaps volcano-system/cardquota-scheduler-configmap
	get,patch,delete configmaps volcano-system/cardquota-card-seconds-0
	patch leases.coordination.k8s.io volcano-system/cardquota-scheduler
	patch nodes /rtx4090
	patch namespaces /tenant
	create pods/binding tenant/any
	patch pods/status tenant/any
	create rolebindings.rbac.authorization.k8s.io tenant/
	patch,delete validatingadmissionpolicies.admissionregistration.k8s.io /cardquota-bypass.cardquota.dev
	delete validatingadmissionpolicybindings.admissionregistration.k8s.io /cardquota-bypass.cardquota.dev
	delete servicetypepolicies.cardquota.dev /default
	delete validatingwebhookconfigurations.admissionregistration.k8s.io /cardquota
	get secrets volcano-system/cardquota-webhook-cert
	list cardquotas.cardquota.dev,queues.scheduling.volcano.sh,nodes,events /
	list pods,podgroups.scheduling.volcano.sh,events neighbour/
	list events default/
	list configmaps,leases.coordination.k8s.io volcano-system/
	get pods/log volcano-system/any`)

// TestATenantCannotGrantItselfCards: a tenant with role edit in its namespace may do nothing that grants cards, or
// that reveals what others use (deniedToTenants). It may create pods, or the test would show nothing. A right is
// written as verbs, resources and namespace/name.
func TestATenantCannotGrantItselfCards(t *testing.T) {
	newUser(tess).expectDenied(t, deniedToTenants)
	newUser(tess).expectAllowed(t, parsePermissions("create,list pods tenant/"))
}

// TestWhoMayViewTheClusterReadsCardQuotas: CardQuotas belong to Kubernetes' role view: a user with that role reads all
// of them and changes none. A right is written as verbs, resources and namespace/name.
func TestWhoMayViewTheClusterReadsCardQuotas(t *testing.T) {
	createForTest(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view-everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "viewer"}},
	})
	newUser("viewer").expectAllowed(t, parsePermissions("list cardquotas.cardquota.dev /"))
	newUser("viewer").expectDenied(t, parsePermissions("patch cardquotas.cardquota.dev /any"))
}

// TestWhatIsTriedCanBeDone: an administrator may do each action of the tables of denied rights, apart from escalate,
// bind and impersonate. Else a mistyped resource would be denied like any other, and a table would prove nothing.
func TestWhatIsTriedCanBeDone(t *testing.T) {
	tried := slices.Concat(deniedToAll, deniedToOther[manager], deniedToOther[scheduler], deniedToTenants, onlyToEnforce)
	newUser("administrator", "system:masters").expectAllowed(t, slices.DeleteFunc(tried, func(r permission) bool {
		return slices.Contains([]string{"escalate", "bind", "impersonate"}, r.verb)
	}))
}

// TestTheProgramsMayNothingElse: a stolen token of either program must not allow more than the program needs. The
// tables list what would help an attacker, and neither program may do any of it. What only one of them needs
// (deniedToOther) is denied to the other.
func TestTheProgramsMayNothingElse(t *testing.T) {
	for _, account := range []string{manager, scheduler} {
		newCaller(t, system, account).expectDenied(t, slices.Concat(deniedToAll, deniedToOther[account]))
	}
}

// TestTheAccountOfVolcanosDeployment: an administrator may put our image into Volcano's own Deployment, which keeps
// Volcano's account. With the RoleBinding of our overlay this account has what our scheduler needs. It also keeps
// Volcano's wider rights, exactly those that docs/security.md states. A line has verbs, resources and namespace/name.
func TestTheAccountOfVolcanosDeployment(t *testing.T) {
	applyForTest(t, "../../config/overlays/scheduler-image/rolebinding.yaml")
	caller := newCaller(t, system, volcanoAccount)

	// Without tokenreviews --secure-metrics denies every request.
	caller.expectAllowed(t, parsePermissions(`
		create tokenreviews.authentication.k8s.io,subjectaccessreviews.authorization.k8s.io /
		patch pods/status tenant/any
		get configmaps volcano-system/cardquota-scheduler-configmap
		update leases.coordination.k8s.io volcano-system/cardquota-scheduler`))

	volcanos := parsePermissions(`
		update,patch nodes /any
		get configmaps tenant/any
		get,delete configmaps volcano-system/another
		delete configmaps volcano-system/volcano-scheduler-configmap
		delete configmaps volcano-system/cardquota-scheduler-configmap
		delete configmaps volcano-system/cardquota-policy-in-force
		list configmaps volcano-system/
		delete jobs.batch.volcano.sh tenant/any
		create customresourcedefinitions.apiextensions.k8s.io /
		update leases.coordination.k8s.io kube-system/kube-scheduler
		update leases.coordination.k8s.io kube-node-lease/any`)
	caller.expectAllowed(t, volcanos)
	caller.expectDenied(t, slices.DeleteFunc(slices.Clone(deniedToAll), func(r permission) bool { return slices.Contains(volcanos, r) }))
}

// TestNoRuleIsOpen: no rule of our roles has a star, which would also grant what a later version of an API adds.
// None allows all Secrets or the deletion of collections.
func TestNoRuleIsOpen(t *testing.T) {
	enforce := &rbacv1.ClusterRole{}
	check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Name: manager + "-enforce"}, enforce))
	for _, account := range []string{manager, scheduler} {
		cluster := &rbacv1.ClusterRole{}
		namespaced := &rbacv1.Role{}
		check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Name: account}, cluster))
		check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: account}, namespaced))

		for _, rule := range slices.Concat(cluster.Rules, namespaced.Rules, enforce.Rules) {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				check.That(t, !slices.Contains(list, rbacv1.ResourceAll), "%s has a rule with a star: %v", account, rule)
			}

			check.That(t, !slices.Contains(rule.Resources, "secrets") || len(rule.ResourceNames) > 0, "%s has a rule for every Secret: %v", account, rule)
			check.That(t, !slices.Contains(rule.Verbs, "deletecollection"), "%s may delete collections: %v", account, rule)
		}
	}
}
