package spillgate.solr;

import java.io.IOException;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.ExitableDirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.store.Directory;
import org.apache.solr.core.SolrCore;
import org.apache.solr.core.StandardIndexReaderFactory;

/**
 * Solr's reader of an index, which a cancelled query leaves at the next terms or points that it asks for.
 *
 * <p>Solr itself looks at a query's limits between documents. A query with thousands of clauses reads for seconds before it
 * comes to the first of them. A reader that is opened anew from this one is wrapped alike.
 */
public final class CancellableReaderFactory extends StandardIndexReaderFactory {
  @Override
  public DirectoryReader newReader(Directory dir, SolrCore core) throws IOException {
    return new ExitableDirectoryReader(super.newReader(dir, core), Query::currentIsCancelled);
  }

  @Override
  public DirectoryReader newReader(IndexWriter writer, SolrCore core) throws IOException {
    return new ExitableDirectoryReader(super.newReader(writer, core), Query::currentIsCancelled);
  }
}
