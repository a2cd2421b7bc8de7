;; What hangs: a fiber asks a client for a rate and waits for a promise. The callback throws before it
;; delivers the promise, because the answer has no body. The client catches what a callback throws, as many
;; do.
;;
;; Expected answer
;;   kind   :stuck: the fiber waits for a promise that no live code can deliver
;;   names  the go block of [quote]
;;   lines  [A] derefs the promise: the reader gives `@` no line, so it has the line of the call before it
;;   should the word "promise"
;;   never  any other fiber
(ns promise-lost-plain
  (:require
   [magnetar.async :as a]))

(defn- get-async
  "A client: calls the callback with the response, on a thread of its own."
  [_url callback called]
  (a/thread
    (try
      (callback {:status 500 :body nil})
      (catch Exception _ :logged)
      (finally (reset! called true)))))

(defn- rate [url called]
  (let [answer (promise)] ; [A]
    (get-async url (fn [response] (deliver answer (parse-double (:body response)))) called) ; [T]
    @answer))

(defn- waits? [thread]
  (and (realized? thread) (= Thread$State/WAITING (.getState ^Thread @thread))))

(defn start []
  (let [called (atom false)
        fiber (promise)]
    (a/go ; [quote]
      (deliver fiber (Thread/currentThread))
      (rate "https://rates.example/eur" called))
    {:ready #(and @called (waits? fiber))
     :stop #(.interrupt ^Thread @fiber)}))
