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

func configMapObject(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scheduler"},
		Data:       map[string]string{key: text},
	}
}

// apiServer starts a real API server for one test.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
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

func TestConfigMapThroughItsLife(t *testing.T) {
	config := apiServer(t)
	g := patient(t)
	admin := kubernetes.NewForConfigOrDie(config)
	maps := admin.CoreV1().ConfigMaps("default")
	set := func(text string) {
		t.Helper()
		check.Value(maps.Update(t.Context(), configMapObject(text), metav1.UpdateOptions{}))(t)
	}

	// The loader may read nothing but its one ConfigMap.
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
	event := func(g Gomega, reason, message string) {
		events, err := admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events.Items).To(ContainElement(SatisfyAll(
			HaveField("Message", ContainSubstring(message)),
			HaveField("Source.Component", EventSource),
			HaveField("InvolvedObject.Kind", "ConfigMap"),
			HaveField("InvolvedObject.Name", "scheduler"))))
	}

	g.Eventually(status).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("forbidden")))
	allow(t, admin)
	g.Eventually(status).Should(Equal("NotConfigured: ConfigMap default/scheduler does not exist"))

	check.Value(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: configMapObject("").ObjectMeta}, metav1.CreateOptions{}))(t)
	g.Eventually(status).Should(Equal("NotConfigured: ConfigMap default/scheduler has no key " + key))

	set(without)
	g.Eventually(status).Should(And(HavePrefix("NotConfigured: "), ContainSubstring("capacity-card is missing")))
	g.Eventually(func(g Gomega) { event(g, ReasonNotConfigured, "no pod is scheduled") }).Should(Succeed())
	g.Expect(loader.isReady()).To(BeFalse())

	set(good)
	g.Eventually(loader.Ready()).Should(BeClosed())
	privateFileHolds(g, loader, good)
	g.Eventually(func(g Gomega) { event(g, ReasonLoaded, schedulerconfig.Hash(good)) }).Should(Succeed())

	set(bad)
	g.Eventually(status).Should(And(HavePrefix("ConfigurationRejected: "), ContainSubstring(`known are enqueue, allocate`)))
	privateFileHolds(g, loader, good)
	g.Eventually(func(g Gomega) { event(g, ReasonRejected, "the last valid one stays in force") }).Should(Succeed())

	g.Expect(maps.Delete(t.Context(), "scheduler", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(status).Should(HavePrefix("ConfigurationMissing: ConfigMap default/scheduler does not exist"))
	privateFileHolds(g, loader, good)
	g.Eventually(func(g Gomega) { event(g, ReasonMissing, "does not exist") }).Should(Succeed())

	check.Value(maps.Create(t.Context(), configMapObject(better), metav1.CreateOptions{}))(t)
	g.Eventually(func(g Gomega) { privateFileHolds(g, loader, better) }).Should(Succeed())
	g.Expect(loader.Status().Reason).To(Equal(ReasonLoaded))
}

// allow grants the user of the loader what NewConfigMap says it needs.
func allow(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
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
