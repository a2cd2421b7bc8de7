;; What hangs: a fiber waits in `await-callback` for the weather. The callback throws before it calls
;; `resolve`. The server :trips asked that fiber's channel in a handle-call, and a client waits for :trips.
;;
;; Expected answer
;;   kind   :stuck: :trips -> go block -> a callback that no live code can call
;;   names  the go block of [weather]
;;   lines  [A] waits for the callback
;;   should the word "callback"
;;   victim the server :trips, which takes at [B]; the go block of [client]
;;   never  any other fiber; :trips must not be the cause
(ns promise-lost-hop
  (:require
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]))

(defn- get-async
  "A client: calls the callback with the response, on a thread of its own."
  [_url callback called]
  (a/thread
    (try
      (callback {:status 500 :body nil})
      (catch Exception _ :logged)
      (finally (reset! called true)))))

(defn- temperature [url called]
  (scope/await-callback ; [A]
    (fn [resolve _reject]
      (get-async url (fn [response] (resolve (parse-double (:body response)))) called)))) ; [T]

(defn- trips [called fiber]
  {:init (fn [_] [:ok nil])
   :handle-call (fn [city _client state]
                  (let [forecast (a/go ; [weather]
                                   (deliver fiber (Thread/currentThread))
                                   (temperature (str "https://weather.example/" city) called))]
                    [:reply (a/<! forecast) state]))}) ; [B]

(defn- waits? [thread]
  (and (realized? thread) (= Thread$State/WAITING (.getState ^Thread @thread))))

(defn start []
  (let [called (atom false)
        fiber (promise)]
    (gs/start (trips called fiber) nil {:name :trips})
    (a/go ; [client]
      (gs/call :trips "oslo" {:timeout :infinity}))
    {:ready #(and @called
                  (waits? fiber)
                  (= :waiting (actor/process-info (actor/whereis :trips) :status)))
     :stop #(do
              (.interrupt ^Thread @fiber)
              (some-> (actor/whereis :trips) (actor/exit :kill)))}))
