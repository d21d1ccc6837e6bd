package catalogue

import (
	"bytes"
	"encoding/json"
)

// Panel is one chart of the dashboard.
type Panel struct {
	Title, About, Unit string
	// Queries are expressions by the legend of their lines.
	Queries []Query
	// Stacked stacks the lines.
	Stacked bool
}

// Query is one expression of a panel.
type Query struct{ Expr, Legend string }

// Row is a row of panels, under a heading that can be folded.
type Row struct {
	Title  string
	Panels []Panel
}

// object is a JSON object of Grafana's.
type object = map[string]any

// source is the data source that the dashboard's variable chooses.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// Dashboard returns deploy/grafana/spillgate.json.
func Dashboard() []byte {
	var panels []object
	y, id := 0, 1
	for _, row := range rows() {
		panels = append(panels, object{"type": "row", "id": id, "title": row.Title, "collapsed": false, "panels": []any{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y, id = y+1, id+1
		for i, p := range row.Panels {
			panels = append(panels, p.object(id, i%2*12, y+i/2*8))
			id++
		}
		y += (len(row.Panels) + 1) / 2 * 8
	}
	variable := func(name, query string) object {
		return object{"name": name, "label": name, "type": "query", "datasource": source, "query": object{"query": query, "refId": name}, "definition": query,
			"includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1, "current": object{"text": "All", "value": "$__all"}}
	}
	board := object{
		"title": "Spillgate", "uid": "spillgate", "tags": []string{"spillgate"}, "schemaVersion": 39, "version": 1, "editable": true, "refresh": "30s",
		"time": object{"from": "now-1h", "to": "now"}, "timezone": "browser",
		"description": "Made by go test ./internal/catalogue -rewrite; change internal/catalogue/dashboard.go.",
		"templating": object{"list": []object{
			{"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"},
			variable("job", `label_values({__name__=~"spillgate_mode|spillgate_guard_connected|spillgate_broker_connections"}, job)`), variable("gate", `label_values(spillgate_mode{job=~"$job"}, gate)`),
		}},
		"panels": panels,
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(board); err != nil {
		panic(err) // no value here that JSON does not have
	}
	return out.Bytes()
}

func (p *Panel) object(id, x, y int) object {
	var targets []object
	for i, q := range p.Queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend, "editorMode": "code", "range": true})
	}
	custom := object{"drawStyle": "line", "fillOpacity": 10, "showPoints": "never", "stacking": object{"mode": "none"}}
	if p.Stacked {
		custom["fillOpacity"], custom["stacking"] = 40, object{"mode": "normal"}
	}
	return object{
		"type": "timeseries", "id": id, "title": p.Title, "description": p.About, "datasource": source, "targets": targets,
		"gridPos":     object{"x": x, "y": y, "w": 12, "h": 8},
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": custom}, "overrides": []any{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
