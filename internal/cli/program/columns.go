package program

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"cardquota.dev/operator/internal/cli/output"
)

// customColumns is kubectl's format for columns of one's own. The library of kubectl that has its printer
// links all clients of Kubernetes, so this is another one, with the same library of paths.
const customColumns output.Format = "custom-columns"

// columnsFlags are the flags of custom columns.
type columnsFlags struct {
	noHeaders bool
}

// ToPrinter returns the printer of a format such as custom-columns=NAME:.name,USED:.cards[*].used.
func (f columnsFlags) ToPrinter(format string) (printers.ResourcePrinter, error) {
	name, spec, _ := strings.Cut(format, "=")
	if name != string(customColumns) { // the caller then tries another printer
		return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: &format, AllowedFormats: []string{string(customColumns)}}
	}
	if spec == "" {
		return nil, errors.New("custom-columns needs columns: write custom-columns=NAME:.name")
	}

	printer := &columnsPrinter{noHeaders: f.noHeaders}
	for column := range strings.SplitSeq(spec, ",") {
		header, path, hasPath := strings.Cut(column, ":")
		if !hasPath {
			return nil, fmt.Errorf("custom-columns has the column %q: write HEADER:.path", column)
		}

		// kubectl takes .name, name and {.name}.
		parser := jsonpath.New(header).AllowMissingKeys(true)
		path = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".")
		if err := parser.Parse("{." + path + "}"); err != nil {
			return nil, fmt.Errorf("custom-columns has the column %q: %w", column, err)
		}
		printer.headers = append(printer.headers, header)
		printer.paths = append(printer.paths, parser)
	}

	return printer, nil
}

// columnsPrinter prints a row for each item of a list.
type columnsPrinter struct {
	headers   []string
	paths     []*jsonpath.JSONPath
	noHeaders bool
}

// PrintObj prints a list.
func (c *columnsPrinter) PrintObj(object runtime.Object, w io.Writer) error {
	list, isList := object.(*unstructured.UnstructuredList)
	if !isList {
		return fmt.Errorf("custom-columns prints lists, not %T", object)
	}

	table := printers.GetNewTabWriter(w)
	if !c.noHeaders {
		if _, err := fmt.Fprintln(table, strings.Join(c.headers, "\t")); err != nil {
			return err
		}
	}

	for _, item := range list.Items {
		cells, err := c.cellsOf(item.Object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}

	return table.Flush()
}

// cellsOf returns what each path finds in an item, "<none>" for nothing, as kubectl does.
func (c *columnsPrinter) cellsOf(item map[string]any) ([]string, error) {
	cells := make([]string, len(c.paths))
	for i, path := range c.paths {
		results, err := path.FindResults(item)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.headers[i], err)
		}

		var found []string
		for _, values := range results {
			for _, value := range values {
				found = append(found, printers.EscapeTerminal(fmt.Sprint(value.Interface())))
			}
		}

		if len(found) == 0 {
			found = []string{"<none>"}
		}
		cells[i] = strings.Join(found, ",")
	}

	return cells, nil
}
