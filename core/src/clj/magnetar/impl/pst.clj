(ns magnetar.impl.pst
  "A failure as lines for a person: what was thrown, the frames of the program, the data, the causes, and what started the thread."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.explain :as explain]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid ProcessTable)
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

(def ^:private longest-line 200)

(def ^:private most-frames 12)

(def ^:private most-causes 8)

(defn- cut [text]
  (let [text (str/replace (str text) #"\s*[\r\n]+\s*" " ")]
    (if (< (long longest-line) (count text))
      (str (subs text 0 longest-line) "..")
      text)))

(defn- message [^Throwable e]
  (try
    (if-some [text (.getMessage e)]
      (cut (subs text 0 (min (count text) (* 4 (long longest-line)))))
      "no message")
    (catch Throwable t (str "(its message is not shown: getMessage threw " (.getName (class t)) ")"))))

(defn- data-line [e]
  (when-some [data (not-empty (try (dissoc (ex-data e) :magnetar.trace/forms) (catch Throwable _ nil)))]
    [(str "  data: " (cut (shown/shown data)))]))

(defn- frame-lines [^Throwable e]
  (let [frames (try (.getStackTrace e) (catch Throwable _ (make-array StackTraceElement 0)))]
    (mapv #(str "    at " (cut %)) (Frames/ofProgram frames most-frames))))

(defn- form-lines [^Throwable e]
  (for [^Throwable s (try (.getSuppressed e) (catch Throwable _ nil))
        form (take 5 (try (:magnetar.trace/forms (ex-data s)) (catch Throwable _ nil)))]
    (str "  in the form: " (cut (shown/shown form)))))

(defn- error-lines [heading e]
  (concat [(str heading (.getName (class e)) ": " (message e))]
          (data-line e)
          (form-lines e)
          (frame-lines e)))

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
  (distinct
    (mapcat (fn [e]
              (let [{:keys [site pid]} (try (ex-data e) (catch Throwable _ nil))]
                (remove nil? [(when (string? site) (str "  started by the " (cut site))) (process-line pid)])))
            (reverse errors))))

(defn- limited [lines most]
  (let [most (long most)]
    (if (<= (count lines) most)
      lines
      (concat (take (dec most) lines) [(str "(and " (- (count lines) (dec most)) " more lines)")]))))

(defn lines
  "The lines of a failure, at most so many."
  [error most]
  (let [errors (explain/causes error)
        more (- (count errors) (long most-causes))]
    (limited (vec (concat (error-lines "" (first errors))
                          (mapcat #(error-lines "Caused by: " %) (take (dec (long most-causes)) (rest errors)))
                          (when (pos? more) [(str "(and " more " more causes)")])
                          (start-lines errors)
                          (when-some [id (explain/id-of error)] [(str "(explain " id ") tells more.")])))
             most)))
