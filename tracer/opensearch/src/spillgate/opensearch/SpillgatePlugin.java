package spillgate.opensearch;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.opensearch.action.support.ActionFilter;
import org.opensearch.common.cache.ICache;
import org.opensearch.common.lifecycle.LifecycleComponent;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.common.io.stream.NamedWriteableRegistry;
import org.opensearch.index.IndexModule;
import org.opensearch.plugins.ActionPlugin;
import org.opensearch.plugins.CachePlugin;
import org.opensearch.plugins.NetworkPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.secure_sm.AccessController;
import org.opensearch.transport.TransportInterceptor;
import spillgate.tracer.Tracer;

/** Puts the parts of this package into a node. The task file is opensearch.tasks in the directory that -Dspillgate.tasks names, by default /run/spillgate. */
public final class SpillgatePlugin extends Plugin implements ActionPlugin, CachePlugin, NetworkPlugin {
  private static final Logger LOG = LogManager.getLogger(SpillgatePlugin.class);

  private final Tracer tracer;
  private final Requests requests;

  /** Opens the task file. A node starts without one if it cannot be opened, and says so. */
  public SpillgatePlugin() {
    tracer = open();
    requests = new Requests(tracer);
  }

  private static Tracer open() {
    String directory = System.getProperty("spillgate.tasks", "/run/spillgate");
    try {
      // By the rights of this plugin alone: the program that starts a node has none to files.
      return AccessController.doPrivilegedChecked(() -> Tracer.open(Path.of(directory, "opensearch.tasks")));
    } catch (Exception e) {
      LOG.error("no request is shown to a guard: the task file in {} cannot be opened", directory, e);
      return Tracer.none();
    }
  }

  /** The cache of answers, unless the node's configuration names another. */
  @Override
  public Settings additionalSettings() {
    return Settings.builder().put(AnswerCache.SETTING, AnswerCache.NAME).build();
  }

  @Override
  public Map<String, ICache.Factory> getCacheFactoryMap() {
    return Map.of(AnswerCache.NAME, new AnswerCache.Maker(requests));
  }

  @Override
  public String getName() {
    return AnswerCache.NAME;
  }

  @Override
  public Collection<Class<? extends LifecycleComponent>> getGuiceServiceClasses() {
    Services.requests = requests;
    return List.of(Services.class);
  }

  @Override
  public List<ActionFilter> getActionFilters() {
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
