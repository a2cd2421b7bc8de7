(ns magnetar.inspect.main
  "Asks a running program from outside what it does: `bin/magnetar inspect PID`.

  It needs the JDK's `jcmd` and the right to attach to the program, as the same user. The program needs
  nothing, and nothing in it listens: it is asked through the JDK's flight recorder. Outside this repository:

    java -cp LIBRARIES clojure.main -m magnetar.inspect.main PID

  See also `magnetar.inspect`."
  (:require
   [magnetar.impl.inspect.outside :as outside]
   [magnetar.impl.inspect.text :as text]
   [magnetar.impl.inspect.top :as top]
   [magnetar.impl.inspect.tree :as tree]))

(set! *warn-on-reflection* true)

(def ^:private usage
  "usage: bin/magnetar inspect PID [deadlocks|stuck|tree|restarts|top|leaks|dump]")

(defn- number [word]
  (or (parse-long word)
      (outside/refuse "`inspect` wants the number of a process, as `jps` lists them; this is " (pr-str word) ".")))

;; ---- what is printed

(defn- findings [title none found]
  (if (seq found)
    (cons (str title ":") (map text/line found))
    [none]))

(def ^:private views
  "For each view the question that it asks, and the lines that it prints of the answer."
  {"deadlocks" [:dump (fn [{:keys [deadlocks]}] (findings "Deadlocks" "No deadlock." deadlocks))]
   "stuck" [:dump (fn [{:keys [why-stuck]}] (findings "Blocked" "Nothing is blocked." why-stuck))]
   "tree" [:dump (fn [{:keys [tree]}] [(tree/text tree)])]
   "restarts" [:dump (fn [{:keys [restarts]}] (if (seq restarts) (map text/restarts restarts) ["No supervisor."]))]
   "top" [:top (fn [{:keys [rows]}] [(top/table (top/most-of :cpu top/usual-most rows))])]
   "leaks" [:leaks (fn [{:keys [leaks]}] (findings "Leaks" "No leak." leaks))]
   "dump" [:dump (fn [state] [(pr-str state)])]})

(defn- overview [state]
  (mapcat #((second (views %)) state) ["deadlocks" "stuck" "restarts" "tree"]))

(defn- answer [[pid view & more]]
  (cond
    (or (nil? pid) more) (outside/refuse usage)
    (not (or (nil? view) (views view))) (outside/refuse "`inspect` does not know " view ".\n" usage)
    :else (let [[question lines] (views view [:dump overview])]
            (lines (outside/ask (number pid) question)))))

(defn -main
  "Prints what the program with this process number does, and ends this JVM.

  The views are deadlocks, stuck, tree, restarts, top, leaks and dump, which is EDN; without one deadlocks,
  stuck, restarts and tree. The exit code is 0, or 2 with a sentence on standard error if the program cannot
  be asked."
  {:added "0.3"}
  [& arguments]
  (let [code (try
               (run! println (answer arguments))
               0
               (catch clojure.lang.ExceptionInfo e
                 (if (outside/refusal? e)
                   (binding [*out* *err*]
                     (println (ex-message e))
                     2)
                   (throw e))))]
    (shutdown-agents)
    (System/exit code)))
