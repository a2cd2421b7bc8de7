(ns magnetar.dev.alarms
  "Keeps what a test run prints on standard error, so that it can be charged to a test."
  (:require
   [clojure.string :as str])
  (:import
   (java.io ByteArrayOutputStream PrintStream PrintWriter)))

(set! *warn-on-reflection* true)

(def ^:private ^ByteArrayOutputStream printed (ByteArrayOutputStream.))

(defn keep-standard-error
  "Keeps what is printed on standard error from now on. Must come before the JDK's loggers take hold of the stream."
  []
  (let [err (PrintStream. printed true)]
    (System/setErr err)
    (alter-var-root #'*err* (constantly (PrintWriter. err true)))))

(defn take-printed
  "Returns the text that was printed since the last call."
  []
  (locking printed ; as its own methods do
    (let [text (str printed)]
      (.reset printed)
      text)))

(defn refusal
  "What to say if `culprit` printed `text`; nil for a blank text. `earlier` is the test before it, or nil."
  [culprit earlier text]
  (when-not (str/blank? text)
    (str "FAIL " culprit " printed on standard error:\n" (str/trimr text) "\n"
         "Capture and assert what is expected: with-failures, collecting or with-err of magnetar.support."
         (when earlier
           (str " If it is a late report of " earlier ", that test must wait for the end of what it ends: see CONTRIBUTING.md.")))))
