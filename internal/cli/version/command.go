// Package version is kubectl cardquota version: the versions of the plugin and of the programs, and whether
// they fit together.
package version

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/releases"
	"cardquota.dev/operator/internal/enforcement"
)

// NewCommand returns the command version.
func NewCommand(p *program.Program) *cobra.Command {
	clientOnly := false
	namespace := reader.DefaultSystemNamespace
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this plugin and of the programs",
		Long: program.Paragraphs("Shows the versions of kubectl cardquota, of cardquota-manager and of cardquota-scheduler, and says when they do not " +
			"fit together. Releases fit if they have the same minor version."),
		Args: program.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			document := NewClientDocument(build.Version)
			var failed error // without a cluster it shows its own version, as kubectl does
			if !clientOnly {
				all, err := readAllVersions(cmd.Context(), p, namespace)
				failed = err
				if err == nil {
					document = all
				}
			}

			if err := p.Print(document, document.Render); err != nil {
				return err
			}

			return failed
		},
	}

	p.AddOutputFlag(cmd)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Show the version of kubectl cardquota only. Sends no request.")
	p.AddSystemNamespaceFlag(cmd, &namespace)

	return cmd
}

// readAllVersions connects to the cluster and reads the versions of the programs.
func readAllVersions(ctx context.Context, p *program.Program, namespace string) (Document, error) {
	r, err := p.NewReader()
	if err != nil {
		return Document{}, err
	}
	return readVersions(ctx, r, namespace, p.Now())
}

// readVersions reads the versions of the programs, and says why one is unknown.
func readVersions(ctx context.Context, r *reader.Reader, namespace string, now time.Time) (Document, error) {
	deployments, mayRead := r.Deployments(ctx, reader.OperatorProgram, namespace)
	if len(deployments) > 0 {
		namespace = deployments[0].Namespace // where the Leases of both programs are
	}

	operator := releases.OfOperator(deployments)
	leads := false // whether an operator holds its Lease
	// An operator outside of a Deployment labels its Lease with its version.
	if mayRead && operator == "" {
		operator, leads, mayRead = readLeaderVersion(ctx, r, namespace, now)
	}

	scheduler, mayReadScheduler := readSchedulerVersion(ctx, r, namespace)
	unknown := r.Gaps // a missing right says itself why a version is unknown
	if operator == "" && mayRead {
		unknown = append(unknown, describeUnknownOperator(leads, len(deployments) > 0, namespace))
	}
	if scheduler == "" && mayReadScheduler {
		unknown = append(unknown, "cardquota-scheduler has sent no heartbeat yet: kubectl cardquota doctor says why")
	}

	return NewDocument(build.Version, operator, scheduler, unknown...), r.Err()
}

// describeUnknownOperator says why the version of the operator is unknown. leads reports that an operator holds the
// Lease by which its replicas elect their leader.
func describeUnknownOperator(leads, hasDeployment bool, namespace string) string {
	switch {
	case leads:
		return "cardquota-manager runs and holds its Lease, which does not state its version"
	case !hasDeployment:
		return "no Deployment has the label " + reader.ProgramLabel + "=cardquota-manager, and nothing holds the Lease " +
			namespace + "/" + enforcement.OperatorLeaseName + ": the operator is not installed"
	default:
		return "the image of cardquota-manager has no tag with a version"
	}
}

// readLeaderVersion returns the version of the operator that has the Lease, "" if it does not state it,
// whether there is one, and whether the user may read that. An expired Lease says nothing: what led once may be gone.
func readLeaderVersion(ctx context.Context, r *reader.Reader, namespace string, now time.Time) (version string, leads, mayRead bool) {
	lease, mayRead := r.OperatorLease(ctx, namespace)
	if lease == nil {
		return "", false, mayRead
	}
	version, leads = enforcement.ReadOperatorLease(lease, now)
	if !leads {
		version = ""
	}
	return version, leads, mayRead
}

// readSchedulerVersion returns the version that the scheduler reported last: in the status of the policy,
// which every viewer may read, or in its heartbeat. mayRead reports whether the user may read all that it
// looked at.
func readSchedulerVersion(ctx context.Context, r *reader.Reader, namespace string) (version string, mayRead bool) {
	policy, mayReadPolicy := reader.Find(ctx, r, client.ObjectKey{Name: v1alpha1.PolicyName}, &v1alpha1.ServiceTypePolicy{})
	if policy != nil && policy.Status.Scheduler != nil {
		return policy.Status.Scheduler.Version, true
	}

	err := r.Err()
	if r.IgnoreMissingKind() { // no right is missing, and the heartbeat may have the version
		mayReadPolicy = true
		r.Gaps = append(r.Gaps, reader.Explain(err))
	}

	lease, mayReadLease := reader.Find(ctx, r, client.ObjectKey{Namespace: namespace, Name: enforcement.LeaseName}, &coordinationv1.Lease{})
	mayRead = mayReadPolicy && mayReadLease
	if lease == nil {
		return "", mayRead
	}

	report, err := enforcement.ReadReport(lease)
	if err != nil {
		return "", mayRead // a Lease without a report says nothing about the version
	}

	return report.Version, mayRead
}
