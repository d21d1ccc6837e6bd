package spillgate.tracer;

/** The engine cancelled the task. */
public final class CancelledException extends RuntimeException {
    private static final long serialVersionUID = 1;

    CancelledException(Reason reason) {
        super("cancelled by Spillgate: " + reason.name().toLowerCase(java.util.Locale.ROOT));
    }
}
