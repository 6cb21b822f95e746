package e2e

import (
	"context"

	"cardquota.dev/operator/test/observer"
)

// countSessions is how the observers of all scenes read the number of closed sessions.
func (st *stage) countSessions(ctx context.Context) (observer.SessionCount, error) {
	s, err := st.sessions(ctx)
	return observer.SessionCount{Process: s.Process, Closed: s.Closed, Decides: s.Decides}, err
}
