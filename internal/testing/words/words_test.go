package words

import (
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// shelf is what the words of this test describe.
type shelf struct {
	books int
	label string
	age   time.Duration
}

var shelfKeys = Keys[*shelf]{
	"books": Int(func(s *shelf, n int) { s.books = n }),
	"label": Text(func(s *shelf, text string) { s.label = text }),
	"age":   Duration(func(s *shelf, d time.Duration) { s.age = d }),
	"open":  OneOf(func(*shelf, string) {}, "true", "false"),
}

func TestLinesAreSplitIntoVerbNameAndWords(t *testing.T) {
	lines := Lines("# a comment\nshelf a books=3 label=x=y; wait\n\nuse books=1")
	check.Equal(t, "lines", []Line{
		{Number: 2, Verb: "shelf", Names: []string{"a"}, Words: []Word{{"books", "3"}, {"label", "x=y"}}},
		{Number: 2, Verb: "wait"},
		{Number: 4, Verb: "use", Words: []Word{{"books", "1"}}},
	}, lines)
	check.Equal(t, "the last value of a key", "2", Lines("shelf a books=1 books=2")[0].Value("books"))
	check.Equal(t, "the value of a key that is not there", "", lines[0].Value("age"))
}

func TestErrorsNameTheLineAndTheWord(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"no error":           {"shelf a books=3 label= age=1h open=true", ""},
		"an unknown word":    {"\nshelf a books=3 colour=red", `line 2, "shelf a books=3 colour=red": unknown word "colour=red"`},
		"a word without key": {"shelf a books=3 red", `line 1, "shelf a books=3 red": unknown word "red"`},
		"a missing word":     {"shelf a label=x", `line 1, "shelf a label=x": the word books= is missing`},
		"not a number":       {"shelf a books=many", `line 1, "shelf a books=many": word "books=many": "many" is not a number`},
		"not a duration":     {"shelf a books=1 age=old", `line 1, "shelf a books=1 age=old": word "age=old": "old" is not a duration`},
		"not one of":         {"shelf a books=1 open=yes", `line 1, "shelf a books=1 open=yes": word "open=yes": write one of true, false`},
	}) {
		err := Apply(Lines(tc.text)[0], &shelf{}, shelfKeys, "books")

		got := ""
		if err != nil {
			got = err.Error()
		}
		check.Equal(t, "error", tc.want, got)
	}
}

func TestWordsAreAppliedInOrder(t *testing.T) {
	s := &shelf{}
	check.NoError(t, Apply(Lines("shelf a books=1 books=2 label=x age=2s")[0], s, shelfKeys))
	check.That(t, *s == shelf{2, "x", 2 * time.Second}, "the shelf is %+v", *s)
}

func TestPartsOfAValue(t *testing.T) {
	check.Equal(t, "parts", []Word{{"", "ps"}, {"pods", "4"}, {"min", "2"}}, Parts("ps,pods:4,min:2"))
}
