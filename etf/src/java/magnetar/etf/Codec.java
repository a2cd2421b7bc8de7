package magnetar.etf;

import clojure.lang.Keyword;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What is written and read, and how much of it: limits, extensions and a hook for identities. It is
 * immutable, and any number of threads may use it.
 */
public final class Codec {

    /**
     * Keys of maps nest no deeper in keys: to compare two maps takes twice the time per level of keys in
     * keys.
     */
    static final int MOST_KEYS_IN_KEYS = 8;

    /** Keys of a map, or elements of a set, with the same hash: each new one is compared with all. */
    static final int MOST_EQUAL_HASHES = 128;

    /** The longest integer of a decimal, in bytes: to hash it takes time by the square of its length. */
    static final int LONGEST_DECIMAL = 8192;

    /** The longest part of a ratio, in bytes: to look for a divisor takes time by the square of its length. */
    static final int LONGEST_RATIO = 1024;

    final int maxDepth;
    final int maxSize;
    final int maxAtoms;
    final int maxGrowth;
    final boolean nilIsUndefined;
    final boolean extended;
    final Identities identities;

    private final List<Extension> extensions;
    private final Map<Keyword, Extension> byTag = new HashMap<>();

    // Finding the extension of a class walks the extensions. The JDK keeps the result with the class.
    private final ClassValue<Extension[]> byClass = new ClassValue<>() {
        @Override
        protected Extension[] computeValue(Class<?> type) {
            return new Extension[] {find(type)};
        }
    };

    /**
     * A codec with limits, all of them positive.
     *
     * @param maxGrowth how many times the bytes of its term a large value may take
     * @param nilIsUndefined whether null is the atom undefined; then the atom nil is a keyword
     * @param extensions the values of a program's own classes, or null: nothing is written that plain
     *     Erlang has no term for, and nothing is read as such
     * @param identities the hook for pids, ports and references, or null
     */
    public Codec(int maxDepth, int maxSize, int maxAtoms, int maxGrowth, boolean nilIsUndefined,
            List<Extension> extensions, Identities identities) {
        this.maxDepth = maxDepth;
        this.maxSize = maxSize;
        this.maxAtoms = maxAtoms;
        this.maxGrowth = maxGrowth;
        this.nilIsUndefined = nilIsUndefined;
        this.extended = extensions != null;
        this.extensions = extended ? List.copyOf(extensions) : List.of();
        this.identities = identities;
        for (Extension extension : this.extensions) {
            byTag.put(extension.tag(), extension);
        }
    }

    /**
     * The extension for the class itself, else of its nearest superclass, else the first one of an
     * interface.
     */
    private Extension find(Class<?> type) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            for (Extension extension : extensions) {
                if (extension.type() == c) {
                    return extension;
                }
            }
        }
        for (Extension extension : extensions) {
            if (extension.type().isAssignableFrom(type)) {
                return extension;
            }
        }
        return null;
    }

    /** Refuses a decimal, or a part of a ratio, with which it would take long to calculate. */
    static void checkLength(BigInteger n, int longest) {
        if (n.bitLength() > 8L * longest) {
            throw Refusal.fixed(Refusal.DIGITS, longest, "is a decimal or a ratio of an integer with more than "
                    + longest + " bytes, which take long to compare.");
        }
    }

    /** Is this the ratio that Clojure would make of the two? */
    static boolean isReduced(BigInteger numerator, BigInteger denominator) {
        checkLength(numerator, LONGEST_RATIO);
        checkLength(denominator, LONGEST_RATIO);
        return denominator.compareTo(BigInteger.ONE) > 0 && numerator.gcd(denominator).equals(BigInteger.ONE);
    }

    boolean hasExtensions() {
        return !extensions.isEmpty();
    }

    Extension extensionOf(Class<?> type) {
        return byClass.get(type)[0];
    }

    Extension extensionOf(Keyword tag) {
        return byTag.get(tag);
    }

    @Override
    public String toString() {
        return "Codec[maxDepth=" + maxDepth + ", maxSize=" + maxSize + ", maxAtoms=" + maxAtoms + ", maxGrowth=" + maxGrowth
                + (nilIsUndefined ? ", nil=undefined" : "")
                + (extended ? ", extensions=" + byTag.keySet() : ", extensions=false") + "]";
    }
}
