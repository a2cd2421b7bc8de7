(ns crawler.interrupt
  "Ctrl-C, as a request that a program can answer before it ends.

  The JVM answers SIGINT by running its shutdown hooks, beside all the threads that still run, and then ends
  with 130. So a hook that asks the program to stop, and waits until it has, is all that is needed; nothing
  depends on unsupported classes.")

(set! *warn-on-reflection* true)

(def ^:private patience-ms 5000)

(defn- remove-hook
  "Takes `hook` back, unless it is running already."
  [hook]
  (try
    (.removeShutdownHook (Runtime/getRuntime) hook)
    (catch IllegalStateException _)))

(defn call-interruptible
  "Returns what `work` returns. On Ctrl-C calls `stop`, then keeps the JVM alive until `work` is done (at most
  five seconds). `work` gets a function that says whether it was interrupted."
  [stop work]
  (let [interrupted (promise)
        done        (promise)
        hook        (Thread. ^Runnable (fn []
                                         (deliver interrupted true)
                                         (stop)
                                         (deref done patience-ms nil)))]
    (.addShutdownHook (Runtime/getRuntime) hook)
    (try
      (work #(realized? interrupted))
      (finally
        (deliver done true)
        (remove-hook hook)))))
