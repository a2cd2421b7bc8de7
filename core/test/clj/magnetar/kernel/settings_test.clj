(ns magnetar.kernel.settings-test
  "The properties of the JVM that set something in Magnetar, each in a JVM of its own."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.kernel.checks :as checks]))

(def ^:private settings
  "Prints the settings of a JVM: the length of a long mailbox, the threads of `offload`, the limit of the watchdog, and whether fibers are handed over."
  '(do (require '[magnetar.inspect :as inspect] 'magnetar.actor)
       (let [long-queue (.getDeclaredField magnetar.kernel.process.LongQueues "LIMIT")]
         (.setAccessible long-queue true)
         (println [(.get long-queue nil) (:limit (inspect/offload)) (magnetar.kernel.inspect.Watchdog/limitOfProperty) (:wake-up (inspect/runtime))]))))

(defn- with-settings
  "What a JVM with these properties of Magnetar says about them, and the settings that it has."
  [& properties]
  (let [{:keys [exit out]} (apply child/run (checks/class-path) 100
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
