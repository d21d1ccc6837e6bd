package spillgate.elasticsearch;

import java.io.IOException;
import java.nio.file.Path;
import java.security.AccessController;
import java.security.PrivilegedExceptionAction;
import java.util.Collection;
import java.util.List;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.elasticsearch.action.support.ActionFilter;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.util.concurrent.ThreadContext;
import org.elasticsearch.index.IndexModule;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.NetworkPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.transport.TransportInterceptor;
import spillgate.tracer.Tracer;

/** Puts the parts of this package into a node. The task file is elasticsearch.tasks in the directory that -Dspillgate.tasks names, by default /run/spillgate. */
public final class SpillgatePlugin extends Plugin implements ActionPlugin, NetworkPlugin {
  private static final Logger LOG = LogManager.getLogger(SpillgatePlugin.class);

  private final Tracer tracer;
  private final Requests requests;

  /** Opens the task file. A node starts without one if it cannot be opened, and says so. */
  public SpillgatePlugin() {
    tracer = open();
    requests = new Requests(tracer);
  }

  @SuppressWarnings("removal") // Java 17 to 23 give the rights of this plugin alone in this way
  private static Tracer open() {
    String directory = System.getProperty("spillgate.tasks", "/run/spillgate");
    try {
      return AccessController.doPrivileged((PrivilegedExceptionAction<Tracer>) () -> Tracer.open(Path.of(directory, "elasticsearch.tasks")));
    } catch (Exception e) {
      LOG.error("no request is shown to a guard: the task file in {} cannot be opened", directory, e);
      return Tracer.none();
    }
  }

  @Override
  public Collection<?> createComponents(PluginServices services) {
    return List.of(new Services(requests, services));
  }

  @Override
  public Collection<ActionFilter> getActionFilters() {
    return List.of(new RequestFilter(requests));
  }

  @Override
  public List<TransportInterceptor> getTransportInterceptors(NamedWriteableRegistry registry, ThreadContext context) {
    requests.context = context;
    return List.of(new Parts(requests));
  }

  @Override
  public void onIndexModule(IndexModule module) {
    module.addSearchOperationListener(new SearchParts(requests));
    module.addIndexOperationListener(new WriteOperations(requests));
  }

  @Override
  public void close() throws IOException {
    tracer.close();
  }
}
