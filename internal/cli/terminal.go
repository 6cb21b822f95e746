package cli

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

// noColorWanted reports whether the user wants no colors, see no-color.org.
func noColorWanted() bool { return os.Getenv("NO_COLOR") != "" }
