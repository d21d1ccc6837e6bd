package spillgate.opensearch;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.opensearch.action.bulk.BulkItemRequest;
import org.opensearch.action.bulk.BulkShardRequest;
import org.opensearch.action.update.UpdateRequest;
import org.opensearch.core.index.shard.ShardId;
import org.opensearch.transport.TransportRequest;

/**
 * The order of updates of one document, and of bulk requests that change it again and again, where they would be in each other's way.
 *
 * <p>An update reads the document and writes it only if nobody has changed it meanwhile. Else it begins again, as often as its client
 * allows ({@code retry_on_conflict}). Of updates that have waited together for a thread, all read the same version and one writes: of
 * more than the client allows, some fail, whoever kept them waiting. Therefore
 *
 * <ul>
 *   <li>while parts wait for threads for writes, or more updates of its document are under way than half of the number that it may begin again, an
 *       update begins when those that came before it have ended. Each of them takes as long as a round of conflicts would, of which one writes
 *       too. Of those that may not begin again, clients expect conflicts: they wait for nothing where threads are free;
 *   <li>an update, and a bulk request that changes its document more often than the update tries again, begin in the order in which
 *       they came.
 * </ul>
 *
 * <p>What comes later never delays what came before, so none waits for ever. Methods may be called by any thread.
 */
final class Documents {
  /**
   * A bulk request that changes a document no more often than this keeps no update from it. Each change makes an update begin again once at
   * most, and most clients that update one document from many places allow a few of that.
   */
  private static final int FEW = 8;

  /** How many parts wait at once; a further one does not wait, and may conflict. */
  private static final int MOST = 1000;

  private final Requests requests;
  private final Map<ShardId, Shard> shards = new HashMap<>();
  private int waiting;

  /** What this thread has yet to begin: what begins may end at once, and would begin the next within itself. */
  private final ThreadLocal<ArrayDeque<Turn>> due = new ThreadLocal<>();

  Documents(Requests requests) {
    this.requests = requests;
  }

  /** The turns of a shard that have not ended. */
  private static final class Shard {
    final Set<Turn> bulks = new LinkedHashSet<>();
    final Map<String, List<Turn>> updates = new HashMap<>(); // by document, in order
  }

  /** A part of a request in the order. But for counts, it is guarded by the lock of the whole. */
  static final class Turn {
    private final Request request;
    private final ShardId shard;
    private final UpdateRequest update; // or
    private final BulkShardRequest bulk;
    private Map<String, Integer> counts; // of a bulk request's operations, by document, once they were asked for
    private final List<Turn> after = new ArrayList<>(); // that wait for this one
    private int before; // that this one waits for
    private Runnable begin; // of one that waits
    private boolean lined; // is recorded to wait for the document, else for threads
    private boolean keeps; // is recorded to keep others waiting
    private boolean ended;
    private boolean counted; // as one that waits for a thread

    private Turn(Request request, ShardId shard, UpdateRequest update, BulkShardRequest bulk) {
      this.request = request;
      this.shard = shard;
      this.update = update;
      this.bulk = bulk;
    }

    /** Reports whether the part was counted as one that waits for a thread before it was sent. */
    boolean counted() {
      return counted;
    }

    /** Reports whether this bulk request may make an update of a document fail by itself. */
    private synchronized boolean harms(UpdateRequest u) {
      if (counts == null) {
        counts = new HashMap<>();
        for (BulkItemRequest item : bulk.items()) {
          counts.merge(item.request().id(), 1, Integer::sum);
        }
      }
      return counts.getOrDefault(u.id(), 0) > Math.max(u.retryOnConflict(), FEW);
    }
  }

  /** Returns the turn of a part, null for one that needs none. Bulk is what the part has of a bulk request, or null. */
  static Turn turn(Request request, TransportRequest part, BulkShardRequest bulk) {
    if (part instanceof UpdateRequest u && u.getShardId() != null) {
      return new Turn(request, u.getShardId(), u, null);
    }
    return bulk != null && bulk.items().length > FEW ? new Turn(request, bulk.shardId(), null, bulk) : null;
  }

  /** Begins a turn, now or when those are over that it has to wait for. */
  void begin(Turn turn, Runnable begin) {
    List<Turn> earlier = enter(turn); // what comes from now on finds this one
    try {
      earlier.removeIf(e -> e.bulk != null ? !e.harms(turn.update) : turn.bulk != null && !turn.harms(e.update)); // counts, without the lock
    } catch (RuntimeException e) {
      earlier.clear(); // of a part that cannot be read; it has been entered, and others may wait for its end
    }
    synchronized (this) {
      earlier.removeIf(e -> e.ended);
      if (!earlier.isEmpty() && waiting < MOST) {
        turn.begin = begin;
        waits(turn, earlier);
        return;
      }
    }
    begin.run();
  }

  /** Enters a turn, and returns those before it that it may have to wait for. */
  private synchronized List<Turn> enter(Turn turn) {
    List<Turn> earlier = new ArrayList<>();
    Shard shard = shards.computeIfAbsent(turn.shard, s -> new Shard());
    if (turn.update == null) {
      shard.updates.values().forEach(earlier::addAll);
      shard.bulks.add(turn);
      return earlier;
    }
    List<Turn> same = shard.updates.computeIfAbsent(turn.update.id(), d -> new ArrayList<>());
    earlier.addAll(shard.bulks);
    earlier.addAll(ahead(same, turn.update.retryOnConflict()));
    same.add(turn);
    return earlier;
  }

  /** Returns those of the updates of one document, in order, that a further one waits for. */
  private List<Turn> ahead(List<Turn> same, int tries) {
    if (same.isEmpty()) {
      return same;
    }
    Turn last = same.get(same.size() - 1);
    if (last.begin != null) {
      return List.of(last); // which waits for those before it
    }
    // Each update that is under way with it may make it begin again, and so may some that come later: half of its tries are for these.
    boolean many = tries > 0 && same.size() > tries / 2;
    return many || requests.writesWait() ? same : List.of();
  }

  /**
   * Records a wait. Behind a bulk request it is for the document, which that keeps. Behind other updates it is for a thread, as if it stood in
   * the queue of the pool: none of them keeps the others from anything.
   */
  private void waits(Turn turn, List<Turn> earlier) {
    waiting++;
    turn.before = earlier.size();
    for (Turn e : earlier) {
      e.after.add(turn);
      if (e.bulk != null && e.begin == null) {
        keeps(e);
      }
      turn.lined |= e.bulk != null || turn.bulk != null;
    }
    if (turn.lined) {
      turn.request.lined();
    } else {
      turn.request.sent(Pool.WRITE);
      turn.counted = true;
    }
  }

  private static void keeps(Turn bulk) {
    if (!bulk.keeps) {
      bulk.keeps = true;
      bulk.request.keepsDocument();
    }
  }

  /** Ends a turn, and begins those that waited for it alone. Further calls do nothing. It does not throw. */
  void end(Turn turn) {
    List<Turn> free = ended(turn);
    ArrayDeque<Turn> mine = due.get();
    if (mine != null) {
      mine.addAll(free);
      return;
    }
    if (free.isEmpty()) {
      return;
    }
    mine = new ArrayDeque<>(free);
    due.set(mine);
    for (Turn next; (next = mine.poll()) != null; ) {
      try {
        start(next).run();
      } catch (RuntimeException | Error e) { // of another request; the others must begin all the same, and what has ended must be answered
        Thread here = Thread.currentThread();
        here.getUncaughtExceptionHandler().uncaughtException(here, e);
      }
    }
    due.remove();
  }

  private synchronized Runnable start(Turn turn) {
    Runnable begin = turn.begin;
    turn.begin = null;
    waiting--;
    if (turn.lined) {
      turn.request.itsTurn();
    }
    if (turn.bulk != null && !turn.after.isEmpty()) {
      keeps(turn);
    }
    return begin;
  }

  private synchronized List<Turn> ended(Turn turn) {
    if (turn.ended) {
      return List.of();
    }
    turn.ended = true;
    Shard shard = shards.get(turn.shard);
    if (turn.update == null) {
      shard.bulks.remove(turn);
    } else {
      List<Turn> same = shard.updates.get(turn.update.id());
      same.remove(turn);
      if (same.isEmpty()) {
        shard.updates.remove(turn.update.id());
      }
    }
    if (shard.bulks.isEmpty() && shard.updates.isEmpty()) {
      shards.remove(turn.shard);
    }
    if (turn.keeps) {
      turn.request.freesDocument();
    }
    List<Turn> free = new ArrayList<>();
    for (Turn next : turn.after) {
      if (--next.before == 0) {
        free.add(next);
      }
    }
    return free;
  }
}
