(ns magnetar.impl.pst
  "A failure as lines for a person: what was thrown, the frames of the program, the data, the causes, and what started the thread."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.explain :as explain]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid ProcessTable)
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

(def ^:private longest-line 200)

(def ^:private longest-message 600)

(def ^:private most-causes 8)

(def ^:private most-forms 5)

(def ^:private most-starts 6)

(defn- cut
  ([text] (cut text longest-line))
  ([text most]
   (reports/cut (str/replace (str text) #"\s*[\r\n]+\s*" " ") most)))

(defn- message [^Throwable e]
  (try
    (if-some [text (.getMessage e)]
      (cut (subs text 0 (min (count text) (* 2 (long longest-message)))) longest-message)
      "no message")
    (catch Throwable t (str "(its message is not shown: getMessage threw " (.getName (class t)) ")"))))

(defn- data-line [e]
  (when-some [data (not-empty (try (dissoc (explain/data-of e) :magnetar.trace/forms) (catch Throwable _ nil)))]
    [(str "  data: " (cut (shown/shown data)))]))

(defn- frame-line [line]
  (str "    " (when-not (str/starts-with? line "(") "at ") (cut line)))

(defn- frame-lines [^Throwable e most]
  (let [frames (try (.getStackTrace e) (catch Throwable _ (make-array StackTraceElement 0)))]
    (mapv frame-line (Frames/ofProgram frames most))))

(defn- reason-lines
  "The frames and the causes of the error that ended another process, as the exit reason in the data of e has them."
  [e most]
  (let [reason (:reason (explain/data-of e))]
    (when-some [frames (seq (reasons/frames reason))]
      (concat ["  the other process failed:"]
              (map frame-line (take most frames))
              (map cut (take most-causes (reasons/more-lines (update reason 0 dissoc :data))))))))

(defn- forms-of [suppressed]
  (let [forms (:magnetar.trace/forms (explain/data-of suppressed))]
    (when (sequential? forms) forms)))

(defn- form-lines [^Throwable e]
  (for [form (take most-forms (mapcat forms-of (.getSuppressed e)))]
    (str "  in the form: " (cut form))))

(defn- error-lines [heading e most]
  (concat [(str heading (.getName (class e)) ": " (message e))]
          (data-line e)
          (form-lines e)
          (frame-lines e most)
          (reason-lines e most)))

;; ---- what started the failed work

(defn- ancestors-of [^Pid pid]
  (when-some [process (ProcessTable/reach pid)]
    (:ancestors (get (.dictionary process) :magnetar.proc-lib/family))))

(defn- process-line [pid]
  (when (instance? Pid pid)
    (let [ancestors (take 5 (ancestors-of pid))]
      (str "  in the process " (cut (.label ^Pid pid)) " " pid
           (when (seq ancestors) (str ", whose ancestors are " (cut (str/join ", " (map shown/shown ancestors)))))))))

(defn- start-lines
  "What started the failed work, innermost first, as errors of scopes, tasks and calls carry it."
  [errors]
  (sequence
    (comp (distinct) (take most-starts))
    (mapcat (fn [e]
              (let [{:keys [site pid]} (explain/data-of e)]
                (remove nil? [(when (string? site) (str "  started by the " (cut site))) (process-line pid)])))
            (reverse errors))))

;; ---- what fits

(defn- all-errors
  "The lines of the errors: [those of all but the last one, those of the last one], with so many frames of each error at most."
  [errors frames]
  (let [begin (take (dec (long most-causes)) (butlast errors))
        left-out (- (count errors) (count begin) 1)
        headings (cons "" (repeat "Caused by: "))]
    [(vec (concat (mapcat #(error-lines %1 %2 frames) headings begin)
                  (when (pos? left-out) [(str "(and " left-out " more causes)")])))
     (vec (error-lines (if (seq begin) "Caused by: " "") (last errors) frames))]))

(defn- cut-within
  "So many lines, with a gap where lines are left out. The beginning stays, and the last cause and what follows it, as these say most."
  [outer root tail ^long most]
  (let [[outer root] (if (seq outer) [outer root] [root []])
        all (concat outer root tail)
        end (take (quot most 2) (concat (take 4 root) tail))
        begin (take (max 1 (- most 1 (count end))) outer)
        left-out (- (count all) (count begin) (count end))]
    (cond
      (<= (count all) most) all
      (= 1 most) begin
      :else (concat begin [(str "(and " left-out " more lines)")] end))))

(def ^:private frames-tried
  "How many frames of an error are shown at most. The first number with which all lines fit is taken."
  [12 6 4 2])

(defn lines
  "The lines of a failure, at most so many."
  [error most]
  (let [errors (explain/causes error)
        tail (vec (concat (start-lines errors)
                          (when-some [id (explain/id-of error)] [(str "(explain " id ") tells more.")])))
        tried (map #(all-errors errors %) frames-tried)
        fits? (fn [[outer root]] (<= (+ (count outer) (count root) (count tail)) (long most)))
        [outer root] (or (first (filter fits? tried)) (last tried))]
    (cut-within outer root tail most)))
