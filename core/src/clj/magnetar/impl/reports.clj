(ns magnetar.impl.reports
  "Reports of failures: how they write the error, since what an ex-info carries may have no end, and where they go."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ExceptionInfo)
   (java.util.concurrent.atomic AtomicBoolean)
   (java.util.function Consumer Supplier UnaryOperator)
   (magnetar.kernel.report Excerpt Failures Failures$Failure Frames Unwinding)))

(set! *warn-on-reflection* true)

(def ^:private most-characters 3000)

(defn beginning
  "The printed form of a value, or the beginning of it: no more is printed than is returned."
  [x]
  (let [out (Excerpt. most-characters)
        end (try
              (print-method x out)
              (catch Throwable _ "..."))]
    (str out end)))

(defn cut
  "The text, or so many of its characters and two dots."
  [text most]
  (if (< (long most) (count text)) (str (subs text 0 most) "..") text))

(defn words
  "What an error says, as its toString, with no more of its data than can be read."
  [^Throwable error]
  (if (instance? ExceptionInfo error)
    (str (.getName (class error)) ": " (ex-message error) " " (beginning (ex-data error)))
    (str error)))

(defn function-name
  "The name of the function that a class was made of, as in its source, with \"fn\" for one without a name."
  [class-name]
  (-> (main/demunge class-name)
      (str/replace #"--\d+" "")
      (str/replace #"/eval\d+(?=/|$)" "")
      (str/replace #"(/fn)+(?=/|$)" "/fn")))

(Failures/setText words)

(Frames/setNames (reify UnaryOperator (apply [_ class-name] (function-name class-name))))

;; ---- frames

(defn of-program?
  "Is the frame neither Clojure's, nor this library's, nor the JDK's?"
  [^StackTraceElement frame]
  (Frames/isOfProgram (.getClassName frame)))

(defn frame-of
  "The innermost frame of the program on the stack of the thread, or nil."
  ^StackTraceElement [^Thread thread]
  (some->> thread .getStackTrace (filter of-program?) first))

;; ---- reports

(defn report
  "Reports an error that this thread met and no caller will see; `site` names what threw it."
  ([error] (Failures/report (Thread/currentThread) error))
  ([^String site error] (Failures/report site (Thread/currentThread) error)))

(defn stop-here
  "Called for an error that goes no further: throws on what ends the fiber, and sets an interrupt again."
  [error]
  (cond
    (instance? Unwinding error) (throw error)
    (instance? InterruptedException error) (.interrupt (Thread/currentThread))))

(defn unharmed
  "A function that does what f does, of one argument, and returns nil where f throws. The first error is reported at the site; a later one if `again?` is
  true and f has succeeded meanwhile."
  [site again? f]
  (let [failing (AtomicBoolean.)]
    (fn [x]
      (try
        (let [value (f x)]
          (when again?
            (.set failing false))
          value)
        (catch Throwable t
          (stop-here t)
          (when (.compareAndSet failing false true)
            (report site t)))))))

(def ^:private ^:const minute-nanos 60000000000)

(defn once-a-minute
  "A function of an instant in nanoseconds, for a failure that comes again and again: true if it is to be
  reported. That is a minute after the last report at the earliest."
  []
  (let [reported (atom nil)]
    (fn [now]
      (let [recent? #(and % (< (- (long now) (long %)) (long minute-nanos)))
            [before _] (swap-vals! reported #(if (recent? %) % now))]
        (not (recent? before))))))

(defn notice
  "Reports what another thread does, with `error` as its description."
  [^String site ^Thread thread error]
  (Failures/notice site thread error))

(defn- data [^Failures$Failure failure]
  {:site (.site failure)
   :thread (.thread failure)
   :error (.error failure)})

(defn- consumer [f]
  (reify Consumer
    (accept [_ failure] (f (data failure)))))

(Failures/setHooks (reify Supplier (get [_] (mapv consumer (hooks/of :failure)))))
