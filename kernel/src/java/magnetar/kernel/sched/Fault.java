package magnetar.kernel.sched;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MutableCallSite;

/**
 * Fault points: places that do a thing wrong while a test has planted the defect of their name. Each has a check that must find it ({@code kernel/mutants/faults.edn}), so that
 * the check is known to see such a defect. It stands in the lowest package, since there are fault points in all of them.
 *
 * <p>Invariant: while nothing is planted, the name of what is planted is a constant null to the compiler, and a fault point folds away.
 */
public final class Fault {
    private static final MutableCallSite PLANTED = new MutableCallSite(MethodHandles.constant(String.class, null));
    private static final MethodHandle NAME = PLANTED.dynamicInvoker();

    private Fault() {}

    /** True while the defect of this name is planted. */
    public static boolean is(String name) {
        return name.equals(planted());
    }

    /** Plants a defect, or with null none, until another is. For tests. */
    public static void plant(String name) {
        PLANTED.setTarget(MethodHandles.constant(String.class, name));
        MutableCallSite.syncAll(new MutableCallSite[] {PLANTED});
    }

    private static String planted() {
        try {
            return (String) NAME.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
