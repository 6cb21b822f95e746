package answers

import (
	"strings"

	"cardquota.dev/operator/internal/testing/check"
)

// expectRefusal expects one plain sentence, and exit code 1.
func (p *play) expectRefusal(want string, args ...string) {
	out, errOut, code := p.ask(p.Context(), args...)
	text := strings.Join(strings.Fields(errOut), " ")
	check.That(p, code == 1 && strings.HasPrefix(text, "error: ") && !strings.Contains(text, "goroutine"), "%v: exit code %d: %s%s", args, code, out, errOut)
	check.Contains(p, strings.Join(args, " "), text, want)
}

// askWithoutRights asks as a user to whom nothing is granted.
func askWithoutRights(p *play) {
	as := []string{"--as", "stranger", "-n", "quota"}
	for command, want := range map[string]string{
		"top": "cardquotas.cardquota.dev", "why " + waits: "pods", "inventory": "cardinventories.cardquota.dev", "import": "queues.scheduling.volcano.sh",
	} {
		p.expectRefusal(`user "stranger" may not`, append(strings.Fields(command), as...)...)
		p.expectRefusal(want, append(strings.Fields(command), as...)...)
	}

	// What may not be read is unknown, not missing. doctor could look at nothing.
	for command, want := range map[string]int{"doctor": 1, "version": 0} {
		out, errOut, code := p.ask(p.Context(), append([]string{command}, as...)...)
		check.That(p, code == want, "%s: exit code %d: %s%s", command, code, out, errOut)
		check.Contains(p, command, out, `user "stranger" may not`)
	}
}
