package solr

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
)

const (
	// version of the answer that is understood.
	version = 2
	// mostQueries bounds how many queries a look may show: a server has fewer threads.
	mostQueries = 8192
)

// queryView is a query as the handler shows it.
type queryView struct {
	Number int64 `json:"number"`
	// Kind is the hash of Shape in hexadecimal digits; Shape has no literals.
	Kind      string `json:"kind"`
	Shape     string `json:"shape"`
	Client    string `json:"client"`
	Running   int64  `json:"running_nanos"`
	Waiting   bool   `json:"waiting"`
	Admitted  int64  `json:"admitted_nanos"`
	CPU       int64  `json:"cpu_nanos"`
	Memory    int64  `json:"memory_bytes"`
	Cancelled bool   `json:"cancelled"`
}

// view is the answer of the handler.
type view struct {
	Version    int          `json:"version"`
	Boot       int64        `json:"boot"`
	Ended      *int64       `json:"ended"`
	Collecting int64        `json:"collecting_millis"`
	Queries    *[]queryView `json:"queries"`
	Cancelled  *bool        `json:"cancelled"`
	KeptOut    *bool        `json:"kept_out"`
}

// statement is what a query does; one whose kind cannot be read is of no kind.
func (q *queryView) statement() statement.Statement {
	kind, _ := strconv.ParseUint(q.Kind, 16, 64)
	return statement.Statement{Fingerprint: kind, Text: strings.ToValidUTF8(q.Shape, ""), Class: statement.Select}
}

// decode reads an answer; what says what was asked for.
func decode(body []byte) (*view, error) {
	var v struct {
		Spillgate *view `json:"spillgate"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("the answer has another shape than expected: %w", err)
	}
	switch {
	case v.Spillgate == nil:
		return nil, fmt.Errorf("the answer is not that of the handler spillgate.solr.QueriesHandler: %.200s", body)
	case v.Spillgate.Version != version:
		return nil, fmt.Errorf("the handler's answers are of version %d, expected %d: use the jar of this release", v.Spillgate.Version, version)
	case v.Spillgate.Boot <= 0:
		return nil, fmt.Errorf("the answer has the boot %d, expected a positive number", v.Spillgate.Boot)
	}
	return v.Spillgate, nil
}

// decodeQueries reads a list.
func decodeQueries(body []byte) (*view, error) {
	v, err := decode(body)
	switch {
	case err != nil:
		return nil, err
	case v.Ended == nil || v.Queries == nil:
		return nil, fmt.Errorf("the answer lacks ended or queries: %.200s", body)
	case len(*v.Queries) > mostQueries:
		return nil, fmt.Errorf("the core shows %d queries, expected at most %d", len(*v.Queries), mostQueries)
	}
	return v, nil
}

// decodeCancel reads the answer to a cancel: whether the query was there.
func decodeCancel(body []byte) (bool, error) {
	v, err := decode(body)
	switch {
	case err != nil:
		return false, err
	case v.Cancelled == nil:
		return false, fmt.Errorf("the answer to a cancel does not tell whether the query was there: %.200s", body)
	}
	return *v.Cancelled, nil
}

// decodeKeepOut reads the answer to a kind that is to be kept out.
func decodeKeepOut(body []byte) error {
	v, err := decode(body)
	switch {
	case err != nil:
		return err
	case v.KeptOut == nil || !*v.KeptOut:
		return fmt.Errorf("the core does not keep the kind out: %.200s", body)
	}
	return nil
}
