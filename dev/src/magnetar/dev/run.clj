(ns magnetar.dev.run
  "Runs a program's file as clojure.main does, and then its -main with the arguments; reports what it throws in the user's own terms."
  (:require
   [clojure.java.io :as io]
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.park Frames)
   (magnetar.kernel.process Processes)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)

(def ^:private most-frames 20)

(defn user-frames
  "Lines of the frames of `e` that belong to the user's program, innermost first."
  [^Throwable e]
  (map #(str (if (str/starts-with? % "(") "    " "    at ") %) (Frames/ofProgram (.getStackTrace e) most-frames)))

(defn- data-line [e]
  (when-let [data (when-not (:magnetar/reason (ex-data e)) (not-empty (ex-data e)))] ; our sentences say it all
    (binding [*print-length* 20 *print-level* 5]
      [(str "    data: " (pr-str data))])))

(defn- headline [^Throwable e]
  (str (or (ex-message e) "No message") " (" (.getSimpleName (errors/class-of e)) ")"))

(defn- describe [e]
  (concat [(headline e)] (data-line e) (user-frames e)))

(defn- thrown-by-program? [e]
  (= :execution (:clojure.error/phase (ex-data e))))

(defn- unwrap
  "The program's own exception: the compiler wraps what the top level of a file throws, once per file."
  [e]
  (if (and (thrown-by-program? e) (ex-cause e)) (recur (ex-cause e)) e))

(defn- compiler-report [e]
  (when (:clojure.error/phase (ex-data e))
    [(str/trim (main/ex-str (main/ex-triage (Throwable->map e))))]))

(defn- tell
  "The lines of `e`, of its causes and of what it suppressed, each error once."
  [seen label ^Throwable e]
  (when (and e (not (@seen e)))
    (vswap! seen conj e)
    (let [[headline & more] (describe e)]
      (vec (concat [(str label headline)]
                   more
                   (tell seen "caused by: " (ex-cause e))
                   (mapcat #(tell seen "suppressed: " %) (.getSuppressed e)))))))

(defn report
  "Lines that tell a user what `e` is: message, data and own frames of it, of each cause, and of what these suppressed."
  [e]
  (let [e (unwrap e)]
    (or (compiler-report e)
        (tell (volatile! #{}) "" e))))

(defn- leave [status]
  (flush)
  (shutdown-agents)
  (when-not (zero? (long status)) (System/exit status)))

(defn- namespace-of
  "The symbol of the namespace that the file begins with, or nil."
  [path]
  (with-open [reader (java.io.PushbackReader. (io/reader path))]
    (let [form (binding [*read-eval* false] (read {:eof nil :read-cond :allow} reader))]
      (when (and (seq? form) (= 'ns (first form)) (symbol? (second form)))
        (second form)))))

(defn- calls-itself?
  "True if the file calls its -main, as a script does."
  [path]
  (some? (re-find #"(?m)^\((apply\s+)?-main[\s)]" (slurp path))))

(defn- entry
  "The -main of the file that was loaded; nil if it has none, or calls it itself."
  [path]
  (when-some [main (some-> (namespace-of path) find-ns (ns-resolve '-main))]
    (when-not (calls-itself? path) main)))

(defn- run-program [path args]
  (main/with-bindings
    (binding [*command-line-args* args]
      (in-ns 'user)
      (load-file path)
      (some-> (entry path) (apply args)))))

(def ^:private pause-ms 20)

(defn- await-end
  "Fibers are daemons: waits while a process that has a name, or a scope, is alive."
  []
  (while (or (seq (Processes/names)) (pos? (Scope/alive)))
    (Thread/sleep (long pause-ms))))

(defn- run-file [path args wait?]
  (leave (try
           (run-program path args)
           (when wait? (await-end))
           0
           (catch Throwable e
             (flush)
             (binding [*out* *err*] (run! println (report e)) (flush))
             1))))

(defn -main
  "Runs the file with its arguments, and waits until no process with a name and no scope is alive, unless --no-wait stands before the
  file. The JVM ends with 0, 1 when the program throws, or as the program says."
  [& arguments]
  (let [wait? (not= "--no-wait" (first arguments))
        [path & args] (if wait? arguments (rest arguments))]
    (run-file path args wait?)))
