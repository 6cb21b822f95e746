package program

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"cardquota.dev/operator/internal/cli/output"
)

// listFormats are the further formats with which kubectl get prints lists.
var listFormats = []output.Format{output.Name, customColumns, "jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file"}

// objectLister is a document that lists objects of the cluster. Each has its kind.
type objectLister interface {
	Objects() []metav1.PartialObjectMetadata
}

// AddOutputFlag adds --output to a command, with the formats that only this command has.
func (p *Program) AddOutputFlag(cmd *cobra.Command, further ...output.Format) {
	allowed := append(slices.Clone(output.Formats), further...)
	cmd.Flags().VarP(output.FormatFlag{Value: &p.Format, Allowed: allowed}, "output", "o", "How to print: "+output.JoinWords(allowed, "or")+
		". A table is as wide as the terminal, or 80 columns where there is none; wide takes as many as it needs.")
	CompleteFlag(cmd, "output", FixedCompletions(allowed))
}

// AddListFlags adds --output and the other flags with which kubectl get prints lists.
func (p *Program) AddListFlags(cmd *cobra.Command) {
	p.AddOutputFlag(cmd, listFormats...)
	p.templates.AddFlags(cmd)
	cmd.Flag("template").Usage = "The template of -o jsonpath and go-template, or its file. Alone it means go-template."
	cmd.Flag("allow-missing-template-keys").Usage = "Print nothing for a field that is missing in a template, instead of an error."
	cmd.Flags().BoolVar(&p.noHeaders, "no-headers", false, "Print tables and custom columns without headers.")
}

// style returns how the output is shown.
func (p *Program) style() output.Style {
	return output.Style{
		Color: p.IsTerminal(p.Streams.Out) && !noColorWanted(), Wide: p.Format == output.Wide, Columns: p.TerminalColumns(p.Streams.Out), NoHeaders: p.noHeaders,
	}
}

// Print writes a document, or for a person the text that render returns.
func (p *Program) Print(document any, render func(output.Style) string) error {
	printer, err := p.newPrinter()
	switch {
	case err != nil:
		return err
	case printer != nil:
		return p.printWith(printer, document)
	case p.Format.IsDocument():
		return output.WriteDocument(p.Streams.Out, p.Format, document)
	default:
		_, err := io.WriteString(p.Streams.Out, render(p.style()))

		return err
	}
}

// newPrinter returns kubectl's own printer for the format of --output. It is nil for tables, JSON, YAML and
// CSV, which package output prints.
func (p *Program) newPrinter() (printers.ResourcePrinter, error) {
	format := string(p.Format)
	template := *p.templates.TemplateArgument
	switch {
	case p.Format == output.Table && template != "": // --template alone is enough, as in kubectl
		format = "go-template"
	case p.Format.IsForPeople(), p.Format.IsDocument(), p.Format == output.CSV:
		return nil, nil
	}

	// The first of these to which the format belongs decides: it returns the printer, or the mistake in the
	// format. The others answer that it is not theirs.
	for _, flags := range []interface {
		ToPrinter(format string) (printers.ResourcePrinter, error)
	}{genericclioptions.NewNamePrintFlags(""), p.templates, columnsFlags{p.noHeaders}} {
		printer, err := flags.ToPrinter(format)
		if !genericclioptions.IsNoCompatiblePrinterError(err) {
			return printer, err
		}
	}

	return nil, fmt.Errorf("no printer of kubectl has the format %s", format)
}

// printWith prints a document with a printer of kubectl: names one by one, columns with a row for each item,
// and with a template the whole document.
func (p *Program) printWith(printer printers.ResourcePrinter, document any) error {
	if _, isOfNames := printer.(*printers.NamePrinter); isOfNames {
		return p.printNames(printer, document)
	}

	fields, err := fieldsOf(document)
	if err != nil {
		return err
	}

	var object runtime.Object = &unstructured.Unstructured{Object: fields}
	if _, isOfColumns := printer.(*columnsPrinter); isOfColumns {
		object = rowsOf(fields)
	}

	if err := printer.PrintObj(object, p.Streams.Out); err != nil {
		return fmt.Errorf("--output %s: %w", p.Format, err)
	}

	return nil
}

// printNames prints kind and name of each object of a document that lists objects. Another document has no names.
func (p *Program) printNames(printer printers.ResourcePrinter, document any) error {
	list, isList := document.(objectLister)
	if !isList {
		return fmt.Errorf("--output %s is for lists of objects, such as top and inventory --nodes", p.Format)
	}
	for _, object := range list.Objects() {
		if err := printer.PrintObj(&object, p.Streams.Out); err != nil {
			return fmt.Errorf("print names: %w", err)
		}
	}
	return nil
}

// fieldsOf returns the fields that a document has as JSON. Whole numbers stay whole: a template would print a float
// as 1e+06.
func fieldsOf(document any) (map[string]any, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("print a document: %w", err)
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("print a document: %w", err)
	}
	return fields, nil
}

// rowsOf returns what custom columns print a row of: the items of a list, or the cards of the inventory.
func rowsOf(fields map[string]any) *unstructured.UnstructuredList {
	rows, hasItems := fields["items"].([]any)
	if !hasItems {
		rows, _ = fields["cards"].([]any)
	}
	list := &unstructured.UnstructuredList{}
	for _, row := range rows {
		if item, isObject := row.(map[string]any); isObject {
			list.Items = append(list.Items, unstructured.Unstructured{Object: item})
		}
	}
	return list
}
