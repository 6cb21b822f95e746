package card

import (
	"strings"
	"testing"
)

func TestParseNameRefusesAndSaysWhy(t *testing.T) {
	const notALabel, afterTheModel = "must be a label value", "after the model write mig-<profile>-mixed or mps-<memory>g*1/<replicas>"
	tests := map[string]struct {
		text  string
		wants []string
	}{
		"nothing":                              {"", []string{"card name is empty", "for example NVIDIA-H200"}},
		"only a space":                         {" ", []string{notALabel, `" "`}},
		"a tab behind the name":                {"NVIDIA-H200\t", []string{notALabel, `"NVIDIA-H200\t"`}},
		"a line end behind the name":           {"NVIDIA-H200\n", []string{notALabel, `"NVIDIA-H200\n"`}},
		"a NUL in the name":                    {"NVIDIA\x00H200", []string{notALabel, `"NVIDIA\x00H200"`}},
		"an escape sequence for the terminal":  {"\x1b[31mNVIDIA-H200", []string{notALabel, `\x1b[31m`}},
		"a Cyrillic letter that looks Latin":   {"NV\u0406DIA-H200", []string{notALabel, `"NV\u0406DIA-H200"`}},
		"a non-breaking hyphen":                {"NVIDIA\u2011H200", []string{notALabel, `"NVIDIA\u2011H200"`}},
		"a dash from a word processor":         {"NVIDIA\u2013H200", []string{notALabel, `"NVIDIA\u2013H200"`}},
		"a zero-width space":                   {"NVIDIA-H200\u200b", []string{notALabel, `"NVIDIA-H200\u200b"`}},
		"full-width letters":                   {"\uff28200", []string{notALabel, `"\uff28200"`}},
		"a byte order mark":                    {"\ufeffNVIDIA-H200", []string{notALabel, `"\ufeffNVIDIA-H200"`}},
		"bytes that are not UTF-8":             {"NVIDIA-\xff", []string{notALabel, `"NVIDIA-\xff"`}},
		"the product as the shop writes it":    {"NVIDIA H200", []string{notALabel, `"NVIDIA H200"`}},
		"a hyphen at the end":                  {"NVIDIA-H200-", []string{notALabel}},
		"a hyphen at the start":                {"-NVIDIA-H200", []string{notALabel}},
		"a dot at the end":                     {"NVIDIA-H200.", []string{notALabel}},
		"quotes left in from JSON":             {`"NVIDIA-H200"`, []string{notALabel, `"\"NVIDIA-H200\""`}},
		"the label with its key":               {"nvidia.com/gpu.product=NVIDIA-H200", []string{afterTheModel, "gpu.product=NVIDIA-H200"}},
		"a placeholder of a template":          {"${CARD}", []string{notALabel}},
		"a wildcard":                           {"NVIDIA-*", []string{notALabel}},
		"a count behind a colon":               {"NVIDIA-H200:8", []string{notALabel}},
		"a model of 64 characters":             {strings.Repeat("a", 64), []string{notALabel, "at most 63"}},
		"a name beyond the bound":              {strings.Repeat("a", MaxNameLength+1), []string{"is longer than 160 characters", "…"}},
		"a slash with nothing before it":       {"/mig-1g.18gb-mixed", []string{notALabel, `the model ""`}},
		"a slash with nothing behind it":       {"NVIDIA-H200/", []string{afterTheModel, `not ""`}},
		"two slashes":                          {"NVIDIA-H200//mig-1g.18gb-mixed", []string{afterTheModel}},
		"a MIG slice of a MIG slice":           {"NVIDIA-H200/mig-3g.71gb-mixed/mig-1g.18gb-mixed", []string{afterTheModel}},
		"a MIG profile without mig-":           {"NVIDIA-H200/1g.18gb-mixed", []string{afterTheModel, `not "1g.18gb-mixed"`}},
		"a MIG profile without -mixed":         {"NVIDIA-H200/mig-1g.18gb", []string{afterTheModel, `not "mig-1g.18gb"`}},
		"a MIG suffix of the single strategy":  {"NVIDIA-H200/mig-1g.18gb-single", []string{afterTheModel}},
		"a MIG profile in capitals":            {"NVIDIA-H200/MIG-1G.18GB-mixed", []string{afterTheModel}},
		"a MIG profile with its plus sign":     {"NVIDIA-H100/mig-1g.10gb+me-mixed", []string{afterTheModel}},
		"a MIG suffix without a profile":       {"NVIDIA-H200/mig--mixed", []string{afterTheModel}},
		"a MIG profile that is too long":       {"NVIDIA-H200/mig-" + strings.Repeat("a", 42) + "-mixed", []string{afterTheModel}},
		"an MPS share without its memory":      {"NVIDIA-H800/mps-1/2", []string{afterTheModel}},
		"an MPS share in Gi":                   {"NVIDIA-H800/mps-80Gi*1/2", []string{afterTheModel}},
		"an MPS share with a times sign":       {"NVIDIA-H800/mps-80g\u00d71/2", []string{afterTheModel, `mps-80g\u00d71/2`}},
		"an MPS share of two parts":            {"NVIDIA-H800/mps-80g*2/4", []string{afterTheModel}},
		"an MPS share of no parts":             {"NVIDIA-H800/mps-80g*1/0", []string{afterTheModel}},
		"an MPS share without the parts":       {"NVIDIA-H800/mps-80g", []string{afterTheModel}},
		"an MPS share of half a gigabyte":      {"NVIDIA-H800/mps-0.5g*1/160", []string{afterTheModel}},
		"an MPS share of ten thousand parts":   {"NVIDIA-H800/mps-80g*1/10000", []string{afterTheModel}},
		"a share of a time-sliced card":        {"NVIDIA-H800/shared-1/2", []string{afterTheModel}},
		"the name of the resource":             {"nvidia.com/gpu", []string{afterTheModel, `not "gpu"`}},
		"the name of the resource of a slice":  {"nvidia.com/mig-1g.18gb", []string{afterTheModel, `not "mig-1g.18gb"`}},
		"alternatives where one name belongs":  {"NVIDIA-H200|NVIDIA-H800", []string{notALabel, "NVIDIA-H200|NVIDIA-H800"}},
		"a list where one name belongs":        {"NVIDIA-H200,NVIDIA-H800", []string{notALabel}},
		"a backslash before the slice":         {`NVIDIA-H200\mig-1g.18gb-mixed`, []string{notALabel, `"NVIDIA-H200\\mig-1g.18gb-mixed"`}},
		"a slice that is escaped for an URL":   {"NVIDIA-H200%2Fmig-1g.18gb-mixed", []string{notALabel, "%2F"}},
		"a slice without the model before it":  {"mig-1g.18gb-mixed/1", []string{afterTheModel, `not "1"`}},
		"a model with a comment behind it":     {"NVIDIA-H200 # the new ones", []string{notALabel, "# the new ones"}},
		"a model with its memory in brackets":  {"NVIDIA-A100(80GB)", []string{notALabel, "NVIDIA-A100(80GB)"}},
		"a model with a trademark sign":        {"NVIDIA\u00ae-H200", []string{notALabel, `"NVIDIA\u00ae-H200"`}},
		"a model in the language of its users": {"\u6607\u817e910B", []string{notALabel, `"\u6607\u817e910B"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseName(tc.text)
			mustRefuse(t, err, tc.wants...)
			if got != "" {
				t.Errorf("a refused text gave the name %s", got)
			}
		})
	}
}

// longestMessage is what an event holds (Kubernetes, pkg/apis/core/validation).
const longestMessage = 1024

// mustRefuse wants an error that says all of wants, in printable characters and
// short enough for an event.
func mustRefuse(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is\n  %v\nwant\n  …%s…", err, want)
		}
	}
	if !tellable(err.Error()) {
		t.Errorf("no event can hold the error %q", err)
	}
}
