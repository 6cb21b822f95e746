package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/releases"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/workload"
)

const (
	overlayCommand = "kubectl apply --server-side -k config/overlays/"
	crdCommand     = "kubectl apply --server-side -k config/crd"
)

// OLMOwnerLabel is on what OLM installs. Its value is the name of a ClusterServiceVersion.
const OLMOwnerLabel = "olm.owner"

// olmCommand shows the state of an installation by OLM, "" for any other. What OLM installs, OLM mends.
func (c *Cluster) olmCommand() string {
	for _, deployment := range c.programs() {
		if owner := deployment.Labels[OLMOwnerLabel]; owner != "" {
			return "kubectl -n " + deployment.Namespace + " describe csv " + owner
		}
	}
	return ""
}

// repairCommand returns a command, or where OLM installed Cardquota, the one that shows its state.
func (c *Cluster) repairCommand(command string) string { return cmp.Or(c.olmCommand(), command) }

// addInstallation adds to a finding the command that applies the installed overlay, as far as the rest
// of it shows which one that is.
func (c *Cluster) addInstallation(finding Finding) Finding {
	finding.Command = c.installCommand()
	if finding.Command == "" {
		finding.Problem += " Apply the overlay that you installed."
	}
	return finding
}

// installCommand applies the installed overlay of Kustomize, "" if what is there fits several, or none. The
// overlays differ in whose Deployment runs our scheduler, and in who makes the certificate of the webhooks.
// For an installation by OLM it only shows the state, because OLM mends it.
func (c *Cluster) installCommand() string {
	report, _ := c.report()

	// A heartbeat has the host name of its pod, which begins with the name of its Deployment. If that is Volcano's, our
	// scheduler runs as another image in it.
	replacesImage := len(c.Schedulers) == 0 && strings.HasPrefix(report.Identity, workload.StockSchedulerApp+"-")
	isKnown, usesCertManager := c.certificateSource()
	switch command := c.olmCommand(); {
	case command != "":
		return command
	case replacesImage && isKnown && !usesCertManager:
		return overlayCommand + "scheduler-image"
	// No overlay has our image in Volcano's Deployment and cert-manager. Without a scheduler, or a known
	// source of the certificate, several fit.
	case replacesImage || (len(c.Schedulers) == 0 && !usesCertManager) || !isKnown:
		return ""
	case usesCertManager:
		return overlayCommand + "cert-manager"
	default:
		return overlayCommand + "existing-volcano"
	}
}

// certificateSource reports whether anything shows who creates the certificate of the webhooks, and whether that is
// cert-manager. The shipped overlays let the operator read files only where cert-manager writes them.
func (c *Cluster) certificateSource() (isKnown, usesCertManager bool) {
	isKnown = len(c.webhookConfigurations()) > 0
	usesCertManager = c.certManagerCertificate() != ""
	for _, deployment := range c.Operators {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			isKnown = true
			usesCertManager = usesCertManager || slices.Contains(container.Args, "--webhook-certificates=Files")
		}
	}
	return isKnown, usesCertManager
}

// findNotInstalled says once that the other findings are about a time after the installation.
func findNotInstalled(c *Cluster) []Finding {
	if c.isInstalled() {
		return nil
	}
	finding := Finding{Severity: Info, Object: "cluster", Command: overlayCommand + "observe",
		Problem: "Cardquota is not installed. What follows would be wrong after the handover. Installing changes nothing: docs/adopt.md has the steps."}
	if c.lacksVolcano() { // it comes first
		finding.Command = importCommand
		finding.Problem = "Cardquota is not installed, and neither is Volcano. kubectl cardquota top shows who uses which cards, and import proposes CardQuotas."
	}
	return []Finding{finding}
}

// importCommand writes a file of CardQuotas.
const importCommand = "kubectl cardquota import > quotas.yaml"

// findMissingKinds finds kinds that the API server lacks: those of Volcano, and ours where a part of Cardquota is there.
// A cluster without both lacks no part of anything. A policy that observes needs no Volcano.
func findMissingKinds(c *Cluster) []Finding {
	var findings []Finding
	missing := c.MissingKinds
	switch {
	case !c.lacksVolcano():
	case !c.isInstalled():
		return nil
	case c.isObserving():
		missing = slices.DeleteFunc(slices.Clone(missing), isOfVolcano)
		findings = append(findings, Finding{Severity: Info, Object: "cluster",
			Problem: "Volcano is not installed. A policy that observes needs none. To enforce quotas, install Volcano v1.14.1."})
	}

	for _, kind := range missing {
		switch {
		case isOfVolcano(kind):
			findings = append(findings, Finding{Severity: Error, Object: "kind/" + kind,
				Problem: fmt.Sprintf("The API server has no kind %s of Volcano. Cardquota extends Volcano and needs all of it. Install Volcano v1.14.1.", kind)})
		case c.isInstalled():
			findings = append(findings, Finding{Severity: Error, Object: "kind/" + kind, Command: c.repairCommand(crdCommand),
				Problem: fmt.Sprintf("The API server has no kind %s: a CustomResourceDefinition of this version is missing.", kind)})
		}
	}

	return findings
}

// isOfVolcano reports whether a kind that doctor reads is one of Volcano.
func isOfVolcano(kind string) bool { return kind == "Queue" || kind == "PodGroup" }

// findOldSchemas finds definitions that do not have a field of this version. The API server drops
// such a field from every object without a word.
func findOldSchemas(c *Cluster) []Finding {
	var findings []Finding
	for _, definition := range c.Definitions {
		if missing := missingFields(definition); len(missing) > 0 {
			findings = append(findings, Finding{Severity: Warning, Object: "customresourcedefinition/" + definition.Name, Command: c.repairCommand(crdCommand),
				Problem: fmt.Sprintf("The API server drops %s of each %s, because its definition is older than kubectl cardquota.", listFirst(missing), definition.Spec.Names.Kind)})
		}
	}
	return findings
}

// findMissingPrograms finds that the operator or the scheduler has no Deployment, and that its Lease does not show it
// running either. It concludes nothing from what the user may not read.
func findMissingPrograms(c *Cluster) []Finding {
	if !c.HasDeployments || !c.isInstalled() {
		return nil
	}

	var findings []Finding

	// An operator can run outside of a Deployment, so only a Lease without a holder proves that
	// none runs.
	if len(c.Operators) == 0 && !c.hasLeadingOperator() && !c.HidesOperatorLease {
		findings = append(findings, c.addInstallation(Finding{Severity: Error, Object: "deployment/" + c.Namespace + "/cardquota-manager",
			Problem: "The operator does not run: no Deployment has the label app.kubernetes.io/name=cardquota-manager, and nothing holds the Lease " +
				c.Namespace + "/" + enforcement.OperatorLeaseName + ". CardQuotas have no effect on Queues."}))
	}

	// Where only the image of Volcano's scheduler was replaced, its Deployment sends the heartbeat.
	if _, isFresh := c.report(); len(c.Schedulers) == 0 && c.HasLease && !isFresh && !c.isObserving() {
		findings = append(findings, c.addInstallation(Finding{Severity: Error, Object: "deployment/" + c.Namespace + "/cardquota-scheduler",
			Problem: "cardquota-scheduler is not installed: no Deployment has its label, and no heartbeat arrives. No quota is enforced."}))
	}

	return findings
}

// findUnreadyPrograms finds Deployments of our programs with fewer ready replicas than they want.
func findUnreadyPrograms(c *Cluster) []Finding {
	var findings []Finding
	for _, deployment := range c.programs() {
		wanted := ptr.Deref(deployment.Spec.Replicas, 1)
		ready := deployment.Status.ReadyReplicas

		finding := Finding{Severity: Error, Object: "deployment/" + deployment.Namespace + "/" + deployment.Name,
			Command: fmt.Sprintf("kubectl -n %s describe deployment,pods -l %s", deployment.Namespace, reader.ProgramLabel+"="+deployment.Labels[reader.ProgramLabel])}
		switch {
		case wanted == 0:
			finding.Problem = "It is scaled to 0 replicas, so the program does not run."
			finding.Command = c.repairCommand(fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", deployment.Namespace, deployment.Name))
		case ready == 0:
			finding.Problem = fmt.Sprintf("0 of %s are ready, so the program does not run.", conditions.CountThings(int(wanted), "replica"))
		case ready < wanted:
			finding.Severity = Warning
			finding.Problem = fmt.Sprintf("%d of %s are ready.", ready, conditions.CountThings(int(wanted), "replica"))
		default:
			continue
		}
		findings = append(findings, finding)
	}

	return findings
}

// findOtherVersions finds programs that do not fit kubectl cardquota. An unknown version fits.
func findOtherVersions(c *Cluster) []Finding {
	running := map[string]string{reader.OperatorProgram: releases.OfOperator(c.Operators)}
	if c.Policy != nil && c.Policy.Status.Scheduler != nil {
		running[reader.SchedulerProgram] = c.Policy.Status.Scheduler.Version
	}

	var findings []Finding
	for _, program := range []string{reader.OperatorProgram, reader.SchedulerProgram} {
		if problem := releases.Compare(c.ClientVersion, program, running[program]); problem != "" {
			findings = append(findings, Finding{Severity: Warning, Object: "program/" + program, Problem: problem, Command: "kubectl cardquota version"})
		}
	}

	return findings
}

// maxListed is how many names a finding lists.
const maxListed = 5

// listFirst lists the first names, sorted: "a, b and 3 more".
func listFirst(names []string) string {
	return conditions.JoinFirst(slices.Sorted(slices.Values(names)), maxListed)
}
