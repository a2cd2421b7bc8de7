(ns magnetar.bench.erlang-nodes.node
  "Our node of the suite `erlang`, through the public API: reads lines `workload number ..` and answers each with nanoseconds."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.etf :as etf]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(def ^:private payload (byte-array 100 (byte 7)))

(def ^:private codec (etf/codec {:extensions false}))

;; ---- workloads

(defn- check [holds?]
  (when-not holds?
    (throw (IllegalStateException. "an answer is wrong"))))

(defn- calls [{:keys [server]} n]
  (dotimes [_ n]
    (check (= 100 (count (gs/call server payload {:timeout 60000})))))) ; these 100 bytes come back as text

(defn- send-all [{:keys [sink]} n]
  (! sink [:count (self) n])
  (dotimes [_ n]
    (! sink payload))
  (receive :done nil))

(defn- receive-all [{:keys [source]} n]
  (! source [:send (self) n])
  (dotimes [_ n]
    (receive x (check (string? x)))))

(defn- encode [bytes n]
  (let [value (etf/decode codec bytes)]
    (dotimes [_ n]
      (check (< 3 (alength ^bytes (etf/encode codec value)))))))

(defn- decode [bytes n]
  (dotimes [_ n]
    (check (not (fn? (etf/decode codec bytes))))))

(defn- work [{:keys [terms] :as other} what [a b]]
  (case what
    "collect" (System/gc)
    "call" (calls other a)
    "send" (send-all other a)
    "receive" (receive-all other a)
    "encode" (encode (terms (dec (long a))) b)
    "decode" (decode (terms (dec (long a))) b)))

;; ---- the program

(defn- answer [other line]
  (let [[what & numbers] (str/split line #" ")
        begin (System/nanoTime)]
    (work other what (map parse-long numbers))
    (println (- (System/nanoTime) begin))
    (flush)))

(defn- known
  "The processes and the terms of the BEAM."
  [beam n-terms]
  (let [call #(gs/call [:server beam] %)]
    (assoc (into {} (map (fn [k] [k (call [:whereis k])])) [:server :sink :source])
      :terms (mapv #(call [:term (inc (long %))]) (range n-terms)))))

(defn- answer-lines [beam n-terms]
  (let [other (known beam n-terms)]
    (println "ready")
    (flush)
    (loop []
      (let [line (receive [:line text] text)]
        (answer other line)
        (recur)))))

(defn- answering
  "Answers the lines that are sent to it. If one fails, the program ends."
  [beam n-terms]
  (try
    (answer-lines beam n-terms)
    (catch Throwable e
      (.printStackTrace e)
      (System/exit 1))))

(defn -main
  "The program of the node: its name, the cookie, the name of the BEAM, and how many terms that has. Ends with its input.

  Example: (-main \"till@127.0.0.1\" \"shop\" \"stock@127.0.0.1\" \"6\")"
  [named cookie beam n-terms]
  (erlang/start {:name named :cookie cookie})
  (let [pid (actor/spawn #(answering beam (parse-long n-terms)))]
    (doseq [line (line-seq (java.io.BufferedReader. *in*))]
      (! pid [:line line])))
  (shutdown-agents)
  (System/exit 0))
