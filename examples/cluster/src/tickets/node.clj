(ns tickets.node
  "One node: it can have the office, and its clients buy tickets, wherever the office is.

  It tells what happens as EDN, a line each: [:office token], [:ticket number] and [:refused]. It ends with its input."
  (:require
   [clojure.edn :as edn]
   [magnetar.actor :as actor]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.singleton :as singleton]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.task :as task]
   [tickets.office :as office]))

(set! *warn-on-reflection* true)

(def ^:private clients 4)

(defn- tell [event]
  (locking *out*
    (prn event)
    (flush)))

(defn- open-office [port token]
  (tell [:office token])
  (office/start-link port token))

(defn- buy
  "What comes of asking for a ticket: [:ticket number] or [:refused]."
  []
  (try
    (gs/call (singleton/address :office) :ticket {:timeout 1000 :else [:refused]})
    (catch clojure.lang.ExceptionInfo _ [:refused])))

(defn- client []
  (tell (buy))
  (scope/sleep 20)
  (recur))

(defn- start [{:keys [port] :as config}]
  (let [[how why] (cluster/start (merge {:cookie "a cookie of the example"
                                         :detect {:after 2000 :every 500}}
                                        (dissoc config :port)))]
    (when (= :error how)
      (throw (ex-info (str "The node does not start: " (pr-str why)) {:why why})))
    (sup/start-link {:children (into [{:id :office :start [singleton/start-link {:name :office :start [open-office port]}]}]
                                     (map (fn [n] {:id [:client n] :start [task/start-link* client]}))
                                     (range clients))})))

(defn -main
  "Runs the node that the text describes, until the input ends."
  [config]
  (actor/with-process {}
    (start (edn/read-string config))
    (scope/offload #(while (<= 0 (.read System/in)))))
  (System/exit 0))
