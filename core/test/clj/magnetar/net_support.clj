(ns magnetar.net-support
  "What the tests of sockets have in common."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [after receive self spawn]]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.net :as net]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.scope :as scope]
   [magnetar.support :refer [collecting eventually limit-ms]])
  (:import
   (clojure.lang IExceptionInfo)
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(set! *warn-on-reflection* true)

(defn in-process
  "A fixture: the test runs in a process, and ends when all processes that it started have ended."
  [test]
  (collecting (atom []) (fn [] (scenarios/leaving-nobody #(actor/with-process {} (test))))))

(def home "127.0.0.1")

(defn listener [& [options]]
  (net/listen 0 (merge {:host home} options)))

(defn pair
  "[client served]: two connections of this process with each other. Both have the options."
  [& [options]]
  (let [l (listener)
        client (net/connect home (net/port l) options)
        served (net/accept l options)]
    (net/close l)
    [client served]))

(def as-stream {:active false :packet :line :as :string})

(defn thrown
  "[id reason message] of what f throws."
  [f]
  (try
    [:done (f)]
    (catch Exception e
      (let [{:magnetar/keys [reason] word :reason} (.getData ^IExceptionInfo e)]
        [reason word (ex-message e)]))))

(defmacro refused [& body]
  `(thrown (fn [] ~@body)))

(defn next-message []
  (receive
    message message
    (after limit-ms :late)))

(defn forwarding
  "A process that sends this one [:got its-pid message] for each message that it gets."
  []
  (let [me (self)]
    (spawn #(loop []
              (receive message (actor/! me [:got (self) message]))
              (recur)))))

(defn message-count []
  (actor/process-info (self) :message-queue-len))

(defn reader-of [conn]
  (first (filter #(= (str "reader of " conn) (:name %)) (inspect/fibers))))

(defn waits-in?
  "Does the thread wait in a call of a class whose name contains this?"
  [part ^Thread thread]
  (and (#{Thread$State/WAITING Thread$State/TIMED_WAITING} (.getState thread))
       (some #(str/includes? (.getClassName ^StackTraceElement %) part) (.getStackTrace thread))))

(def in-socket? "Does the thread wait in an operation of a socket?" (partial waits-in? "NioSocketImpl"))
(def waits-for-accept? (partial waits-in? "net.acceptor"))
(def waits-for-read? (partial waits-in? "net.unix"))

(defn acceptor-of [l]
  (first (filter #(= (str "acceptor of " home ":" (net/port l)) (:name %)) (inspect/fibers))))

(defn cancelled-while
  "Calls f in a fork, which is cancelled while (waits? thread); returns whether it was so."
  [waits? f]
  (scope/with-scope [s]
    (let [thread (promise)
          fork (scope/fork s #(do (deliver thread (Thread/currentThread)) (f)))
          waited? (eventually (waits? @thread))]
      (scope/cancel fork)
      (scope/result fork)
      waited?)))

(defn cancelled-in-socket [f]
  (cancelled-while in-socket? f))

(defn owning
  "A process that owns what (f) returns, with that, and waits."
  [f]
  (let [me (self)
        pid (spawn #(do (actor/! me [::owns (self) (f)])
                        (receive :end nil)))]
    [pid (receive [::owns pid thing] thing)]))

(defn await-end [pid]
  (let [ref (actor/monitor pid)]
    (receive [:DOWN ref :process _ _] nil)))

(defn with-folder
  "Calls f with the path of a new folder."
  [f]
  (let [folder (Files/createTempDirectory "net" (make-array FileAttribute 0))]
    (try
      (f (str folder))
      (finally
        (run! #(.delete ^File %) (reverse (file-seq (.toFile folder))))))))
