package spillgate.tracer;

/** Why the engine cancels a task. */
public enum Reason {
    /** A reason that this version does not know. */
    UNKNOWN,
    /** The task keeps others from a resource. */
    CULPRIT,
    /** Somebody asked for it. */
    OPERATOR;

    static Reason of(long number) {
        return number >= 1 && number <= 2 ? values()[(int) number] : UNKNOWN;
    }
}
