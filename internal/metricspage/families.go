package metricspage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// A family grows by chunks, four times as large each, up to seriesPerChunk.
const (
	seriesInFirstChunk = 16
	seriesPerChunk     = 4096
)

// series is what the page keeps of a series until its family is written.
type series struct {
	value  float64
	labels []string
}

// family is a metric and its series.
type family struct {
	name, help string
	labels     []string
	chunks     [][]series
}

// description is how client_golang prints a description, which has no other way to read it.
var description = regexp.MustCompile(`^Desc\{fqName: "([a-zA-Z0-9_:]+)", help: ("(?:[^"\\]|\\.)*"), constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

func newFamily(desc *prometheus.Desc) (family, error) {
	match := description.FindStringSubmatch(desc.String())
	if match == nil {
		return family{}, fmt.Errorf("%s is no description of a metric without constant labels", desc)
	}
	help, err := strconv.Unquote(match[2])
	if err != nil {
		return family{}, fmt.Errorf("help of %s: %w", match[1], err)
	}
	return family{name: match[1], help: help, labels: strings.FieldsFunc(match[3], func(r rune) bool { return r == ',' })}, nil
}

// add adds a series. An invalid label costs that series and not the page.
func (f *family) add(s series) {
	if len(s.labels) != len(f.labels) {
		return
	}
	for _, label := range s.labels {
		if !utf8.ValidString(label) {
			return
		}
	}
	last := len(f.chunks) - 1
	switch {
	case last < 0:
		f.chunks, last = append(f.chunks, make([]series, 0, seriesInFirstChunk)), 0
	case len(f.chunks[last]) == cap(f.chunks[last]):
		f.chunks, last = append(f.chunks, make([]series, 0, min(seriesPerChunk, 4*cap(f.chunks[last])))), last+1
	}
	f.chunks[last] = append(f.chunks[last], s)
}

// source is a Sender and the families that it describes.
type source struct {
	sender   Sender
	families map[*prometheus.Desc]family
	// order is that of the descriptions.
	order []*prometheus.Desc
}

func newSource(sender Sender) (*source, error) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		sender.Describe(descriptions)
	}()
	s := &source{sender: sender, families: map[*prometheus.Desc]family{}}
	var failed error
	for desc := range descriptions {
		f, err := newFamily(desc)
		failed = errors.Join(failed, err)
		s.families[desc], s.order = f, append(s.order, desc)
	}
	return s, failed
}

// write writes the series of the sender. All series of a family come together, as the format requires.
func (s *source) write(out io.Writer) error {
	families := make(map[*prometheus.Desc]*family, len(s.families))
	for desc, described := range s.families {
		families[desc] = &described
	}
	s.sender.SendSeries(func(desc *prometheus.Desc, value float64, labels ...string) {
		if f := families[desc]; f != nil {
			f.add(series{value, labels})
		}
	})
	buffered := bufio.NewWriterSize(out, 64<<10)
	for _, desc := range s.order {
		if err := families[desc].write(buffered); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

var escapeHelp = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// write writes a family, and drops its series as it goes.
func (f *family) write(out *bufio.Writer) error {
	if len(f.chunks) == 0 {
		return nil
	}
	kind := "gauge"
	if strings.HasSuffix(f.name, "_total") {
		kind = "counter"
	}
	if _, err := fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", f.name, escapeHelp.Replace(f.help), f.name, kind); err != nil {
		return err
	}
	var line []byte
	for i, chunk := range f.chunks {
		for _, s := range chunk {
			line = f.appendLine(line[:0], s)
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
		f.chunks[i] = nil
	}
	return nil
}

func (f *family) appendLine(line []byte, s series) []byte {
	line = append(line, f.name...)
	for i, label := range s.labels {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		line = append(append(append(line, separator), f.labels[i]...), '=', '"')
		line = append(appendEscaped(line, label), '"')
	}
	if len(s.labels) > 0 {
		line = append(line, '}')
	}
	return append(strconv.AppendFloat(append(line, ' '), s.value, 'g', -1, 64), '\n')
}

// appendEscaped appends the value of a label as the text format has it.
func appendEscaped(line []byte, value string) []byte {
	for {
		special := strings.IndexAny(value, "\\\n\"")
		if special < 0 {
			return append(line, value...)
		}
		line = append(append(line, value[:special]...), '\\')
		if value[special] == '\n' {
			line = append(line, 'n')
		} else {
			line = append(line, value[special])
		}
		value = value[special+1:]
	}
}
