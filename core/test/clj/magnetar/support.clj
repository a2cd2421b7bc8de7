(ns magnetar.support
  "What the tests of channels share: waiting with a bound and without sleeping, and collecting what failed."
  (:require
   [magnetar.channel :as channel]
   [magnetar.report :as report])
  (:import
   (java.io ByteArrayOutputStream PrintStream PrintWriter)
   (java.lang Thread$Builder)
   (java.util.concurrent.atomic AtomicInteger)))

(set! *warn-on-reflection* true)

(def limit-ms
  "How long a test waits for what must come."
  20000)

(defn value-of
  "The value of a promise or future, :late if it does not come."
  [reference]
  (deref reference limit-ms :late))

(defn taken
  "The next value of a channel of ours, nil if closed, :late if none comes."
  [ch]
  (channel/take ch {:timeout limit-ms :else :late}))

(defn drained
  "The values of a channel up to its end, with :late last if that does not come."
  [ch]
  (loop [values []]
    (let [value (taken ch)]
      (cond
        (nil? value) values
        (= :late value) (conj values :late)
        :else (recur (conj values value))))))

(defn wait-until
  "True once `ready?` is; false if it does not come to be."
  [ready?]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (loop []
      (cond
        (ready?) true
        (> (System/nanoTime) deadline) false
        :else (do (Thread/yield) (recur))))))

(defmacro eventually
  "True once the expression is true; false if it does not come to be."
  [expression]
  `(wait-until (fn [] ~expression)))

(defn waiting-takers
  "How many wait to take from the channel."
  [ch]
  (count (:takers (channel/info ch))))

(defn waiting-putters
  "How many wait to put on the channel."
  [ch]
  (count (:putters (channel/info ch))))

(defn hooked
  "Calls f while the hook of the kind is there; returns the value of f."
  [kind hook f]
  (report/add-hook kind hook)
  (try
    (f)
    (finally (report/remove-hook kind hook))))

(defmacro with-hook
  "Runs body while the hook of the kind is there, see `magnetar.report`."
  [[kind hook] & body]
  `(hooked ~kind ~hook (fn [] ~@body)))

(defn failures-of
  "Calls f with an atom of the failures that were reported since, oldest first; returns the value of f."
  [f]
  (let [failures (atom [])]
    (with-hook [:failure #(swap! failures conj %)]
      (f failures))))

(defmacro with-failures
  "Runs body with `failures` bound to an atom of the failures that are reported meanwhile."
  [[failures] & body]
  `(failures-of (fn [~failures] ~@body)))

(defn collecting
  "Calls f while the reports of processes of OTP go into the atom, which is empty at first; returns the value of f.
  A process that f ends must have ended when f returns: its last report comes before its :DOWN and its :EXIT."
  [reports f]
  (reset! reports [])
  (with-hook [:report #(swap! reports conj %)]
    (f)))

(defn refusal
  "The data of the error of misuse that f throws, with its :message; nil if it throws none."
  [f]
  (try
    (f)
    nil
    (catch IllegalArgumentException e
      (assoc (ex-data e) :message (ex-message e)))))

(defn message-of
  "The message of a reported failure."
  [failure]
  (ex-message (:error failure)))

(defn with-err
  "Calls f with a function that gives what was printed on standard error since, by *err* of all threads too."
  [f]
  (let [before System/err
        bytes (ByteArrayOutputStream.)
        err (PrintStream. bytes true)]
    (System/setErr err)
    (try
      (with-redefs [*err* (PrintWriter. err true)]
        (f #(str bytes)))
      (finally (System/setErr before)))))

(defn start-thread
  "Starts a thread, :virtual or :platform, that delivers the value of f, or what it threw; returns [thread promise]."
  [kind f]
  (let [outcome (promise)
        builder (if (= kind :virtual) (Thread/ofVirtual) (.daemon (Thread/ofPlatform)))]
    [(.start ^Thread$Builder builder ^Runnable (fn [] (deliver outcome (try (f) (catch Throwable e e))))) outcome]))

(defn counter
  "A counter that threads share."
  ^AtomicInteger []
  (AtomicInteger.))

(defn collected?
  "True once the garbage collector has cleared the reference; false if it does not."
  [^java.lang.ref.Reference reference]
  (wait-until #(or (.refersTo reference nil)
                   (do (System/gc) (.refersTo reference nil)))))
