package version

import (
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/cli/releases"
)

// Document is the document of kubectl cardquota version.
type Document struct {
	output.TypeMeta `json:",inline"`
	// Client is the version of kubectl cardquota.
	Client string `json:"client"`
	// Operator is the version of cardquota-manager, by the tag of its image. Empty if unknown.
	Operator string `json:"operator,omitempty"`
	// Scheduler is the version that the heartbeat of cardquota-scheduler reports. Empty if unknown.
	Scheduler string `json:"scheduler,omitempty"`
	// Problems say which versions do not fit together, and which are unknown and why.
	Problems []string `json:"problems,omitempty"`
	// isClientOnly reports whether the versions of the programs were not asked for.
	isClientOnly bool
}

// NewClientDocument returns the version of kubectl cardquota alone.
func NewClientDocument(client string) Document {
	return Document{TypeMeta: output.NewTypeMeta("Versions"), Client: client, isClientOnly: true}
}

// NewDocument returns the versions, "" for an unknown one, and which do not fit kubectl cardquota. unknown says why
// one is unknown.
func NewDocument(client, operator, scheduler string, unknown ...string) Document {
	d := Document{TypeMeta: output.NewTypeMeta("Versions"), Client: client, Operator: operator, Scheduler: scheduler}
	for _, other := range []struct{ program, version string }{{reader.OperatorProgram, operator}, {reader.SchedulerProgram, scheduler}} {
		if problem := releases.Compare(client, other.program, other.version); problem != "" {
			d.Problems = append(d.Problems, problem)
		}
	}
	d.Problems = append(d.Problems, unknown...)
	return d
}

// Render returns the versions as a table, and the problems below it.
func (d Document) Render(style output.Style) string {
	grid := output.Grid{Columns: []output.Column{{Header: "PROGRAM"}, {Header: "VERSION", Shrinks: true}}}
	grid.AddRow(output.Text("kubectl cardquota"), output.Text(d.Client))

	programs := [][2]string{{reader.OperatorProgram, d.Operator}, {reader.SchedulerProgram, d.Scheduler}}
	if d.isClientOnly {
		programs = nil
	}

	for _, row := range programs {
		cell := output.Text(row[1])
		if row[1] == "" {
			cell = output.Colored("unknown", output.Faint)
		}
		grid.AddRow(output.Text(row[0]), cell)
	}

	return grid.Render(style) + output.Notes(d.Problems)
}
