package spillgate.opensearch;

import java.util.Collection;
import java.util.TreeSet;
import org.apache.lucene.search.BooleanClause;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.index.query.QueryBuilderVisitor;
import org.opensearch.index.query.WithFieldName;
import org.opensearch.search.aggregations.AggregationBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;

/** The words of queries and aggregations, with the fields that they name. */
final class Words implements QueryBuilderVisitor {
  /** How many different words are told apart. */
  private static final int MOST = 16;

  final TreeSet<String> different = new TreeSet<>();
  int count;

  void add(SearchSourceBuilder source) {
    if (source == null) {
      return;
    }
    if (source.query() != null) {
      source.query().visit(this);
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

  @Override
  public void accept(QueryBuilder q) {
    add(q instanceof WithFieldName f ? q.getName() + "(" + f.fieldName() + ")" : q.getName());
  }

  @Override
  public QueryBuilderVisitor getChildVisitor(BooleanClause.Occur occur) {
    return this;
  }

  private void aggregations(Collection<AggregationBuilder> all, int depth) {
    for (AggregationBuilder a : all) {
      add(a.getType() + (depth < 10 ? "" : "/10")); // aggregations in ten others are other work
      aggregations(a.getSubAggregations(), depth + 1);
    }
  }
}
