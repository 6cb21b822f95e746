// Command measure prints how the code of the project is laid out, beside the limits that make lint
// enforces.
//
//	go -C hack/style run ./measure [-root DIR] [-check]
//
// It reads Go files only, and resolves names without the packages that they import. So it measures
// any checkout, also an old one, in seconds.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "the repository to measure")
	check := flag.Bool("check", false, "fail beyond the limits")
	flag.Parse()

	measured, err := measureTree(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
	fmt.Print(measured.table())

	beyond := measured.beyondLimits()
	if !*check || len(beyond) == 0 {
		return
	}

	for _, line := range beyond {
		fmt.Println("measure:", line)
	}

	os.Exit(1)
}
