(ns magnetar.etf-erlang-test
  "The codec beside a real `erl`, in a run with --with-erl: random terms of each side are read and written by the other one."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [clojure.test.check.generators :as gen]
   [magnetar.dev.processes :as processes]
   [magnetar.etf :as etf]
   [magnetar.etf-support :refer [erlang-values plain same? values]])
  (:import
   (java.io DataInputStream DataOutputStream File)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private limit-seconds 120)

(defn- on-path? [program]
  (some #(.canExecute (io/file % program)) (str/split (or (System/getenv "PATH") "") #":")))

(defn- with-erlang [f]
  (cond
    (not= "true" (System/getProperty "magnetar.erl")) nil
    (on-path? "erl") (f)
    :else (println "  magnetar.etf: the comparison with Erlang is skipped, there is no `erl` on the PATH (Debian: apt-get install erlang-base)")))

(defn- call
  "Evaluates the call of a function of etf_peer; returns what it prints."
  [^File folder call]
  (let [source (io/file processes/home "etf/test/resources/etf_peer.erl")
        words ["erl" "-noshell" "-eval" (str "{ok, M, B} = compile:file(\"" source "\", [binary, report_errors]), "
                                             "code:load_binary(M, \"etf_peer\", B), etf_peer:" call ", halt().")]
        process (.start (doto (ProcessBuilder. ^List words) (.directory folder) (.redirectErrorStream true)))
        text (future (slurp (.getInputStream process)))]
    (when-not (.waitFor process (long limit-seconds) TimeUnit/SECONDS)
      (.destroyForcibly process))
    @text))

(defn- write-terms [folder file encodings]
  (with-open [out (DataOutputStream. (io/output-stream (io/file folder file)))]
    (doseq [^bytes bytes encodings]
      (.writeInt out (alength bytes))
      (.write out bytes))))

(defn- read-terms [folder file]
  (with-open [in (DataInputStream. (io/input-stream (io/file folder file)))]
    (loop [terms []]
      (if (pos? (.available in))
        (recur (conj terms (.readNBytes in (.readInt in))))
        terms))))

(deftest values-come-back-from-erlang
  (with-erlang
    #(doseq [[codec generator] [[plain erlang-values] [(etf/codec) values] [(etf/codec {:nil :undefined}) values]]]
       (let [folder (processes/temporary-folder)
             values (gen/generate (gen/vector generator 3000) 40 20261129)]
         (write-terms folder "values" (map (partial etf/encode codec) values))
         (is (= "" (call folder "echo(\"values\", \"echo\")")))
         (let [back (map (partial etf/decode codec) (read-terms folder "echo"))]
           (is (= 3000 (count back)))
           (is (= [] (take 2 (remove (fn [[value back]] (same? value back)) (map vector values back))))))))))

(deftest terms-of-erlang-come-back-from-here
  (with-erlang
    #(let [folder (processes/temporary-folder)]
       (is (= "" (call folder "make(\"terms\", 20261129, 5000)")))
       (doseq [codec [plain (etf/codec) (etf/codec {:nil :undefined})]]
         (write-terms folder "back" (map (fn [bytes] (etf/encode codec (etf/decode codec bytes))) (read-terms folder "terms")))
         (is (= "5000 of 5000" (str/trim (call folder "compare(\"terms\", \"back\")"))))))))
