(ns magnetar.browser.http-test
  "EventSource and WebSocket of a browser against `magnetar.http`."
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.browser.chromium :as chromium]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.websocket :as ws]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def ^:private ^:dynamic *browser* nil)

(use-fixtures :once (fn [tests]
                      (chromium/call-with-browser #(binding [*browser* %] (tests)))))

(defn- page-of [title]
  {:status 200 :headers {"Content-Type" "text/html; charset=utf-8"} :body (str "<!doctype html><title>" title "</title>")})

(defn- open
  "Opens the first page of the server, under the host."
  [server host]
  (chromium/open-page *browser* (str "http://" host ":" (http/port server) "/")))

(defmacro ^:private with-server [[server handler] & body]
  `(let [~server (http/start ~handler {:port 0})]
     (try
       ~@body
       (finally (http/stop ~server {:timeout 0})))))

;; ---- events

(defn- events-of
  "A response with these events, which ends after them."
  [events]
  (let [ch (channel/chan {:size 10})]
    (run! #(channel/put ch %) events)
    (channel/close ch)
    (http/events ch)))

(deftest ^{:limit 120000} an-event-source-connects-again-after-the-last-event-until-204
  (let [asked (atom [])
        responses [(events-of [{:id "1" :data "one" :retry 10} {:id "2" :data "two\nlines"}])
                   (events-of [{:id "3" :event "named" :data "three, größer"}])
                   {:status 204}]]
    (with-server [server (fn [{:keys [uri headers]}]
                           (if (= "/events" uri)
                             (responses (dec (count (swap! asked conj (headers "last-event-id")))))
                             (page-of "Test")))]
      (is (= ["one" "two\nlines" "named three, größer" "closed"]
             (chromium/evaluate (open server "127.0.0.1")
                                "new Promise(resolve => {
                                   const seen = [], source = new EventSource('/events');
                                   source.onmessage = e => seen.push(e.data);
                                   source.addEventListener('named', e => seen.push('named ' + e.data));
                                   source.onerror = () => {
                                     if (source.readyState === EventSource.CLOSED) { seen.push('closed'); resolve(seen); }
                                   };
                                 })"))))
    (is (= [nil "2" "3"] @asked))))

(deftest ^{:limit 120000} the-channel-is-closed-when-the-page-is
  (let [ch (channel/chan)
        closed (promise)]
    (with-server [server (fn [{:keys [uri]}]
                           (if (= "/events" uri)
                             (http/events ch {:heartbeat 50})
                             (page-of "Test")))]
      (let [page (open server "127.0.0.1")]
        (doto (Thread. ^Runnable #(do (while (channel/put ch "tick")) (deliver closed true)))
          (.setDaemon true)
          (.start))
        (is (= "tick" (chromium/evaluate page "new Promise(resolve => { new EventSource('/events').onmessage = e => resolve(e.data); })")))
        (chromium/close-page page)
        (is (= true (deref closed 60000 :late)))))))

;; ---- sockets

(defn- echo [{:keys [uri]}]
  (if (= "/socket" uri)
    (http/websocket {:on-message (fn [socket message] (ws/send socket message))})
    (page-of "Test")))

(defn- exchange
  "What a page says that opens the socket, sends a text and bytes, and closes."
  [page server]
  (chromium/evaluate page (str "new Promise(resolve => {
                                  const seen = [], socket = new WebSocket('ws://127.0.0.1:" (http/port server) "/socket');
                                  socket.binaryType = 'arraybuffer';
                                  socket.onopen = () => { socket.send('größer'); socket.send(new Uint8Array([1, 2, 3])); };
                                  socket.onmessage = e => {
                                    seen.push(typeof e.data === 'string' ? e.data : Array.from(new Uint8Array(e.data)));
                                    if (seen.length === 2) socket.close(4000, 'enough');
                                  };
                                  socket.onclose = e => { seen.push(e.code); resolve(seen); };
                                })")))

(deftest ^{:limit 120000} a-page-of-the-same-host-may-open-a-web-socket-and-one-of-another-may-not
  (with-server [server echo]
    (is (= ["größer" [1 2 3] 4000] (exchange (open server "127.0.0.1") server)))
    (is (= [1006] (exchange (open server "localhost") server)))))

(deftest ^{:limit 120000} a-page-sees-that-a-server-stops
  (let [server (http/start echo {:port 0})
        page (open server "127.0.0.1")]
    (try
      (is (= "open" (chromium/evaluate page "new Promise(resolve => {
                                               window.socket = new WebSocket('ws://' + location.host + '/socket');
                                               socket.onclose = e => { document.title = 'closed ' + e.code; };
                                               socket.onopen = () => resolve('open');
                                             })")))
      (finally (http/stop server)))
    (is (= true (chromium/await-true page "document.title.startsWith('closed')")))
    (is (= "closed 1001" (chromium/evaluate page "document.title")))))
