package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Quota is the hard limit of a queue per card name. A name without an entry counts as 0.
type Quota map[Name]Count

// Bounds of the annotation text, so that no object slows the programs down.
const (
	MaxQuotaText    = 64 << 10
	MaxQuotaEntries = 256
)

// ParseQuota parses the annotation volcano.sh/card.quota: one JSON object, card name to whole
// number from 0 to MaxCount, no name twice. The error lists every mistake that an event has
// room for, each with what to write instead. There is no partial quota.
func ParseQuota(text string) (Quota, error) {
	quota := Quota{}
	err := parseCounts(text, MaxQuotaText, func(key string, count Count) error {
		name, err := ParseName(key)
		if err != nil {
			return err
		}
		if _, twice := quota[name]; twice {
			return fmt.Errorf("card %s is named twice: keep one entry", name)
		}
		quota[name] = count
		return nil
	})
	if err != nil {
		return nil, err
	}

	return quota, nil
}

// String returns the quota as canonical JSON with sorted names: equal quotas are equal texts.
func (q Quota) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(q)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%d", string(name), q[name])
	}
	b.WriteByte('}')
	return b.String()
}

// parseCounts parses a JSON object of key to whole number, of at most maxText bytes, and calls take for
// every pair. It reads tokens because encoding/json silently keeps the last of two equal keys.
func parseCounts(text string, maxText int, take func(key string, count Count) error) error {
	if len(text) > maxText {
		return fmt.Errorf("text is %d bytes, at most %d are read", len(text), maxText)
	}

	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf(`%s is not a JSON object: write it like {"NVIDIA-H200":8}`, quoteText(text))
	}

	// Collect all mistakes: a user who corrects one at a time waits for an event each time.
	var wrong []error
	for entries := 0; dec.More(); entries++ {
		if entries == MaxQuotaEntries {
			return fmt.Errorf("more than %d entries", MaxQuotaEntries)
		}

		key, err := dec.Token()
		if err != nil {
			return syntaxError(text, err)
		}

		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return syntaxError(text, err)
		}

		count, err := parseCount(fmt.Sprint(key), string(value))
		if err == nil {
			err = take(fmt.Sprint(key), count)
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	}

	if _, err := dec.Token(); err != nil {
		return syntaxError(text, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("text goes on after the JSON object: %s", quoteText(text))
	}

	return joinMistakes(wrong)
}

// parseCount parses the count of a key, a whole number from 0 to MaxCount.
func parseCount(key, value string) (Count, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("count of %s is %s: at most %d cards can be given", quoteText(key), quoteText(value), MaxCount)
	case err != nil:
		return 0, fmt.Errorf("count of %s is %s: write a whole number of cards, such as 8", quoteText(key), quoteText(value))
	case n < 0:
		return 0, fmt.Errorf("count of %s is %d: a quota is 0 or more", quoteText(key), n)
	case n > int64(MaxCount):
		return 0, fmt.Errorf("count of %s is %d: at most %d cards can be given", quoteText(key), n, MaxCount)
	}

	return Count(n), nil
}

func syntaxError(text string, err error) error {
	return fmt.Errorf("%s is not valid JSON (%w): write it like {\"NVIDIA-H200\":8}", quoteText(text), err)
}

// maxMistakesLength is how many bytes of mistakes a message contains. An event takes 1024
// bytes, and the name of its object comes first.
const maxMistakesLength = 600

// joinMistakes joins errors to one line and says how many it leaves out. It returns nil without
// errors.
func joinMistakes(wrong []error) error {
	var listed []string
	size := 0
	for i, err := range wrong {
		text := err.Error()
		size += len(text)
		if i > 0 && size > maxMistakesLength {
			listed = append(listed, fmt.Sprintf("and %d more mistakes", len(wrong)-i))
			break
		}
		listed = append(listed, text)
	}

	if listed == nil {
		return nil
	}

	return errors.New(strings.Join(listed, "; "))
}
