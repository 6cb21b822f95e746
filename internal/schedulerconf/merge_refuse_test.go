package schedulerconf

import (
	"math"
	"strings"
	"testing"
)

func TestMergeRefuses(t *testing.T) {
	long := "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n#" + strings.Repeat("x", longestText)
	deep := "actions: allocate\nx: " + strings.Repeat("[", 11000) + strings.Repeat("]", 11000)
	quotes := "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: proportion\n#" + strings.Repeat("\"", longestText-100) + "\n"
	tests := map[string]struct{ text, want string }{
		"an empty text":                     {"", "the text is empty: write actions and tiers"},
		"blanks only":                       {" \n\n", "the text is empty"},
		"only comments":                     {"# later\n", "the text is empty"},
		"not YAML":                          {"actions: \"allocate\ntiers: []\n", "the text is not YAML: yaml: line"},
		"a tab as indentation":              {"actions: a\ntiers:\n\t- plugins: []\n", "yaml: line 3"},
		"a NUL":                             {"actions: \"a\x00\"\n", "the text is not YAML"},
		"bytes that are no characters":      {"actions: \"\xff\"\n", "the text is not YAML"},
		"too long":                          {long, "at most 65536 can be kept"},
		"a long record":                     {quotes, "at most 131072 fit into an annotation"},
		"too deep":                          {deep, "the text is not YAML"},
		"two documents":                     {top("---", "actions: preempt"), "goes on after its first YAML document"},
		"a list":                            {"- actions\n", "the text is not a mapping"},
		"an anchor":                         {plugins("  - &card", "    name: gang"), "line 4: anchor &card"},
		"an alias":                          {plugins("  - &g {name: gang}", "  - *g"), "line 5: alias *g"},
		"a tag":                             {"actions: !!str allocate\ntiers: []\n", "line 1: tag !!str"},
		"a duplicate key":                   {top("actions: allocate"), `line 5: key "actions" stands twice, first in line 1`},
		"a duplicate switch":                {plugins("  - name: gang", "    enableJobOrder: true", "    enableJobOrder: false"), "line 6: key \"enableJobOrder\" stands twice"},
		"no tiers":                          {"# c\nactions: allocate\n", "line 2: tiers is missing or empty"},
		"null tiers":                        {"actions: allocate\ntiers:\n", "tiers is missing or empty"},
		"no tier":                           {"actions: allocate\ntiers: []\n", "tiers is missing or empty"},
		"tiers not a list":                  {"actions: allocate\ntiers: {plugins: []}\n", "line 2: tiers is not a list"},
		"a tier not a mapping":              {"actions: allocate\ntiers: [gang]\n", "line 2: an entry of tiers is not a mapping"},
		"an empty tier":                     {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins: []\n", "line 5: a tier without plugins"},
		"a first tier that is empty":        {"actions: allocate\ntiers:\n- plugins:\n", "a tier without plugins"},
		"plugins not a list":                {"actions: allocate\ntiers:\n- plugins: gang\n", "line 3: plugins is not a list"},
		"a plugin that is a word":           {"actions: allocate\ntiers:\n- plugins: [gang]\n", "line 3: an entry of plugins is not a mapping"},
		"a plugin without name":             {plugins("  - enableJobOrder: true"), "line 4: a plugin without a name"},
		"a plugin twice":                    {plugins("  - name: gang", "  - name: gang"), "line 5: plugin gang stands twice, first in line 4"},
		"capacity-card twice":               {plugins("  - name: capacity-card", "  - name: capacity-card"), "line 5: plugin capacity-card stands twice"},
		"an unknown plugin":                 {plugins("  - name: gangg"), `line 4: unknown plugin "gangg": did you mean "gang"?`},
		"a misspelt switch":                 {plugins("  - name: proportion", "  - name: gang", "    enableJobOder: true"), `line 6: unknown key "enableJobOder" in plugin gang`},
		"a switch in quotes":                {plugins("  - name: gang", "    enableReclaimable: \"false\""), "line 5: enableReclaimable of plugin gang is not a switch"},
		"arguments that are a word":         {plugins("  - name: capacity-card", "    arguments: none"), "line 5: arguments is not a mapping"},
		"a hash of the author":              {withArguments("configHash: abc"), "line 6: argument configHash is written by the scheduler itself"},
		"an unknown key":                    {top("tier: []"), `line 5: unknown key "tier"`},
		"no actions":                        {"tiers:\n- plugins:\n  - name: gang\n", "line 1: actions is missing"},
		"actions as a list":                 {"actions: [allocate]\ntiers:\n- plugins:\n  - name: gang\n", "line 1: actions is not one text"},
		"an unknown action":                 {strings.Replace(plugins("  - name: gang"), "backfill", "backfil", 1), `line 1: unknown action "backfil"`},
		"no allocate":                       {strings.Replace(plugins("  - name: gang"), "allocate, ", "", 1), "line 1: cardreclaim has no allocate before it"},
		"preempt before allocate":           {strings.Replace(plugins("  - name: gang"), "allocate", "preempt, allocate", 1), "line 1: preempt has no allocate before it"},
		"an action that evicts in between":  {strings.Replace(plugins("  - name: gang"), "backfill", "preempt, allocate", 1), "line 1: allocate stands after an action that evicts"},
		"a comma too many":                  {strings.Replace(plugins("  - name: gang"), "enqueue,", "enqueue,,", 1), "actions has a comma without an action"},
		"metrics as a word":                 {top("metrics: prometheus"), "line 5: metrics is not a mapping"},
		"a merge key":                       {plugins("  - name: gang", "    <<: {enableJobOrder: true}"), `unknown key "<<"`},
		"an argument key that is no word":   {plugins("  - name: gang", "    arguments: {1: 2}"), `argument key "1" is not a word`},
		"a configuration of another plugin": {top("configurations:", "- name: gang"), `line 6: unknown action "gang" in configurations`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			merged, undo, err := Merge(tc.text, "", tide(CardReclaim))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want …%s…", err, tc.want)
			}
			if merged != "" || undo != "" {
				t.Errorf("a text came out:\n%s\n%s", merged, undo)
			}
			if changes, err := Changes(tc.text, "", tide(CardReclaim)); err == nil || changes != nil {
				t.Errorf("changes %q, error %v", changes, err)
			}
		})
	}
}

func TestMergeRefusesWhatCannotBeWanted(t *testing.T) {
	text := plugins("  - name: gang")
	tests := map[string]struct {
		want  Wanted
		error string
	}{
		"an action of another kind":       {Wanted{Reclaim: "preempt"}, `"preempt" is no action that takes cards back: known are reclaim and cardreclaim`},
		"a hash":                          {Wanted{Arguments: map[string]any{HashArgument: "x"}}, "argument configHash is written by the scheduler itself"},
		"a value without a form":          {Wanted{Arguments: map[string]any{"x": math.NaN()}}, "x of capacity-card cannot be written"},
		"a value that is a function":      {Wanted{Arguments: map[string]any{"x": func() {}}}, "x of capacity-card cannot be written"},
		"a text that is no characters":    {Wanted{Arguments: map[string]any{"x": "\xff"}}, "cannot be changed without changing what else it means"},
		"a plugin of nobody is not known": {Wanted{Plugins: []string{"y"}, Arguments: map[string]any{"1": 1}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Merge(text, "", tc.want)
			if (err == nil) != (tc.error == "") || (err != nil && !strings.Contains(err.Error(), tc.error)) {
				t.Errorf("got error %v, want …%s…", err, tc.error)
			}
		})
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	text := plugins("  - name: gang")
	for name, undo := range map[string]string{
		"not JSON": "{", "a word": `"x"`, "another key": `{"hash":"","originl":""}`, "two": `{} {}`, "a wrong type": `{"changes":[{"tier":"x"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Merge(text, undo, tide(CardReclaim)); err == nil || !strings.Contains(err.Error(), "remove it, then the text as it stands counts as the original") {
				t.Errorf("merge: %v", err)
			}
			if restored, err := Remove(text, undo); err == nil || restored != "" {
				t.Errorf("remove: %q, %v", restored, err)
			}
		})
	}
}

func TestRemoveRefusesATextThatCannotBeRead(t *testing.T) {
	_, undo, err := Merge(plugins("  - name: gang"), "", tide(CardReclaim))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "\"", "- a", "a: &a b", "a: 1\na: 2"} {
		if restored, err := Remove(text, undo); err == nil || restored != "" {
			t.Errorf("%q became %q, error %v", text, restored, err)
		}
	}
}
