(ns magnetar.kernel.hand-off-test
  "Invariants of HandOff: the two ways to wake a fiber."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.kernel.checks :as checks :refer [green?]])
  (:import
   (magnetar.kernel.sched HandOff)))

(def ^:private off "-Dmagnetar.hand-off=false")

(deftest one-plainly-parked-fiber-is-handed-over-between-two-parks-and-ends-before-its-waker-has-computed-for-a-second
  (green? 40 "hand-off-targets" "hand-off-bound"))

(deftest nobody-sleeps-on-in-either-way
  (green? 60 "hand-off-lost" "hand-off-ring")
  (green? 60 off "hand-off-lost" "hand-off-ring" "mailbox-wake-up"))

(deftest whoever-comes-from-outside-has-its-turn-among-those-that-hand-each-other-over
  (green? 40 "-Djdk.virtualThreadScheduler.parallelism=1" "-Dmagnetar.added-carriers=0"
          "hand-off-fair" "hand-off-together" "hand-off-outside" "timers-in-backlog-of-one-carrier")
  (green? 40 "-Djdk.virtualThreadScheduler.parallelism=2" "hand-off-crowded"))

(def ^:private crowd
  "More fibers that compute than carriers. Calls a server until the reason of the time-out tells of that, then waits for the line on standard error."
  '(do (require '[magnetar.actor :as actor] '[magnetar.async :as a] '[magnetar.gen-server :as gs])
       (def said (promise))
       (System/setErr (proxy [java.io.PrintStream] [System/err true]
                        (println [line] (.println System/out (str line)) (deliver said true))))
       (actor/with-process {}
         (let [[_ server] (gs/start {:init (fn [_] [:ok 0]) :handle-call (fn [_ _ n] [:reply n n])} nil)
               ask #(try (gs/call server :n {:timeout 20}) (catch Exception e (ex-message e)))]
           (ask)
           (dotimes [_ 5] (a/go (loop [i 0] (when-not (realized? said) (recur (inc i))))))
           (println (first (filter string? (repeatedly ask))))
           (deref said 20000 :silent)))
       (System/exit 0)))

(deftest fibers-that-no-carrier-can-be-added-for-are-told-of
  (doseq [way [[] [off]]]
    (let [{:keys [exit out]} (apply child/run (checks/class-path) 50
                                    (concat child/opens ["-Djdk.virtualThreadScheduler.parallelism=1" "-Dmagnetar.added-carriers=2"] way
                                            ["clojure.main" "-e" (pr-str crowd)]))]
      (is (= 0 exit) out)
      (is (= 1 (count (re-seq #"Fibers have waited for a second, because all 3 carriers are occupied, 2 of them added" out))) out)
      (is (str/includes? out "set -Dmagnetar.added-carriers=4.") out)
      (is (str/includes? out "The server is ready to run, but waits for a carrier: ") out))))

(deftest where-java-lang-is-closed-fibers-are-woken-by-unpark
  (let [{:keys [exit out]} (child/run (cons @checks/classes (checks/class-path)) 60 "-Dmagnetar.check.seconds=25"
                                      "magnetar.check.Main" "hand-off-ring" "mailbox-wake-up")]
    (is (= 0 exit) out)))

(def ^:private settings
  "Prints the settings of a JVM: the length of a long mailbox, the threads of `offload`, the limit of the watchdog, and whether fibers are handed over."
  '(do (require '[magnetar.inspect :as inspect] 'magnetar.actor)
       (let [long-queue (.getDeclaredField magnetar.kernel.process.LongQueues "LIMIT")]
         (.setAccessible long-queue true)
         (println [(.get long-queue nil) (:limit (inspect/offload)) (magnetar.kernel.inspect.Watchdog/limitOfProperty) (:wake-up (inspect/runtime))]))))

(defn- with-settings
  "What a JVM with these properties of Magnetar says about them, and the settings that it has."
  [& properties]
  (let [{:keys [exit out]} (apply child/run (checks/class-path) 50
                                  (concat child/opens (map #(str "-Dmagnetar." %) properties) ["clojure.main" "-e" (pr-str settings)]))]
    (is (= 0 exit) out)
    {:said (set (re-seq #"the property .*" out))
     :times (count (re-seq #"the property" out))
     :settings (last (str/split-lines out))}))

(deftest a-property-that-is-set-counts
  (is (= {:said #{} :times 0 :settings "[70 3 0 :unpark]"}
         (with-settings "long-queue=70" "offload.threads=3" "watchdog=0" "added-carriers=0" "hand-off=FALSE")))
  (testing "numbers beyond an int, and 0 or less for no reports of long mailboxes"
    (is (= {:said #{} :times 0 :settings (str "[3000000000 " Integer/MAX_VALUE " 0 :hand-off]")}
           (with-settings "long-queue=3000000000" "offload.threads=3000000000" "added-carriers=3000000000" "hand-off=true")))
    (doseq [off ["0" "-1"]]
      (is (str/starts-with? (:settings (with-settings (str "long-queue=" off))) (str "[" Long/MAX_VALUE " "))))))

(deftest a-property-with-a-wrong-value-is-told-of-once-and-its-default-counts
  (let [threads (max 8 (* 4 (.availableProcessors (Runtime/getRuntime))))
        known? (= 25 (.feature (Runtime/version)))]
    (is (= {:said #{"the property magnetar.long-queue wants a whole number; it is set to \"many\", so 50000 is taken."
                    (str "the property magnetar.offload.threads wants a whole number, at least 1; it is set to \"0\", so " threads " is taken.")
                    "the property magnetar.watchdog wants a whole number, at least 0; it is set to \"soon\", so 0 is taken."
                    "the property magnetar.added-carriers wants a whole number, at least 0; it is set to \"-1\", so 8 is taken."
                    (str "the property magnetar.hand-off wants true or false; it is set to \"yes\", so " known? " is taken.")}
            :times 5
            :settings (str "[50000 " threads " 0 " (if known? :hand-off :unpark) "]")}
           (with-settings "long-queue=many" "offload.threads=0" "watchdog=soon" "added-carriers=-1" "hand-off=yes")))))

;; There a virtual thread is a platform thread of a class of its own.
(deftest without-continuations-hand-off-turns-itself-off-says-so-once-and-all-works
  (let [options (->> (str/split-lines (slurp (io/file (System/getProperty "magnetar.home") "kernel/java.options")))
                     (remove #(or (str/blank? %) (str/starts-with? % "#")))
                     (mapcat #(str/split % #" ")))
        form '(do (require '[magnetar.actor :as actor] '[magnetar.async :as a] '[magnetar.inspect :as inspect])
                  (let [in (a/chan), out (a/go (inc (a/<! in))), answer (promise)]
                    (a/>!! in 1)
                    (actor/spawn (fn [] (actor/! (actor/self) 3) (deliver answer (actor/receive x x))))
                    (println [(:wake-up (inspect/runtime)) (a/<!! out) @answer]))
                  (System/exit 0))
        {:keys [exit out]} (apply child/run (checks/class-path) 50
                                  (concat options ["-XX:+UnlockExperimentalVMOptions" "-XX:-VMContinuations" "clojure.main" "-e" (pr-str form)]))]
    (is (= 0 exit) out)
    (is (str/includes? out "[:unpark 2 3]") out)
    (is (= 1 (count (re-seq #"magnetar: this version of Magnetar does not know the virtual threads of JDK 25" out))) out)))

(deftest the-runtime-says-which-way-it-took
  (let [off? (= "false" (System/getProperty "magnetar.hand-off"))
        known? (= 25 (.feature (Runtime/version)))]
    (is (= (if (HandOff/isOn) :hand-off :unpark) (:wake-up (inspect/runtime))))
    (testing "bin/magnetar opens java.lang, and the property turns it off"
      (is (= (and known? (not off?)) (HandOff/isOn))))))
