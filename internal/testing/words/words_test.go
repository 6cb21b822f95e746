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

// TestLinesAreSplitIntoVerbNamesAndWords: texts of tests describe a cluster, one object or step a line. A line
// is a verb, names, and words key=value; a semicolon separates like a new line. A line that begins with # is a
// comment. Line numbers count from one, for error messages, and the last value of a key counts.
func TestLinesAreSplitIntoVerbNamesAndWords(t *testing.T) {
	lines := Lines("# a comment\nshelf a books=3 label=x=y; wait\n\nuse books=1")
	check.Equal(t, "lines", []Line{
		{Number: 2, Verb: "shelf", Names: []string{"a"}, Words: []Word{{"books", "3"}, {"label", "x=y"}}},
		{Number: 2, Verb: "wait"},
		{Number: 4, Verb: "use", Words: []Word{{"books", "1"}}},
	}, lines)

	check.Equal(t, "the last value of a key", "2", Lines("shelf a books=1 books=2")[0].Value("books"))
	check.Equal(t, "the value of a key that is not there", "", lines[0].Value("age"))
}

// TestErrorsNameTheLineAndTheWord: a mistake in a text must be found at once, so errors have the line number,
// the line and the word. The words of a shelf are books, a number which is required, label, a text, age, a
// duration, and open, which is true or false.
func TestErrorsNameTheLineAndTheWord(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"all words are right": {"shelf a books=3 label= age=1h open=true", ""},
		"a key that shelves do not have": {
			"\nshelf a books=3 colour=red", `line 2, "shelf a books=3 colour=red": unknown word "colour=red"`,
		},
		"a value without a key":        {"shelf a books=3 red", `line 1, "shelf a books=3 red": unknown word "red"`},
		"the required word is missing": {"shelf a label=x", `line 1, "shelf a label=x": the word books= is missing`},
		"a number that is none":        {"shelf a books=many", `line 1, "shelf a books=many": word "books=many": "many" is not a number`},
		"a duration that is none": {
			"shelf a books=1 age=old", `line 1, "shelf a books=1 age=old": word "age=old": "old" is not a duration`,
		},
		"neither true nor false": {
			"shelf a books=1 open=yes", `line 1, "shelf a books=1 open=yes": word "open=yes": write one of true, false`,
		},
	}) {
		got := ""
		if err := Apply(Lines(tc.text)[0], &shelf{}, shelfKeys, "books"); err != nil {
			got = err.Error()
		}

		check.Equal(t, "error", tc.want, got)
	}
}

// TestWordsAreAppliedInOrder: each word changes the object in turn, so the last of two values of a key stays.
func TestWordsAreAppliedInOrder(t *testing.T) {
	s := &shelf{}
	check.NoError(t, Apply(Lines("shelf a books=1 books=2 label=x age=2s")[0], s, shelfKeys))
	check.That(t, *s == shelf{books: 2, label: "x", age: 2 * time.Second}, "the shelf is %+v, want the last number of books", *s)
}

// TestAValueMayHavePartsOfItsOwn: a value such as that of task=ps,pods:4,min:2 has parts key:value. The first one has no
// key.
func TestAValueMayHavePartsOfItsOwn(t *testing.T) {
	check.Equal(t, "parts", []Word{{"", "ps"}, {"pods", "4"}, {"min", "2"}}, Parts("ps,pods:4,min:2"))
}
