package heartbeat

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"cardquota.dev/operator/internal/clip"
)

// Bounds of texts in bytes. All annotations of an object may hold 256 KiB.
const (
	longestLine    = 256
	longestProblem = 1024
)

// annotations are the report's, with "" left out where absent means the same.
func (r Report) annotations() map[string]string {
	annotations := map[string]string{
		AnnotationVersion:    line(r.Version),
		AnnotationConfigHash: line(r.ConfigHash),
	}
	if problem := clip.Text(plain(r.ConfigProblem), longestProblem); problem != "" {
		annotations[AnnotationConfigProblem] = problem
	}
	if pods := named(r.SecondScheduler); len(pods) > 0 {
		annotations[AnnotationSecondScheduler] = strings.Join(pods, ",")
	}
	if r.Ended {
		annotations[AnnotationEnded] = endOf(r.At)
	}
	return annotations
}

// endOf names the report that was the last.
func endOf(at time.Time) string { return at.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) }

// named are the names of pods that a report may hold, sorted, the first ones if
// there are too many.
func named(pods []string) []string {
	var names []string
	for _, pod := range pods {
		if isPod(pod) {
			names = append(names, pod)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), MostPods)]
}

// isPod tells whether a text has the form namespace/name and cannot be mistaken
// for several. The API server allows no other characters in names.
func isPod(text string) bool {
	namespace, name, ok := strings.Cut(text, "/")
	return ok && isName(namespace) && isName(name)
}

func isName(text string) bool {
	const longestName = 253
	return text != "" && len(text) <= longestName && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.'
	})
}

// plain is a text on one line: faults that stand on lines of their own are
// separated by semicolons, and nothing is left that a terminal would obey.
func plain(text string) string {
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.Join(lines, "; ")))
}

func line(text string) string { return clip.Text(plain(text), longestLine) }
