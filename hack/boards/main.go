// Command boards writes the Grafana boards of config/grafana.
//
//	go run . ../../config/grafana
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: boards FOLDER")
		os.Exit(2)
	}
	if err := writeBoards(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "boards:", err)
		os.Exit(1)
	}
}

func writeBoards(folder string) error {
	for _, b := range boards {
		text, err := b.render()
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, b.name+".json"), text, 0o600); err != nil {
			return fmt.Errorf("write board: %w", err)
		}
	}
	return nil
}
