package main

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

const (
	// gangSize is the number of pods of a gang, with one card each, and of cards of a node.
	gangSize = 8
	// quotaLabel is the label of namespaces and pods with the name of their CardQuota.
	quotaLabel = "bench.cardquota.dev/quota"
	// schedulerName is the scheduler of all pods.
	schedulerName = "volcano"
)

// plan is what the cluster is filled with.
type plan struct{ size }

func (p plan) model(i int) string       { return fmt.Sprintf("NVIDIA-BENCH-%02d", i%p.cards) }
func (p plan) quotaName(i int) string   { return fmt.Sprintf("project-%04d", i) }
func (p plan) nodeName(i int) string    { return fmt.Sprintf("node-%04d", i) }
func (p plan) gangs() int               { return p.pods / gangSize }
func (p plan) quotaOfGang(gang int) int { return gang % p.quotas }

// namespace returns a namespace of a CardQuota. Its pods are in the first one.
func (p plan) namespace(quota, view int) string {
	return fmt.Sprintf("%s-%d", p.quotaName(quota), view)
}

// modelOfGang spreads the gangs of a queue over models.
func (p plan) modelOfGang(gang int) int { return (p.quotaOfGang(gang) + gang/p.quotas) % p.cards }

// waits reports whether a gang waits at the start: every fifth, of all queues and models.
func (p plan) waits(gang int) bool { return (p.quotaOfGang(gang)/p.cards+gang/p.quotas)%5 == 4 }

// node returns a node with the labels and the images of a real one.
func (p plan) node(i int) *corev1.Node {
	name := p.nodeName(i)
	b := builder.Node(name).GPUs(p.model(i), gangSize).
		Label(corev1.LabelHostname, name).Label(corev1.LabelArchStable, "amd64").Label(corev1.LabelOSStable, "linux")

	for n := range 40 { // node feature discovery writes about as many
		b.Label(fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.FEATURE%02d", n), "true")
	}

	return b.With(func(node *corev1.Node) {
		for n := range 30 {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
				Names: []string{fmt.Sprintf("registry.example/library/image-%d:v1.2.3", n)}, SizeBytes: 1 << 30,
			})
		}
	}).Obj()
}

// restCards is how many models a CardQuota has quota for that only exists at rest.
const restCards = 4

// cardQuota returns a CardQuota that lists all models. It has quota for the gangs of its queue. One that only
// exists at rest has quota for few models, as tenants of large clusters do.
func (p plan) cardQuota(i int) *v1alpha1.CardQuota {
	granted := map[int]int64{}
	for gang := i; gang < p.gangs() && i < p.quotas; gang += p.quotas {
		granted[p.modelOfGang(gang)] += gangSize
	}

	serviceType := "training"
	if i%4 == 0 {
		serviceType = "inference"
	}

	b := builder.CardQuota(p.quotaName(i)).Tenant(fmt.Sprintf("tenant-%03d", i/10)).ServiceType(serviceType).Resources("1000", "4Ti")
	for model := range p.cards {
		least := int64(1)
		if i >= p.quotas && model >= restCards {
			least = 0
		}
		b.Card(p.model(model), max(least, granted[model]))
	}

	return b.With(func(q *v1alpha1.CardQuota) {
		if i < p.quotas {
			q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{quotaLabel: q.Name}}
		}
	}).Obj()
}

func gangName(gang int) string { return fmt.Sprintf("train-large-language-model-%05d", gang) }

func (p plan) podGroup(gang int) *v1beta1.PodGroup {
	quota := p.quotaOfGang(gang)
	return builder.PodGroup(p.namespace(quota, 0), gangName(gang)).Queue(p.quotaName(quota)).MinMember(gangSize).
		MinResource(corev1.ResourceCPU, "64").MinResource(corev1.ResourceMemory, "512Gi").MinResource(builder.GPU, strconv.Itoa(gangSize)).
		Owner("batch.volcano.sh/v1alpha1", "Job", gangName(gang)).Phase(v1beta1.PodGroupRunning).Obj()
}

// pod returns a pod of a gang with the environment and the volumes of a real one. try makes its
// name different from that of the pods that it replaces.
func (p plan) pod(gang, member, try int) *corev1.Pod {
	quota := p.quotaOfGang(gang)
	return builder.Pod(p.namespace(quota, 0), fmt.Sprintf("%s-worker-%d-%d", gangName(gang), member, try)).
		PodGroup(gangName(gang)).Card(p.model(p.modelOfGang(gang))).Scheduler(schedulerName).
		CPU("8").Memory("64Gi").GPUs(1).
		Label(quotaLabel, p.quotaName(quota)).Label("volcano.sh/job-name", gangName(gang)).Label("volcano.sh/task-spec", "worker").
		Annotation("volcano.sh/template-uid", gangName(gang)+"-worker").Annotation("k8s.v1.cni.cncf.io/networks", `[{"name":"rdma-net","namespace":"kube-system"}]`).
		Owner("batch.volcano.sh/v1alpha1", "Job", gangName(gang)).
		With(addPodDetails).Obj()
}

func addPodDetails(pod *corev1.Pod) {
	main := &pod.Spec.Containers[0]
	main.Command = []string{"bash", "-c", "torchrun --nnodes=8 --nproc-per-node=1 --rdzv-backend=c10d train.py --config /etc/train/config.yaml"}
	for i := range 24 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("NCCL_SETTING_%02d", i), Value: fmt.Sprintf("a-value-of-usual-length-%d", i)})
	}

	for i := range 4 {
		name := fmt.Sprintf("data-%d", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/mnt/" + name})
	}

	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "log-shipper", Image: "registry.example/logs:v1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
	}})
}

// refusal is what the scheduler writes to a pod that waits: in every other queue for quota, in the
// others for a free card.
func (p plan) refusal(gang int) string {
	quota := p.quotaOfGang(gang)
	model := p.model(p.modelOfGang(gang))
	others := p.nodes - p.nodes/p.cards
	own := max(1, p.nodes/p.cards)
	why := "Insufficient nvidia.com/gpu"
	if quota%2 == 0 {
		why = fmt.Sprintf("Queue <%s> has insufficient <%s> quota: requested <1>, total would be <%d>, but capability is <%d>", p.quotaName(quota), model, gangSize+1, gangSize)
	}
	return fmt.Sprintf("0/%d nodes are unavailable: %d %s, %d node(s) have another card than <%s>.", p.nodes, own, why, others, model)
}
