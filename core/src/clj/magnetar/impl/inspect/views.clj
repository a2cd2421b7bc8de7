(ns magnetar.impl.inspect.views
  "Answers of inspection as lines of text: what `bin/magnetar inspect` prints, and what a program prints on a signal."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.text :as text]
   [magnetar.impl.inspect.top :as top]
   [magnetar.impl.inspect.tree :as tree]))

(set! *warn-on-reflection* true)

(defn- findings [title none found]
  (if (seq found)
    (cons (str title ":") (text/with-option-once (map text/line found)))
    [none]))

(defn- no-deadlock [source]
  (if (= :jdk source)
    "No deadlock over monitors and locks."
    "No deadlock."))

(defn- mailbox
  "The mailbox of a process in a line."
  [{:keys [name messages capacity waiting-senders oldest skipped-by]}]
  (str "  " name ": " messages (when capacity (str " of " capacity)) (if (= 1 messages) " message" " messages")
       (when (and waiting-senders (pos? (long waiting-senders))) (str ", " waiting-senders " waiting to send"))
       ", the oldest " (first oldest)
       (when-some [{:keys [at clauses]} skipped-by]
         (str ", which no clause matches" (when at (str " at " at)) (when (seq clauses) (str ": " (str/join "; " clauses)))))))

(defn- of-name
  "The lines about those with a name."
  [{:keys [name count why]}]
  (let [more (- (long count) (clojure.core/count why))]
    (cond
      (empty? why) [(str "No process, fiber or thread has the name " name "; the view tree shows the names.")]
      (pos? more) (concat (map text/line why) [(str "  " more " more have this name.")])
      :else (map text/line why))))

(def all
  "For each view the question that it asks, :dump, :top, :leaks or :why, and the function from the answer to lines."
  {"deadlocks" [:dump (fn [{:keys [deadlocks source]}] (findings "Deadlocks" (no-deadlock source) deadlocks))]
   "stuck" [:dump (fn [{:keys [why-stuck]}] (findings "Blocked" "Nothing is blocked." why-stuck))]
   "restarts" [:dump (fn [{:keys [restarts]}] (if (seq restarts) (map text/restarts restarts) ["No supervisor."]))]
   "mailboxes" [:dump (fn [{:keys [mailboxes]}] (if (seq mailboxes) (cons "Mailboxes:" (map mailbox mailboxes)) ["No process has messages."]))]
   "tree" [:dump (fn [{:keys [tree]}] [(tree/text tree)])]
   "top" [:top (fn [{:keys [rows]}] [(top/table (top/most-of :cpu top/usual-most rows))])]
   "leaks" [:leaks (fn [{:keys [leaks]}] (findings "Leaks" "No leak." leaks))]
   "stuck NAME" [:why of-name]
   "dump" [:dump (fn [state] [(pr-str state)])]})

(defn lines
  "The lines of these views of the answer, one view after the other."
  [views answer]
  (text/with-option-once (mapcat #((second (all %)) answer) views)))

(defn- hidden [n]
  (case (long n)
    0 ""
    1 " At least 1 go block that is not shown ran or held a monitor."
    (str " At least " n " go blocks that are not shown ran or held a monitor.")))

(defn- of-jdk
  "The lines about a thread dump of the JDK."
  [{:keys [threads waiting not-shown go-blocks-not-shown-at-least] :as analysis}]
  (concat (lines ["deadlocks" "stuck"] analysis)
          (findings "Waiting" "No other thread of the program waits." waiting)
          [(str threads " threads. " not-shown (hidden go-blocks-not-shown-at-least))]))

(defn- lost
  "The line about go blocks that are not in the dump since the garbage collector has removed them; none without them."
  [{:keys [lost-go-blocks]}]
  (when (pos? (long (or lost-go-blocks 0)))
    [(str (if (= 1 lost-go-blocks) "1 go block has" (str lost-go-blocks " go blocks have"))
          " been lost since the start: nothing could reach what they waited for, so they were removed. "
          "-Dmagnetar.track-go-blocks=true keeps and shows such go blocks.")]))

(defn overview
  "The lines of a dump, or of what `analyze` returns: all views that need no further question."
  [dump]
  (if (= :jdk (:source dump))
    (of-jdk dump)
    (concat (lines ["deadlocks" "stuck" "restarts" "tree"] dump) (lost dump))))
