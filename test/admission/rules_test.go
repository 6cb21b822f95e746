package admission

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// openQueue waits until Volcano has opened a queue and the operator has written it.
func (w *env) openQueue(t *testing.T, name string) {
	framework.NewGomega(t).Eventually(framework.Read(t.Context(), w, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) string {
		return string(queue.Status.State) + " for " + queue.Annotations[v1alpha1.AnnotationServiceType]
	})).Should(gomega.MatchRegexp("^Open for [a-z]"))
}

// dryRunCreate creates an object as administrator without storing it, and fills the object in.
func (w *env) dryRunCreate(t *testing.T, object client.Object) error {
	return w.Create(t.Context(), object, client.DryRunAll)
}

// waitUntilDenied waits until a request is denied with all of the words. For workloads and
// Queues the API server allows the request when the operator does not answer within two
// seconds, which a busy machine may need.
func (w *env) waitUntilDenied(t *testing.T, object client.Object, words ...string) {
	framework.NewGomega(t).Eventually(func() error { return dryRun(t, w, object) }).Should(beDenied(words...), object.GetName())
}

// waitUntilPatchDenied is waitUntilDenied for a merge patch.
func (w *env) waitUntilPatchDenied(t *testing.T, object client.Object, patch string, words ...string) {
	framework.NewGomega(t).Eventually(func() error { return framework.MergePatch(t, w, object, patch, client.DryRunAll) }).Should(beDenied(words...), patch)
}

// trainingJob returns a vcjob of two pods with 4 cards each.
func trainingJob(name, queue string, change func(*vcbatch.Job)) *vcbatch.Job {
	job := &vcbatch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec: vcbatch.JobSpec{Queue: queue, MinAvailable: 2, Tasks: []vcbatch.TaskSpec{{
			Name: "worker", Replicas: 2,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCardName: "NVIDIA-H200"}}, Spec: podSpecWith("", gpu, 4)},
		}}},
	}
	if change != nil {
		change(job)
	}
	return job
}

// workloadTests: the webhooks check each kind of workload at its creation: card name, queue, service type and
// scheduler. Without a policy a wrong card name is a warning, with one a refusal. Other objects are not affected.
func workloadTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	bad := map[string]string{v1alpha1.AnnotationCardName: "NVIDIA H200"}
	good := map[string]string{v1alpha1.AnnotationCardName: "NVIDIA-H200", v1beta1.QueueNameAnnotationKey: "chat-training"}

	wrong := deploymentOf("wrong", podSpecWith("volcano", gpu, 1), bad)
	g.Eventually(w.warningsOf(t, wrong)).Should(gomega.ContainSubstring("NVIDIA H200"), "without a policy the request is allowed with a warning")

	w.applyPolicy(t, v1alpha1.Admission{})
	g.Eventually(func() error { return dryRun(t, w, wrong) }).ShouldNot(gomega.Succeed())

	w.CreateWithCleanup(t, newQuota("chat-training", func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}
	}))
	w.openQueue(t, "chat-training")

	of := func(annotations map[string]string) corev1.PodTemplateSpec {
		return podTemplate(podSpecWith("volcano", gpu, 1), annotations)
	}
	ending := func(annotations map[string]string) batchv1.JobSpec {
		spec := batchv1.JobSpec{Template: of(annotations)}
		spec.Template.Labels = nil
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return spec
	}

	named := metav1.ObjectMeta{Namespace: "chat", Name: "x"}
	kinds := map[string]func(annotations map[string]string) client.Object{
		"Pod": func(a map[string]string) client.Object {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "x", Annotations: a}, Spec: podSpecWith("volcano", gpu, 1)}
		},
		"Deployment": func(a map[string]string) client.Object { return deploymentOf("x", podSpecWith("volcano", gpu, 1), a) },
		"ReplicaSet": func(a map[string]string) client.Object {
			return &appsv1.ReplicaSet{ObjectMeta: named, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: of(a)}}
		},
		"StatefulSet": func(a map[string]string) client.Object {
			return &appsv1.StatefulSet{ObjectMeta: named, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: of(a)}}
		},
		"DaemonSet": func(a map[string]string) client.Object {
			return &appsv1.DaemonSet{ObjectMeta: named, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: of(a)}}
		},
		"Job": func(a map[string]string) client.Object { return &batchv1.Job{ObjectMeta: named, Spec: ending(a)} },
		"CronJob": func(a map[string]string) client.Object {
			return &batchv1.CronJob{ObjectMeta: named, Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: ending(a)}}}
		},
		"vcjob": func(a map[string]string) client.Object {
			return trainingJob("x", "chat-training", func(j *vcbatch.Job) { j.Spec.Tasks[0].Template.Annotations = a })
		},
	}

	for kind, make := range kinds {
		t.Run(kind, func(t *testing.T) {
			w.waitUntilDenied(t, make(bad), "workloads.cardquota.dev", `card name "NVIDIA H200"`, "must be a label value")
			gomega.NewWithT(check.Trail(t)).Expect(w.dryRunCreate(t, make(good))).To(gomega.Succeed())
		})
	}

	t.Run("PodGroup", func(t *testing.T) {
		g := framework.NewGomega(t)
		group := func(request string) *v1beta1.PodGroup {
			return &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "x", Annotations: map[string]string{v1alpha1.AnnotationCardRequest: request}},
				Spec: v1beta1.PodGroupSpec{Queue: "chat-training", MinMember: 1}}
		}
		w.waitUntilDenied(t, group(`{"NVIDIA-H200":-1}`), "workloads.cardquota.dev", "is -1: a quota is 0 or more")
		g.Expect(w.dryRunCreate(t, group(`{"NVIDIA-H200":1}`))).To(gomega.Succeed())
	})

	t.Run("a queue that is for other namespaces", func(t *testing.T) {
		for _, object := range []client.Object{
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: good}, Spec: podSpecWith("volcano", gpu, 0)},
			trainingJob("x", "chat-training", nil),
		} {
			object.SetNamespace("search")
			w.waitUntilDenied(t, object, "Namespace <search> may not use queue <chat-training>: ask an administrator")
		}
	})

	t.Run("a service type that the queue does not grant", func(t *testing.T) {
		claim := map[string]string{v1alpha1.AnnotationServiceType: "inference", v1beta1.QueueNameAnnotationKey: "chat-training"}
		w.waitUntilDenied(t, kinds["Deployment"](claim), "requests service type inference, but queue chat-training has training")
	})

	t.Run("a template that passes the scheduler by", func(t *testing.T) { // its pods would be refused later, unseen by the user
		w.waitUntilDenied(t, deploymentOf("past", podSpecWith("default-scheduler", gpu, 1), good), "schedulerName: volcano")
	})

	t.Run("a change in something else", func(t *testing.T) { storedObjectsTest(t, w, kinds["Deployment"], bad) })
	t.Run("a Queue written by hand", func(t *testing.T) {
		g := framework.NewGomega(t)
		queue := func(text string) *v1beta1.Queue {
			return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "byhand", Annotations: map[string]string{v1alpha1.AnnotationCardQuota: text}}}
		}
		w.waitUntilDenied(t, queue(`{"NVIDIA-H200":"8"}`), "queues.cardquota.dev", "write a whole number of cards, such as 8")
		g.Expect(w.dryRunCreate(t, queue(`{"NVIDIA-H200":8}`))).To(gomega.Succeed())
	})
}

// storedObjectsTest: a Deployment with a bad card name was stored while the operator was stopped. It can still be
// scaled, and its card name corrected, but not be replaced by another bad one.
func storedObjectsTest(t *testing.T, w *env, deployment func(map[string]string) client.Object, bad map[string]string) {
	g := framework.NewGomega(t)
	old := deployment(bad)
	g.Expect(w.manager.Manager.Stop()).To(gomega.Succeed())
	w.CreateWithCleanup(t, old)
	g.Expect(w.manager.StartManager(t.Context())).To(gomega.Succeed())
	g.Expect(framework.MergePatch(t, w, old, `{"spec":{"replicas":1}}`)).To(gomega.Succeed())
	w.waitUntilPatchDenied(t, old, `{"spec":{"template":{"metadata":{"annotations":{"volcano.sh/card.name":"NVIDIA  H200"}}}}}`, "must be a label value")
	g.Expect(framework.MergePatch(t, w, old, `{"spec":{"template":{"metadata":{"annotations":{"volcano.sh/card.name":"NVIDIA-H200"}}}}}`)).To(gomega.Succeed())
}
