package admission

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// batchJob returns a Job of Kubernetes without running pods, which requests cards.
func batchJob(name string, change func(*batchv1.JobSpec)) *batchv1.Job {
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec:       batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: podSpecWith("volcano", gpu, 1)}},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if change != nil {
		change(&job.Spec)
	}
	return job
}

// evictionRule is the rule that the operator adds, as a user writes it.
var evictionRule = batchv1.PodFailurePolicyRule{
	Action:          batchv1.PodFailurePolicyActionIgnore,
	OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
}

// exitCodeRules are rules of a user.
func exitCodeRules(n int) []batchv1.PodFailurePolicyRule {
	return slices.Repeat([]batchv1.PodFailurePolicyRule{{
		Action:      batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}},
	}}, n)
}

func withRules(rules []batchv1.PodFailurePolicyRule) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

// rulesOf returns the rules of a Job's podFailurePolicy.
func rulesOf(job *batchv1.Job) []batchv1.PodFailurePolicyRule {
	if job.Spec.PodFailurePolicy == nil {
		return nil
	}
	return job.Spec.PodFailurePolicy.Rules
}

// jobTests: evicted pods of a Kubernetes Job count as failed, unless its podFailurePolicy ignores evictions as
// first rule. With jobEvictionPolicy IgnoreEvictions the webhook adds that rule to new Jobs with cards of our
// scheduler that have no rule for evictions. Kubernetes must allow it: restartPolicy Never, fewer than 20 rules.
// Otherwise the user gets a warning.
// In the table, rules is how many rules the created Job has, and gets whether the added one is its first.
func jobTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	g.Eventually(w.warningsOf(t, batchJob("none", nil))).ShouldNot(gomega.ContainSubstring("backoffLimit"), "without a policy")

	policy := w.applyPolicy(t, v1alpha1.Admission{})
	g.Eventually(w.warningsOf(t, batchJob("unchanged", nil))).Should(gomega.ContainSubstring("spec.podFailurePolicy: evicted pods count as failed"))

	unchanged := batchJob("unchanged", nil)
	g.Expect(w.dryRunCreate(t, unchanged)).To(gomega.Succeed())
	g.Expect(unchanged.Spec.PodFailurePolicy).To(gomega.BeNil(), "the policy does not ask for it")

	g.Expect(framework.MergePatch(t, w, policy, `{"spec":{"admission":{"jobEvictionPolicy":"IgnoreEvictions"}}}`)).To(gomega.Succeed())
	g.Eventually(func() []batchv1.PodFailurePolicyRule {
		job := batchJob("plain", nil)
		g.Expect(w.dryRunCreate(t, job)).To(gomega.Succeed())
		return rulesOf(job)
	}).Should(gomega.HaveLen(1))

	for t, tc := range check.Cases(t, map[string]struct {
		change func(*batchv1.JobSpec)
		rules  int
		gets   bool
	}{
		"no podFailurePolicy":                  {nil, 1, true},
		"19 rules about exit codes":            {withRules(exitCodeRules(19)), 20, true},
		"20 rules, which is the most":          {withRules(exitCodeRules(20)), 20, false},
		"the rule is there, after another one": {withRules(append(exitCodeRules(1), evictionRule)), 2, false},
		"restartPolicy OnFailure":              {func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, 0, false},
		"the default scheduler": {func(s *batchv1.JobSpec) {
			s.Template.Spec = podSpecWith("default-scheduler", gpu, 0)
			s.Template.Spec.RestartPolicy = "Never"
		}, 0, false},
		"no cards":                   {func(s *batchv1.JobSpec) { s.Template.Spec.Containers = podSpecWith("", gpu, 0).Containers }, 0, false},
		"cards of an init container": {cardsInInitContainer, 1, true},
	}) {
		framework.NewGomega(t).Eventually(func(g gomega.Gomega) { // nothing is added when the operator does not answer in time
			job := batchJob("x", tc.change)
			g.Expect(w.dryRunCreate(t, job)).To(gomega.Succeed())
			rules := rulesOf(job)
			g.Expect(rules).To(gomega.HaveLen(tc.rules))
			if tc.gets {
				g.Expect(rules[0]).To(gomega.Equal(evictionRule))
				g.Expect(*job.Spec.PodReplacementPolicy).To(gomega.Equal(batchv1.Failed))
			}
		}).Should(gomega.Succeed())
	}

	t.Run("restartPolicy OnFailure is a warning", func(t *testing.T) {
		job := batchJob("x", func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure })
		framework.NewGomega(t).Eventually(w.warningsOf(t, job)).Should(gomega.ContainSubstring("write restartPolicy: Never, and write first in podFailurePolicy.rules"))
	})

	t.Run("the file again", func(t *testing.T) { fileAgainTests(t, w) })
	t.Run("of a JobSet", func(t *testing.T) { jobSetTests(t, w) })
	t.Run("of a CronJob", func(t *testing.T) { cronJobTests(t, w) })
	t.Run("cost", func(t *testing.T) { jobCostTests(t, w) })
}

func cardsInInitContainer(s *batchv1.JobSpec) {
	pod := &s.Template.Spec
	pod.InitContainers = pod.Containers
	pod.Containers = podSpecWith("", gpu, 0).Containers
	pod.InitContainers[0].Name = "init"
}

// writeFile writes a Job as a user has it in a file.
func writeFile(t *testing.T, job *batchv1.Job) string {
	text := check.Value(yaml.Marshal(job))(t)
	path := filepath.Join(t.TempDir(), job.Name+".yaml")
	gomega.NewWithT(check.Trail(t)).Expect(os.WriteFile(path, text, 0o600)).To(gomega.Succeed())
	return path
}

// fileAgainTests: a podFailurePolicy is immutable, and the user's file does not have the rule that the webhook
// added. So each way to apply the changed file again (parallelism 2 instead of 1) must keep the rule and succeed.
// kubectl replace needs manualSelector, or it would refuse the file anyway.
func fileAgainTests(t *testing.T, w *env) {
	withSelector := func(s *batchv1.JobSpec) {
		s.ManualSelector = ptr.To(true)
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": "own"}}
		s.Template.Labels = s.Selector.MatchLabels
	}

	defaulted := func(s *batchv1.JobSpec) { s.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed) }
	serverSide := []string{"apply", "--server-side"}
	for t, tc := range check.Cases(t, map[string]struct {
		first, again []string
		changes      []func(*batchv1.JobSpec)
	}{
		"replace":                      {[]string{"create"}, []string{"replace"}, []func(*batchv1.JobSpec){withSelector}},
		"replace with rules":           {[]string{"create"}, []string{"replace"}, []func(*batchv1.JobSpec){withSelector, withRules(exitCodeRules(2))}},
		"server-side apply":            {serverSide, serverSide, nil},
		"server-side apply with rules": {serverSide, serverSide, []func(*batchv1.JobSpec){withRules(exitCodeRules(2))}},
		"server-side apply with the default podReplacementPolicy": {serverSide, serverSide, []func(*batchv1.JobSpec){defaulted}},
		"apply":            {[]string{"apply"}, []string{"apply"}, nil},
		"apply with rules": {[]string{"apply"}, []string{"apply"}, []func(*batchv1.JobSpec){withRules(exitCodeRules(2))}},
		"server-side apply of a Job that was created": {[]string{"create"}, []string{"apply", "--server-side", "--force-conflicts"}, []func(*batchv1.JobSpec){withRules(exitCodeRules(1))}},
	}) {
		g := framework.NewGomega(t)
		job := batchJob("again", func(s *batchv1.JobSpec) {
			s.Completions = ptr.To[int32](2)
			s.Parallelism = ptr.To[int32](1)
			for _, change := range tc.changes {
				change(s)
			}
		})

		count := len(rulesOf(job)) + 1
		path := writeFile(t, job)
		t.Cleanup(func() { w.DeleteAndWait(t, job) })

		g.Eventually(func(g gomega.Gomega) { // the rule is not added when the operator does not answer in time
			out, err := w.cluster.Kubectl(t.Context(), append(tc.first, "-f", path)...)
			g.Expect(err).NotTo(gomega.HaveOccurred(), out)
			stored := &batchv1.Job{}
			g.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(job), stored)).To(gomega.Succeed())
			if len(rulesOf(stored)) != count {
				g.Expect(w.Delete(t.Context(), stored)).To(gomega.Succeed())
			}
			g.Expect(rulesOf(stored)).To(gomega.HaveLen(count))
		}).Should(gomega.Succeed())

		job.Spec.Parallelism = ptr.To[int32](2)
		path = writeFile(t, job)
		g.Eventually(func(g gomega.Gomega) {
			out, err := w.cluster.Kubectl(t.Context(), append(tc.again, "-f", path)...)
			g.Expect(err).NotTo(gomega.HaveOccurred(), out)
		}).Should(gomega.Succeed())

		stored := framework.Fetch[batchv1.Job](t, w, client.ObjectKeyFromObject(job))
		g.Expect(rulesOf(stored)).To(gomega.HaveLen(count))
		g.Expect(rulesOf(stored)[0]).To(gomega.Equal(evictionRule))
		g.Expect(*stored.Spec.PodReplacementPolicy).To(gomega.Equal(batchv1.Failed))
		g.Expect(*stored.Spec.Parallelism).To(gomega.Equal(int32(2)), "what the file changes")
	}

	t.Run("another rule is missing", func(t *testing.T) {
		g := framework.NewGomega(t)
		job := batchJob("less", withRules(append([]batchv1.PodFailurePolicyRule{evictionRule}, exitCodeRules(2)...)))
		w.CreateWithCleanup(t, job)
		g.Expect(framework.MergePatch(t, w, job, `{"spec":{"podFailurePolicy":null}}`)).To(beDenied("field is immutable"))
	})
}

// jobSetTests: a Job that the controller of a JobSet creates gets the rule as well.
func jobSetTests(t *testing.T, w *env) {
	framework.NewGomega(t).Eventually(func(g gomega.Gomega) {
		job := batchJob("set-worker-0", nil)
		job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "set", UID: "u", Controller: ptr.To(true)}}
		g.Expect(w.dryRunCreate(t, job)).To(gomega.Succeed())
		g.Expect(rulesOf(job)).To(gomega.Equal([]batchv1.PodFailurePolicyRule{evictionRule}))
	}).Should(gomega.Succeed())
}

// cronJobTests: a Job that Kubernetes creates for a CronJob, which is due here, gets the rule as well.
func cronJobTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "nightly"},
		Spec:       batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchJob("", nil).Spec}},
	}

	w.CreateWithCleanup(t, cron)
	before := cron.DeepCopy()
	cron.Status.LastScheduleTime = ptr.To(metav1.NewTime(time.Now().Add(-10 * time.Minute))) // so that it is due
	g.Expect(w.Status().Patch(t.Context(), cron, client.MergeFrom(before))).To(gomega.Succeed())

	g.Eventually(func(g gomega.Gomega) {
		jobs := &batchv1.JobList{}
		g.Expect(w.List(t.Context(), jobs, client.InNamespace("chat"))).To(gomega.Succeed())
		jobs.Items = slices.DeleteFunc(jobs.Items, func(j batchv1.Job) bool { return !metav1.IsControlledBy(&j, cron) })
		g.Expect(jobs.Items).NotTo(gomega.BeEmpty())
		g.Expect(rulesOf(&jobs.Items[0])).To(gomega.Equal([]batchv1.PodFailurePolicyRule{evictionRule}))
	}, 2*time.Minute).Should(gomega.Succeed())
}

var jobRequests = regexp.MustCompile(`(?m)^apiserver_admission_webhook_admission_duration_seconds_count\{.*name="jobs\.cardquota\.dev".*\} (\d+)$`)

// jobCostTests: each call of a webhook delays a request. So the API server calls it only for Jobs that the webhook
// may change: no call for the four requests of the table, and one call for the usual Job after them.
func jobCostTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	asked := func() (sum int) {
		page := check.Value(w.cluster.Kubectl(t.Context(), "get", "--raw", "/metrics"))(t)
		for _, found := range jobRequests.FindAllStringSubmatch(page, -1) {
			sum += check.Value(strconv.Atoi(found[1]))(t)
		}
		return sum
	}

	stored := batchJob("stored", nil)
	w.CreateWithCleanup(t, stored)
	before := asked()
	g.Expect(before).To(gomega.BeNumerically(">", 0))

	for name, request := range map[string]func() error{
		"a Job of the default scheduler": func() error {
			return dryRun(t, w, batchJob("x", func(s *batchv1.JobSpec) {
				s.Template.Spec.SchedulerName = "default-scheduler"
				s.Template.Spec.Containers = podSpecWith("", "example.com/nic", 1).Containers
			}))
		},
		"a Job without a card": func() error {
			return dryRun(t, w, batchJob("x", func(s *batchv1.JobSpec) { s.Template.Spec.Containers = podSpecWith("", gpu, 0).Containers }))
		},
		"a Job with restartPolicy OnFailure": func() error {
			return dryRun(t, w, batchJob("x", func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }))
		},
		"another change of a stored Job": func() error {
			return framework.MergePatch(t, w, stored, `{"metadata":{"labels":{"a":"b"}},"spec":{"parallelism":3}}`)
		},
	} {
		g.Expect(request()).To(gomega.Succeed(), name)
	}

	g.Expect(asked()).To(gomega.Equal(before))
	g.Expect(dryRun(t, w, batchJob("x", nil))).To(gomega.Succeed())
	g.Expect(asked()).To(gomega.Equal(before + 1))
}
