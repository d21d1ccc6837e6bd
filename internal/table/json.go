package table

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode"
)

// MarshalJSON returns the rows as an array of objects, whose keys are the
// columns in their order, name and unit in lower case: "p99_us". Durations are
// seconds. What JSON cannot express, such as an infinity, is null.
func (t *Table) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('[')
	for r, row := range t.rows {
		if r > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('{')
		for c, cell := range row {
			if c > 0 {
				out.WriteByte(',')
			}
			key, err := json.Marshal(t.Columns[c].key())
			if err != nil {
				return nil, err
			}
			value, err := json.Marshal(plainValue(cell.Value))
			if err != nil {
				return nil, err
			}
			out.Write(key)
			out.WriteByte(':')
			out.Write(value)
		}
		out.WriteByte('}')
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

// plainValue returns what JSON should hold for a cell.
func plainValue(value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.Seconds()
	case float32:
		return plainValue(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return value
}

// key returns the column's JSON key.
func (c Column) key() string {
	text := strings.NewReplacer("µ", "u", "μ", "u", "%", "percent", "/", " per ", "×", "x").Replace(c.Name + " " + c.Unit)
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "_")
}
