// Package output writes what the commands of kubectl cardquota show: tables that fit a terminal, bars,
// paragraphs, and JSON or YAML. It knows no cluster.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/api/v1alpha1"
)

// Format is the value of the flag --output.
type Format string

// The formats. Table has at most Columns columns, Wide as many as it needs. JSON and YAML write a
// document of APIVersion.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	// CSV writes lines for a spreadsheet. Only some commands have it.
	CSV Format = "csv"
	// Name writes the kinds and names of objects. Only commands that list objects have it.
	Name Format = "name"
)

// plainFormats are the formats that take no template.
var plainFormats = []Format{Table, Wide, JSON, YAML, CSV, Name}

// Formats are the formats of every command.
var Formats = []Format{Table, Wide, JSON, YAML}

// APIVersion is the version of the documents that the commands write as JSON and YAML. Within one
// version fields are added, but none is renamed, removed or given another meaning.
const APIVersion = "cli.cardquota.dev/v1alpha1"

// TypeMeta is the head of a document.
type TypeMeta struct {
	// APIVersion is cli.cardquota.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the document, such as UsageList.
	Kind string `json:"kind"`
}

// NewTypeMeta returns the head of a document.
func NewTypeMeta(kind string) TypeMeta { return TypeMeta{APIVersion: APIVersion, Kind: kind} }

// FormatFlag is the flag --output of a command, which has some of the formats.
type FormatFlag struct {
	Value   *Format
	Allowed []Format
}

// Set sets the format, which may have a template: jsonpath={.items}. It refuses one that the command does
// not have.
func (f FormatFlag) Set(text string) error {
	name, _, hasTemplate := strings.Cut(text, "=")
	takesTemplate := !slices.Contains(plainFormats, Format(name))
	if !slices.Contains(f.Allowed, Format(name)) || (hasTemplate && !takesTemplate) {
		return fmt.Errorf("write %s", JoinWords(f.Allowed, "or"))
	}
	*f.Value = Format(text)
	return nil
}

// String returns the name of the format.
func (f FormatFlag) String() string { return string(*f.Value) }

// Type names the flag's type in help texts.
func (f FormatFlag) Type() string { return "format" }

// IsDocument reports whether the format is read by programs.
func (f Format) IsDocument() bool { return f == JSON || f == YAML }

// IsForPeople reports whether the format is read by people.
func (f Format) IsForPeople() bool { return f == Table || f == Wide }

// WriteDocument writes a document as JSON or YAML.
func WriteDocument(w io.Writer, format Format, document any) error {
	text, err := json.MarshalIndent(document, "", "  ")
	if err == nil && format == YAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}

// JoinWords joins words to a list in prose: "a, b or c".
func JoinWords[S ~string](words []S, conjunction string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " " + conjunction + " " + texts[last]
}

// DescribeWorkload returns "Job lab/train" for a workload.
func DescribeWorkload(w v1alpha1.WorkloadReference) string {
	return Clean(w.Kind + " " + w.Namespace + "/" + w.Name)
}
