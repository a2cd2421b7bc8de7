(ns magnetar.impl.fibers
  "Starts bodies of code on fibers. A fiber is held weakly, and collected once it is unreachable, or strongly."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.privates :as privates]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Var)
   (java.lang ClassValue)
   (java.lang.reflect Field)
   (java.util.concurrent Executors)
   (magnetar.kernel.channel Buffer Channel GoBody)
   (magnetar.kernel.fiber Fiber Fibers Fibers$Hold ThreadLocals)
   (magnetar.kernel.process Caller)
   (magnetar.kernel.time Timer Wheel)))

(set! *warn-on-reflection* true)

(defonce ^:private root-frame
  (let [frame (promise)]
    (.join (doto (Thread. #(deliver frame (Var/getThreadBindingFrame))) .start))
    @frame))

(defn frame
  "The dynamic bindings of this thread, to be installed in another by `install`; nil without bindings."
  []
  (when-not (identical? root-frame (Var/getThreadBindingFrame))
    (Var/cloneThreadBindingFrame)))

(def ^:private ^Field outer-frame
  "The field of a frame that refers to the frame around it; nil if this Clojure has none of that name."
  (privates/field-or-nil (class root-frame) "prev"))

(defn- copy?
  "True if the frame is a copy, as a fiber gets it, and no `binding` has been entered since."
  [frame]
  (and (some? outer-frame) (nil? (.get outer-frame frame))))

(defn- own-copy [frame]
  (let [fiber (Fiber/current)]
    (or (.copyOf fiber frame)
        (.keepCopy fiber frame (Var/cloneThreadBindingFrame)))))

(defn shared-frame
  "Like `frame`, but returns the same object each time while the bindings do not change: a million processes may keep it. A fiber returns the
  frame that it got. Does not make the thread's table of thread-locals."
  []
  (when (ThreadLocals/mayExist)
    (let [here (Var/getThreadBindingFrame)]
      (cond
        (identical? root-frame here) nil
        (copy? here) here
        :else (own-copy here)))))

(defmacro install
  "Gives the thread the bindings of `frame`."
  [frame]
  `(when-some [frame# ~frame]
     (Var/resetThreadBindingFrame frame#)))

(defn frame-here
  "The dynamic bindings of this thread themselves, or nil without bindings. A thread without thread-locals gets none by this call."
  []
  (when (ThreadLocals/mayExist)
    (let [frame (Var/getThreadBindingFrame)]
      (when-not (identical? root-frame frame)
        frame))))

(defn site
  "The name of what a macro form starts: `what` and the source line, as in \"go my/app.clj:12\"."
  [what form]
  (str what " " (or *file* "?") ":" (or (:line (meta form)) @Compiler/LINE)))

(defonce ^:private ^ClassValue function-names
  (proxy [ClassValue] []
    (computeValue [^Class of]
      (let [name (reports/function-name (.getName of))]
        (when-not (str/starts-with? name "clojure.") name)))))

(defn site-of
  "The name of what starts where no line is known, as by `apply`: `what` and the function that it runs, if that has a name."
  [what f]
  (if-some [name (cond
                   (var? f) (symbol f)
                   (fn? f) (.get function-names (class f)))]
    (str what " " name)
    what))

(defn site-here
  "The name of what a function starts that is no macro: `what` and the line of the program that has called it. It walks the stack, which takes
  some microseconds: for what is started seldom, and fails far from where it was started."
  ([what] (site-here what nil))
  ([what f]
   (if-some [line (Caller/line)]
     (str what " " line)
     (site-of what f))))

;; A starred function, such as `spawn*`, has the same function with a site before its arguments in its metadata, under ::at.

(defn with-site
  "The function f, whose macro calls `at` with a site before the arguments."
  [at f]
  (with-meta f {::at at}))

(defn- call-at [at site args]
  (let [[fixed [_ more]] (split-with #(not= '& %) args)]
    (if more
      `(apply ~at ~site ~@fixed ~more)
      `(~at ~site ~@args))))

(defmacro starred
  "A starred function with these argument vectors. It calls `at`, which takes a site first, with the site of `what` and the argument f."
  [at what f & arglists]
  `(with-site ~at (fn ~@(for [args arglists] (list args (call-at at `(site-of ~what ~f) args))))))

(defn at-site
  "The starred function f as one that takes the site first. What stands in its place, such as a stub, takes its arguments alone."
  [f]
  (or (::at (meta f))
      (fn [_site & args] (apply f args))))

(defn starting
  "The expansion of a macro that starts something: a call of its starred function, which learns `what` and the line of the form.

  The arguments are given as to `apply`."
  [form starred what & args]
  `((at-site ~starred) ~(site what form) ~@(apply list* args)))

(defn result-channel
  "A channel for one result."
  ^Channel []
  (Channel/of (Buffer/fixed 1)))

(defn start-go
  "Runs `f` on a fiber named `site` to which no reference is kept; returns the channel of its result."
  [^String site ^Callable f]
  (let [out (result-channel)]
    (Fibers/start site Fibers$Hold/WEAK (GoBody. f out))
    out))

(defmacro background
  "Runs `body` on a fiber that is named `what`, with the bindings of this thread; returns the channel of its result."
  [what & body]
  `(let [bindings# (shared-frame)]
     (start-go ~what (^:once fn* []
                       (install bindings#)
                       ~@body))))

(defn dispatch
  "Runs `f` on a fiber of its own."
  [^String site f]
  (Fibers/start site Fibers$Hold/STRONG ^Runnable f))

(defn dispatch-at
  "Runs `f` at the instant, on a fiber of its own named `what` and `on`; returns a function that prevents it.
  The thread of the timers calls toString of `on`, which has to be short."
  [instant what on f]
  (let [wheel (Wheel/of (.environment (Fiber/current)))
        timer (proxy [Timer] [instant]
                (expire [] (dispatch (str what on) f)))]
    (.add wheel timer)
    #(.cancel wheel timer)))

(defn run-agents
  "Runs each action that is sent with `send-off` to an agent of Clojure on a fiber of its own; returns nil."
  []
  (set-agent-send-off-executor! (Executors/newVirtualThreadPerTaskExecutor))
  nil)
