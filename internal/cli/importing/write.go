package importing

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

// manifest is a CardQuota as a user writes it, without the fields that the API server sets.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec v1alpha1.CardQuotaSpec `json:"spec"`
}

// newManifest returns the manifest of an import.
func newManifest(imported Import) manifest {
	written := manifest{TypeMeta: imported.Quota.TypeMeta, Spec: imported.Quota.Spec}
	written.Metadata.Name = imported.Quota.Name
	return written
}

// introduction returns the comments that are about all CardQuotas.
func (p Plan) introduction() []string {
	var texts []string
	if len(p.Imports) > 0 {
		texts = append(texts, "Made by kubectl cardquota import from "+p.describeSources()+". Nothing is written to the cluster. "+
			"Read the comments and correct the numbers, then apply the file. In mode Enforce a queue with a CardQuota is limited at once; running pods continue.")
	}
	if p.DropsParents {
		texts = append(texts, "Queues have parents, and these CardQuotas have none, because queueHierarchy of the ServiceTypePolicy is Flat. "+
			"With --tree they are made for a tree: docs/hierarchy.md.")
	}
	return texts
}

// describeSources names the sources of the CardQuotas.
func (p Plan) describeSources() string {
	isOf := map[Source]bool{}
	for _, imported := range p.Imports {
		isOf[cmp.Or(imported.Source, FromQueues)] = true
	}

	var texts []string
	for _, source := range Sources {
		if isOf[source] {
			texts = append(texts, titles[source])
		}
	}

	return output.JoinWords(texts, "and")
}

// droppedComments returns the comments that say what could not be carried over.
func (p Plan) droppedComments() []string {
	if len(p.Dropped) == 0 {
		return nil
	}
	return append([]string{"Not carried over:"}, p.Dropped...)
}

// Comments returns all comments, each with the name of its CardQuota.
func (p Plan) Comments() []string {
	comments := p.introduction()
	for _, imported := range p.Imports {
		for _, comment := range imported.Comments {
			comments = append(comments, "CardQuota "+imported.Quota.Name+": "+comment)
		}
	}
	return append(comments, p.droppedComments()...)
}

// WriteJSON writes the CardQuotas as one List, as kubectl get does.
func (p Plan) WriteJSON(w io.Writer) error {
	list := struct {
		metav1.TypeMeta `json:",inline"`
		Items           []manifest `json:"items"`
	}{metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, []manifest{}}
	for _, imported := range p.Imports {
		list.Items = append(list.Items, newManifest(imported))
	}
	return output.WriteDocument(w, output.JSON, list)
}

// Write writes the CardQuotas as YAML documents, with comments.
func (p Plan) Write(w io.Writer) error {
	var b strings.Builder
	for _, text := range p.introduction() {
		b.WriteString(asComment(text))
	}

	for _, imported := range p.Imports {
		b.WriteString("---\n")
		for _, comment := range imported.Comments {
			b.WriteString(asComment(comment))
		}

		text, err := yaml.Marshal(newManifest(imported))
		if err != nil {
			return fmt.Errorf("write CardQuota %s: %w", imported.Quota.Name, err)
		}
		b.Write(text)
	}

	// A document of its own, so that the comments are not those of the last CardQuota.
	if len(p.Dropped) > 0 && len(p.Imports) > 0 {
		b.WriteString("---\n")
	}
	for _, text := range p.droppedComments() {
		b.WriteString(asComment(text))
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// maxNamedQueues is how many queues a note names.
const maxNamedQueues = 8

// Notes say which Queues are left out, and why: one note for each reason.
func (p Plan) Notes() []string {
	var reasons []string
	queues := map[string][]string{}
	for _, left := range p.LeftOut {
		if queues[left.Why] == nil {
			reasons = append(reasons, left.Why)
		}
		queues[left.Why] = append(queues[left.Why], left.Queue)
	}

	notes := make([]string, len(reasons))
	for i, reason := range reasons {
		names := queues[reason]
		if more := len(names) - maxNamedQueues; more > 0 {
			names = append(slices.Clone(names[:maxNamedQueues]), fmt.Sprintf("%d more", more))
		}
		notes[i] = fmt.Sprintf("Left out: %s: %s.", output.JoinWords(names, "and"), reason)
	}

	return notes
}

// asComment returns a text as comment lines of YAML. A tenant may have written a part of it.
func asComment(text string) string { return output.Indent(output.Clean(text), "# ", "# ") }
