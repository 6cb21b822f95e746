package configloader

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

const key = "volcano-scheduler.conf"

func newConfigMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scheduler"},
		Data:       map[string]string{key: text},
	}
}

// startAPIServer starts a real API server for one test.
func startAPIServer(t *testing.T) *rest.Config {
	server, err := cluster.Start(t.Context(), cluster.Options{APIServerOnly: true, WithoutVolcano: true})
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}
	check.NoError(t, err)
	t.Cleanup(func() {
		err := server.Stop()
		check.That(t, err == nil, "stop the API server: %v", err)
	})
	return server.Config()
}

// TestLoaderFollowsAConfigMapThroughItsLife: the loader watches one ConfigMap of a real API server. It may get, list and
// watch only that one. Until the ConfigMap has a valid text, the loader is not ready, and its status says why. From then
// on the last valid text stays in force, in the private file that Volcano reads, whatever happens to the ConfigMap. The
// ConfigMap gets an event when a text is loaded or rejected, when it has never been valid, and when it is deleted.
func TestLoaderFollowsAConfigMapThroughItsLife(t *testing.T) {
	config := startAPIServer(t)
	g := newPatientGomega(t)
	admin := kubernetes.NewForConfigOrDie(config)
	maps := admin.CoreV1().ConfigMaps("default")
	create := func(configMap *corev1.ConfigMap) {
		check.Value(maps.Create(t.Context(), configMap, metav1.CreateOptions{}))(t)
	}
	update := func(text string) {
		check.Value(maps.Update(t.Context(), newConfigMap(text), metav1.UpdateOptions{}))(t)
	}

	// The user of the loader may read nothing but its one ConfigMap, and at first not even that.
	user := rest.CopyConfig(config)
	user.Impersonate.UserName = "loader"
	client := kubernetes.NewForConfigOrDie(user)
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: admin.CoreV1().Events("")})
	t.Cleanup(broadcaster.Shutdown)

	loader := startLoader(t, Config{
		Source:   NewConfigMap(client, types.NamespacedName{Namespace: "default", Name: "scheduler"}, key),
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: EventSource}),
	})

	status := func() string { return loader.Status().String() }
	expectEvent := func(reason, message string) {
		g.Eventually(func(g Gomega) {
			events, err := admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).To(ContainElement(SatisfyAll(
				HaveField("Message", ContainSubstring(message)),
				HaveField("Source.Component", EventSource),
				HaveField("InvolvedObject.Kind", "ConfigMap"),
				HaveField("InvolvedObject.Name", "scheduler"))))
		}).Should(Succeed())
	}

	// The loader has no right to read the ConfigMap. Then it has the right, but the ConfigMap does not exist.
	g.Eventually(status).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("forbidden")))
	allowReading(t, admin)
	g.Eventually(status).Should(Equal("NotConfigured: ConfigMap default/scheduler does not exist"))

	// The ConfigMap has no key volcano-scheduler.conf. Then it has the key, with a text without our plugin.
	create(&corev1.ConfigMap{ObjectMeta: newConfigMap("").ObjectMeta})
	g.Eventually(status).Should(Equal("NotConfigured: ConfigMap default/scheduler has no key " + key))
	update(withoutPlugin)
	g.Eventually(status).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("capacity-card is missing")))
	expectEvent(ReasonNotConfigured, "no pod is scheduled")
	g.Expect(loader.Ready()).NotTo(BeClosed())

	// A valid text is loaded.
	update(valid)
	g.Eventually(loader.Ready()).Should(BeClosed())
	expectInForce(g, loader, valid)
	expectEvent(ReasonLoaded, schedulerconfig.Hash(valid))

	// An invalid text is rejected, and the valid one stays in force.
	update(invalid)
	g.Eventually(status).Should(And(HavePrefix("ConfigurationRejected: "), ContainSubstring(`known are enqueue, allocate`)))
	expectInForce(g, loader, valid)
	expectEvent(ReasonRejected, "the last valid one stays in force")

	// The ConfigMap is deleted, and the valid text stays in force.
	g.Expect(maps.Delete(t.Context(), "scheduler", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(status).Should(HavePrefix("ConfigurationMissing: ConfigMap default/scheduler does not exist"))
	expectInForce(g, loader, valid)
	expectEvent(ReasonMissing, "does not exist")

	// Another valid text replaces it.
	create(newConfigMap(otherValid))
	g.Eventually(func(g Gomega) { expectInForce(g, loader, otherValid) }).Should(Succeed())
	g.Expect(loader.Status().Reason).To(Equal(ReasonLoaded))
}

// allowReading grants the user of the loader the rights that NewConfigMap documents.
func allowReading(t *testing.T, admin kubernetes.Interface) {
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "loader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"scheduler"},
			Verbs: []string{"get", "list", "watch"}}},
	}

	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "loader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "loader"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "loader"},
	}

	check.Value(admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}))(t)
	check.Value(admin.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}))(t)
}
