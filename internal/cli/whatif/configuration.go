package whatif

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/releases"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/simulation"
)

// readConfiguration returns the configuration of the scheduler, or before the installation the one that
// the operator would render. It also sets what of the snapshot the policy decides: the mappings of cards, and which
// schedulers are ours.
func readConfiguration(ctx context.Context, r *reader.Reader, systemNamespace string, c *simulation.Cluster) (string, error) {
	object := &v1alpha1.ServiceTypePolicy{}
	hasPolicy, _ := r.LookUpPolicy(ctx, object, c.Nodes) // unknown mappings are in r.Gaps
	if hasPolicy {
		c.Policy = object
	}

	spec := policy.EffectivePolicy(object) // the defaults without a policy
	c.Mappings = policy.ExpectedMappings(object)
	c.Schedulers = spec.Scheduler.Names

	if scheduler := object.Status.Scheduler; scheduler != nil {
		if problem := releases.Compare(build.Version, reader.SchedulerProgram, scheduler.Version); problem != "" {
			r.Notes = append(r.Notes, problem+". The answer is that of the scheduler in this plugin")
		}
	}

	text, mayRead := readLiveConfiguration(ctx, r, systemNamespace)
	if err := r.Err(); text != "" || err != nil {
		return text, err
	}

	// With a policy the operator has written a configuration. If it is not here, it may be in another
	// namespace.
	if hasPolicy && mayRead {
		text, err := findLiveConfiguration(ctx, r.Client, systemNamespace)
		if text != "" || err != nil {
			return text, err
		}
		r.Notes = append(r.Notes, fmt.Sprintf("namespace %s has no ConfigMap %s, so the answer is that of the configuration that the operator would write. "+
			"If Cardquota is in another namespace, write --system-namespace", systemNamespace, policy.ConfigMapName))
	}

	return renderConfiguration(ctx, r, spec)
}

// renderConfiguration returns the configuration that the operator would render for a policy, from the one of
// Volcano's scheduler that the policy names as its base.
func renderConfiguration(ctx context.Context, r *reader.Reader, spec v1alpha1.ServiceTypePolicySpec) (string, error) {
	ref := policy.BaseFor(spec, reader.DefaultSystemNamespace)
	base, _ := reader.Find(ctx, r, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &corev1.ConfigMap{})
	if err := r.Err(); err != nil {
		return "", err
	}

	rendered := policy.RenderConfiguration(spec, ref, base, nil, "") // as if the operator had not written one yet
	if rendered.Text == "" {
		return "", fmt.Errorf("the scheduler has no configuration: %s", rendered.Message)
	}

	return rendered.Text, nil
}

// readLiveConfiguration returns the configuration that the operator has written to a namespace, "" for
// none, and whether the user may read it.
func readLiveConfiguration(ctx context.Context, r *reader.Reader, namespace string) (text string, mayRead bool) {
	live := &corev1.ConfigMap{}
	_, mayRead = r.LookUp(ctx, client.ObjectKey{Namespace: namespace, Name: policy.ConfigMapName}, live)
	return live.Data[policy.ConfigMapKey], mayRead
}

// findLiveConfiguration returns the configuration beside cardquota-manager, wherever that runs, "" if the
// user may not look there. whatif does not need that right.
func findLiveConfiguration(ctx context.Context, c client.Client, namespace string) (string, error) {
	// Gaps of the snapshot's own reader end the command, so this one gets its own.
	r := reader.New(c)
	deployments, _ := r.Deployments(ctx, reader.OperatorProgram, namespace)
	for _, deployment := range deployments {
		if text, _ := readLiveConfiguration(ctx, r, deployment.Namespace); text != "" {
			return text, nil
		}
	}
	return "", r.Err()
}
