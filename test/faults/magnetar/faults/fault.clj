(ns magnetar.faults.fault
  "A fault under which a server is watched by a healthy client: what is asserted of each, and the row of the table that it prints."
  (:require
   [clojure.string :as str]
   [clojure.test :as t :refer [is]]
   [magnetar.faults.client :as client]
   [magnetar.faults.disk :as disk]
   [magnetar.faults.server :as server]
   [magnetar.test :as mt])
  (:import
   (java.lang.management ManagementFactory)
   (java.time LocalDate)))

(set! *warn-on-reflection* true)

(def ^:private ^:const mega 1048576)

(def ^:private times "How often the healthy client asks before a fault, and after it." 200)

(def ^:private most-kept "Bytes of the heap that may be kept after a fault: caches, classes, compiled code's data." (* 32 mega))

(defn warmed-up
  "The server, after the client has asked for a while: with its :port, what it holds when :idle, and how the healthy :ask."
  [running ask]
  (let [port (server/port running)]
    (client/measure ask port #(<= 600 (long %)))
    (assoc running :port port :ask ask :idle (server/idle running))))

(defn- print-head [title]
  (let [system (ManagementFactory/getOperatingSystemMXBean)]
    (println (format "\n### %s\n\nMeasured on %s on %d cores, at a load average of %.1f. Times are p50 / p99 / greatest, in ms.\n"
                     title (LocalDate/now) (.getAvailableProcessors system) (.getSystemLoadAverage system)))
    (println "| fault | what the server does | before | during | after | at the peak | left behind |\n|---|---|---|---|---|---|---|")))

(defn with-server
  "A fixture: the server that (start) returns is in the atom while the tests run. The table gets the title."
  [title holder start]
  (fn [tests]
    (print-head title)
    (reset! holder (start))
    (try
      (tests)
      (finally (server/kill @holder)))))

(defn with-server-on-disk
  "Does what `with-server` does, for the server that (start folder) returns, once it is warm. The folder is a new one, and in the atom."
  [title holder folder start ask]
  (t/join-fixtures [(disk/keeping folder)
                    (with-server title holder #(warmed-up (start @folder) ask))]))

(defn- latency [{:keys [ms]}]
  (format "%.2f / %.2f / %.2f" (client/percentile 50 ms) (client/percentile 99 ms) (apply max ms)))

(defn- plus [n word]
  (when (pos? (long n))
    (str n " " word)))

(defn- shown
  "What is held beyond the idle server, in words."
  [{:keys [fibers processes descriptors heap]}]
  (->> [(plus fibers "fibers") (plus processes "processes") (plus descriptors "descriptors")
        (plus (quot (long heap) mega) "MiB")]
       (remove nil?)
       (interpose ", ")
       (apply str)
       (#(if (= "" %) "nothing" %))))

(defn in-words
  "How requests ended, as in \"48 refused, 2 with status 503\". An end is a keyword, a status, or [status body]."
  [ends]
  (str/join ", " (for [[end n] (frequencies (map #(if (vector? %) (first %) %) ends))]
                   (str n " " (if (int? end) (str "with status " end) (name end))))))

(defn print-row
  "Prints a row without latencies."
  [fault does left]
  (println (str "| " fault " | " does " | | | | | " left " |"))
  (flush))

(defn- row [fault does phases peak left]
  (println (str "| " fault " | " does " | " (apply str (interpose " | " (map latency phases)))
                " | " (shown peak) " | " (shown left) " |"))
  (flush))

(defn- check [{:keys [said]} phases peak left most-held]
  (is (= [] (mapcat :wrong phases)) "each healthy answer is right")
  (is (every? (fn [k] (<= (long (k left)) 0)) [:fibers :processes :descriptors])
      (pr-str left (take-last 5 @said)))
  (is (< (long (:heap left)) (long most-kept)) (pr-str left))
  (is (< (long (:heap peak)) (long most-held)) (pr-str peak)))

(defn cut
  "Waits until the server holds almost no more descriptors than when it was idle: the healthy client has some. True if that comes."
  [{:keys [idle] :as running}]
  (boolean (mt/wait-until #(<= (long (:descriptors (server/held running))) (+ 4 (long (:descriptors idle))))
                          {:timeout client/limit-ms :else nil})))

(defn- held-at-peak
  "What the server holds beyond the idle one, after a wait for n descriptors, which may not come."
  [{:keys [idle] :as running} n]
  (let [beyond #(merge-with - % idle)]
    (mt/wait-until #(<= (long n) (long (:descriptors (beyond (server/held running))))) {:timeout 2000 :else nil})
    (beyond (server/most-held running))))

(defn withstand
  "Calls (attack port at-peak) while the healthy client asks, and checks the server. The attack calls (at-peak) when it holds most, or (at-peak n)
  if the server may not have accepted its n connections yet. Prints a row with the words of what the server `does`. :most-held are the bytes of heap that it may take at the peak. Returns the value of attack."
  [{:keys [port ask idle] :as running} fault does {:keys [most-held] :or {most-held (* 64 mega)}} attack]
  (let [peak (atom nil)
        at-peak (fn [& [n]] (reset! peak (held-at-peak running (or n 0))))
        quiet #(client/measure ask port (fn [n] (<= (long times) (long n))))
        before (quiet)
        attacking (future (attack port at-peak))
        during (client/measure ask port (fn [n] (and (realized? attacking) (<= 50 (long n)))))
        seen @attacking
        after (quiet)
        left (server/left running idle client/limit-ms)]
    (row fault does [before during after] @peak left)
    (check running [before during after] @peak left most-held)
    seen))

(defn withstand-flood
  "Does what `withstand` does, for (attack port) that holds most at no moment of its own: the server is looked at while it goes on."
  [running fault does options attack]
  (withstand running fault does options
             (fn [port at-peak]
               (let [flood (future (attack port))]
                 (at-peak)
                 @flood))))

;; ---- ends of a server

(defn with-port
  "Calls f with the port of the server, which is killed afterwards."
  [running f]
  (try
    (f (server/port running))
    (finally (server/kill running))))

(defn terminate-under-load
  "Sends SIGTERM to the server once it is `busy?` with n clients, each (client port i) in a thread. It has to end in order, in :most-ms.
  Returns how many milliseconds that :took, and the values of the :clients."
  [running {:keys [n busy? most-ms]} client]
  (let [port (server/port running)
        clients (mapv (fn [i] (future (client port i))) (range n))]
    (is (mt/wait-until busy? {:timeout 60000 :else false}))
    (let [begin (System/nanoTime)
          exit (server/terminate running)
          took (quot (- (System/nanoTime) begin) 1000000)]
      (is (= 0 exit) (server/said running))
      (is (< took (long most-ms)) "it ends within its bound")
      {:took took :clients (mapv deref clients)})))
