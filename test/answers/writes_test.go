package answers

import (
	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/framework"
)

// viewer is a user with the role view in one namespace.
const viewer = "vera"

// grantedByOLM is the ClusterRole that OLM creates for each definition of a bundle, for role edit:
// pkg/controller/operators/olm/operatorgroup.go, ensureClusterRolesForCSV. It has no subresource.
func grantedByOLM() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "localcardquotas.cardquota.dev-v1alpha1-edit", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"create", "update", "patch", "delete"}, APIGroups: []string{api.GroupVersion.Group}, Resources: []string{"localcardquotas"}}},
	}
}

func forbidden() gomega.OmegaMatcher {
	return gomega.WithTransform(apierrors.IsForbidden, gomega.BeTrue())
}

// tenantWrites tries to change what only the operator may write: with the roles of Kubernetes, and with
// what OLM adds to edit.
func tenantWrites(p *play) {
	g := newGomega(p.T)
	edits := p.ClientAs(p.T, tenant)
	reads := p.ClientAs(p.T, viewer)

	p.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: viewer}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: viewer}},
	})

	key := client.ObjectKey{Namespace: "quota", Name: "quota"}
	view := &api.LocalCardQuota{}
	forged := &api.LocalCardQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: "forged"}}
	forged.Status = api.LocalCardQuotaStatus{Queue: "forged", Summary: "0/999 NVIDIA-QUOTA"}
	for _, as := range []client.Client{edits, reads} {
		g.Eventually(func() error { return as.Get(p.Context(), key, view) }).Should(gomega.Succeed())
		g.Expect(as.Create(p.Context(), forged.DeepCopy())).To(forbidden())
		g.Expect(framework.MergePatch(p.T, as, view, `{"metadata":{"labels":{"a":"b"}}}`)).To(forbidden())
		g.Expect(as.Delete(p.Context(), view)).To(forbidden())
	}

	p.create(grantedByOLM())
	g.Eventually(func() error { // the controller manager adds it to edit
		return framework.MergePatch(p.T, edits, view, `{"metadata":{"labels":{"a":"b"}},"status":{"summary":"0/999 NVIDIA-QUOTA"}}`)
	}).Should(gomega.Succeed())

	summary := func() string { return framework.Fetch[api.LocalCardQuota](p, p, key).Status.Summary }
	g.Expect(summary()).To(gomega.Equal("2/2 NVIDIA-QUOTA"))

	forgery := client.RawPatch(apitypes.MergePatchType, []byte(`{"status":{"summary":"0/999 NVIDIA-QUOTA"}}`))
	g.Expect(edits.Status().Patch(p.Context(), view.DeepCopy(), forgery)).To(forbidden())
	g.Expect(summary()).To(gomega.Equal("2/2 NVIDIA-QUOTA"))

	made := forged.DeepCopy()
	g.Expect(edits.Create(p.Context(), made)).To(gomega.Succeed())
	g.Expect(made.Status).To(gomega.Equal(api.LocalCardQuotaStatus{}), "the API server drops the status of a new object")
	g.Eventually(p.IsGone(p.Context(), made)).Should(gomega.BeTrue(), "no CardQuota has this view")

	for name, change := range map[string]func() error{
		"the view is deleted":              func() error { return edits.Delete(p.Context(), view) },
		"the view has no owner":            func() error { return framework.MergePatch(p.T, edits, view, `{"metadata":{"ownerReferences":null}}`) },
		"the view is of another CardQuota": func() error { return framework.MergePatch(p.T, edits, view, ownedByAnother) },
	} {
		g.Expect(p.Get(p.Context(), key, view)).To(gomega.Succeed())
		before := view.UID
		g.Expect(change()).To(gomega.Succeed(), name)
		g.Eventually(func() (bool, error) {
			err := p.Get(p.Context(), key, view)
			return view.UID != before && view.Status.Summary == "2/2 NVIDIA-QUOTA", client.IgnoreNotFound(err)
		}).Should(gomega.BeTrue(), "%s, and the operator restores it", name)
	}

	p.DeleteAndWait(p.T, grantedByOLM())
}

// ownedByAnother makes a view belong to an object of another uid.
const ownedByAnother = `{"metadata":{"ownerReferences":[{"apiVersion":"cardquota.dev/v1alpha1","kind":"CardQuota","name":"quota","uid":"00000000-0000-0000-0000-000000000000"}]}}`
