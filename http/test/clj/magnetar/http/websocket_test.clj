(ns magnetar.http.websocket-test
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.http :as http]
   [magnetar.http.support :refer [home value-of with-failures with-server]]
   [magnetar.http.websocket :as ws]
   [magnetar.impl.runtime])
  (:import
   (java.net URI)
   (java.net.http HttpClient WebSocket WebSocket$Builder WebSocket$Listener)
   (java.util.concurrent LinkedBlockingQueue TimeUnit)))

(set! *warn-on-reflection* true)

(defn- listener ^WebSocket$Listener [^LinkedBlockingQueue told]
  (reify WebSocket$Listener
    (onText [_ socket text _] (.add told [:text (str text)]) (.request ^WebSocket socket 1) nil)
    (onClose [_ _ code reason] (.add told [:close code reason]) nil)
    (onError [_ _ e] (.add told [:error e]))))

(deftest echo
  (with-failures [failures]
   (let [log (atom [])]
    (with-server [server (fn [_] (http/websocket {:on-open (fn [s] (swap! log conj :open)) :on-close (fn [s c r] (swap! log conj [c r])) :on-message (fn [s text] (ws/send s (str "re " text)))})) nil]
      (let [told (LinkedBlockingQueue.)
            socket ^WebSocket @(.buildAsync (.newWebSocketBuilder (HttpClient/newHttpClient)) (URI. (str "ws://" home ":" (http/port server) "/")) (listener told))]
        @(.sendText socket "a" true)
        (is (= [:text "re a"] (.poll told 5 TimeUnit/SECONDS)))
        @(.sendClose socket 1000 "bye")
        (is (= [:close 1000 "bye"] (.poll told 5 TimeUnit/SECONDS)))
        (is (= [:open [1000 "bye"]] @log))
        (is (= 1 (http/status server))))))
    (is (= [] @failures))))
