package capacitycard

import "time"

// SessionReport is what a closed session proves. A session that withholds
// everything, because not all was seen yet, enforces as well.
type SessionReport struct {
	// ConfigHash is the hash of the configuration that the session ran with, ""
	// when it could not read its arguments and so admitted nobody.
	ConfigHash string
	// Problem is why the arguments could not be read, "" when they were.
	Problem string
	// SecondScheduler names pods of this scheduler that somebody else bound, as
	// namespace/name, sorted, at most five.
	SecondScheduler []string
	// At is when the session was closed.
	At time.Time
}

// SetHeartbeat has beat called whenever a session closes. It must not block:
// the next session begins when it returns. nil ends that.
func SetHeartbeat(beat func(SessionReport)) { process.setHeartbeat(beat) }

func (m *memory) setHeartbeat(beat func(SessionReport)) {
	if beat == nil {
		m.heartbeat.Store(nil)
		return
	}
	m.heartbeat.Store(&beat)
}

// beat reports the session that closes.
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
