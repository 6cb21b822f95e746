package schedulerconf

import (
	"slices"
	"strings"
)

// takeBack are the actions that take cards back; one of them at most may be configured.
var takeBack = []string{"reclaim", CardReclaim}

func splitActions(value string) []string {
	actions := strings.Split(value, ",")
	for i, action := range actions {
		actions[i] = strings.TrimSpace(action)
	}
	return actions
}

// joinActions writes actions as the value they come from was written.
func joinActions(actions []string, like string) string {
	separator := ", "
	if strings.Contains(like, ",") && !strings.ContainsAny(strings.TrimSpace(like), " \t\n") {
		separator = ","
	}
	return strings.Join(actions, separator)
}

// wantedActions returns the value with the wanted action as the only one that takes cards
// back, behind allocate, and without actions that must not run. Where it stands already, or
// the other one stands, in a legal place, it stays; else it goes to the end, where Volcano
// puts what evicts.
func wantedActions(value, reclaim string) string {
	actions := splitActions(value)
	refused := Refused()
	target := slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return refused[a] != "" })
	place := -1
	for _, candidate := range append([]string{reclaim}, takeBack...) {
		if place < 0 && reclaim != "" {
			place = legalPlace(target, candidate)
		}
	}
	if place >= 0 {
		target[place] = reclaim
	}
	kept := []string{}
	for i, action := range target {
		if i == place || !slices.Contains(takeBack, action) {
			kept = append(kept, action)
		}
	}
	if place < 0 && reclaim != "" {
		kept = append(kept, reclaim)
	}
	if slices.Equal(kept, actions) {
		return value
	}
	return joinActions(kept, value)
}

// wantedPreempt returns the value with the action preempt behind allocate, at the end where
// it stands in no legal place. Behind the action that takes cards back it evicts only for
// those whom no other queue has given cards. Where it is not wanted it stays only if it stands
// in before, which is what others wrote.
func wantedPreempt(value, before string, wanted bool) string {
	actions := splitActions(value)
	others := slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == Preempt })
	switch {
	case wanted && standsBehindAllocate(actions, Preempt):
		return value
	case wanted:
		return joinActions(append(others, Preempt), value)
	case len(others) == len(actions) || slices.Contains(splitActions(before), Preempt):
		return value
	}
	return joinActions(others, value)
}

// standsBehindAllocate reports whether an action is there, and only in legal places.
func standsBehindAllocate(actions []string, action string) bool {
	first := slices.Index(actions, action)
	return first >= 0 && first == legalPlace(actions, action)
}

// legalPlace returns the first index at which the action stands behind every allocate, or -1.
func legalPlace(actions []string, action string) int {
	for i, a := range actions {
		if a == action && slices.Contains(actions[:i], "allocate") && !slices.Contains(actions[i:], "allocate") {
			return i
		}
	}
	return -1
}

// undoneActions returns the value that now has as it was before Merge changed before into
// after. What others added stays, what they removed stays away.
func undoneActions(now, before, after string) string {
	was, made, actions := splitActions(before), splitActions(after), splitActions(now)
	if slices.Equal(actions, made) {
		return before
	}
	moved := movedActions(was, made, actions)
	actions = slices.DeleteFunc(actions, func(a string) bool {
		return slices.Contains(moved, a) || (slices.Contains(made, a) && !slices.Contains(was, a))
	})
	for i, action := range was {
		removed := !slices.Contains(made, action) || slices.Contains(moved, action)
		if !removed || slices.Contains(actions, action) {
			continue
		}
		at := 0
		for _, previous := range was[:i] {
			at = max(at, slices.Index(actions, previous)+1)
		}
		actions = slices.Insert(actions, at, action)
	}
	switch {
	case slices.Equal(actions, was):
		return before
	case slices.Equal(actions, splitActions(now)):
		return now
	}
	return joinActions(actions, now)
}

// movedActions returns the actions that Merge has moved and nobody has moved since.
func movedActions(was, made, now []string) []string {
	if slices.Equal(common(was, made), common(made, was)) || !slices.Equal(common(made, now), common(now, made)) {
		return nil
	}
	return common(common(append([]string{Preempt}, takeBack...), made), now)
}

// common returns the actions that others have too.
func common(actions, others []string) []string {
	return slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return !slices.Contains(others, a) })
}
