// Command style checks what linters of Go do not: that functions are named by verb and object,
// that docs are written in short sentences, and that code is laid out in paragraphs.
//
//	go -C hack/style run . ROOT
//
// It prints every finding and exits with status 1 when there is one. CONTRIBUTING.md has the
// rules and their reasons.
package main

import (
	"fmt"
	"os"
	"slices"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}

	findings, err := checkTree(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(1)
	}

	for _, finding := range findings {
		fmt.Println(finding)
	}

	if len(findings) > 0 {
		fmt.Printf("style: %d findings\n", len(findings))
		os.Exit(1)
	}
}

// checkTree returns the findings for all Go files and Markdown pages below root.
func checkTree(root string) ([]string, error) {
	names, err := checkNames(root)
	if err != nil {
		return nil, err
	}
	pages, err := checkPages(root)
	if err != nil {
		return nil, err
	}

	layout, err := checkForm(root)
	if err != nil {
		return nil, err
	}

	return slices.Concat(names, pages, layout), nil
}
