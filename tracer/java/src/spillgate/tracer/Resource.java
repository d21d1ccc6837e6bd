package spillgate.tracer;

/** Something that tasks contend for, from {@link Tracer#resource}. */
public final class Resource {
    /** How a resource is contended for. */
    public enum Kind {
        /** Held by one task, or by readers. */
        LOCK,
        /** A pool or cache whose units are displaced. */
        MEMORY,
        /** Workers or connections that tasks queue for. */
        QUEUE,
        /** Processor time, input and output. */
        SYSTEM
    }

    /** A resource that no event traces. */
    static final Resource NONE = new Resource(-1);

    final int number;

    Resource(int number) {
        this.number = number;
    }

    /** Returns whether the file had room for the resource's name; events of others do nothing. */
    public boolean traced() {
        return number >= 0;
    }
}
