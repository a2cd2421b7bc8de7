(ns magnetar.net.acceptor
  "Accepts connections of a listening socket for the threads that wait for one.

  A fiber accepts while a thread waits, and hands each connection to the thread that has waited longest. So a
  thread that stops waiting leaves the socket alone. The connection that comes next is `ready` for the next
  call.

  While the program has too many open files, the fiber pauses and tries again. An error would end the
  processes that accept, and the server with them, although connections that end make room. It is reported
  once a minute at most: descriptors may run out with each connection that ends.

  One atom holds the state: the queues :waiting, of Waits, and :ready, of streams; :accepting? while there is
  the fiber; and :closed?."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.waits :as waits]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.transport :as transport])
  (:import
   (clojure.lang PersistentQueue)
   (java.util.concurrent CompletableFuture TimeUnit TimeoutException)
   (magnetar.kernel.fiber Fibers)))

(set! *warn-on-reflection* true)

;; `closed` is completed by the close, and `gone` when the file of the socket is closed. `report-shortage?`
;; says whether to report too many open files, see `reports/once-a-minute`.
(deftype Acceptor [socket address state report-shortage? ^CompletableFuture closed ^CompletableFuture gone])

;; `there` is released when the arrival is.
(deftype Wait [^CompletableFuture arrival there])

(defn acceptor
  "An acceptor of this socket, which has no fiber yet."
  ^Acceptor [socket]
  (Acceptor. socket (transport/text (transport/local socket))
             (atom {:waiting PersistentQueue/EMPTY :ready PersistentQueue/EMPTY})
             (reports/once-a-minute) (CompletableFuture.) (CompletableFuture.)))

(defn- name-of [^Acceptor acceptor]
  (str "acceptor of " (.-address acceptor)))

(defn- complete [^Wait wait arrival]
  (.complete ^CompletableFuture (.-arrival wait) arrival)
  (waits/release (.-there wait)))

(defn- arrival-of
  "The arrival, which is there or about to come."
  [^Wait wait]
  (.join ^CompletableFuture (.-arrival wait)))

;; ---- arrivals: a stream, or what `accept` threw

(defn- drop-arrival [arrival]
  (when-not (or (nil? arrival) (instance? Throwable arrival)) ; nil if the listener was closed meanwhile
    (transport/close-quietly arrival)))

(defn- arrived
  "The state after an arrival, which the first thread gets that waits. An error for which no thread waits is
  dropped."
  [{:keys [waiting closed?] :as state} arrival]
  (cond
    closed? state
    (peek waiting) (update state :waiting pop)
    (instance? Throwable arrival) state
    :else (update state :ready conj arrival)))

(defn- deliver-arrival [{:keys [waiting closed?]} arrival]
  (cond
    closed? (drop-arrival arrival)
    (peek waiting) (complete (peek waiting) arrival)))

(defn- give-back
  "Called with an arrival whose thread does not want it any more. An error is dropped: it may be about that
  thread alone, and threads that wait have a fiber, which meets what goes on."
  [^Acceptor acceptor arrival]
  (when-not (instance? Throwable arrival)
    (let [[before _] (swap-vals! (.-state acceptor) arrived arrival)]
      (deliver-arrival before arrival))))

;; ---- the fiber

(defn- goes-on-while-waited-for [{:keys [waiting closed?] :as state}]
  (assoc state :accepting? (boolean (and (peek waiting) (not closed?)))))

(def ^:private ^:const first-pause-ms 10)
(def ^:private ^:const longest-pause-ms 1000)

(defn- pause
  "Waits for a time, or until the acceptor is closed."
  [^Acceptor acceptor ms]
  (try
    (.get ^CompletableFuture (.-closed acceptor) ms TimeUnit/MILLISECONDS)
    (catch TimeoutException _)))

(defn- next-arrival [^Acceptor acceptor ^long ms]
  (let [arrival (try
                  (transport/accept (.-socket acceptor))
                  (catch Throwable e e))]
    (if (or (not (refusals/too-many-files? arrival)) (:closed? @(.-state acceptor)))
      arrival
      (do
        (when ((.-report-shortage? acceptor) (clock/now))
          (reports/report (name-of acceptor) (refusals/too-many-files (name-of acceptor) arrival)))
        (pause acceptor ms)
        (recur acceptor (min longest-pause-ms (* 2 ms)))))))

(defn- accept-all [^Acceptor acceptor]
  (let [arrival (next-arrival acceptor first-pause-ms)
        [before after] (swap-vals! (.-state acceptor) #(goes-on-while-waited-for (arrived % arrival)))]
    (deliver-arrival before arrival)
    (cond
      (:accepting? after) (recur acceptor)
      (:closed? after) (.complete ^CompletableFuture (.-gone acceptor) true))))

(defn- without [queue wait]
  (into PersistentQueue/EMPTY (remove #(identical? wait %)) queue))

;; T1 starts the fiber, T2 waits as well. If T1 fails, or the fiber, no later call may come to start one for T2.
(defn- fail-waits
  "Called when there is no fiber any more, for want of memory: all that wait throw the error, except `wait`. A
  later call can start the fiber."
  [^Acceptor acceptor wait e]
  (let [[{:keys [waiting closed?]} _]
        (swap-vals! (.-state acceptor) assoc :accepting? false :waiting PersistentQueue/EMPTY)]
    (when closed?
      (.complete ^CompletableFuture (.-gone acceptor) true))
    (run! #(complete % e) (without waiting wait))))

(defn- run-fiber [acceptor]
  (let [fiber (Fibers/begun)]
    (try
      (accept-all acceptor)
      (catch Throwable e
        (fail-waits acceptor nil e))
      (finally (Fibers/ended fiber)))))

(defn- start-fiber
  "Starts the fiber. It takes no context along: a connection is no work of the caller's."
  [^Acceptor acceptor]
  (Fibers/begin (Fibers/prepareWithoutContext (name-of acceptor) nil #(run-fiber acceptor))))

;; ---- waits

(defn- start-for
  "Starts the fiber for this wait, or throws."
  [acceptor wait]
  (try
    (start-fiber acceptor)
    (catch Throwable e
      (fail-waits acceptor wait e)
      (throw e))))

(defn- entered [{:keys [ready closed?] :as state} wait]
  (cond
    closed? state
    (peek ready) (update state :ready pop)
    :else (-> state (update :waiting conj wait) (assoc :accepting? true))))

(defn- left?
  "Takes the wait out of the queue; false if it is not there any more, as an arrival was found for it."
  [^Acceptor acceptor wait]
  (let [[before _] (swap-vals! (.-state acceptor) update :waiting without wait)]
    (boolean (some #(identical? wait %) (:waiting before)))))

(defn- arrives?
  "Waits; false after the deadline. After a cancellation or an interrupt, what has arrived is for another
  thread."
  [^Acceptor acceptor ^Wait wait deadline]
  (try
    (waits/released? (.-there wait) waits/for-connection (.-address acceptor) (clock/left deadline))
    (catch Throwable e
      (when-not (left? acceptor wait)
        (give-back acceptor (arrival-of wait)))
      (throw e))))

(defn- await-arrival [acceptor wait deadline]
  (if (or (arrives? acceptor wait deadline) (not (left? acceptor wait)))
    (arrival-of wait)
    ::transport/timeout))

(defn accept
  "The stream of the next connection; ::transport/timeout after the deadline, nil if the acceptor is closed.
  Throws what the socket throws."
  [^Acceptor acceptor deadline]
  (let [wait (Wait. (CompletableFuture.) (waits/latch))
        [{:keys [ready accepting? closed?]} after] (swap-vals! (.-state acceptor) entered wait)
        arrival (cond
                  closed? nil
                  (peek ready) (peek ready)
                  :else (do
                          (when (and (:accepting? after) (not accepting?))
                            (start-for acceptor wait))
                          (await-arrival acceptor wait deadline)))]
    (if (instance? Throwable arrival)
      (throw arrival)
      arrival)))

;; ---- closed

;; T1 is the fiber, which waits in `accept`; T2 closes. The JDK then leaves the close of the file to T1, and
;; until T1 has run the port is taken.
(defn close
  "Closes the socket and the connections that no thread has got; ends the waits."
  [^Acceptor acceptor]
  (let [[{:keys [waiting ready accepting?]} _]
        (swap-vals! (.-state acceptor) assoc
                    :closed? true :waiting PersistentQueue/EMPTY :ready PersistentQueue/EMPTY)]
    (transport/close-quietly (.-socket acceptor))
    (.complete ^CompletableFuture (.-closed acceptor) true)
    (when-not accepting?
      (.complete ^CompletableFuture (.-gone acceptor) true))
    (run! #(complete % nil) waiting)
    (run! transport/close-quietly ready)))
