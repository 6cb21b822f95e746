package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/versions"
	"cardquota.dev/operator/internal/enforcement"
)

func (p *program) newVersionCommand() *cobra.Command {
	clientOnly := false
	namespace := defaultSystemNamespace
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this plugin and of the programs",
		Long: paragraphs("Shows the versions of kubectl cardquota, of cardquota-manager and of cardquota-scheduler, and says when they do not " +
			"fit together. Releases fit if they have the same minor version."),
		Args: refuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			document := versions.NewClientDocument(build.Version)
			var failed error // without a cluster it shows its own version, as kubectl does
			if !clientOnly {
				all, err := p.readAllVersions(cmd.Context(), namespace)
				failed = err
				if err == nil {
					document = all
				}
			}

			if err := p.print(document, document.Write); err != nil {
				return err
			}

			return failed
		},
	}

	p.addOutputFlag(cmd)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Show the version of kubectl cardquota only. Sends no request.")
	p.addSystemNamespaceFlag(cmd, &namespace)

	return cmd
}

// readAllVersions connects to the cluster and reads the versions of the programs.
func (p *program) readAllVersions(ctx context.Context, namespace string) (versions.Document, error) {
	c, err := p.connect()
	if err != nil {
		return versions.Document{}, err
	}
	return readVersions(ctx, &reader{client: c}, namespace, p.now())
}

// addSystemNamespaceFlag adds the flag that names the namespace of the programs.
func (p *program) addSystemNamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "system-namespace", *namespace,
		"The namespace of cardquota-manager and cardquota-scheduler. It is needed if you may not list Deployments of all namespaces.")
	mustSucceed(cmd.RegisterFlagCompletionFunc("system-namespace", p.completeNamespaces))
}

// readVersions reads the versions of the programs. A program whose version the user may not read is
// unknown.
func readVersions(ctx context.Context, r *reader, namespace string, now time.Time) (versions.Document, error) {
	deployments, mayRead, err := r.deploymentsOf(ctx, "cardquota-manager", namespace)
	if err != nil {
		return versions.Document{}, err
	}

	if len(deployments) > 0 {
		namespace = deployments[len(deployments)-1].Namespace
	}

	operator := findOperatorVersion(deployments)
	leads := false
	if mayRead && operator == "" {
		operator, leads, mayRead, err = readLeaderVersion(ctx, r, namespace, now)
		if err != nil {
			return versions.Document{}, err
		}
	}

	scheduler, mayReadScheduler, err := readSchedulerVersion(ctx, r, namespace)
	if err != nil {
		return versions.Document{}, err
	}

	unknown := r.gaps
	if operator == "" && mayRead {
		unknown = append(unknown, describeUnknownOperator(leads, len(deployments) > 0, namespace))
	}
	if scheduler == "" && mayReadScheduler {
		unknown = append(unknown, "cardquota-scheduler has sent no heartbeat yet: kubectl cardquota doctor says why")
	}

	return versions.NewDocument(build.Version, operator, scheduler, unknown...), nil
}

// describeUnknownOperator says why the version of the operator is unknown. leads reports that it holds its
// Lease.
func describeUnknownOperator(leads, hasDeployment bool, namespace string) string {
	switch {
	case leads:
		return "cardquota-manager runs and holds its Lease, which does not state its version"
	case !hasDeployment:
		return "no Deployment has the label " + programLabel + "=cardquota-manager, and nothing holds the Lease " +
			namespace + "/" + enforcement.OperatorLeaseName + ": the operator is not installed"
	default:
		return "the image of cardquota-manager has no tag with a version"
	}
}

// findOperatorVersion returns the version in the tag of the first image that has one, "" for none.
func findOperatorVersion(deployments []*appsv1.Deployment) string {
	for _, deployment := range deployments {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if tag := versions.OfImage(container.Image); tag != "" {
				return tag
			}
		}
	}
	return ""
}

// readLeaderVersion returns the version of the operator that holds the Lease, "" if it does not state it,
// whether there is one, and whether the user may read that. What led once may be gone.
func readLeaderVersion(ctx context.Context, r *reader, namespace string, now time.Time) (version string, leads, mayRead bool, err error) {
	lease, mayRead, err := r.operatorLease(ctx, namespace)
	if lease == nil || err != nil {
		return "", false, mayRead, err
	}
	version, leads = enforcement.ReadOperatorLease(lease, now)
	if !leads {
		version = ""
	}
	return version, leads, mayRead, nil
}

// readSchedulerVersion returns the version that the scheduler reported last: in the status of the
// policy, which every viewer may read, or in its heartbeat. It reports whether the user may read both.
func readSchedulerVersion(ctx context.Context, r *reader, namespace string) (version string, mayRead bool, err error) {
	policy := &v1alpha1.ServiceTypePolicy{}
	exists, mayReadPolicy, err := r.lookUp(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, policy)
	switch {
	case isNotInstalled(err):
		mayReadPolicy = true
		r.gaps = append(r.gaps, explainError(err))
	case err != nil:
		return "", false, err
	case exists && policy.Status.Scheduler != nil:
		return policy.Status.Scheduler.Version, true, nil
	}

	lease := &coordinationv1.Lease{}
	exists, mayReadLease, err := r.lookUp(ctx, client.ObjectKey{Namespace: namespace, Name: enforcement.LeaseName}, lease)
	mayRead = mayReadPolicy && mayReadLease
	if err != nil || !exists {
		return "", mayRead, err
	}

	report, err := enforcement.ReadReport(lease)
	if err != nil {
		return "", mayRead, nil //nolint:nilerr // a Lease without a version says nothing about it
	}

	return report.Version, mayRead, nil
}
