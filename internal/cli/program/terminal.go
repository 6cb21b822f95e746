package program

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a writer is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// terminalColumns returns the width of a terminal, 0 for another writer.
func terminalColumns(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// noColorWanted reports whether the user wants no colors, see no-color.org.
func noColorWanted() bool { return os.Getenv("NO_COLOR") != "" }
