package spillgate.solr;

import java.nio.file.Path;
import java.util.Properties;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/** A Solr on a port of loopback, with the cores of a directory, until its input ends. */
public final class Node {
  private Node() {}

  /** Takes the directory and the port. */
  public static void main(String[] args) throws Exception {
    Properties properties = new Properties();
    JettySolrRunner node =
        new JettySolrRunner(Path.of(args[0]).toString(), properties, new JettyConfig.Builder().setContext("/solr").setPort(Integer.parseInt(args[1])).build());
    node.start();
    Thread.currentThread().join();
  }
}
