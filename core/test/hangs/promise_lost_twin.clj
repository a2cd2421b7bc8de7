;; What hangs: a fiber waits for a promise. The callback that should deliver it has thrown.
;; Innocent beside it: another fiber waits for promises too. A clerk delivers each of them after 10 ms. A
;; third fiber waits for the promise of the end of the day, which `:close-day` of the returned map delivers.
;;
;; Expected answer
;;   kind   :stuck: the fiber waits for a promise that no live code can deliver
;;   names  the go block of [parcel]
;;   lines  [A] derefs the promise: the reader gives `@` no line, so it has the line of the call before it
;;   should the word "promise"
;;   never  the go blocks of [customer], [clerk] and [gate]; the lines [C] and [G]
(ns promise-lost-twin
  (:require
   [magnetar.async :as a]
   [magnetar.scope :as scope]))

(defn- get-async
  "A client: calls the callback with the response, on a thread of its own."
  [_url callback called]
  (a/thread
    (try
      (callback {:status 204 :body nil})
      (catch Exception _ :logged)
      (finally (reset! called true)))))

(defn- track-parcel [url called]
  (let [answer (promise)] ; [A]
    (get-async url (fn [response] (deliver answer (parse-long (:body response)))) called) ; [T]
    @answer))

(defn- ask [questions running]
  (while @running
    (let [answer (promise)]
      (a/>! questions answer)
      @answer))) ; [C]

(defn- answer-all [questions]
  (loop [n 0]
    (when-some [answer (a/<! questions)]
      (scope/sleep 10)
      (deliver answer n)
      (recur (inc n)))))

(defn- waits? [thread]
  (and (realized? thread) (= Thread$State/WAITING (.getState ^Thread @thread))))

(defn start []
  (let [called (atom false)
        running (atom true)
        fiber (promise)
        day-ended (promise)
        questions (a/chan)
        asked (a/go ; [customer]
                (ask questions running))]
    (a/go ; [clerk]
      (answer-all questions))
    (a/go ; [gate]
      @day-ended) ; [G]
    (a/go ; [parcel]
      (deliver fiber (Thread/currentThread))
      (track-parcel "https://parcels.example/17" called))
    {:close-day #(deliver day-ended true)
     :ready #(and @called (waits? fiber))
     :stop #(do
              (reset! running false)
              (a/<! asked)
              (a/close! questions)
              (deliver day-ended true)
              (.interrupt ^Thread @fiber))}))
