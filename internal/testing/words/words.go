// Package words reads the texts of tests that describe a cluster, one object or step a line:
//
//	job g queue=inf min=3 pending=3
//
// A line has a verb, most have the name of an object, and the rest are words key=value. The package
// depends on no rule of card quota, so that the observer may use it.
package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Line is a line of a text, or a part of it between semicolons.
type Line struct {
	// Number counts the lines of the text from one.
	Number int
	// Verb says what the line is. Names are the words behind it without "=".
	Verb  string
	Names []string
	Words []Word
}

// Name returns the first name, "" if there is none.
func (l Line) Name() string {
	if len(l.Names) == 0 {
		return ""
	}
	return l.Names[0]
}

// Word is a word key=value. The value of key and key= is "".
type Word struct{ Key, Value string }

func (w Word) String() string {
	if w.Value == "" {
		return w.Key
	}
	return w.Key + "=" + w.Value
}

func (l Line) String() string {
	parts := append([]string{l.Verb}, l.Names...)
	for _, word := range l.Words {
		parts = append(parts, word.String())
	}
	return strings.Join(parts, " ")
}

// Value returns the value of the last word with a key, "" if there is none.
func (l Line) Value(key string) string {
	for _, word := range slices.Backward(l.Words) {
		if word.Key == key {
			return word.Value
		}
	}
	return ""
}

// Errorf returns an error that begins with the line.
func (l Line) Errorf(format string, arguments ...any) error {
	return fmt.Errorf("line %d, %q: %w", l.Number, l, fmt.Errorf(format, arguments...))
}

// Lines returns the lines of a text. Empty ones and those that begin with # are comments.
func Lines(text string) []Line {
	var lines []Line
	for i, whole := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(whole), "#") {
			continue
		}

		for part := range strings.SplitSeq(whole, ";") {
			if fields := strings.Fields(part); len(fields) > 0 {
				lines = append(lines, newLine(i+1, fields))
			}
		}
	}

	return lines
}

func newLine(number int, fields []string) Line {
	line := Line{Number: number, Verb: fields[0]}
	fields = fields[1:]
	for len(fields) > 0 && !strings.Contains(fields[0], "=") {
		line.Names = append(line.Names, fields[0])
		fields = fields[1:]
	}

	line.Words = Words(fields)
	return line
}

// Words parses words key=value.
func Words(fields []string) []Word {
	var parsed []Word
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		parsed = append(parsed, Word{key, value})
	}
	return parsed
}

// Keys are the keys that the words of a line may have, and what each does to an object.
type Keys[Object any] map[string]func(object Object, value string) error

// Apply applies the words of a line to an object in their order. It refuses unknown keys, and a
// line that lacks one of the required keys.
func Apply[Object any](line Line, object Object, keys Keys[Object], required ...string) error {
	for _, key := range required {
		if !slices.ContainsFunc(line.Words, func(word Word) bool { return word.Key == key }) {
			return line.Errorf("the word %s= is missing", key)
		}
	}

	for _, word := range line.Words {
		if err := keys.Set(line, object, word); err != nil {
			return err
		}
	}

	return nil
}

// Set applies a word of a line to an object.
func (k Keys[Object]) Set(line Line, object Object, word Word) error {
	set, known := k[word.Key]
	if !known {
		return line.Errorf("unknown word %q", word)
	}
	if err := set(object, word.Value); err != nil {
		return line.Errorf("word %q: %w", word, err)
	}
	return nil
}

// Parts returns the parts of a value "NAME,key:value,…", the first of them with the key "".
func Parts(value string) []Word {
	var parts []Word
	for part := range strings.SplitSeq(value, ",") {
		key, value, isNamed := strings.Cut(part, ":")
		if isNamed {
			parts = append(parts, Word{key, value})
		} else {
			parts = append(parts, Word{"", part})
		}
	}
	return parts
}

// ApplyParts applies the parts of a value to an object. It refuses unknown keys, and a value that lacks one
// of the required keys.
func ApplyParts[Object any](value string, object Object, keys Keys[Object], required ...string) error {
	parts := Parts(value)
	for _, key := range required {
		if !slices.ContainsFunc(parts, func(part Word) bool { return part.Key == key }) {
			return fmt.Errorf("the part %s: is missing", key)
		}
	}

	for _, part := range parts {
		set, known := keys[part.Key]
		if !known {
			return fmt.Errorf("unknown part %q", part.Key+":"+part.Value)
		}
		if err := set(object, part.Value); err != nil {
			return err
		}
	}

	return nil
}

// Int returns a setter of a number.
func Int[Object any](set func(object Object, n int)) func(Object, string) error {
	return func(object Object, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is not a number", value)
		}
		set(object, n)
		return nil
	}
}

// Text returns a setter of a text.
func Text[Object any](set func(object Object, text string)) func(Object, string) error {
	return func(object Object, value string) error {
		set(object, value)
		return nil
	}
}

// Duration returns a setter of a time span.
func Duration[Object any](set func(object Object, d time.Duration)) func(Object, string) error {
	return func(object Object, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%q is not a duration", value)
		}
		set(object, d)
		return nil
	}
}

// OneOf returns a setter that accepts only some values.
func OneOf[Object any](set func(object Object, value string), values ...string) func(Object, string) error {
	return func(object Object, value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("write one of %s", strings.Join(values, ", "))
		}
		set(object, value)
		return nil
	}
}
