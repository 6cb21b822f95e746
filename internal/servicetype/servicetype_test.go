package servicetype

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestBuiltIn(t *testing.T) {
	cases := map[string]struct {
		name      string
		want      Type
		wantKnown bool
	}{
		"inference is served first and keeps its cards": {name: "inference", want: Type{Priority: 80000}, wantKnown: true},
		"training comes last and gives cards back":      {name: "training", want: Type{Priority: 20000, Reclaimable: true}, wantKnown: true},
		"another name means nothing by itself":          {name: "notebook"},
		"names are written in lower case":               {name: "Inference"},
		"no name means nothing":                         {name: ""},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, known := BuiltIn(tc.name)
			check.That(t, got == tc.want && known == tc.wantKnown, "BuiltIn(%q) = %+v, %v; want %+v, %v", tc.name, got, known, tc.want, tc.wantKnown)
		})
	}
}
