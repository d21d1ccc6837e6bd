package culprits

import (
	"encoding/json"
	"strings"
	"testing"
)

// The scenes of search servers are complete, and what they send is what they say.
func TestSearchScenes(t *testing.T) {
	for _, s := range []*scene{c10(), c11(), c12(), c13(), c13Again(), c11Elastic(), c12Elastic(), c14(), c15(), searchScroll(), searchMerge(), solrFacet(), solrCommits()} {
		if s.title == "" || s.about == "" || s.objective == 0 || s.rate == 0 || s.lasts == 0 || len(s.culprits) != searchClients || s.native == nil || s.nativeTitle == "" || s.application != searchOpaque {
			t.Errorf("scene %q is not complete", s.name)
		}
		if s.whose(7, searchOpaque) != searchCulprit || s.whose(7, "application") != searchOthers {
			t.Errorf("scene %q does not tell culprits from others", s.name)
		}
	}
	if s := c4(); s.whose(7, searchOpaque) != 7 {
		t.Error("a session of a database is known by its process")
	}
	var query struct {
		Query struct {
			Bool struct{ Should []any }
		}
	}
	if err := json.Unmarshal([]byte(ranges(1, searchClauses)), &query); err != nil || len(query.Query.Bool.Should) != searchClauses {
		t.Errorf("%v, %d clauses, expected %d", err, len(query.Query.Bool.Should), searchClauses)
	}
	if ranges(1, searchClauses) == ranges(2, searchClauses) || solrRanges(1) == solrRanges(2) {
		t.Error("the culprits' queries are the same, and may be answered from a cache")
	}
	if n := len(solrStats(1)["stats.field"]); n != solrFields {
		t.Errorf("statistics of %d fields, expected %d", n, solrFields)
	}
	if n := strings.Count(solrRanges(1), " OR ") + 1; n != solrClauses {
		t.Errorf("%d clauses, expected %d", n, solrClauses)
	}
}
