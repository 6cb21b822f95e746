package tide

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Profile takes a CPU profile of the scheduler that serves metrics at an address.
func Profile(ctx context.Context, metrics string, length time.Duration) ([]byte, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", metrics, int(length.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	profile, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return profile, nil
}
