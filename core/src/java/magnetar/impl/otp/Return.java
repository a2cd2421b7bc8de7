package magnetar.impl.otp;

import clojure.lang.IDeref;

/** Carries what a callback returns early to the process that has called it. An Error, so that {@code (catch Exception ..)} lets it pass; without a stack. */
public final class Return extends Error implements IDeref {
    private static final long serialVersionUID = 1;

    private final transient Object value;

    /** The value may be null. */
    public Return(Object value) {
        super("the return value of a callback, thrown outside of one", null, false, false);
        this.value = value;
    }

    @Override
    public Object deref() {
        return value;
    }
}
