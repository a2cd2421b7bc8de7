(ns magnetar.hot-leaks-test
  "A hundred upgrades, and as many that are taken back, leave no class loader and no memory behind."
  {:slow true
   :limit 600000}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]))

(set! *warn-on-reflection* true)

(defn- left [& arguments]
  (let [{:keys [exit out]} (apply child/run [(System/getProperty "java.class.path")] 280
                                  (concat child/opens
                                          ["-XX:SoftRefLRUPolicyMSPerMB=0" "-Xmx300m" "-XX:+UseSerialGC" "clojure.main" "-m" "magnetar.hot-leaks"]
                                          arguments))]
    (is (= 0 exit) out)
    (edn/read-string (last (str/split-lines out)))))

(deftest ^{:spec ["C139"]} a-hundred-upgrades-leave-no-class-loader-and-no-memory
  (let [{:keys [left classes kilobytes] :as measured} (left "100")]
    (is (<= (long left) 2) (str "the last one is in use: " measured))
    (is (<= (long classes) 30) (str "one upgrade loads about 15 classes: " measured))
    (is (<= (long kilobytes) 500) (str "5 kB for each upgrade: " measured))))

(deftest what-is-held-is-noticed
  (let [{:keys [left classes]} (left "10" "leak")]
    (is (<= 9 (long left)))
    (is (<= 15 (long classes)))))
