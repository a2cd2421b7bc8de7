(ns magnetar.erlang.impl.functions
  "The functions of this node that BEAMs may call, and what processes do that BEAMs start here.

  Nothing is looked up by what a BEAM names but these functions. A call of another one ends as a call of a function
  that does not exist."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.erlang.impl.builtins :as builtins]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.erlang.impl.observer :as observer]
   [magnetar.erlang.impl.terms :as terms]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang AFunction RestFn)
   (java.lang.ref Cleaner Reference)
   (java.lang.reflect Method)
   (java.util.concurrent.atomic AtomicInteger)
   (java.util.function Consumer Function)
   (magnetar.erlang.wire Output)
   (magnetar.kernel.fiber Cancelled Exit)
   (magnetar.kernel.process Hosting LocalProcess)))

(set! *warn-on-reflection* true)

(defn- takes?
  "Does the function take n arguments? True if that cannot be told before the call."
  [f ^long n]
  (or (not (instance? AFunction f))
      (some (fn [^Method m] (and (= "invoke" (.getName m)) (= n (.getParameterCount m)))) (.getDeclaredMethods (class f)))
      (and (instance? RestFn f) (<= (.getRequiredArity ^RestFn f) n))))

(defn- found
  "The function, if there is one that takes n arguments."
  [functions module function n]
  (let [x (functions [module function])
        f (if (var? x) @x x)]
    (when (and f (takes? f n))
      f)))

(defn table
  "From [module function] to the function, of these vars and of what this node answers itself."
  [spawnable]
  (let [functions (into (merge builtins/all observer/all)
                        (map (fn [v] (let [s (symbol v)] [[(keyword (namespace s)) (keyword (name s))] v])))
                        spawnable)]
    (assoc functions [:erlang :function_exported]
      (fn [module function n] (and (int? n) (some? (found functions module function n)))))))

;; ---- what a call ends with

(defn- failed
  "What a call ends with whose function has thrown this. What is no failure of it is thrown on."
  [t f module function args]
  (let [data (ex-data t)]
    (cond
      (or (Hosting/isContinue t) (Cancelled/isBehind t) (instance? OutOfMemoryError t)) (throw t)
      (instance? Exit t) [:exit (terms/sendable (.reason ^Exit t))]
      (contains? data ::builtins/refused) [:error (::builtins/refused data) (list [module function (apply list args) ()])]
      (contains? data :magnetar/exit) [:exit (terms/sendable (:magnetar/exit data))]
      :else [:error (terms/of-error t) (list [module function (count args) (terms/line-of t f)]) t])))

(defn- outcome
  "Calls the function: [:return value], [:exit reason] or [:error reason stack], with the Throwable behind it if there is one."
  [functions module function args]
  (if-not (sequential? args)
    [:error :badarg (list [:erlang :apply (list module function args) ()])]
    (if-some [f (found functions module function (count args))]
      (try
        [:return (apply f args)]
        (catch Throwable t (failed t f module function args)))
      [:error :undef (list [module function (apply list args) ()])])))

(defn answer
  "Calls the function, and returns what `rpc:call` returns for that."
  [functions module function args]
  (let [[kind x stack] (outcome functions module function args)]
    (case kind
      :return x
      :exit [:badrpc [:EXIT x]]
      :error [:badrpc [:EXIT [x stack]]])))

;; ---- processes

(defn- to-leader
  "A function that sends text to the group leader, as a request whose answer this node's `user` gets."
  [leader]
  (reify Consumer
    (accept [_ text] (! leader [:io_request (connections/user) :printed [:put_chars :unicode text]]))))

(defn printing
  "Calls f. What it prints goes to the group leader of this process, if it has one."
  [f]
  (let [leader (actor/group-leader)]
    (if (= leader (actor/self))
      (f)
      (let [out (Output. (to-leader leader))]
        (binding [*out* out]
          (let [value (f)]
            (.flush out)
            value))))))

(defn- answer-by-exit
  "Ends this process as `erpc` ends one, with what the call ended with as its reason."
  [functions ref module function args]
  (actor/exit (into [ref] (take 3) (printing #(outcome functions module function args)))))

(defn- value-or-end
  "The value of an outcome. Without one, ends this process as a BEAM ends one."
  [[kind x stack thrown]]
  (when thrown
    (reports/report (str (LocalProcess/current)) thrown))
  (case kind
    :return x
    :exit (actor/exit x)
    :error (actor/exit [x stack])))

(defn run
  "Calls the function, and ends this process as a BEAM ends one. What it prints goes to the group leader."
  [functions module function args]
  (value-or-end (printing #(outcome functions module function args))))

(defn run-here
  "Does what `run` does in a process that was started by one of this node, and prints as that does."
  [functions module function args]
  (value-or-end (outcome functions module function args)))

(defn- begin
  "What a process does that was asked for with these. Calls by `erpc` and `rpc` name functions of `erpc`."
  [functions module function args]
  (let [n (count args)
        of-erpc (when (and (= :erpc module) (sequential? (last args))) function)]
    (cond
      (and (= :execute_call of-erpc) (= 4 n)) (apply answer-by-exit functions args)
      (and (= :execute_cast of-erpc) (= 3 n)) (apply run functions args)
      :else (run functions module function args))))

(def ^:private most-processes
  "How many processes of BEAMs may run at once. A BEAM has a limit of processes too."
  262144)

(defonce ^:private ^Cleaner cleaner (Cleaner/create))

(defn places
  "Counts the processes of BEAMs that run at a node."
  []
  (AtomicInteger.))

(defn in-place
  "A function that does what f does, for a process to call once. Its place is free when it has ended. Nil if there is no place."
  [^AtomicInteger places f]
  (if (< (long most-processes) (.incrementAndGet places))
    (do
      (.decrementAndGet places)
      nil)
    (let [held (Object.)
          ended (.register cleaner held #(.decrementAndGet places))] ; also of a process that was killed before it ran
      (fn []
        (try
          (f)
          (finally (.clean ended)
                   (Reference/reachabilityFence held)))))))

(defn works
  "From [module function arguments] to what a process does. Throws the reason :system_limit if there are too many."
  ^Function [functions places]
  (reify Function
    (apply [_ [module function args]]
      (or (in-place places #(begin functions module function args))
          (throw (ex-info "Too many processes run here for nodes of Erlang." {:magnetar/exit :system_limit}))))))
