package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
)

// Severity is how bad a finding is.
type Severity string

// The severities. With an error quotas are not enforced, or a part does not work. With a warning
// something is not as its owner wants it. An info needs no action.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// order sorts severities, the worst first.
var order = map[Severity]int{Error: 0, Warning: 1, Info: 2}

// Finding is one thing that is wrong.
type Finding struct {
	// Severity is error, warning or info.
	Severity Severity `json:"severity"`
	// Rule is the name of the rule. docs/kubectl.md has all of them.
	Rule string `json:"rule"`
	// Object is what it concerns, as kind/name or kind/namespace/name.
	Object string `json:"object"`
	// Problem says what is wrong.
	Problem string `json:"problem"`
	// Command mends it, or shows more where only a person can decide. The problem says what to write for
	// words in capitals.
	Command string `json:"command,omitempty"`
}

// Report is the document of kubectl cardquota doctor.
type Report struct {
	output.TypeMeta `json:",inline"`
	// Errors, Warnings and Infos count the findings.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	// Rules is the number of rules that were checked.
	Rules int `json:"rules"`
	// Items are the findings, the worst first, then in the order of the rules.
	Items []Finding `json:"items"`
}

// rule is one thing that is checked.
type rule struct {
	name string
	find func(*Cluster) []Finding
}

// rules are all rules, in the order in which an installation is built.
var rules = []rule{
	{"NotInstalled", findNotInstalled},
	{"KindMissing", findMissingKinds},
	{"SchemaOutdated", findOldSchemas},
	{"ProgramMissing", findMissingPrograms},
	{"ProgramNotReady", findUnreadyPrograms},
	{"VersionDiffers", findOtherVersions},
	{"WebhookMissing", findMissingWebhooks},
	{"WebhookCertificate", findWebhookCertificates},
	{"PolicyMissing", findMissingPolicy},
	{"ConfigNotSynced", findUnsyncedConfiguration},
	{"NotEnforced", findMissingEnforcement},
	{"ModeNotInForce", findUnfinishedMode},
	{"Forecast", findForecast},
	{"BypassNotGuarded", findUnguardedBypass},
	{"HeartbeatStale", findStaleHeartbeat},
	{"ConfigRefused", findRefusedConfiguration},
	{"OtherScheduler", findOtherSchedulers},
	{"QuotaNotReady", findUnreadyQuotas},
	{"QuotaNotObserved", findUnobservedQuotas},
	{"OverQuota", findOverQuota},
	{"OverAllocated", findOverAllocated},
	{"UnknownCard", findUnknownCards},
	{"UnknownFields", findUnknownFields},
	{"Anomaly", findAnomalies},
	{"NodeNotReady", findUnreadyNodes},
	{"BillsNotStored", findUnstoredBills},
	{"QueueWithoutQuota", findQueuesWithoutQuota},
	{"Bypass", findBypasses},
	{"PlannedRefused", findRefusedPlans},
	{"ParentMissing", findMissingParents},
	{"QuotaExceeded", findExceededQuotas},
	{"NeverPlaced", findNeverPlaced},
	{"NoComputeLimit", findMissingLimits},
	{"NotChecked", findGaps},
}

// RuleNames returns the names of all rules.
func RuleNames() []string {
	names := make([]string, len(rules))
	for i, rule := range rules {
		names[i] = rule.name
	}
	return names
}

// Diagnose returns all findings for a cluster.
func Diagnose(cluster *Cluster) Report {
	c := *cluster
	c.plan = c.newPlan()
	count := map[Severity]int{}
	report := Report{TypeMeta: output.NewTypeMeta("FindingList"), Rules: len(rules), Items: []Finding{}}
	for _, rule := range rules {
		for _, finding := range rule.find(&c) {
			finding.Rule = rule.name
			finding.Problem = output.Clean(finding.Problem)
			count[finding.Severity]++
			report.Items = append(report.Items, finding)
		}
	}

	// Stable, so that rules stay in the order in which users should mend their findings.
	slices.SortStableFunc(report.Items, func(a, b Finding) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	report.Errors = count[Error]
	report.Warnings = count[Warning]
	report.Infos = count[Info]
	return report
}

// sortedByObject sorts the findings of a rule, and returns them.
func sortedByObject(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Problem, b.Problem))
	})
	return findings
}

// Exit codes of kubectl cardquota doctor. 1 is that it could not look at all.
const (
	ExitWarnings = 2
	ExitErrors   = 3
)

// ExitCode returns the exit code for a report: 0 if there are at most infos.
func (r Report) ExitCode() int {
	switch {
	case r.Errors > 0:
		return ExitErrors
	case r.Warnings > 0:
		return ExitWarnings
	default:
		return 0
	}
}

var colors = map[Severity]output.Color{Error: output.Red, Warning: output.Yellow, Info: output.Faint}

// Render returns the findings as paragraphs, each with the command that mends it.
func (r Report) Render(style output.Style) string {
	var text strings.Builder
	for _, f := range r.Items {
		text.WriteString(style.Paint(string(f.Severity), colors[f.Severity]) + "  " + style.Paint(f.Object, output.Bold) + "  " + style.Paint(f.Rule, output.Faint) + "\n")
		text.WriteString(output.Indent(f.Problem, "  ", "  "))
		if f.Command != "" {
			text.WriteString("  $ " + f.Command + "\n")
		}
		text.WriteString("\n")
	}

	if len(r.Items) == 0 {
		return fmt.Sprintf("Nothing is wrong: %d rules checked.\n", r.Rules)
	}
	fmt.Fprintf(&text, "%s, %s, %s.\n", conditions.CountThings(r.Errors, "error"), conditions.CountThings(r.Warnings, "warning"), conditions.CountThings(r.Infos, "info"))
	return text.String()
}
