package card

import (
	"errors"
	"fmt"
	"strings"
)

// maxMistakes is how many bytes of mistakes are told. An event holds 1024
// bytes, and the object that the text is about is named before it.
const maxMistakes = 600

// mistakes puts errors into one, on one line, and says how many it leaves out.
// It is nil when there are none.
func mistakes(wrong []error) error {
	var told []string
	size := 0
	for i, err := range wrong {
		text := err.Error()
		if size += len(text); i > 0 && size > maxMistakes {
			told = append(told, fmt.Sprintf("and %d more mistakes", len(wrong)-i))
			break
		}
		told = append(told, text)
	}
	if told == nil {
		return nil
	}
	return errors.New(strings.Join(told, "; "))
}
