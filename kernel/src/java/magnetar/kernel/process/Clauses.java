package magnetar.kernel.process;

/**
 * A matcher made of clauses that are tried in order. Each clause is a method of its own, because the JVM
 * compiles small methods and leaves large ones interpreted. What a clause throws is caught here, so that the
 * clause needs no closure around it.
 *
 * <p>Invariants:
 * <ol>
 *   <li>A clause that does not match returns null. Otherwise {@link #number} of its result tells the clause,
 *       and {@link #value} the values that it bound.
 *   <li>A clause that throws does not match, and {@link Guards} reports the failure. An exit, a cancellation,
 *       an interrupt and the errors of the JVM are thrown on.
 * </ol>
 *
 * <p>Rejected: an object for each clause, which allocates at each use if clauses read locals; one method with
 * all clauses, which the JIT does not compile from some twenty clauses on. More than {@link #WIDTH} clauses
 * are nested: the last method calls another object.
 */
public interface Clauses extends Matcher {
    /** The number of clause methods of one object. */
    int WIDTH = 16;

    /** Matches no message. */
    Matcher NONE = message -> null;

    /** The number of methods in use. */
    int size();

    /** The source text of a clause with its place, for reports. */
    String text(int clause);

    /** Tries clause 0. */
    default Object c0(Object message) {
        return null;
    }

    /** Tries clause 1. */
    default Object c1(Object message) {
        return null;
    }

    /** Tries clause 2. */
    default Object c2(Object message) {
        return null;
    }

    /** Tries clause 3. */
    default Object c3(Object message) {
        return null;
    }

    /** Tries clause 4. */
    default Object c4(Object message) {
        return null;
    }

    /** Tries clause 5. */
    default Object c5(Object message) {
        return null;
    }

    /** Tries clause 6. */
    default Object c6(Object message) {
        return null;
    }

    /** Tries clause 7. */
    default Object c7(Object message) {
        return null;
    }

    /** Tries clause 8. */
    default Object c8(Object message) {
        return null;
    }

    /** Tries clause 9. */
    default Object c9(Object message) {
        return null;
    }

    /** Tries clause 10. */
    default Object c10(Object message) {
        return null;
    }

    /** Tries clause 11. */
    default Object c11(Object message) {
        return null;
    }

    /** Tries clause 12. */
    default Object c12(Object message) {
        return null;
    }

    /** Tries clause 13. */
    default Object c13(Object message) {
        return null;
    }

    /** Tries clause 14. */
    default Object c14(Object message) {
        return null;
    }

    /** Tries clause 15. */
    default Object c15(Object message) {
        return null;
    }

    private Object attempt(int clause, Object message) {
        return switch (clause) {
            case 0 -> c0(message);
            case 1 -> c1(message);
            case 2 -> c2(message);
            case 3 -> c3(message);
            case 4 -> c4(message);
            case 5 -> c5(message);
            case 6 -> c6(message);
            case 7 -> c7(message);
            case 8 -> c8(message);
            case 9 -> c9(message);
            case 10 -> c10(message);
            case 11 -> c11(message);
            case 12 -> c12(message);
            case 13 -> c13(message);
            case 14 -> c14(message);
            default -> c15(message);
        };
    }

    @Override
    default Object match(Object message) {
        int size = size();
        for (int i = 0; i < size; i++) {
            try {
                Object answer = attempt(i, message);
                if (answer != null) {
                    return answer;
                }
            } catch (Exception | AssertionError e) {
                refuse(i, e);
            }
        }
        return null;
    }

    private void refuse(int clause, Throwable e) {
        if (e instanceof InterruptedException) {
            throw Clauses.<RuntimeException>unchecked(e);
        }
        Guards.failed(text(clause), e);
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> T unchecked(Throwable e) throws T {
        throw (T) e;
    }

    /**
     * The result of a clause that bound a value. With these overloads a clause of up to six names needs no
     * code to fill an array.
     */
    static Object[] answer(long clause, Object a) {
        return new Object[] {clause, a};
    }

    /** See {@link #answer(long, Object)}. */
    static Object[] answer(long clause, Object a, Object b) {
        return new Object[] {clause, a, b};
    }

    /** See {@link #answer(long, Object)}. */
    static Object[] answer(long clause, Object a, Object b, Object c) {
        return new Object[] {clause, a, b, c};
    }

    /** See {@link #answer(long, Object)}. */
    static Object[] answer(long clause, Object a, Object b, Object c, Object d) {
        return new Object[] {clause, a, b, c, d};
    }

    /** See {@link #answer(long, Object)}. */
    static Object[] answer(long clause, Object a, Object b, Object c, Object d, Object e) {
        return new Object[] {clause, a, b, c, d, e};
    }

    /** See {@link #answer(long, Object)}. */
    static Object[] answer(long clause, Object a, Object b, Object c, Object d, Object e, Object f) {
        return new Object[] {clause, a, b, c, d, e, f};
    }

    /** The number of the clause that returned this result; -1 for null. */
    static int number(Object answer) {
        if (answer == null) {
            return -1;
        }
        return (int) (long) (Long) (answer instanceof Object[] bound ? bound[0] : answer);
    }

    /** The i-th value that the clause bound, from 1. */
    static Object value(Object answer, int i) {
        return ((Object[]) answer)[i];
    }
}
