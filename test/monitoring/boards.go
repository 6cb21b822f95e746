package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Board is what is read of a board of config/grafana, which hack/boards writes.
type Board struct {
	Name, Title string
	Panels      []Panel
}

// Panel is a panel of a board.
type Panel struct {
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct{ Stacking struct{ Mode string } }
		}
	}
	Targets []Target
}

// Target is a query of a panel.
type Target struct {
	Expr, LegendFormat string
	// Instant queries are for one time, others for the shown time.
	Instant bool
	// Answer are the series that Prometheus returned, in a Recording.
	Answer model.Matrix
}

// ReadBoards reads all boards below the root of the project.
func ReadBoards(root string) ([]Board, error) {
	files, err := filepath.Glob(filepath.Join(root, "config", "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no boards in config/grafana (%w)", err)
	}

	boards := make([]Board, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &boards[i])
		}
		if err != nil {
			return nil, fmt.Errorf("board: %w", err)
		}
		boards[i].Name = strings.TrimSuffix(filepath.Base(file), ".json")
	}

	return boards, nil
}

// rateScrapes is the number of scrapes that a rate spans, Grafana's $__rate_interval. Four are the
// least.
const rateScrapes = 8

// ReplaceVariables replaces the variables of a query as Grafana does. The tenant may be a regular
// expression.
func ReplaceVariables(query, tenant string, interval, shown time.Duration) string {
	return strings.NewReplacer(
		"$__rate_interval", model.Duration(rateScrapes*interval).String(), "$__range", model.Duration(shown.Round(time.Second)).String(),
		"$card", ".*", "$tenant", tenant,
	).Replace(query)
}
