// Package versions compares the version of kubectl cardquota with those of the programs in the
// cluster. It is pure.
package versions

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"cardquota.dev/operator/internal/cli/output"
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

// NewDocument compares the versions, "" for an unknown one. unknown says why one is unknown.
func NewDocument(client, operator, scheduler string, unknown ...string) Document {
	d := Document{TypeMeta: output.NewTypeMeta("Versions"), Client: client, Operator: operator, Scheduler: scheduler}
	for _, other := range []struct{ program, version string }{{"cardquota-manager", operator}, {"cardquota-scheduler", scheduler}} {
		if problem := Compare(client, other.program, other.version); problem != "" {
			d.Problems = append(d.Problems, problem)
		}
	}
	d.Problems = append(d.Problems, unknown...)
	return d
}

// Compare returns why a program of the cluster does not fit the client, "" if it fits or one of the
// versions is no release. Patch releases of one minor release fit together.
func Compare(client, program, other string) string {
	ours, err := version.ParseSemantic(client)
	theirs, otherErr := version.ParseSemantic(other)
	if err != nil || otherErr != nil || isUnreleased(ours) || isUnreleased(theirs) {
		return ""
	}
	if ours.Major() == theirs.Major() && ours.Minor() == theirs.Minor() {
		return ""
	}

	advice := "install kubectl cardquota of that release"
	if theirs.LessThan(ours) {
		advice += ", or upgrade the cluster: docs/upgrade.md"
	}

	return fmt.Sprintf("kubectl cardquota %s does not fit %s %s: fields of one may be unknown to the other. Use the same minor release: %s", client, program, other, advice)
}

// isUnreleased reports whether a version is of a build without a release.
func isUnreleased(v *version.Version) bool { return v.Major() == 0 && v.Minor() == 0 }

var tagPattern = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)

// OfImage returns the version in the tag of an image, "" if the tag is none.
func OfImage(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	if !tagPattern.MatchString(tag) {
		return ""
	}
	return tag
}

// Write writes the versions as a table, and the problems below it.
func (d Document) Write(w io.Writer, style output.Style) error {
	grid := output.Grid{Columns: []output.Column{{Header: "PROGRAM"}, {Header: "VERSION", Shrinks: true}}}
	grid.AddRow(output.Text("kubectl cardquota"), output.Text(d.Client))

	programs := [][2]string{{"cardquota-manager", d.Operator}, {"cardquota-scheduler", d.Scheduler}}
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

	if err := grid.Write(w, style); err != nil {
		return err
	}

	return output.WriteNotes(w, d.Problems)
}
