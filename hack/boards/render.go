package main

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// board is one dashboard.
type board struct {
	name, title, description string
	// from is the begin of the shown time.
	from string
	// variables are names of labels of cardquota_queue_info or of the cards.
	variables []variable
	panels    []panel
}

// variable is a choice of values above the board.
type variable struct{ name, metric string }

// panel is one panel. Panels fill rows of 24 columns from left to right.
type panel struct {
	kind               panelKind
	title, description string
	unit               string
	width              uint32
	queries            []query
}

type query struct{ expr, legend string }

type panelKind int

const (
	lines panelKind = iota
	stack
	number
	rows
)

const panelHeight = 9

// datasource is the variable with Grafana's data source.
var datasource = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

func (b *board) render() ([]byte, error) {
	builder := dashboard.NewDashboardBuilder(b.title).Uid("cardquota-"+b.name).Description(b.description).
		Tags([]string{"cardquota"}).Readonly().Refresh("1m").Time(b.from, "now").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, v := range b.variables {
		builder = builder.WithVariable(dashboard.NewQueryVariableBuilder(v.name).Label(v.name).Datasource(datasource).
			Query(dashboard.StringOrMap{String: cog.ToPtr(fmt.Sprintf("label_values(%s, %s)", v.metric, v.name))}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*"))
	}

	all, err := builder.Build()
	if err != nil {
		return nil, fmt.Errorf("build board: %w", err)
	}

	at := dashboard.GridPos{H: panelHeight}
	for i := range b.panels {
		p := &b.panels[i]
		if at.X+p.width > 24 {
			at.X = 0
			at.Y += panelHeight
		}

		at.W = p.width
		built, err := p.build(uint32(i+1), at)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.title, err)
		}

		all.Panels = append(all.Panels, dashboard.PanelOrRowPanel{Panel: &built})
		at.X += p.width
	}

	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}

func (p *panel) build(id uint32, at dashboard.GridPos) (dashboard.Panel, error) {
	built, err := p.visualization().Build()
	if err != nil {
		return built, err
	}

	built.Id = &id
	built.Title = &p.title
	built.Description = &p.description
	built.GridPos = &at
	built.Datasource = &datasource
	for i, q := range p.queries {
		target := prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A' + i))).Datasource(datasource)
		switch p.kind {
		case rows:
			target = target.Instant().Format(prometheus.PromQueryFormatTable)
		case number: // a range would show a sample of hours ago when there is none now
			target = target.Instant()
		default:
			target = target.Range()
		}

		data, err := target.Build()
		if err != nil {
			return built, err
		}
		built.Targets = append(built.Targets, data)
	}

	return built, nil
}

func (p *panel) visualization() cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		return stat.NewPanelBuilder().Unit(p.unit).GraphMode(common.BigValueGraphModeNone).Orientation(common.VizOrientationAuto).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	case rows: // one row for each set of labels, with the values of all queries
		b := table.NewPanelBuilder().Unit(p.unit)
		if len(p.queries) > 1 {
			b = b.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
		}

		names := map[string]any{}
		for i, q := range p.queries {
			names["Value #"+string(rune('A'+i))] = q.legend
		}
		if len(p.queries) == 1 {
			names = map[string]any{"Value": p.queries[0].legend}
		}

		return b.WithTransformation(dashboard.DataTransformerConfig{
			Id: "organize", Options: map[string]any{"excludeByName": map[string]any{"Time": true}, "renameByName": names},
		})
	case stack:
		return timeseries.NewPanelBuilder().Unit(p.unit).Min(0).FillOpacity(30).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	default:
		return timeseries.NewPanelBuilder().Unit(p.unit).Min(0)
	}
}
