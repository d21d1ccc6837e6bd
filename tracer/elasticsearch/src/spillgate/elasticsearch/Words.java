package spillgate.elasticsearch;

import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import org.elasticsearch.index.query.BoolQueryBuilder;
import org.elasticsearch.index.query.ConstantScoreQueryBuilder;
import org.elasticsearch.index.query.DisMaxQueryBuilder;
import org.elasticsearch.index.query.MatchQueryBuilder;
import org.elasticsearch.index.query.MultiTermQueryBuilder;
import org.elasticsearch.index.query.NestedQueryBuilder;
import org.elasticsearch.index.query.QueryBuilder;
import org.elasticsearch.index.query.TermQueryBuilder;
import org.elasticsearch.index.query.TermsQueryBuilder;
import org.elasticsearch.search.aggregations.AggregationBuilder;
import org.elasticsearch.search.builder.SearchSourceBuilder;

/**
 * The words of queries and aggregations, with the fields that common ones name. Elasticsearch has no way to go through all the queries in
 * one: it is gone through those that are mostly used to put queries together.
 */
final class Words {
  /** How many different words are told apart. */
  private static final int MOST = 16;

  final TreeSet<String> different = new TreeSet<>();
  int count;

  void add(SearchSourceBuilder source) {
    if (source == null) {
      return;
    }
    if (source.query() != null) {
      visit(source.query());
    }
    if (source.aggregations() != null) {
      aggregations(source.aggregations().getAggregatorFactories(), 1);
    }
  }

  private void add(String word) {
    count++;
    if (different.size() < MOST) {
      different.add(word);
    }
  }

  private void visit(QueryBuilder q) {
    String field = field(q);
    add(field == null ? q.getName() : q.getName() + "(" + field + ")");
    if (q instanceof BoolQueryBuilder b) {
      for (List<QueryBuilder> clauses : List.of(b.must(), b.mustNot(), b.should(), b.filter())) {
        clauses.forEach(this::visit);
      }
    } else if (q instanceof DisMaxQueryBuilder d) {
      d.innerQueries().forEach(this::visit);
    } else if (q instanceof ConstantScoreQueryBuilder c) {
      visit(c.innerQuery());
    } else if (q instanceof NestedQueryBuilder n) {
      visit(n.query());
    }
  }

  /** Returns the field that a query is about, null if it does not tell. */
  private static String field(QueryBuilder q) {
    if (q instanceof MultiTermQueryBuilder m) {
      return m.fieldName();
    } else if (q instanceof TermQueryBuilder t) {
      return t.fieldName();
    } else if (q instanceof TermsQueryBuilder t) {
      return t.fieldName();
    } else if (q instanceof MatchQueryBuilder m) {
      return m.fieldName();
    }
    return null;
  }

  private void aggregations(Collection<AggregationBuilder> all, int depth) {
    for (AggregationBuilder a : all) {
      add(a.getType() + (depth < 10 ? "" : "/10")); // aggregations in ten others are other work
      aggregations(a.getSubAggregations(), depth + 1);
    }
  }
}
