(ns giro.bank-test
  "Short days of both banks, with a real BEAM, in a run with --beam or --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [giro.bank :as bank]
   [giro.machine :as machine])
  (:import
   (java.io BufferedReader)
   (java.lang ProcessHandle)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(defn- beam? []
  (when (= "true" (System/getProperty "magnetar.erl"))
    (or (nil? (machine/missing))
        (println "  giro: the tests with a BEAM are skipped, there is no `erl` on the PATH"
                 "(Debian: apt-get install erlang-base)"))))

(defn- day
  "A day that ends when (enough? noted) is true of what was noted until then."
  [enough? options]
  (let [noted (atom [])
        end (promise)
        note (fn [what]
               (when (enough? (swap! noted conj what))
                 (deliver end true)))]
    (bank/run (merge {:note note :until #(deref end)} options))))

(deftest the-books-balance-though-workers-and-connections-are-struck
  (when (beam?)
    (let [{:keys [books hits started connected] :as outcome} (day #(= 6 (count (set %))) {:seed 1})]
      (is (bank/balanced? outcome) (pr-str outcome))
      (is (every? pos? (map :sent books)))
      (is (every? pos? (vals hits)))
      (is (= #{bank/here bank/there} (set (keys started))))
      (is (< 1 (long connected))))))

(deftest careless-books-have-what-was-booked-again
  (when (beam?)
    (let [{:keys [books] :as outcome} (day #(= 10 (count %)) {:seed 2 :careless true})]
      (is (= (apply + bank/at-first (map :surplus books)) (bank/money outcome)) (pr-str outcome))
      (is (= (every? zero? (map :repeated books)) (bank/balanced? outcome)) (pr-str outcome)))))

(defn- await-line [^BufferedReader lines pattern]
  (loop [read []]
    (let [line (.readLine lines)]
      (cond
        (nil? line) (throw (ex-info "The program has ended." {:printed read}))
        (re-find pattern line) line
        :else (recur (conj read line))))))

(defn- programs-of [^Process process]
  (vec (iterator-seq (.iterator (.descendants process)))))

(defn- command [^ProcessHandle process]
  (str (.orElse (.command (.info process)) "")))

(deftest ^{:limit 300000} an-interrupt-ends-the-programs-of-erlang-too
  (when (beam?)
    (let [home (System/getProperty "magnetar.home")
          ^List words [(str home "/bin/magnetar") "run" (str home "/examples/erlang/src/giro/main.clj")
                       "--seconds" "3600"]
          process (.start (.redirectErrorStream (ProcessBuilder. words) true))]
      (with-open [lines (io/reader (.getInputStream process))]
        (await-line lines #"both banks are open")
        (let [programs (programs-of process)]
          (is (every? (fn [program] (some #(str/includes? (command %) program) programs)) ["beam" "epmd"]))
          (.waitFor (.start (ProcessBuilder. ^List (vector "kill" "-INT" (str (.pid process))))))
          (is (= 130 (.waitFor process)))
          (doseq [^ProcessHandle program programs]
            (is (some? (.get (.onExit program) 60 TimeUnit/SECONDS)) (command program))))))))
