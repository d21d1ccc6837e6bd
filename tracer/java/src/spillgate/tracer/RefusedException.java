package spillgate.tracer;

import java.io.IOException;

/** A task file is not used; nothing in it was changed. The message says the value and what was expected. */
public final class RefusedException extends IOException {
    private static final long serialVersionUID = 1;
    private final String word;

    RefusedException(String word, String detail) {
        super(word + ": " + detail);
        this.word = word;
    }

    /** Returns the reason, from the table in FORMAT.md. */
    public String word() {
        return word;
    }
}
