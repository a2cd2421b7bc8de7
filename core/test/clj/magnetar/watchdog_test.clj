(ns magnetar.watchdog-test
  "The watchdog names fibers that hold their carrier, and no others."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.async :as a]
   [magnetar.dev.processes :refer [start]]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.support :refer [eventually taken with-err with-failures]])
  (:import
   (java.io File FileInputStream FileOutputStream)
   (java.util.concurrent.atomic AtomicBoolean)))

(set! *warn-on-reflection* true)

(defn watched
  "Calls f with an atom of what a watchdog has reported about fibers of this file."
  [limit f]
  (let [reports (atom [])
        dog (inspect/start-watchdog {:limit limit
                                     :report #(when (str/includes? (:site %) "watchdog_test.clj") (swap! reports conj %))})]
    (try (f reports) (finally (inspect/stop-watchdog dog)))))

(defn- spin [^AtomicBoolean stop]
  (while (not (.get stop)) (Thread/onSpinWait)))

(deftest ^{:spec ["C50"]} a-fiber-that-computes-for-too-long-is-named-once-with-its-stack
  (watched 20
    (fn [reports]
      (let [stop (AtomicBoolean.)
            done (a/go (spin stop) :ended)]
        (is (eventually (seq @reports)))
        (let [{:keys [site held-ms carrier stack]} (first @reports)]
          (is (re-matches #"go magnetar/watchdog_test\.clj:\d+" site))
          (is (<= 20 held-ms))
          (is (string? carrier))
          (is (some #(str/includes? (str %) "watchdog_test$spin") stack)))
        (scope/sleep 60)
        (.set stop true)
        (is (= :ended (taken done)))
        (is (= 1 (count @reports)))))))

(deftest ^{:spec ["C50"]} each-episode-of-a-fiber-is-named
  (watched 20
    (fn [reports]
      (let [stops (vec (repeatedly 2 #(AtomicBoolean.)))
            done (a/go (spin (stops 0)) (scope/sleep 1) (spin (stops 1)) :ended)]
        (is (eventually (= 1 (count @reports))))
        (.set ^AtomicBoolean (stops 0) true)
        (is (eventually (= 2 (count @reports))))
        (.set ^AtomicBoolean (stops 1) true)
        (is (= :ended (taken done)))))))

(deftest ^{:spec ["C50"]} fibers-that-wait-are-not-named-nor-is-one-that-is-queued
  (with-err
    (fn [printed]
      (watched 20
        (fn [reports]
          (let [stop (AtomicBoolean.)
                {:keys [carriers added-carriers]} (inspect/runtime)
                carriers (+ 8 (- (long carriers) (long added-carriers))) ; with all that are added for fibers that compute
                spinners (vec (repeatedly carriers #(a/go (spin stop))))]
            (is (eventually (= carriers (count @reports))) "every carrier is held")
            (with-scope [s]
              (let [queued (fork s (constantly :ran-at-last))]
                (fork s #(scope/sleep 1))
                (fork s #(Thread/sleep 1))
                (is (= :still-queued (deref queued 100 :still-queued)))
                (is (= carriers (count @reports)))
                (.set stop true)
                (is (= :ran-at-last @queued))))
            (run! taken spinners))))
      (is (re-matches #"(Fibers have waited for a second.*\n)?" (printed)) "on a busy machine the carriers are occupied for so long"))))

(deftest ^{:spec ["C50"]} a-fiber-that-waits-often-is-not-named
  (watched 1500 ; a busy machine may keep a fiber from running for some hundred ms
    (fn [reports]
      (let [c (a/chan)
            stop (AtomicBoolean.)
            ping (a/go (while (not (.get stop)) (a/>! c 1)) (a/close! c))
            pong (a/go (while (a/<! c)))]
        (scope/sleep 3200)
        (.set stop true)
        (taken ping)
        (taken pong)
        (is (= [] @reports))))))

(defn- fifo ^File []
  (let [file (File/createTempFile "magnetar" ".fifo")]
    (.delete file)
    (when (try (zero? (.waitFor (.start (ProcessBuilder. ^"[Ljava.lang.String;" (into-array String ["mkfifo" (str file)]))))) (catch java.io.IOException _ false))
      file)))

(deftest a-fiber-that-reads-a-file-which-does-not-answer-is-named
  (when-let [file (fifo)]
    (watched 20
      (fn [reports]
        (let [done (a/go (with-open [in (FileInputStream. ^File file)] (.read in)))]
          (is (eventually (seq @reports)))
          (is (some #(str/includes? (str %) "FileInputStream") (:stack (first @reports))))
          (with-open [out (FileOutputStream. ^File file)] (.write out 7))
          (is (= 7 (taken done)))))))
  (when-let [file (fifo)]
    (watched 500
      (fn [reports]
        (let [done (a/go (scope/offload #(with-open [in (FileInputStream. ^File file)] (.read in))))]
          (scope/sleep 1200)
          (with-open [out (FileOutputStream. ^File file)] (.write out 7))
          (is (= 7 (taken done)))
          (is (= [] @reports) "offloaded, it holds no carrier"))))))

(deftest without-a-report-of-its-own-it-tells-the-failure-hook
  (with-failures [failures]
    (let [stop (AtomicBoolean.)
          dog (inspect/start-watchdog {:limit 20})
          done (a/go (spin stop))]
      (is (eventually (seq @failures)))
      (.set stop true)
      (inspect/stop-watchdog dog)
      (taken done)
      (let [{:keys [site error]} (first @failures)]
        (is (re-matches #"go magnetar/watchdog_test\.clj:\d+" site))
        (is (re-find #"^The go magnetar/watchdog_test\.clj:\d+ has held its carrier, .*, for \d+ ms: .*magnetar\.scope/offload\.$" (ex-message error)))
        (is (= :magnetar/holds-carrier (:magnetar/reason (ex-data error))))
        (is (some #(str/includes? (str %) "spin") (.getStackTrace ^Throwable error)))))))

(deftest a-report-that-throws-is-reported-and-the-watchdog-goes-on
  (with-failures [failures]
    (let [dog (inspect/start-watchdog {:limit 10 :report (fn [_] (throw (ex-info "bad report" {})))})]
      (doseq [n [1 2]]
        (let [stop (AtomicBoolean.)
              done (a/go (spin stop))]
          (is (eventually (<= n (count @failures))))
          (.set stop true)
          (taken done)))
      (inspect/stop-watchdog dog)
      (is (every? #(= "bad report" (ex-message (:error %))) @failures)))))

(deftest a-program-that-asks-by-the-system-property-has-a-watchdog
  (let [java (str (System/getProperty "java.home") "/bin/java")
        program '(do (require 'magnetar.inspect 'magnetar.report '[magnetar.async :as a])
                     (let [named (promise)]
                       (magnetar.report/add-hook :failure #(deliver named (:magnetar/reason (ex-data (:error %)))))
                       (a/go (while (not (realized? named)) (Thread/onSpinWait)))
                       (println (deref named 20000 :nothing))))
        run (fn [& options]
              (:out (apply start {} java (concat options ["-Xmx128m" "-XX:+UseSerialGC" "-XX:TieredStopAtLevel=1" "-cp" (System/getProperty "java.class.path")
                                                          "clojure.main" "-e" (pr-str program)]))))]
    (is (= ":magnetar/holds-carrier" (run "-Dmagnetar.watchdog=20")))))

(deftest bad-options-are-refused-with-a-sentence
  (doseq [[message options] {#"`magnetar.inspect/start-watchdog` does not know :limt; its options are :limit, :report\." {:limt 5}
                             #":report is a function, as in println; this is 5\." {:report 5}
                             #"`magnetar.inspect/start-watchdog` takes its options as a map; this is 5\." 5}]
    (is (thrown-with-msg? IllegalArgumentException message (inspect/start-watchdog options)))))

(deftest bad-arguments-are-refused-with-a-sentence
  (doseq [limit [0 -1 "soon" :infinity]]
    (is (thrown-with-msg? IllegalArgumentException #"The :limit of a watchdog is a duration above 0" (inspect/start-watchdog {:limit limit}))))
  (is (thrown-with-msg? IllegalArgumentException #"`stop-watchdog` wants what `start-watchdog` returned" (inspect/stop-watchdog 5))))
