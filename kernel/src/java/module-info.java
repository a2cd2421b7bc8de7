/**
 * Channels and processes on virtual threads, for programs in Java.
 *
 * <p>The exported packages are for users. The others may change at any time. The Clojure libraries above the kernel use them, and the simulator
 * is one of them: both need the class path, where this declaration is ignored.
 */
module magnetar.kernel {
    requires jdk.management; // the number of carriers

    exports magnetar.kernel.channel;
    exports magnetar.kernel.fiber; // Cancelled and Exit, which a program may have to catch
    exports magnetar.kernel.inspect;
    exports magnetar.kernel.network; // what an engine implements
    exports magnetar.kernel.process;
    exports magnetar.kernel.scope;
}
