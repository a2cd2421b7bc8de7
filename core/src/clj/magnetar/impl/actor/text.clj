(ns magnetar.impl.actor.text
  "Pids and references as text, and back."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.io Writer)
   (magnetar.kernel.process LocalProcess Pid ProcessTable Ref)))

(set! *warn-on-reflection* true)

(defn pid-text
  "\"0.17.1699 name\": node, number, incarnation of the node, and what it was called."
  [^Pid pid]
  (str (.text pid) (some->> (.label pid) (str " "))))

(defn- quoted [text]
  (binding [*print-readably* true]
    (pr-str text)))

(defmethod print-method Pid [^Pid pid ^Writer out]
  (.write out (str "#magnetar/pid " (quoted (pid-text pid)))))

(defmethod print-dup Pid [pid out]
  (print-method pid out))

(defmethod print-method Ref [^Ref ref ^Writer out]
  (.write out (str "#magnetar/ref \"" (.text ref) "\"")))

(defmethod print-dup Ref [ref out]
  (print-method ref out))

(defn- unreadable [what text example]
  (throw (errors/illegal-argument :magnetar/unreadable
                                  (str "A " what " reads as in " example "; this is " (pr-str text) ".") {:text text})))

(defn- living
  "The pid of the process itself while it lives: a send to that pid looks no process up."
  [^Pid pid]
  (if-some [^LocalProcess p (ProcessTable/live pid)] (.pid p) pid))

(defn read-pid
  "The pid of this text; it is `=` to the one that was printed, and the same one if its process lives."
  [text]
  (if-some [[_ node serial creation label] (when (string? text) (re-matches #"(\d{1,9})\.(\d{1,18})\.(\d{1,18})(?: (.*))?" text))]
    (living (Pid. (parse-long node) (parse-long serial) (parse-long creation) label))
    (unreadable "pid" text "#magnetar/pid \"0.17.1699 name\"")))

(defn read-ref
  "The reference of this text; it is `=` to the one that was printed."
  [text]
  (if-some [[_ id creation] (when (string? text) (re-matches #"(\d{1,18})\.(\d{1,18})" text))]
    (Ref/read (parse-long id) (parse-long creation))
    (unreadable "reference" text "#magnetar/ref \"1042.1699\"")))
