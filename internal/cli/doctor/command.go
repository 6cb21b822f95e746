// Package doctor is kubectl cardquota doctor: it finds what is wrong with an installation of Cardquota, or
// would be wrong after the handover. Every rule is a function from a Cluster to findings.
package doctor

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
)

// NewCommand returns the command doctor.
func NewCommand(p *program.Program) *cobra.Command {
	namespace := reader.DefaultSystemNamespace
	var files program.ManifestFiles
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong, and what the handover would change",
		Long: program.Paragraphs("Checks the whole installation, and prints each finding with the command that mends it. Before the handover it also says what would change: "+
			"queues without a quota, nodes without labels, pods that would no longer be placed. With --filename it assumes that the CardQuotas in these files are applied, "+
			"and names those that the operator would refuse. It writes nothing to the cluster.",
			fmt.Sprintf("The exit code is 0 without a finding or with infos only, %d with warnings, %d with errors, and 1 if it could not look, also if you may read nothing.", ExitWarnings, ExitErrors)),
		Example: "  kubectl cardquota doctor\n  kubectl cardquota import > quotas.yaml && kubectl cardquota doctor -f quotas.yaml",
		Args:    program.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			planned, sources, err := files.ReadCardQuotas(cmd.Context(), p)
			if err != nil {
				return err
			}

			r, err := p.NewReader()
			if err != nil {
				return err
			}

			cluster := &Cluster{Now: p.Now(), ClientVersion: build.Version, Namespace: namespace, Planned: planned, Files: sources}
			if err := readCluster(cmd.Context(), r, cluster); err != nil {
				return err
			}

			report := Diagnose(cluster)
			if err := p.Print(report, report.Render); err != nil {
				return err
			}
			if !r.HasRead { // findings of an empty cluster are worth nothing
				return errors.New("you may read nothing of what doctor looks at")
			}
			return program.ExitCode(report.ExitCode())
		},
	}

	p.AddOutputFlag(cmd)
	p.AddSystemNamespaceFlag(cmd, &namespace)
	files.AddFlags(cmd, "Files, folders or URLs with CardQuotas that will be applied; - is the standard input.")

	return cmd
}
