(ns magnetar.supervisor-model-test
  "Supervisors against a model: all strategies and restart types, with children that end at random."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as check]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.otp.servers :as servers]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

;; ---- the model: children in the order of their start, each {:id :restart :up :starts}

(defn- silent? [why]
  (#{:normal :shutdown} why))

(defn- again? [{:keys [restart]} why]
  (or (= :permanent restart) (and (= :transient restart) (not (silent? why)))))

(defn- in-group? [strategy ids id other]
  (case strategy
    :one-for-one (= id other)
    :one-for-all true
    :rest-for-one (<= (.indexOf ^java.util.List ids id) (.indexOf ^java.util.List ids other))))

(defn- start [kid]
  (-> kid (assoc :up true) (update :starts inc)))

(defn- restart-group [{:keys [strategy] :as model} id]
  (let [ids (mapv :id (:kids model))]
    (update model :kids
            (fn [kids]
              (into []
                    (keep #(cond
                             (not (in-group? strategy ids id (:id %))) %
                             (= :temporary (:restart %)) nil
                             :else (start %)))
                    kids)))))

(defn- drop-kid [kids {:keys [id restart]}]
  (if (= :temporary restart)
    (filterv #(not= id (:id %)) kids)
    (mapv #(if (= id (:id %)) (assoc % :up false) %) kids)))

(defn- model-step [{:keys [intensity restarts] :as model} [kid why]]
  (cond
    (not (again? kid why)) (update model :kids drop-kid kid)
    (= intensity restarts) (assoc model :dead true)
    :else (-> model (update :restarts inc) (restart-group (:id kid)))))

(defn- shown [{:keys [dead kids]}]
  (if dead
    :dead
    (mapv (juxt :id :up :starts) kids)))

;; ---- ours

(defn- child [starts {:keys [id restart]}]
  {:id id :restart restart :start [#(do (swap! starts update id (fnil inc 0)) (gs/start-link servers/kid {:id id}))]})

(defn- seen [s starts]
  (if (actor/alive? s)
    (mapv (fn [{:keys [id pid]}] [id (some? pid) (@starts id)]) (sup/which-children s))
    :dead))

(defn- end [s id why]
  (if (= :kill why)
    (servers/crash s id)
    (servers/end s id why)))

;; ---- both, step by step

(defn- live-kid [{:keys [kids]} n]
  (let [live (filterv :up kids)]
    (when (seq live)
      (nth live (mod n (count live))))))

(defn- differences
  "What the model and the supervisor show, at the first step where they differ; nil if they never do."
  [{:keys [strategy kids intensity]} events]
  (let [starts (atom {})
        s (servers/supervisor {:strategy strategy :intensity intensity :period 3600000 :children (mapv #(child starts %) kids)})]
    (loop [model {:strategy strategy :intensity intensity :restarts 0 :kids (mapv #(assoc % :up true :starts 1) kids)}
           [[n why] & events] events]
      (let [expected (shown model)
            kid (when n (live-kid model n))]
        (cond
          (not= expected (seen s starts)) {:expected expected :seen (seen s starts)}
          (or (nil? kid) (:dead model)) nil
          :else (do
                  (end s (:id kid) why)
                  (recur (model-step model [kid why]) events)))))))

(def ^:private spec
  (gen/let [strategy (gen/elements [:one-for-one :one-for-all :rest-for-one])
            intensity (gen/choose 0 6)
            restarts (gen/vector (gen/elements [:permanent :transient :temporary]) 1 5)]
    {:strategy strategy
     :intensity intensity
     :kids (vec (map-indexed (fn [i restart] {:id i :restart restart}) restarts))}))

(def ^:private events
  (gen/vector (gen/tuple gen/nat (gen/elements [:normal :shutdown :boom :kill])) 0 8))

(deftest a-supervisor-does-what-the-model-says
  (let [{:keys [pass? shrunk]}
        (check/quick-check 60 (prop/for-all [spec spec, events events]
                                            (nil? (scenarios/observe {:ours #(differences spec events)}))))]
    (is pass? (str (:smallest shrunk)))))

(deftest the-model-can-differ
  (is (map? (scenarios/observe {:ours #(with-redefs [again? (constantly false)]
                                         (differences {:strategy :one-for-one :intensity 3 :kids [{:id 0 :restart :permanent}]} [[0 :boom]]))}))))
