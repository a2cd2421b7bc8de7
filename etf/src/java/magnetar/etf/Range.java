package magnetar.etf;

/** Checks the numbers that the constructors of this package take. */
final class Range {

    static final long UNSIGNED_INT = 0xffffffffL;

    private Range() {}

    static long check(String what, long n, long most) {
        if (n < 0 || n > most) {
            String wanted = " is a number from 0 to " + most;
            throw new IllegalArgumentException(what + wanted + "; this is " + n + ".");
        }
        return n;
    }
}
