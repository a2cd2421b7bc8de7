(ns magnetar.faults.echo-test
  "A server of lines by `magnetar.net`, and what is done to it."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.faults.client :as client]
   [magnetar.faults.fault :as fault :refer [withstand withstand-flood]]
   [magnetar.faults.server :as server]))

(set! *warn-on-reflection* true)

(def ^:private echo (atom nil))

(use-fixtures :once (fault/with-server "A server of lines" echo #(fault/warmed-up (server/start "echo") client/echo)))

(deftest slow-lines
  (is (= {"" 200}
         (withstand @echo "200 clients send a line a byte at a time" "closes each after the 2 s that a line may take" nil
                    (fn [port at-peak]
                      (let [looked (delay (future (at-peak 200)))]
                        (client/dribble port 200 "o" "x" #(do @looked false))))))))

(deftest half-closed-sockets
  (is (= {["order\n" :closed] 200}
         (withstand-flood @echo "200 clients shut their sending side and read" "answers, then closes" nil
           (fn [port]
             (frequencies (client/in-parallel 200 (fn [_] (client/half-close port "order\n")))))))))

(deftest connects-and-resets
  (withstand-flood @echo "2,000 connections are reset, each after a line and a half" "ends their processes" nil
    (fn [port]
      (client/in-parallel 2000 (fn [_] (doto (client/connect port)
                                         (client/send-all "order\nor")
                                         (client/reset)))))))

(deftest oversized-lines
  (let [line (byte-array 16777216 (byte 120))
        answers (withstand-flood @echo "200 lines of 16 MiB, 50 at a time" "closes each at 64 KiB, its `:max-packet`" nil
                                 (fn [port]
                                   (client/in-parallel 200 (fn [_] (client/exchange port line)))))]
    (is (every? #{["" :closed] ["" :reset]} answers))))

(deftest garbage
  (let [does "sends back what it takes for lines, then closes"
        ends (withstand-flood @echo "200 clients send 32 KiB of random bytes, and one sends a TLS handshake" does nil
               (fn [port]
                 (conj (client/in-parallel 200 (fn [i] (second (client/half-close port (client/garbage i 32768)))))
                       (second (client/half-close port client/client-hello)))))]
    (is (= {:closed 201} (frequencies ends)))))

(deftest clients-that-never-read
  (let [line (str (apply str (repeat 8000 "x")) "\n")]
    (is (= :cut
           (withstand @echo "50 clients send lines and never read" "closes each after the 2 s of its `:send-timeout`" nil
                      (fn [port at-peak]
                        (let [clients (vec (repeatedly 50 #(client/open-deaf port "")))]
                          (client/in-parallel 50 #(client/fill (clients %) line))
                          (at-peak)
                          (let [cut? (fault/cut @echo)]
                            (client/close-all clients)
                            (if cut? :cut :open)))))))))

;; ---- a control: the same look finds a server that leaks

(deftest a-server-that-leaks-is-caught
  (let [leaky (fault/warmed-up (server/start "leaky") client/echo)]
    (try
      (client/in-parallel 20 (fn [_] (with-open [socket (client/connect (:port leaky))]
                                       (client/echo socket 1))))
      (let [{:keys [fibers processes descriptors]} (server/left leaky (:idle leaky) 5000)]
        (is (= [20 20 20] [fibers processes descriptors]) (str/join "\n" @(:said leaky))))
      (finally (server/kill leaky)))))
