package validation

import (
	"cmp"
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Workload is a pod, or an object that creates pods, in a common form.
type Workload struct {
	Kind string
	Meta metav1.ObjectMeta
	// Annotations are those that reach the PodGroup, and MetadataPath is the path of their
	// metadata. For a CronJob they are those of its jobs.
	Annotations  map[string]string
	MetadataPath *field.Path
	// Queue is the queue in its spec, "" for none. QueuePath is the path of that field, nil
	// without one.
	Queue     string
	QueuePath *field.Path
	// Volcano reports that its spec names the queue and that Volcano's scheduler is the
	// default: vcjobs and PodGroups.
	Volcano bool
	// Scheduler is the default schedulerName of its pods.
	Scheduler string
	// Templates are the pods that it creates, or the pod itself. Truncated reports that
	// they are only the first MaxTemplates.
	Templates []Template
	Truncated bool
	// Job is the spec of a Kubernetes Job, or of those that a CronJob creates, and JobPath its
	// path. It is nil for other kinds.
	Job     *batchv1.JobSpec
	JobPath *field.Path
	// totals are those of card.request, totalsErr is why it cannot be parsed.
	totals    card.Totals
	totalsErr error
}

// MaxTemplates bounds the validated pod templates of one workload. Each is a task of a
// vcjob; usual jobs have fewer than a hundred.
const MaxTemplates = 256

// Template is a pod template of a workload.
type Template struct {
	// Path is its path, nil for a pod itself.
	Path *field.Path
	Pod  *corev1.Pod
	// Replicas is the number of its pods, 0 when unknown.
	Replicas int64
	request  workload.Request
}

// IsPod reports whether the workload is a pod.
func (w *Workload) IsPod() bool { return w.Kind == "Pod" }

// annotationPath returns the path of an annotation that reaches the PodGroup.
func (w *Workload) annotationPath(key string) *field.Path {
	return w.MetadataPath.Child("annotations").Key(key)
}

// annotationPath returns the path of an annotation of the pod.
func (t *Template) annotationPath(key string) *field.Path {
	return t.Path.Child("metadata", "annotations").Key(key)
}

// WorkloadOf converts an object into a Workload. It returns false for a kind without pods
// for the scheduler.
func WorkloadOf(object runtime.Object) (Workload, bool) {
	var w Workload
	switch o := object.(type) {
	case *corev1.Pod:
		w = Workload{Kind: "Pod", Meta: o.ObjectMeta, Templates: []Template{{Pod: o, Replicas: 1}}}
	case *v1beta1.PodGroup:
		w = Workload{Kind: "PodGroup", Meta: o.ObjectMeta, Queue: o.Spec.Queue, QueuePath: specPath.Child("queue"), Volcano: true}
	case *vcbatch.Job:
		w = Workload{Kind: "Job", Meta: o.ObjectMeta, Queue: o.Spec.Queue, QueuePath: specPath.Child("queue"), Volcano: true, Scheduler: o.Spec.SchedulerName, Templates: taskTemplates(specPath, &o.Spec), Truncated: len(o.Spec.Tasks) > MaxTemplates}
	case *vcbatch.CronJob:
		job := &o.Spec.JobTemplate.Spec
		path := specPath.Child("jobTemplate", "spec")
		w = Workload{Kind: "CronJob", Meta: o.ObjectMeta, Queue: job.Queue, QueuePath: path.Child("queue"), Volcano: true, Scheduler: job.SchedulerName, Templates: taskTemplates(path, job), Truncated: len(job.Tasks) > MaxTemplates,
			Annotations: o.Spec.JobTemplate.Annotations, MetadataPath: specPath.Child("jobTemplate", "metadata")}
	case *appsv1.Deployment:
		w = Workload{Kind: "Deployment", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("template"), o.Spec.Template)}
	case *appsv1.ReplicaSet:
		w = Workload{Kind: "ReplicaSet", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("template"), o.Spec.Template)}
	case *appsv1.StatefulSet:
		w = Workload{Kind: "StatefulSet", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("template"), o.Spec.Template)}
	case *appsv1.DaemonSet:
		w = Workload{Kind: "DaemonSet", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("template"), o.Spec.Template)}
	case *batchv1.Job:
		w = Workload{Kind: "Job", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("template"), o.Spec.Template), Job: &o.Spec, JobPath: specPath}
	case *batchv1.CronJob:
		w = Workload{Kind: "CronJob", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("jobTemplate", "spec", "template"), o.Spec.JobTemplate.Spec.Template),
			Annotations: o.Spec.JobTemplate.Annotations, MetadataPath: specPath.Child("jobTemplate", "metadata"),
			Job: &o.Spec.JobTemplate.Spec, JobPath: specPath.Child("jobTemplate", "spec")}
	default:
		return Workload{}, false
	}

	// A CronJob passes on the annotations of its template, not its own.
	if w.MetadataPath == nil {
		w.Annotations = w.Meta.Annotations
		w.MetadataPath = field.NewPath("metadata")
	}

	return w, true
}

// singleTemplate returns the one template of a workload, of a number of pods that is not known here.
func singleTemplate(path *field.Path, template corev1.PodTemplateSpec) []Template {
	return []Template{{Path: path, Pod: podOf(template)}}
}

// taskTemplates returns the templates of the first MaxTemplates tasks of a vcjob.
func taskTemplates(path *field.Path, job *vcbatch.JobSpec) []Template {
	out := make([]Template, min(len(job.Tasks), MaxTemplates))
	for i := range out {
		out[i] = Template{
			Path: path.Child("tasks").Index(i).Child("template"), Pod: podOf(job.Tasks[i].Template), Replicas: int64(job.Tasks[i].Replicas),
		}
	}
	return out
}

// podOf returns the pod of a template. Requests default to limits, which the API server
// sets in pods, not in templates. All other fields are shared with the template, not
// copied.
func podOf(template corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Spec.InitContainers = withDefaultRequests(pod.Spec.InitContainers)
	pod.Spec.Containers = withDefaultRequests(pod.Spec.Containers)
	return pod
}

// withDefaultRequests sets missing requests of containers to their limits, in copies.
func withDefaultRequests(containers []corev1.Container) []corev1.Container {
	out := slices.Clone(containers)
	for i := range out {
		resources := &out[i].Resources
		if len(resources.Limits) == 0 {
			continue
		}
		requests := maps.Clone(resources.Limits)
		maps.Copy(requests, resources.Requests)
		resources.Requests = requests
	}
	return out
}

// WorkloadInput is the input of the rules for workloads besides the object. What is unknown
// refuses nothing, since the scheduler checks again.
type WorkloadInput struct {
	// Inventory has the cards of all nodes; it is empty before they were read.
	Inventory *card.Inventory
	// Policy is the ServiceTypePolicy, nil when there is none.
	Policy *v1alpha1.ServiceTypePolicy
	// Namespace is that of the object, nil when unknown.
	Namespace *corev1.Namespace
	// Queue returns a Queue by name, nil when unknown.
	Queue func(name string) *v1beta1.Queue
	// Tree returns a tree that has a Queue, those above it, and one below it if there is any, quota.Flat while queues
	// are flat.
	Tree func(queue *v1beta1.Queue) *quota.Tree
	// PodGroup returns a PodGroup of the object's namespace by name, nil when unknown.
	PodGroup func(name string) *v1beta1.PodGroup
	// User is the user name of the request.
	User string
	// effective is the cached result of policySpec.
	effective *v1alpha1.ServiceTypePolicySpec
}

// resolveRequests sets the requests of the workload, once for all rules.
func (w *WorkloadInput) resolveRequests(ctx context.Context, load *Workload) {
	resolver := workload.Resolver{Inventory: w.Inventory}
	for i := range load.Templates {
		if ctx.Err() != nil {
			return
		}
		load.Templates[i].request = resolver.Request(load.Templates[i].Pod)
	}
	load.totals, load.totalsErr = card.ParseTotals(load.Annotations[v1alpha1.AnnotationCardRequest])
}

// policySpec returns the effective policy. Without a policy no user is kept from bypassing
// the scheduler.
func (w *WorkloadInput) policySpec() *v1alpha1.ServiceTypePolicySpec {
	if w.effective == nil {
		spec := v1alpha1.ServiceTypePolicySpec{Admission: v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassAllow}}
		if w.Policy != nil {
			spec = w.Policy.Spec
		}
		w.effective = ptr.To(policy.Effective(spec))
	}
	return w.effective
}

// onlyWarns reports whether workloads get only warnings.
func (w *WorkloadInput) onlyWarns() bool {
	return w.Policy == nil || w.policySpec().Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassWarn
}

// isOurs reports whether our scheduler places a pod, by the names that the policy gives it. A vcjob without a
// schedulerName gets Volcano's default, which is ours.
func isOurs(w *Workload, pod *corev1.Pod, spec *v1alpha1.ServiceTypePolicySpec) bool {
	name := cmp.Or(pod.Spec.SchedulerName, w.Scheduler)
	return (name == "" && w.Volcano) || slices.Contains(spec.Scheduler.Names, name)
}

// queueOf returns the queue that is charged for a pod of the workload, as the scheduler and Volcano's controllers
// determine it: the queue in its spec, else that of the pod or its PodGroup. A workload of Volcano has it in its spec
// only, so the pod may be nil. With Volcano's optional webhook for PodGroups, a namespace can have its own queue. Then
// the PodGroup is validated with that one.
func (w *WorkloadInput) queueOf(load *Workload, pod *corev1.Pod) string {
	if load.Queue != "" || load.Volcano {
		return cmp.Or(load.Queue, workload.DefaultQueue)
	}
	var group *v1beta1.PodGroup
	if name := workload.PodGroupName(pod); name != "" {
		group = w.PodGroup(name)
	}
	return cmp.Or((&workload.Resolver{}).Queue(pod, group, ""), workload.DefaultQueue)
}

// queuedPod is a pod of a workload and its queue.
type queuedPod struct {
	*Template
	name  string
	queue *v1beta1.Queue
	// tree is that of WorkloadInput.Tree.
	tree *quota.Tree
	// refusal says why the namespace may not use the queue, "" if it may. Its reader learns
	// nothing else of the queue.
	refusal string
	// isUndecided reports that the namespace is not known yet, so the refusal may be wrong.
	isUndecided bool
	// queuePath is the field that names the queue.
	queuePath *field.Path
}

// hasAccess reports whether the queue exists and the namespace may use it.
func (p *queuedPod) hasAccess() bool { return p.queue != nil && p.refusal == "" }
