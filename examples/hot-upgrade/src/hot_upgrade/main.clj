(ns hot-upgrade.main
  "Servers whose code and state change while a thousand clients call them, each of which checks every answer."
  (:require
   [clojure.java.io :as io]
   [magnetar.actor :as actor :refer [! after receive self spawn spawn-link]]
   [magnetar.gen-server :as gs]
   [magnetar.hot :as hot]
   [magnetar.report :as report]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(def ^:private servers 4)

(defn- address [n]
  (keyword "tally" (str (mod (long n) (long servers)))))

(defn- source [version]
  (str (io/file (System/getProperty "magnetar.home") "examples/hot-upgrade/versions" (str version))))

(defn spec
  "The tree: four servers, each with a quarter of the clients."
  []
  {:children (for [n (range servers)]
               {:id n :start [gs/start-link 'hot-upgrade.tally nil {:name (address n)}]})})

;; ---- clients

(defn- wrong
  "What is wrong with the answer to the nth call of a client, or nil."
  [client n {:keys [visits] :as answer}]
  (when-not (= n visits)
    {:client client :call n :answer answer}))

(defn- visit [boss client n]
  (try
    (let [{:keys [version] :as answer} (gs/call (address client) [:visit client] {:timeout :infinity})]
      (! boss [:visited version (wrong client n answer)]))
    (catch Exception e
      (! boss [:visited nil {:client client :call n :error (ex-message e)}]))))

(defn- client
  "Calls its server once in each round, and checks the answer."
  [boss id]
  (loop [n 1]
    (receive :go (visit boss id n))
    (recur (inc n))))

(defn- next-round
  "All clients call at the same time; what is known when each has its answer."
  [{:keys [clients] :as known}]
  (run! #(! % :go) clients)
  (reduce (fn [known _]
            (receive [:visited version wrong] (cond-> (-> known (update :calls inc) (update-in [:versions version] (fnil inc 0)))
                                                wrong (update :wrong conj wrong))))
          known clients))

(defn- rounds [known n]
  (nth (iterate next-round known) n))

;; ---- what happens

(defn- outcome [f]
  (try
    (f)
    (catch clojure.lang.ExceptionInfo e
      {:failed (ex-message e)})))

(defn- upgrade [boss app version]
  (! boss [:report (select-keys (outcome #(hot/upgrade app (source version) {:timeout 60000})) [:loaded :processes :failed])]))

(defn- rounds-during-upgrade
  "Rounds until the upgrade to the version is over, and two more; its report is under that version."
  [known app version]
  (let [me (self)]
    (spawn #(upgrade me app version))
    (loop [known known]
      (if-some [report (receive [:report report] report (after 0 nil))]
        (rounds (assoc-in known [:reports version] report) 2)
        (recur (next-round known))))))

(defn- day [clients]
  (let [[_ app] (sup/start-link #'spec)
        me (self)
        pids (mapv #(spawn-link client me %) (range clients))
        known (-> {:clients pids :calls 0 :versions {} :wrong [] :reports {}}
                  (rounds 2)
                  (rounds-during-upgrade app 2)
                  (rounds-during-upgrade app 3))]
    (run! #(actor/exit % :shutdown) pids)
    (gs/stop app :shutdown)
    (-> known (dissoc :clients) (assoc :version (hot/version 'hot-upgrade.tally)))))

(defn run
  "A day with so many clients; what came of it, as data."
  [{:keys [clients] :or {clients 1000}}]
  (let [silent (report/add-hook :report (fn [_]))]
    (try
      (hot/load (source 1))
      (actor/join (actor/spawn-opt day clients {:trap-exit true}))
      (finally (report/remove-hook :report silent)))))

(defn good?
  "Did all go as it should?"
  [{:keys [wrong versions version reports]}]
  (and (empty? wrong)
       (= #{1 2} (set (keys versions)))
       (= 2 version)
       (= servers (count (:processes (reports 2))))
       (some? (:failed (reports 3)))))

(defn -main
  "Argument: how many clients, 1000 if left out."
  [& [clients]]
  (let [{:keys [calls wrong versions version reports] :as outcome} (run {:clients (or (some-> clients parse-long) 1000)})]
    (println "calls     " calls "answered," (count wrong) "wrong or failed")
    (println "answers   " (versions 1) "of version 1," (versions 2) "of version 2")
    (println "upgrade 2 " (count (:processes (reports 2))) "servers have changed their state from version 1 to 2")
    (println "upgrade 3 " (:failed (reports 3)))
    (println "at the end version" version "is loaded")
    (run! prn (take 5 wrong))
    (shutdown-agents)
    (System/exit (if (good? outcome) 0 1))))
