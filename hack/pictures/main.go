// Command pictures draws the boards of config/grafana from the answers of a real Prometheus, which
// test/monitoring/cmd/record writes.
//
//	go run . ../../dist/pictures/answers.json ../../docs/images
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pictures ANSWERS FOLDER")
		os.Exit(2)
	}
	if err := drawBoards(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func drawBoards(answers, folder string) error {
	r, err := readRecording(answers)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("pictures: %w", err)
	}

	for i := range r.Boards {
		b := &r.Boards[i]
		picture, err := r.drawBoard(b)
		if err != nil {
			return fmt.Errorf("board %s: %w", b.Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, "board-"+b.Name+".png"), picture, 0o600); err != nil {
			return fmt.Errorf("pictures: %w", err)
		}
	}

	return nil
}
