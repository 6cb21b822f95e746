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
	"cardquota.dev/operator/internal/workload"
)

// Workload is anything that makes pods, or a pod itself, in one form.
type Workload struct {
	Kind string
	Meta metav1.ObjectMeta
	// Annotations are those that reach the PodGroup, and At is where they stand: a
	// CronJob's are those of the jobs that it makes.
	Annotations  map[string]string
	MetadataPath *field.Path
	// Queue is what its spec says, "" when it has no such field or says nothing, and
	// QueuePath is that field, nil when it has none.
	Queue     string
	QueuePath *field.Path
	// Volcano tells that its spec names the queue and Volcano's scheduler takes it
	// without being named: vcjobs and PodGroups.
	Volcano bool
	// Scheduler is the schedulerName of pods that name none.
	Scheduler string
	// Templates are the pods it makes; a pod is its own only one. More tells that
	// they are only the first MostTemplates.
	Templates []Template
	Truncated bool
	// totals are those of card.request, wrong is why it cannot be read.
	totals    card.Totals
	totalsErr error
}

// MaxTemplates bounds the pod templates that are judged of one workload. Each is
// a task of a vcjob; jobs of people have less than a hundred.
const MaxTemplates = 256

// Template is one kind of pod of a workload.
type Template struct {
	// Path is where it stands, nil for a pod itself.
	Path *field.Path
	Pod  *corev1.Pod
	// Replicas is how many pods of it there are; 0 when that is not known.
	Replicas int64
	request  workload.Request
}

// IsPod tells that the workload is a pod.
func (w *Workload) IsPod() bool { return w.Kind == "Pod" }

// annotationPath is the path of an annotation that reaches the PodGroup.
func (w *Workload) annotationPath(key string) *field.Path {
	return w.MetadataPath.Child("annotations").Key(key)
}

// annotationPath is the path of an annotation of the pod.
func (t *Template) annotationPath(key string) *field.Path {
	return t.Path.Child("metadata", "annotations").Key(key)
}

// WorkloadOf brings an object into one form. It is false for a kind that makes no
// pods that the scheduler places.
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
		job, path := &o.Spec.JobTemplate.Spec, specPath.Child("jobTemplate", "spec")
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
		w = Workload{Kind: "Job", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("template"), o.Spec.Template)}
	case *batchv1.CronJob:
		w = Workload{Kind: "CronJob", Meta: o.ObjectMeta, Templates: singleTemplate(specPath.Child("jobTemplate", "spec", "template"), o.Spec.JobTemplate.Spec.Template),
			Annotations: o.Spec.JobTemplate.Annotations, MetadataPath: specPath.Child("jobTemplate", "metadata")}
	default:
		return Workload{}, false
	}
	if w.MetadataPath == nil {
		w.Annotations, w.MetadataPath = w.Meta.Annotations, field.NewPath("metadata")
	}
	return w, true
}

func singleTemplate(path *field.Path, template corev1.PodTemplateSpec) []Template {
	return []Template{{Path: path, Pod: podOf(template)}}
}

func taskTemplates(path *field.Path, job *vcbatch.JobSpec) []Template {
	out := make([]Template, min(len(job.Tasks), MaxTemplates))
	for i := range out {
		out[i] = Template{
			Path: path.Child("tasks").Index(i).Child("template"), Pod: podOf(job.Tasks[i].Template), Replicas: int64(job.Tasks[i].Replicas),
		}
	}
	return out
}

// podOf is the pod that a template makes. What a pod does not request it requests
// as its limit says; the API server writes that into pods, not into templates. All
// else is the template's own, not a copy.
func podOf(template corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Spec.InitContainers = withDefaultRequests(pod.Spec.InitContainers)
	pod.Spec.Containers = withDefaultRequests(pod.Spec.Containers)
	return pod
}

// withDefaultRequests completes the requests of containers.
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

// WorkloadInput is what the rules for workloads know besides the object. What is not
// known refuses nothing: the scheduler knows it later.
type WorkloadInput struct {
	// Inventory is the cards of all nodes; an empty one before they were read.
	Inventory *card.Inventory
	// Policy is the ServiceTypePolicy, nil when there is none.
	Policy *v1alpha1.ServiceTypePolicy
	// Namespace is that of the object, nil when it is not known.
	Namespace *corev1.Namespace
	// Queue finds a Queue by name, nil when it is not known.
	Queue func(name string) *v1beta1.Queue
	// Group finds a PodGroup of the object's namespace by name, nil when it is not
	// known.
	PodGroup func(name string) *v1beta1.PodGroup
	// User is who writes, as the API server names it.
	User string
	// effective is what spec returns, nil before it was asked.
	effective *v1alpha1.ServiceTypePolicySpec
}

// resolveRequests notes what the workload asks for, once for all rules.
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

// policySpec is the effective policy. Without one nobody is kept from passing the
// scheduler by.
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

// onlyWarns tells that workloads are warned of and none is refused.
func (w *WorkloadInput) onlyWarns() bool {
	return w.Policy == nil || w.policySpec().Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassWarn
}

// isOurs tells whether our scheduler places a pod. A vcjob that names no scheduler
// is Volcano's.
func isOurs(w *Workload, pod *corev1.Pod, spec *v1alpha1.ServiceTypePolicySpec) bool {
	name := cmp.Or(pod.Spec.SchedulerName, w.Scheduler)
	return name == "" && w.Volcano || slices.Contains(spec.Scheduler.Names, name)
}

// queueOf is the queue that pays for a pod of the workload, as the scheduler and
// Volcano's controllers settle it. Where Volcano's webhook for PodGroups is
// switched on, which is not its default, a namespace can have a queue of its own:
// then the PodGroup is judged by that.
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
