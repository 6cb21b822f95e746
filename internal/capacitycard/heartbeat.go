package capacitycard

import (
	"time"

	"cardquota.dev/operator/internal/heartbeat"
)

// SessionReport is what a session proves, when it closes or while it goes on. A
// session that withholds everything, because not all was seen yet, enforces as well.
type SessionReport struct {
	// ConfigHash is the hash of the configuration that the session ran with, ""
	// when it could not read its arguments and so admitted nobody.
	ConfigHash string
	// Problem is why the arguments could not be read, "" when they were.
	Problem string
	// SecondScheduler names pods of this scheduler that somebody else bound, as
	// namespace/name, sorted, at most five.
	SecondScheduler []string
	// At is when the session was closed, or decided last.
	At time.Time
}

// SetHeartbeat has beat called whenever a session closes, and every few seconds in
// one that takes long. It must not block:
// the next session begins when it returns. nil ends that.
func SetHeartbeat(beat func(SessionReport)) { process.setHeartbeat(beat) }

func (m *memory) setHeartbeat(beat func(SessionReport)) {
	if beat == nil {
		m.heartbeat.Store(nil)
		return
	}
	m.heartbeat.Store(&beat)
}

// beatEvery is how often a session that takes long reports before it closes.
var beatEvery = heartbeat.StaleAfter / 4

// beatInSession reports a session that takes long, so that the proof of enforcement
// does not run out while many pods are placed. It is called where the session
// decides about a pod or a job, never by a timer: a session that hangs shows.
func (p *plugin) beatInSession() {
	if now := p.memory.now(); now.Sub(p.memory.lastBeat) >= beatEvery {
		p.memory.lastBeat = now
		p.beat()
	}
}

// beat reports what the session runs with, when it closes and while it goes on.
func (p *plugin) beat() {
	beat := p.memory.heartbeat.Load()
	if beat == nil {
		return
	}
	report := SessionReport{ConfigHash: p.args.configHash, SecondScheduler: p.memory.second.names(), At: p.memory.now()}
	if p.invalid != nil {
		report.ConfigHash, report.Problem = "", p.invalid.Error()
	}
	(*beat)(report)
}
