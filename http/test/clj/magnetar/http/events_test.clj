(ns magnetar.http.events-test
  "Server-sent events from a channel."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.http.events :as events]
   [magnetar.http.support :refer [client connect eventually for-version get-raw request request-text send-text with-failures with-server]]
   [magnetar.impl.runtime])
  (:import
   (java.io BufferedReader InputStreamReader)
   (java.net Socket)
   (java.net.http HttpClient HttpResponse HttpResponse$BodyHandlers)))

(set! *warn-on-reflection* true)

(deftest an-event-is-text-of-the-standard
  (are [event text] (= text (events/text event))
    "a" "data: a\n\n"
    "a\nb\r\nc\rd" "data: a\ndata: b\ndata: c\ndata: d\n\n"
    "" "data: \n\n"
    {:data "a" :event "order"} "event: order\ndata: a\n\n"
    {:id "7" :data ""} "id: 7\ndata: \n\n"
    {:retry 3000} "retry: 3000\n\n"))

(deftest what-is-no-event-is-refused
  (are [event words] (thrown-with-msg? clojure.lang.ExceptionInfo words (events/text event))
    7 #"this is none: 7"
    {:dta "a"} #"this is none"
    {:data 7} #"its :data has to be a string"
    {:event "a\nb" :data "a"} #"its :event has to be a string of one line"
    {:retry "1"} #"its :retry has to be a number of milliseconds"))

(defn- lines
  "A reader of the lines of the events that the server sends."
  ^BufferedReader [server version]
  (let [^HttpResponse response (.send ^HttpClient (client version) (request server "GET" "/" nil) (HttpResponse$BodyHandlers/ofInputStream))]
    (is (= ["text/event-stream"] (get (.map (.headers response)) "content-type")))
    (BufferedReader. (InputStreamReader. ^java.io.InputStream (.body response)))))

(deftest each-event-arrives-at-once
  (doseq [version [1 2]]
    (testing (str "HTTP/" version)
      (let [ch (channel/chan)]
        (with-server [server (fn [_] (http/events ch)) (for-version version)]
          (let [asked (future (lines server version))]
            (channel/put ch "first")
            (let [in ^BufferedReader @asked]
              (is (= ["data: first" ""] [(.readLine in) (.readLine in)]))
              (channel/put ch {:event "order" :data "second"})
              (is (= ["event: order" "data: second" ""] [(.readLine in) (.readLine in) (.readLine in)]))
              (channel/close ch)
              (is (nil? (.readLine in))))))))))

(deftest a-comment-is-sent-while-no-event-comes
  (let [ch (channel/chan)]
    (with-server [server (fn [_] (http/events ch {:heartbeat 5})) nil]
      (let [in (lines server 1)]
        (is (= [":" "" ":" ""] [(.readLine in) (.readLine in) (.readLine in) (.readLine in)]))))))

(deftest a-stream-may-last-longer-than-a-request
  (let [ch (channel/chan)]
    (with-failures [failures]
      (with-server [server (fn [_] (http/events ch {:heartbeat 5})) {:request-timeout 1000}]
        (let [in (lines server 1)
              beginning (System/nanoTime)]
          (while (< (- (System/nanoTime) beginning) 2500000000)
            (.readLine in))
          (channel/put ch "last")
          (channel/close ch)
          (is (= "data: last" (last (remove #{"" ":"} (line-seq in)))))))
      (is (= [] @failures)))))

(deftest a-client-that-leaves-closes-the-channel
  (let [ch (channel/chan)]
    (with-failures [failures]
      (with-server [server (fn [_] (http/events ch)) nil]
        (let [^Socket socket (connect server)]
          (send-text socket (request-text "GET" "/"))
          (channel/put ch "first")
          (.close socket)
          (is (eventually (channel/closed? ch)))))
      (is (= [] @failures)))))

(deftest a-wrong-event-cuts-the-connection-and-is-reported
  (let [ch (doto (channel/chan {:size 2}) (channel/put "good") (channel/put 7))]
    (with-failures [failures]
      (with-server [server (fn [_] (http/events ch)) nil]
        (let [text (get-raw server "/")]
          (is (str/includes? text "data: good"))
          (is (not (str/includes? text "\r\n0\r\n"))))
        (is (eventually (= 1 (count @failures))))
        (is (channel/closed? ch))))))

(deftest misuse-is-refused-at-once
  (are [id f] (= id (try (f) (catch Exception e (:magnetar/reason (ex-data e)))))
    :magnetar/not-a-channel #(http/events 1)
    :magnetar/bad-options #(http/events (channel/chan) '(:heartbeat))
    :magnetar/unknown-option #(http/events (channel/chan) {:hartbeat 1})
    :magnetar/bad-duration #(http/events (channel/chan) {:heartbeat 0})))
