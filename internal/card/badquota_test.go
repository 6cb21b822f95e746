package card

import (
	"strings"
	"testing"
)

// What people and broken tools write into volcano.sh/card.quota, beside the
// plain mistakes of TestParseQuotaRefusesAndSaysWhatToWrite.
func TestParseQuotaRefusesWhatPeopleWrite(t *testing.T) {
	const notJSON, notObject, example = "is not valid JSON", "is not a JSON object", `write it like {"NVIDIA-H200":8}`
	tests := map[string]struct {
		text  string
		wants []string
	}{
		// another notation
		"YAML":                               {"NVIDIA-H200: 8", []string{notObject, example}},
		"YAML in braces":                     {"{NVIDIA-H200: 8}", []string{notJSON, example}},
		"a Go map":                           {`map[NVIDIA-H200:8]`, []string{notObject, example}},
		"Python's quotes":                    {`{'NVIDIA-H200': 8}`, []string{notJSON, `'\''`, example}},
		"a word processor's quotes":          {"{\u201cNVIDIA-H200\u201d:8}", []string{notJSON, `{\u201cNVIDIA-H200\u201d:8}`}},
		"an equals sign for the colon":       {`{"NVIDIA-H200"=8}`, []string{notJSON, "colon"}},
		"a full-width colon":                 {"{\"NVIDIA-H200\"\uff1a8}", []string{notJSON, `\uff1a`}},
		"a semicolon between the entries":    {`{"A":1;"B":2}`, []string{notJSON, "';'"}},
		"no quotes around the name":          {`{NVIDIA-H200:8}`, []string{notJSON, "'N'"}},
		"a number as the name":               {`{4090:8}`, []string{notJSON, "'4'"}},
		"null as the name":                   {`{null:8}`, []string{notJSON}},
		"no name":                            {`{:8}`, []string{notJSON, "':'"}},
		"no value":                           {`{"NVIDIA-H200":}`, []string{notJSON, "'}'"}},
		"a comma too many at the start":      {`{,"A":1}`, []string{notJSON, "','"}},
		"two commas":                         {`{"A":1,,"B":2}`, []string{notJSON, "','"}},
		"a square bracket at the end":        {`{"NVIDIA-H200":8]`, []string{notJSON, "']'"}},
		"the object quoted once more":        {`"{\"NVIDIA-H200\":8}"`, []string{notObject}},
		"the object in a list":               {`[{"NVIDIA-H200":8}]`, []string{notObject}},
		"the annotation with its key":        {`{"volcano.sh/card.quota":{"NVIDIA-H200":8}}`, []string{`count of "volcano.sh/card.quota"`, "write a whole number of cards"}},
		"a list of names and quotas":         {`{"cards":[{"name":"NVIDIA-H200","quota":8}]}`, []string{`count of "cards"`, "write a whole number"}},
		"a comment behind the object":        {`{"A":1} // eight`, []string{"goes on after the JSON object"}},
		"a comment in the object":            {`{/* eight */"A":1}`, []string{notJSON, "'/'"}},
		"a template that was not filled in":  {`{"NVIDIA-H200":{{ .Values.quota }}}`, []string{notJSON, "Values.quota"}},
		"a variable that was not filled in":  {`{"NVIDIA-H200":$QUOTA}`, []string{notJSON, "'$'"}},
		"a boolean for the object":           {`true`, []string{notObject, example}},
		"a line end for the object":          {"\n", []string{notObject, example}},
		"base64 of the object":               {`eyJOVklESUEtSDIwMCI6OH0=`, []string{notObject}},
		"backslashes from a shell":           {`{\"NVIDIA-H200\":8}`, []string{notJSON, `'\\'`}},
		"a byte order mark before it":        {"\ufeff{\"A\":1}", []string{notObject, `"\ufeff{\"A\":1}"`}},
		"a NUL behind it":                    {"{\"A\":1}\x00", []string{"goes on after the JSON object", `\x00`}},
		"a NUL before the number":            {"{\"A\":\x001}", []string{notJSON, `\x00`}},
		"a raw control character in a name":  {"{\"A\x01\":1}", []string{notJSON, "in string literal"}},
		"a raw line end in a name":           {"{\"NVIDIA-\nH200\":1}", []string{notJSON, "in string literal"}},
		"a closing brace too many":           {`{"A":1}}`, []string{"goes on after the JSON object"}},
		"a bad escape in a name":             {`{"A\q":1}`, []string{notJSON, "escape"}},
		"an object nested ten thousand deep": {strings.Repeat(`{"A":`, 10001), []string{notJSON}},

		// the count
		"a plus sign":                    {`{"A":+8}`, []string{notJSON, "'+'"}},
		"a leading zero":                 {`{"A":08}`, []string{notJSON, "'8'"}},
		"hexadecimal":                    {`{"A":0x8}`, []string{notJSON, "'x'"}},
		"digits in groups of three":      {`{"A":1_000}`, []string{notJSON, "'_'"}},
		"a point with nothing behind it": {`{"A":8.}`, []string{notJSON}},
		"a point with nothing before it": {`{"A":.5}`, []string{notJSON, "'.'"}},
		"a full-width digit":             {"{\"A\":\uff18}", []string{notJSON, `\uff18`}},
		"infinity":                       {`{"A":Infinity}`, []string{notJSON, "'I'"}},
		"not a number":                   {`{"A":NaN}`, []string{notJSON, "'N'"}},
		"a sum":                          {`{"A":4+4}`, []string{notJSON, "'+'"}},
		"a negative fraction":            {`{"A":-0.5}`, []string{`count of "A" is "-0.5"`, "write a whole number"}},
		"a negative exponent":            {`{"A":1e-2}`, []string{`is "1e-2"`, "write a whole number"}},
		"a huge exponent":                {`{"A":1e999}`, []string{`is "1e999"`, "write a whole number"}},
		"a milli quantity":               {`{"A":"8000m"}`, []string{`"\"8000m\""`, "write a whole number"}},
		"a quantity with a unit":         {`{"A":"8Gi"}`, []string{"write a whole number"}},
		"the word unlimited":             {`{"A":"unlimited"}`, []string{"unlimited", "write a whole number"}},
		"an empty text for the count":    {`{"A":""}`, []string{`is "\"\""`, "write a whole number"}},
		"an empty list for the count":    {`{"A":[]}`, []string{`is "[]"`, "write a whole number"}},
		"a list with the count":          {`{"A":[8]}`, []string{`is "[8]"`, "write a whole number"}},
		"the smallest number of 64 bits": {`{"A":-9223372036854775808}`, []string{"0 or more"}},
		"below the smallest of 64 bits":  {`{"A":-9223372036854775809}`, []string{"at most 1000000 cards"}},
		"the largest number of 64 bits":  {`{"A":9223372036854775807}`, []string{"is 9223372036854775807", "at most 1000000 cards"}},
		"a number of a thousand digits":  {`{"A":` + strings.Repeat("9", 1000) + `}`, []string{"at most 1000000 cards", "…"}},

		// the names together
		"one card twice with one count":      {`{"A":1,"A":1}`, []string{"card A is named twice"}},
		"a slice twice":                      {`{"A/mig-1g.18gb-mixed":1,"A/mig-1g.18gb-mixed":2}`, []string{"card A/mig-1g.18gb-mixed is named twice"}},
		"a name with a space before it":      {`{" NVIDIA-H200":8}`, []string{`" NVIDIA-H200"`, "must be a label value"}},
		"a name with a line end, escaped":    {`{"NVIDIA-H200\n":8}`, []string{`"NVIDIA-H200\n"`, "must be a label value"}},
		"a look-alike letter, escaped":       {`{"NV\u0406DIA-H200":8}`, []string{`"NV\u0406DIA-H200"`, "must be a label value"}},
		"half of a surrogate pair":           {`{"A\ud800":8}`, []string{`"A\ufffd"`, "must be a label value"}},
		"the slice's resource":               {`{"nvidia.com/mig-1g.18gb":8}`, []string{"after the model write"}},
		"cpu among the cards, as a quantity": {`{"cpu":"4"}`, []string{`count of "cpu"`, "write a whole number"}},
		"one good and one bad entry":         {`{"NVIDIA-H200":8,"NVIDIA-H800":"2"}`, []string{`count of "NVIDIA-H800"`}},
		"257 cards":                          {manyCards(MaxQuotaEntries + 1), []string{"more than 256 entries"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			quota, err := ParseQuota(tc.text)
			mustRefuse(t, err, tc.wants...)
			if quota != nil {
				t.Errorf("a refused text gave the quota %v", quota)
			}
		})
	}
}

// manyCards is a quota of n cards, one of each.
func manyCards(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"C` + strings.Repeat("c", i%60) + string(rune('a'+i/60)) + `":1`)
	}
	b.WriteByte('}')
	return b.String()
}

// What looks odd and is right all the same.
func TestParseQuotaAcceptsOddButPlainText(t *testing.T) {
	tests := map[string]struct {
		text string
		want Quota
	}{
		"minus zero":                    {`{"A":-0}`, Quota{"A": 0}},
		"the most cards that can be":    {`{"A":1000000}`, Quota{"A": MaxCount}},
		"spaces and line ends around":   {" {\r\n\t\"A\" : 1 ,\n \"B\":2 }\n", Quota{"A": 1, "B": 2}},
		"letters as escapes":            {`{"\u0041":1}`, Quota{"A": 1}},
		"names that differ in one case": {`{"a":1,"A":2}`, Quota{"a": 1, "A": 2}},
		"a card and its own slice":      {`{"A":1,"A/mig-1g.18gb-mixed":2}`, Quota{"A": 1, "A/mig-1g.18gb-mixed": 2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseQuota(tc.text)
			if err != nil || got.String() != tc.want.String() {
				t.Errorf("%v, error %v, want %v", got, err, tc.want)
			}
		})
	}
}
